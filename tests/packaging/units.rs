//! The systemd units, as files alone.

use std::fs;

use anyhow::{Result, ensure};

use crate::{command, deploy, has, read, run};

/// Units, and the most that systemd may rate their exposure, in tenths.
const SERVICES: [(&str, u32); 2] = [("goodput-exporter.service", 30), ("goodput-analyzer.service", 15)];

#[test]
fn systemd_understands_every_line_of_the_units() -> Result<()> {
    if !has("systemd-analyze") {
        return Ok(());
    }
    let folder = tempfile::tempdir()?;
    for name in ["goodput-exporter.service", "goodput-exporter.socket", "goodput-analyzer.service"] {
        // systemd wants the programs to be there.
        let installed = ["/usr/bin/goodput-exporter", "/usr/bin/goodput-analyzer", "/usr/lib/goodput/nvidia-nodes"];
        let unit = read(&format!("systemd/{name}"))?;
        fs::write(folder.path().join(name), installed.iter().fold(unit, |unit, path| unit.replace(path, "/bin/true")))?;
    }
    let verify =
        ["verify", "--man=no", "./goodput-exporter.service", "./goodput-exporter.socket", "./goodput-analyzer.service"];
    let said = run(command("systemd-analyze").args(verify).current_dir(&folder))?;
    ensure!(said.is_empty(), "{said}");
    Ok(())
}

#[test]
fn the_units_expose_little() -> Result<()> {
    if !has("systemd-analyze") {
        return Ok(());
    }
    for (name, most) in SERVICES {
        let judge = ["security".to_owned(), "--offline=true".to_owned(), format!("--threshold={most}")];
        run(command("systemd-analyze").args(judge).arg(deploy(&format!("systemd/{name}"))))?;
    }
    Ok(())
}

#[test]
fn drop_ins_change_sections_that_systemd_knows() -> Result<()> {
    for file in fs::read_dir(deploy("systemd/drop-ins"))? {
        let path = file?.path();
        let text = fs::read_to_string(&path)?;
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let unit = if name.starts_with("goodput-exporter-") { "goodput-exporter" } else { "goodput-analyzer" };
        ensure!(text.contains("\n[Service]\n"), "{name} changes no service");
        ensure!(
            text.contains(&format!("Copy to /etc/systemd/system/{unit}.service.d/")),
            "{name} does not say where to"
        );
    }
    Ok(())
}

#[test]
fn device_nodes_are_made_where_they_are_missing() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let root = folder.path();
    for (minor, address) in ["0000:17:00.0", "0000:65:00.0"].iter().enumerate() {
        let gpu = root.join("proc/driver/nvidia/gpus").join(address);
        fs::create_dir_all(&gpu)?;
        fs::write(gpu.join("information"), format!("Model: \t\t NVIDIA H100\nDevice Minor: \t {minor}\n"))?;
    }
    fs::create_dir_all(root.join("dev"))?;
    fs::write(root.join("dev/nvidia0"), "")?;
    let stub = root.join("nvidia-modprobe");
    fs::write(&stub, "#!/bin/sh\necho \"$@\"\n")?;
    run(command("chmod").arg("+x").arg(&stub))?;
    let path = format!("{}:{}", root.display(), std::env::var("PATH")?);
    let made = run(command(deploy("systemd/nvidia-nodes")).arg(root).env("PATH", path))?;
    // nvidiactl is asked for per GPU, because the stub makes no node.
    assert_eq!(made, "-c 255\n-c 255\n-c 1\n");
    Ok(())
}
