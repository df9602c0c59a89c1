//! What the pages about moving here tell people to write.

#![allow(clippy::disallowed_methods, reason = "promtool is the judge here")]

use std::path::Path;
use std::process::Command;

use goodput_tests::promql::parse;
use serde_json::Value;

use crate::recording::{Node, Recording};

const PAGE: &str = "docs/use/dcgm-exporter.md";

/// A file of the repository.
pub(crate) fn read(path: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path)).unwrap()
}

/// The YAML of a page: the heading that it is under, its number there, and itself.
pub(crate) fn snippets(page: &str) -> impl Iterator<Item = (&str, usize, &str)> {
    page.split("\n#").flat_map(|section| {
        let heading = section.lines().next().unwrap_or_default().trim_start_matches(['#', ' ']);
        let snippets = section.split("```yaml\n").skip(1).filter_map(|rest| rest.split("```").next());
        snippets.enumerate().map(move |(number, snippet)| (heading, number, snippet))
    })
}

/// Those that go into a job that scrapes the exporter.
pub(crate) fn relabellings(page: &str) -> impl Iterator<Item = (&str, usize, &str)> {
    let is_of_a_job = |text: &str| ["metric_relabel_configs:", "honor_labels:"].iter().any(|key| text.starts_with(key));
    snippets(page).filter(move |(_, _, snippet)| is_of_a_job(snippet))
}

/// As a part of a job.
pub(crate) fn indented(snippet: &str) -> String {
    snippet.lines().map(|line| format!("  {line}\n")).collect()
}

fn promtool_accepts(config: &str) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("prometheus.yml");
    std::fs::write(&file, config).unwrap();
    let output = Command::new("promtool").args(["check", "config"]).arg(&file).output();
    let output = output.unwrap_or_else(|error| panic!("this test needs promtool (Debian: prometheus): {error}"));
    assert!(output.status.success(), "{}\n{config}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn promtool_accepts_every_configuration() {
    let page = read(PAGE);
    let job = |(heading, number, snippet)| format!("- job_name: {heading} {number}\n{}", indented(snippet));
    let jobs: Vec<_> = relabellings(&page).map(job).collect();
    assert!(jobs.len() > 5, "{jobs:?}");
    promtool_accepts(&format!("scrape_configs:\n{}", jobs.concat()));
    let (_, _, scraping) = snippets(&page).find(|(_, _, snippet)| snippet.starts_with("scrape_configs:")).unwrap();
    // Debian builds Prometheus without Kubernetes' service discovery.
    let (before, after) = scraping.split_once("kubernetes_sd_configs:\n  - role: pod\n").unwrap();
    promtool_accepts(&format!("{before}static_configs: []\n{after}"));
}

#[test]
fn every_query_is_promql_and_every_link_leads_somewhere() {
    let mut links = 0;
    let page = read(PAGE);
    for query in page.split("```promql\n").skip(1).filter_map(|rest| rest.split("```").next()) {
        parse(query).unwrap();
    }
    for link in page.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
        assert!(leads_somewhere(&page, link), "{link}");
        links += 1;
    }
    assert!(links > 20, "{links} links");
}

/// A link of a page in `docs/use`: to itself or a file, and to a heading there if it names one.
fn leads_somewhere(page: &str, link: &str) -> bool {
    let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
    let exists = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/use").join(file).exists();
    let text = || if file.is_empty() { page.to_owned() } else { read(&format!("docs/use/{file}")) };
    let is_there = || text().lines().any(|line| line.starts_with('#') && anchor_of(line) == anchor);
    exists && (anchor.is_empty() || is_there())
}

/// How GitHub calls a heading.
fn anchor_of(heading: &str) -> String {
    let words = heading.trim_start_matches(['#', ' ']).to_lowercase();
    words
        .chars()
        .filter(|c| c.is_alphanumeric() || " -_".contains(*c))
        .map(|c| if c == ' ' { '-' } else { c })
        .collect()
}

/// The manifest's container, as its arguments have it, on a node whose root is where `/host` would be.
#[test]
fn the_daemon_set_serves_the_node_and_its_owners() {
    let page = read(PAGE);
    let (_, _, manifest) = snippets(&page).find(|(_, _, snippet)| snippet.contains("kind: DaemonSet")).unwrap();
    let manifest: Value = serde_saphyr::from_str(manifest).unwrap();
    let pod = &manifest["spec"]["template"];
    assert_eq!(manifest["spec"]["selector"]["matchLabels"], pod["metadata"]["labels"], "it would never be ready");
    let container = &pod["spec"]["containers"][0];
    let [mount] = &list(&container["volumeMounts"])[..] else { panic!("one mount was expected") };
    let [volume] = &list(&pod["spec"]["volumes"])[..] else { panic!("one volume was expected") };
    assert_eq!((&mount["name"], &volume["hostPath"]["path"]), (&volume["name"], &Value::from("/")));

    let node = Node::of(Recording::named("8xh100"));
    let host = node.folder();
    std::fs::create_dir_all(host.join("sys/fs/cgroup")).unwrap();
    let here = |argument: &Value| {
        let argument = argument.as_str().unwrap();
        argument.replace(mount["mountPath"].as_str().unwrap(), host.to_str().unwrap())
    };
    let arguments: Vec<_> = list(&container["args"]).iter().map(here).collect();
    assert!(arguments.iter().filter(|argument| argument.starts_with("--path.")).count() == 3, "{arguments:?}");
    let mut exporter = node.start_with(&arguments);
    let owned = |served: &crate::scrape::Scrape| served.series.iter().any(|series| series.label("pod").is_some());
    assert!(owned(&exporter.settled(8, owned)), "the kubelet below {} was not found", host.display());
    for probe in ["livenessProbe", "readinessProbe"] {
        let get = &container[probe]["httpGet"];
        assert_eq!(get["port"], container["ports"][0]["name"]);
        let url = format!("http://{}{}", exporter.0.address, get["path"].as_str().unwrap());
        assert_eq!(ureq::get(&url).call().unwrap().status(), 200, "{url}");
    }
}

fn list(value: &Value) -> &Vec<Value> {
    value.as_array().unwrap()
}
