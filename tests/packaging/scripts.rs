//! Shell scripts, and what Slurm calls.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use goodput_tests::rules::root;
use serde_json::json;

use crate::{command, deploy, has, run};

#[test]
fn shellcheck_finds_nothing_in_any_script() -> Result<()> {
    if !has("shellcheck") {
        return Ok(());
    }
    let found = run(command("grep").args(["-rIl", "^#!", "deploy"]).current_dir(root()))?;
    let scripts: Vec<_> = found.lines().collect();
    ensure!(scripts.len() > 8, "{scripts:?}");
    // Functions that a trap calls count as unreachable in the versions that distributions have.
    run(command("shellcheck").arg("--exclude=SC2317").args(scripts).current_dir(root()))?;
    Ok(())
}

/// What stands in the files of a folder.
fn contents(folder: &Path) -> Result<BTreeMap<String, String>> {
    let files = fs::read_dir(folder)?.map(|file| Ok(file?.path())).collect::<Result<Vec<_>>>()?;
    let name = |path: &Path| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    files.iter().map(|path| Ok((name(path), fs::read_to_string(path)?))).collect()
}

fn slurm(script: &str, jobs: &Path, job: &str, gpus: &str) -> Command {
    let mut slurm = command(deploy(&format!("slurm/{script}")));
    slurm.env("GOODPUT_JOBS", jobs).env("SLURM_JOB_ID", job).env("SLURM_JOB_GPUS", gpus);
    slurm
}

#[test]
fn prolog_and_epilog_note_which_job_has_which_gpu() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let jobs = folder.path();
    let noted = |expected: &[(&str, &str)]| -> Result<()> {
        let expected = expected.iter().map(|(gpu, jobs)| ((*gpu).to_owned(), (*jobs).to_owned())).collect();
        assert_eq!(contents(jobs)?, expected);
        Ok(())
    };
    let (prolog, epilog) = ("prolog.d/50-goodput", "epilog.d/50-goodput");
    run(&mut slurm(prolog, jobs, "7", "0,2-3"))?;
    run(&mut slurm(prolog, jobs, "77", "0"))?;
    noted(&[("0", "7\n77\n"), ("2", "7\n"), ("3", "7\n")])?;
    run(&mut slurm(epilog, jobs, "7", ""))?;
    noted(&[("0", "77\n")])?;
    run(&mut slurm(epilog, jobs, "77", ""))?;
    // No trouble ever fails a job.
    run(&mut slurm(prolog, jobs, "9", "none,1.2"))?;
    run(&mut slurm(prolog, &jobs.join("absent"), "9", "0"))?;
    run(&mut slurm(epilog, &jobs.join("absent"), "9", ""))?;
    noted(&[])
}

#[test]
fn nodes_of_slurm_become_targets() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let (sinfo, list) = (folder.path().join("sinfo"), folder.path().join("slurm.json"));
    let slurm_says = |text: &str| -> Result<()> {
        fs::write(&sinfo, format!("#!/bin/sh\n{text}\n"))?;
        run(command("chmod").arg("+x").arg(&sinfo)).map(drop)
    };
    let path = format!("{}:{}", folder.path().display(), std::env::var("PATH").context("no PATH")?);
    let targets = || run(command(deploy("slurm/goodput-slurm-targets")).arg(&list).env("PATH", &path));

    slurm_says(
        "cat <<END\nn1|gpu|h100,ib|gpu:h100:8(S:0-1)\nn1|long|h100,ib|gpu:h100:8(S:0-1)\nn2|gpu|(null)|nvme:1,gpu:4\n\
         c1|cpu|(null)|(null)\nEND",
    )?;
    targets()?;
    let expected = json!([
        {"targets": ["n1:9400"], "labels": {"partition": "gpu,long", "features": "h100,ib"}},
        {"targets": ["n2:9400"], "labels": {"partition": "gpu"}},
    ]);
    let written = || -> Result<serde_json::Value> { Ok(serde_json::from_str(&fs::read_to_string(&list)?)?) };
    assert_eq!(written()?, expected);

    slurm_says("exit 1")?;
    assert!(targets().is_err());
    assert_eq!(written()?, expected);
    assert_eq!(fs::read_dir(&folder)?.count(), 2, "a temporary file is left");
    Ok(())
}
