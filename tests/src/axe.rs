//! axe-core (npm, MPL-2.0): a judge of what keeps people from using a page.

use std::fs::{self, File};
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

use crate::browser::Browser;

const FILES: [&str; 2] = ["package.json", "package-lock.json"];

/// WCAG 2.2, levels A and AA, as axe-core names them.
const STANDARD: &str = "['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa']";

/// Its script, installed below this folder on first use and kept there. Tests that ask at the same time wait for the
/// first.
#[allow(clippy::disallowed_methods, reason = "npm is a program")]
pub fn script(folder: &Path) -> Result<String> {
    fs::create_dir_all(folder)?;
    let lock = File::create(folder.join("lock"))?;
    lock.lock()?;
    let script = folder.join("node_modules/axe-core/axe.min.js");
    let wanted = Path::new(env!("CARGO_MANIFEST_DIR")).join("axe");
    let is_same = |name: &str| Ok::<_, anyhow::Error>(fs::read(wanted.join(name))? == fs::read(folder.join(name))?);
    if !script.exists() || !FILES.into_iter().all(|name| is_same(name).unwrap_or(false)) {
        for name in FILES {
            fs::copy(wanted.join(name), folder.join(name))?;
        }
        let mut command = Command::new("npm");
        command.args(["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]).current_dir(folder);
        let output = command.output().with_context(|| format!("{command:?}"))?;
        ensure!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
    fs::read_to_string(&script).with_context(|| script.display().to_string())
}

/// What the open page does against the standard: a rule and the first elements that break it, a line each.
pub fn violations(browser: &mut Browser, script: &str) -> Result<Vec<String>> {
    browser.eval(&format!("{script}; 0"))?;
    let told = format!(
        "axe.run(document, {{ runOnly: {{ type: 'tag', values: {STANDARD} }} }}).then(found => found.violations.map(v => \
         `${{v.id}}, ${{v.nodes.length}} times: ` + v.nodes.slice(0, 3).map(n => n.target.join(' ')).join(', ')))"
    );
    Ok(serde_json::from_value(browser.eval(&told)?)?)
}
