//! What the packages hold, and how their services start.

use anyhow::{Context as _, Result, ensure};
use clap::Parser as _;
use goodput_analyzer::command::cli::Cli;
use goodput_exporter::{config::Config, registry::REGISTRY};
use goodput_tests::rules::root;

use crate::{deploy, read};

/// A command line of a unit, with the packaged settings where they are in this repository.
fn command_line(unit: &str, key: &str) -> Result<Vec<String>> {
    let text = read(&format!("systemd/{unit}.service"))?.replace("\\\n", " ");
    let line = text.lines().find_map(|line| line.strip_prefix(key)).context("no such line")?;
    let settings = format!("{}/", deploy("debian/etc").display());
    let words = line.split_whitespace().filter(|word| !word.starts_with('$'));
    Ok(words.map(|word| word.replace("/etc/goodput/", &settings)).collect())
}

#[test]
fn services_start_with_flags_and_settings_that_the_programs_know() -> Result<()> {
    let line = command_line("goodput-exporter", "ExecStart=")?;
    let read_exporter = Config::read(REGISTRY, line.iter().map(Into::into), &|_| None);
    ensure!(read_exporter.is_ok(), "{line:?}: {:?}", read_exporter.err());

    for key in ["ExecStart=", "ExecStartPre="] {
        Cli::try_parse_from(command_line("goodput-analyzer", key)?)?;
    }
    let settings = goodput_analyzer::config::Config::parse(&read("debian/etc/analyzer.yml")?);
    ensure!(settings.is_ok(), "{:?}", settings.err());
    Ok(())
}

#[test]
fn packages_hold_files_that_are_there() -> Result<()> {
    for program in ["exporter", "analyzer"] {
        let contents = read(&format!("debian/nfpm-{program}.yaml"))?;
        let sources = contents.lines().filter_map(|line| line.strip_prefix("- {src: ")?.split(',').next());
        let sources: Vec<_> = sources.map(|source| source.trim_matches('"')).collect();
        ensure!(sources.len() > 8, "{sources:?}");
        // What deploy/package makes lies below target.
        for source in sources.iter().filter(|source| !source.starts_with("target/packaging/stage/")) {
            let (folder, start) = source.rsplit_once('/').context("a path")?;
            let name = start.trim_end_matches('*');
            let mut files = std::fs::read_dir(root().join(folder)).with_context(|| folder.to_owned())?.flatten();
            let found = files.any(|file| file.file_name().to_string_lossy().starts_with(name));
            ensure!(found, "nfpm-{program}.yaml: no {source}");
        }
    }
    Ok(())
}
