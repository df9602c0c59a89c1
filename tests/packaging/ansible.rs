//! The Ansible roles, judged by ansible-lint; and the list of targets that they write.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Result, ensure};
use goodput_tests::{rules::root, venv};
use serde_json::{Value, json};

use crate::{command, run};

/// Seen to work together.
const WANTED: [&str; 2] = ["ansible-core==2.19.14", "ansible-lint==26.10.1"];

fn programs() -> Result<PathBuf> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("ansible");
    venv::programs(&folder, &WANTED.join(" "), &[&WANTED])
}

#[test]
fn the_roles_are_as_ansible_lint_wants_them() -> Result<()> {
    let programs = programs()?;
    let path = format!("{}:{}", programs.display(), std::env::var("PATH")?);
    let mut lint = command(programs.join("ansible-lint"));
    lint.args(["--offline", "--strict", "--nocolor", "--profile=production", "site.yml"]);
    run(lint.current_dir(root().join("deploy/ansible")).env("PATH", path))?;
    Ok(())
}

#[test]
fn the_inventory_becomes_targets() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let (inventory, playbook, written) =
        (folder.path().join("hosts"), folder.path().join("play.yml"), folder.path().join("targets.json"));
    fs::write(&inventory, "[gpu_nodes]\nn1 rack=r7\nn2\n")?;
    let role = root().join("deploy/ansible/roles/goodput_analyzer");
    let task = json!([{
        "hosts": "localhost", "connection": "local", "gather_facts": false,
        "vars_files": [role.join("defaults/main.yml")],
        "tasks": [{"template": {"src": role.join("templates/targets.json.j2"), "dest": written}}],
    }]);
    fs::write(&playbook, task.to_string())?;
    let mut play = command(programs()?.join("ansible-playbook"));
    run(play.arg("-i").arg(&inventory).arg(&playbook).env("ANSIBLE_HOME", folder.path()))?;
    let targets: Value = serde_json::from_str(&fs::read_to_string(written)?)?;
    let expected = json!([
        {"targets": ["n1:9400"], "labels": {"rack": "r7"}},
        {"targets": ["n2:9400"], "labels": {}},
    ]);
    ensure!(targets == expected, "{targets}");
    Ok(())
}
