//! The Helm chart: rendered by Helm's own engine, its objects judged by Kubernetes' schemas.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::OnceLock;

use anyhow::{Context as _, Result, ensure};
use clap::Parser as _;
use goodput_analyzer::command::cli::Cli;
use goodput_exporter::{config::Config, registry::REGISTRY};
use goodput_tests::{rules::files, venv};
use serde_json::Value;

use crate::{command, deploy, is_golden, read};

const CHART: &str = "helm/goodput";

/// Judges objects by Kubernetes' schemas; seen to work in this version.
const KUBERNETES_VALIDATE: &str = "kubernetes-validate==1.37.0";

/// Values that Helm must refuse, and what it says.
const REFUSED: [(&str, &str); 8] = [
    ("bogus: 1", "'bogus' not allowed"),
    ("exporter: {securty: privileged}", "'securty' not allowed"),
    ("analyzer: {persistence: {bogus: 1}}", "'bogus' not allowed"),
    ("exporter: {image: {digset: x}}", "'digset' not allowed"),
    ("exporter: {security: root}", "'/exporter/security': value must be one of"),
    ("analyzer: {persistence: {size: big}}", "'/analyzer/persistence/size'"),
    ("exporter: {image: {digest: latest}}", "'/exporter/image/digest'"),
    ("exporter: {nvmlLibrary: /usr/lib/x.so}", "'/exporter/nvmlLibrary'"),
];

/// One set of values: its name, and what Helm made of it.
struct Case {
    name: String,
    answer: &'static Value,
}

impl Case {
    /// Those whose objects are recorded: the defaults, each preset, and everything switched on.
    fn all() -> Result<Vec<Self>> {
        let names = values()?.into_iter().map(|(name, _)| name);
        let answers = answers()?["rendered"].as_array().context("no list")?;
        Ok(names.zip(answers).map(|(name, answer)| Self { name, answer }).collect())
    }

    fn objects(&self) -> impl Iterator<Item = &'static Value> {
        self.answer["objects"].as_array().into_iter().flatten()
    }

    fn object(&self, kind: &str) -> Result<&'static Value> {
        self.objects().find(|object| object["kind"] == kind).with_context(|| format!("{}: no {kind}", self.name))
    }

    /// The arguments of the container of this DaemonSet or Deployment.
    fn args(&self, kind: &str) -> Result<Vec<&'static str>> {
        let container = &self.object(kind)?["spec"]["template"]["spec"]["containers"][0];
        Ok(container["args"].as_array().into_iter().flatten().filter_map(Value::as_str).collect())
    }

    /// What is recorded: all but rules and dashboards, which have tests of their own.
    fn text(&self) -> Result<String> {
        let text = self.answer["text"].as_str().with_context(|| format!("{}: {}", self.name, self.answer))?;
        let sections = text.split_inclusive("\n\n# goodput/").filter(|part| !part.starts_with("templates/dashboards"));
        let documents = sections.flat_map(|part| part.split_inclusive("\n---\n"));
        Ok(documents.filter(|document| !document.contains("kind: PrometheusRule")).collect())
    }
}

/// Names of cases and their values.
fn values() -> Result<Vec<(String, String)>> {
    let mut all = vec![("default".to_owned(), String::new())];
    let everything = Path::new(env!("CARGO_MANIFEST_DIR")).join("packaging/everything.yaml");
    for path in files("deploy/helm/goodput/presets", ".yaml")?.into_iter().chain([everything]) {
        let name = path.file_stem().context("a name")?.to_string_lossy().into_owned();
        all.push((name, fs::read_to_string(path)?));
    }
    Ok(all)
}

/// What Helm and Kubernetes say about every case and every value that is refused.
fn answers() -> Result<&'static Value> {
    static ANSWERS: OnceLock<Result<Value, String>> = OnceLock::new();
    let answers = ANSWERS.get_or_init(|| ask().map_err(|error| format!("{error:#}")));
    answers.as_ref().map_err(|error| anyhow::anyhow!("{error}"))
}

fn ask() -> Result<Value> {
    let mut all: Vec<_> = values()?.into_iter().map(|(_, values)| values).collect();
    all.extend(REFUSED.map(|(values, _)| values.to_owned()));
    let mut python = command(python()?);
    python.arg(script()).arg(deploy(CHART)).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = python.spawn()?;
    child.stdin.take().context("no input")?.write_all(serde_json::to_string(&all)?.as_bytes())?;
    let output = child.wait_with_output()?;
    serde_json::from_slice(&output.stdout).with_context(|| String::from_utf8_lossy(&output.stderr).into_owned())
}

fn script() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("packaging/chart.py")
}

/// A Python with Helm's engine.
fn python() -> Result<PathBuf> {
    let requirements = Path::new(env!("CARGO_MANIFEST_DIR")).join("packaging/requirements.txt");
    let wanted = fs::read_to_string(&requirements)? + KUBERNETES_VALIDATE;
    let hashed = ["--require-hashes", "--requirement", requirements.to_str().context("not UTF-8")?];
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("helm");
    Ok(venv::programs(&folder, &wanted, &[&hashed, &[KUBERNETES_VALIDATE]])?.join("python"))
}

#[test]
fn the_chart_has_the_version_of_the_programs() -> Result<()> {
    let chart = read("helm/goodput/Chart.yaml")?;
    for key in ["version", "appVersion"] {
        let line = format!("\n{key}: {}\n", env!("CARGO_PKG_VERSION"));
        ensure!(chart.contains(&line), "Chart.yaml: expected {}", line.trim());
    }
    Ok(())
}

#[test]
fn every_preset_makes_valid_objects() -> Result<()> {
    ensure!(answers()?["lint"] == serde_json::json!([]), "{}", answers()?["lint"]);
    for case in Case::all()? {
        ensure!(case.objects().count() > 5, "{}: {}", case.name, case.answer);
        assert_eq!(case.answer["problems"], serde_json::json!([]), "{}", case.name);
        let names: Vec<_> = case.objects().map(|object| (&object["kind"], &object["metadata"]["name"])).collect();
        assert_eq!(
            names.iter().map(|name| format!("{name:?}")).collect::<BTreeSet<_>>().len(),
            names.len(),
            "{names:?}"
        );
    }
    Ok(())
}

#[test]
fn every_preset_renders_as_recorded() -> Result<()> {
    let golden = |name: &str| Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("packaging/golden/{name}.yaml"));
    let all = Case::all()?;
    let default = all.first().context("no case")?.text()?;
    let known: BTreeSet<_> = default.lines().collect();
    for case in &all {
        let text = case.text()?;
        // Of a preset only what differs is recorded.
        let recorded = match case.name.as_str() {
            "default" | "everything" => text,
            _ => changes(&known, &default, &text),
        };
        is_golden(&golden(&case.name), &recorded)?;
    }
    Ok(())
}

/// Lines that a preset takes away and adds.
fn changes(known: &BTreeSet<&str>, default: &str, text: &str) -> String {
    let kept: BTreeSet<_> = text.lines().collect();
    let gone = default.lines().filter(|line| !kept.contains(line)).map(|line| format!("-{line}\n"));
    gone.chain(text.lines().filter(|line| !known.contains(line)).map(|line| format!("+{line}\n"))).collect()
}

#[test]
fn wrong_values_are_refused_by_name() -> Result<()> {
    let cases = values()?.len();
    for (number, (values, expected)) in REFUSED.iter().enumerate() {
        let answer = &answers()?["rendered"][cases + number];
        let error = answer["error"].as_str().with_context(|| format!("`{values}` was not refused"))?;
        ensure!(error.contains(expected), "`{values}`: expected {expected}, found {error}");
    }
    Ok(())
}

#[test]
fn the_programs_take_the_arguments_of_the_chart() -> Result<()> {
    for case in Case::all()?.iter().filter(|case| case.name != "everything") {
        let args = [["goodput-exporter"].as_slice(), &case.args("DaemonSet")?].concat();
        let variable = |name: &str| (name == "NODE_NAME").then(|| "node".to_owned());
        // Folders have to be there: here the host is this machine.
        let here = args.iter().map(|arg| arg.replace("=/host", "=/").into());
        let read = Config::read(REGISTRY, here, &variable);
        ensure!(read.is_ok(), "{}: {args:?}: {:?}", case.name, read.err());
        for kind in ["Deployment", "Pod"] {
            let object = case.object(kind)?;
            let container = object.pointer("/spec/template/spec/containers/0").or(object.pointer("/spec/containers/0"));
            let args = container.and_then(|container| container["args"].as_array()).context("no arguments")?;
            let args = ["goodput-analyzer"].into_iter().chain(args.iter().filter_map(Value::as_str));
            Cli::try_parse_from(args).with_context(|| case.name.clone())?;
        }
    }
    Ok(())
}

#[test]
fn the_analyzer_takes_its_configuration_of_the_chart() -> Result<()> {
    for case in Case::all()? {
        let maps = case.objects().filter_map(|object| object["data"]["analyzer.yml"].as_str());
        let text = maps.collect::<Vec<_>>().concat();
        let config = goodput_analyzer::config::Config::parse(&text);
        ensure!(config.is_ok(), "{}: {text}: {:?}", case.name, config.err());
        ensure!(text.contains("retention_bytes"), "{}: nothing keeps the volume from filling: {text}", case.name);
    }
    Ok(())
}

#[test]
fn dashboards_and_alerts_of_the_chart_are_those_of_the_repository() -> Result<()> {
    for (folder, ending) in [("dashboards", ".json"), ("alerts", ".rules.yml")] {
        let shipped = files(&format!("deploy/{CHART}/{folder}"), ending)?;
        let shipped = shipped.iter().map(fs::canonicalize).collect::<Result<Vec<_>, _>>()?;
        let source = files(folder, ending)?.iter().map(fs::canonicalize).collect::<Result<Vec<_>, _>>()?;
        assert_eq!(shipped, source, "deploy/{CHART}/{folder} links to each of them");
    }
    let everything = Case::all()?.pop().context("no case")?;
    let of = |kind: &'static str| everything.objects().filter(move |object| object["kind"] == kind);
    assert_eq!(of("PrometheusRule").count(), 2);
    for path in files("dashboards", ".json")? {
        let name = path.file_name().context("a name")?.to_string_lossy().into_owned();
        let data = of("ConfigMap").find_map(|map| map["data"][&name].as_str()).context(name.clone())?;
        assert_eq!(serde_json::from_str::<Value>(data)?, serde_json::from_str::<Value>(&fs::read_to_string(path)?)?);
    }
    Ok(())
}

#[test]
fn the_readme_lists_every_value() -> Result<()> {
    let mut table = "| value | default | |\n|---|---|---|\n".to_owned();
    for (key, default, meaning) in settings(&read("helm/goodput/values.yaml")?) {
        writeln!(table, "| `{key}` | {default} | {meaning} |")?;
    }
    let path = deploy("helm/goodput/README.md");
    let page = fs::read_to_string(&path)?;
    let (head, _) = page.split_once("## Values\n").context("README.md has no section Values")?;
    is_golden(&path, &format!("{head}## Values\n\n{table}"))
}

/// Path, default and comment of every commented value.
fn settings(values: &str) -> Vec<(String, String, String)> {
    let (mut rows, mut comment) = (Vec::new(), Vec::new());
    // Keys above the line with their depth, and the depth of the last row: what is below it belongs to its default.
    let (mut above, mut row): (Vec<(usize, &str)>, usize) = (Vec::new(), usize::MAX);
    for line in values.lines() {
        let (text, depth) = (line.trim_start(), line.len() - line.trim_start().len());
        if let Some(words) = text.strip_prefix("# ") {
            comment.push(words);
        } else if let Some((key, default)) = text.split_once(':').filter(|_| depth <= row) {
            above.retain(|(other, _)| *other < depth);
            above.push((depth, key));
            row = if comment.is_empty() { usize::MAX } else { depth };
            if !comment.is_empty() {
                let path = above.iter().map(|(_, key)| *key).collect::<Vec<_>>().join(".");
                let default =
                    if default.is_empty() { "see `values.yaml`".into() } else { format!("`{}`", default.trim()) };
                rows.push((path, default, std::mem::take(&mut comment).join(" ")));
            }
        }
    }
    rows
}
