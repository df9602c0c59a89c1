//! Every collector of the registry, by its folder in `tests/fixtures/collectors`: one without a fixture fails here.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use goodput_exporter::registry::REGISTRY;

use crate::fixture::{File, Fixture, OF_NVML, Run, of_kernel};
use crate::support::{folders, golden, rows_of};

/// What no parser expects.
const GARBAGE: &str = "Filename\n\u{1}garbage\n";

/// Each file is cut into this many parts, and the last ones are left out.
const CUTS: usize = 5;

#[test]
fn every_collector_has_a_folder_and_every_folder_a_collector() {
    let known: BTreeSet<&str> = REGISTRY.iter().map(|entry| entry.name).collect();
    for entry in of_kernel() {
        assert!(!Fixture::of(entry.name).files.is_empty(), "collector {}: its tree.txt has no file", entry.name);
    }
    for name in OF_NVML {
        let parity = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/tests/gpu/parity.csv");
        assert!(known.contains(name) && parity.is_file(), "collector {name} reads NVML: no {}", parity.display());
    }
    for folder in std::fs::read_dir(folders()).unwrap().map(Result::unwrap).filter(|entry| entry.path().is_dir()) {
        let name = folder.file_name().into_string().unwrap();
        assert!(
            known.contains(name.as_str()),
            "tests/fixtures/collectors/{name}: the registry has no collector of that name"
        );
    }
}

#[test]
fn every_collector_writes_its_golden() {
    for entry in of_kernel() {
        let run = Fixture::of(entry.name).run();
        assert!(run.named.is_empty(), "collector {}: cannot read its own fixture: {:?}", entry.name, run.named);
        // Pages are counted, and those of other machines may be larger.
        if procfs::page_size() == 4096 {
            golden(&format!("{}/golden.prom", entry.name), &run.text);
        }
    }
}

#[test]
fn every_row_of_a_collector_is_in_a_golden() {
    for entry in of_kernel() {
        let files = std::fs::read_dir(folders().join(entry.name)).unwrap().map(|file| file.unwrap().path());
        let goldens = files.filter(|file| file.extension().is_some_and(|end| end == "prom"));
        let text: String = goldens.map(|file| std::fs::read_to_string(file).unwrap()).collect();
        let is_shown = |row: &&str| text.lines().any(|line| line.split(['{', ' ']).next() == Some(row));
        let missing: Vec<_> = rows_of(entry.name).into_iter().filter(|row| !is_shown(row)).collect();
        assert!(missing.is_empty(), "collector {}: no golden in its folder has {missing:?}", entry.name);
    }
}

/// What a fixture gives with one of its files changed; the collector must not panic at it.
fn changed(fixture: &Fixture, path: &str, what: &str, change: impl Fn(&str) -> File) -> Run {
    let run = catch_unwind(AssertUnwindSafe(|| fixture.run_with(path, change)));
    run.unwrap_or_else(|_| panic!("collector {}: panicked, with {path} {what}", fixture.name))
}

/// Runs the test of every fixture, and fails with all that it complains of.
fn complaints(test: impl Fn(&Fixture, &mut dyn FnMut(String))) {
    let mut all = Vec::new();
    for entry in of_kernel() {
        test(&Fixture::of(entry.name), &mut |complaint| all.push(format!("collector {}: {complaint}", entry.name)));
    }
    assert!(all.is_empty(), "{}", all.join("\n"));
}

/// Metrics of one run that another does not have.
fn lost<'a>(before: &'a Run, after: &'a Run) -> Vec<&'a str> {
    before.families().difference(&after.families()).copied().collect()
}

/// Is what was lost the same as without the file or the line, and nothing said of it?
fn is_dropped(run: &Run, without: &Run, whole: &Run, path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    run.series == without.series && run.series != whole.series && !run.named.iter().any(|error| error.contains(name))
}

/// What cannot be read costs no more than if it were not there, and is named.
#[test]
fn no_collector_loses_more_than_the_file_that_it_cannot_read() {
    complaints(|fixture, complain| {
        let whole = fixture.run();
        for (path, text) in &fixture.files {
            let absent = changed(fixture, path, "absent", |_| File::Absent);
            for (what, file) in
                [("garbage", File::Text(GARBAGE.to_owned())), ("unreadable", File::Folder), ("denied", File::Denied)]
            {
                let run = changed(fixture, path, what, |_| file.clone());
                let lost = lost(&absent, &run);
                if !lost.is_empty() {
                    complain(format!("{path} {what} costs also {lost:?}"));
                }
                // Elsewhere garbage may be text, or lines that are not looked for.
                let has_to_be_named = what != "garbage" || is_list(text);
                if has_to_be_named && is_dropped(&run, &absent, &whole, path) {
                    complain(format!("{path} {what} is dropped and not named"));
                }
            }
        }
    });
}

/// Is the file a number, or a list of numbers?
fn is_list(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit() || b",-\n".contains(&byte))
}

#[test]
fn no_collector_loses_more_than_the_file_that_was_cut() {
    complaints(|fixture, complain| {
        // A list that was cut is another list.
        for (path, _) in fixture.files.iter().filter(|(_, text)| !is_list(text)) {
            let absent = changed(fixture, path, "absent", |_| File::Absent);
            for cut in 0..CUTS {
                let run = changed(fixture, path, "cut", |text| File::Text(text[..text.len() * cut / CUTS].to_owned()));
                let lost = lost(&absent, &run);
                if !lost.is_empty() {
                    complain(format!("{path} with {cut}/{CUTS} of it left costs also {lost:?}"));
                }
            }
        }
    });
}

/// A number that makes no sense costs its line at most, which is what is different without that line, and is named.
#[test]
fn no_collector_loses_more_than_the_line_of_a_bad_number() {
    complaints(|fixture, complain| {
        let whole = fixture.run();
        for (path, text) in &fixture.files {
            for (at, line) in text.lines().enumerate() {
                let numbers = spoilt(line).count();
                if numbers == 0 {
                    continue;
                }
                // A file without its only line makes no sense either.
                let without = changed(fixture, path, "without a line", |text| match text.lines().count() {
                    1 => File::Absent,
                    _ => File::Text(with_line(text, at, |_| None)),
                });
                let may = whole.not_in(&without);
                for n in 0..numbers {
                    let bad = |line: &str| Some(spoilt(line).nth(n).unwrap_or_else(|| line.to_owned()));
                    let run = changed(fixture, path, "with a bad number", |text| File::Text(with_line(text, at, bad)));
                    let bad = bad(line).unwrap_or_default();
                    let lost: Vec<_> = whole.not_in(&run).difference(&may).copied().collect();
                    if !lost.is_empty() {
                        complain(format!("{path}: {bad:?} costs also {lost:?}"));
                    }
                    if is_dropped(&run, &without, &whole, path) {
                        complain(format!("{path}: {bad:?} is dropped and not named"));
                    }
                }
            }
        }
    });
}

/// The text with the line in this place changed, or without it.
fn with_line(text: &str, at: usize, change: impl Fn(&str) -> Option<String>) -> String {
    let lines = text.lines().enumerate();
    let lines = lines.filter_map(|(n, line)| if n == at { change(line) } else { Some(line.to_owned()) });
    lines.map(|line| line + "\n").collect()
}

/// The line with each of its numbers made none.
fn spoilt(line: &str) -> impl Iterator<Item = String> {
    let is_number = |word: &str| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit());
    let places = line.split([' ', '\t', '=']).map(|word| (word.as_ptr() as usize - line.as_ptr() as usize, word));
    let numbers = places.filter(move |(_, word)| is_number(word));
    numbers.map(move |(start, word)| format!("{}7x{}", &line[..start], &line[start + word.len()..]))
}
