//! One machine by containers: compose.yaml names this version, files that are there, and flags that the programs know.

use anyhow::{Context as _, Result, ensure};
use clap::Parser as _;
use goodput_analyzer::command::cli::Cli;
use goodput_exporter::{config::Config, registry::REGISTRY};
use serde_json::Value;

use crate::{deploy, read};

fn texts(list: &Value) -> impl Iterator<Item = &str> {
    list.as_array().into_iter().flatten().filter_map(Value::as_str)
}

/// Source and target of each folder and file of this repository that a service gets.
fn mounts(service: &Value) -> Vec<(&str, &str)> {
    let pairs = texts(&service["volumes"]).filter_map(|volume| volume.split_once(':'));
    let of_repository = pairs.filter(|(source, _)| source.starts_with('.'));
    of_repository.map(|(source, target)| (source, target.trim_end_matches(":ro"))).collect()
}

#[test]
fn compose_starts_what_is_in_this_repository() -> Result<()> {
    let compose: Value = serde_saphyr::from_str(&read("container/compose.yaml")?)?;
    let services = compose["services"].as_object().context("no services")?;
    for program in ["exporter", "analyzer"] {
        let image = format!("docker.io/goodput/goodput-{program}:{}", env!("CARGO_PKG_VERSION"));
        assert_eq!(services[program]["image"], image);
    }
    let command =
        |program: &str| [program.to_owned()].into_iter().chain(texts(&services[program]["command"]).map(str::to_owned));
    // Folders have to be there: here the host is this machine.
    let here = command("exporter").map(|arg| arg.replace("=/host", "=/").into());
    let read_exporter = Config::read(REGISTRY, here, &|_| None);
    ensure!(read_exporter.is_ok(), "{:?}", read_exporter.err());
    Cli::try_parse_from(command("analyzer"))?;

    let all: Vec<_> = services.values().flat_map(mounts).collect();
    ensure!(all.len() > 4, "{all:?}");
    for (source, _) in &all {
        ensure!(deploy("container").join(source).try_exists()?, "no {source}");
    }
    // What the mounted files name.
    let targets: Vec<_> = all.iter().map(|(_, target)| *target).collect();
    let provider: Value = serde_saphyr::from_str(&read("grafana/provisioning/dashboards/goodput.yaml")?)?;
    let dashboards = provider["providers"][0]["options"]["path"].as_str().context("no path")?;
    for folder in [dashboards, "/etc/prometheus/goodput", "/etc/prometheus/targets"] {
        ensure!(targets.contains(&folder), "nothing at {folder}: {targets:?}");
    }
    Ok(())
}
