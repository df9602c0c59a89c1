//! Man pages and completions, judged by man and by the shells.

use std::fs;

use anyhow::{Result, ensure};

use crate::{command, has, run};

#[test]
fn man_pages_and_completions_know_every_flag() -> Result<()> {
    let folder = tempfile::tempdir()?;
    goodput_lab::manual::write(folder.path())?;
    let flags = [("goodput-exporter", ["nvml.require", "collector.gpu"]), ("goodput-analyzer", ["data.dir", "quiet"])];
    for (program, flags) in flags {
        for (name, judge) in [
            (format!("{program}.bash"), ["bash", "-n"].as_slice()),
            (format!("_{program}"), &["zsh", "-n"]),
            (format!("{program}.fish"), &["fish", "--no-execute"]),
            (format!("{program}.1"), &["groff", "-man", "-ww", "-z"]),
        ] {
            let path = folder.path().join(&name);
            let text = fs::read_to_string(&path)?.replace('\\', "");
            // Those of a sub-command are on a page of their own.
            let expected = flags.iter().filter(|flag| !name.ends_with(".1") || **flag != "quiet");
            for flag in expected {
                ensure!(text.contains(flag), "{name} lacks {flag}");
            }
            if has(judge[0]) {
                let said = run(command(judge[0]).args(&judge[1..]).arg(&path))?;
                ensure!(said.is_empty(), "{name}: {said}");
            }
        }
    }
    let pages = fs::read_dir(&folder)?.flatten();
    let pages = pages.filter(|page| page.path().extension().is_some_and(|extension| extension == "1")).count();
    ensure!(pages > 10, "{pages} pages");
    Ok(())
}
