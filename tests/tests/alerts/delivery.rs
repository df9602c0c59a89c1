//! From the driver to a person: the real exporter, Prometheus and Alertmanager with the files as they are shipped.

use std::time::Duration;

use anyhow::{Context as _, Result};
use goodput_lab::gpu::{FakeNode, NodeSpec};
use goodput_lab::process::until;
use goodput_tests::alertmanager::Alertmanager;
use goodput_tests::programs::Exporter;
use goodput_tests::prometheus::Prometheus;
use goodput_tests::rules::{files, root};
use goodput_tests::webhook::Webhook;
use serde_json::{Value, json};

const PATIENCE: Duration = Duration::from_secs(60);

/// The shipped configuration with its receivers' address replaced and its waiting shortened.
fn config(webhook: &Webhook) -> Result<String> {
    let shipped = std::fs::read_to_string(root().join("alerts/alertmanager.yml"))?;
    let config = shipped.replace("127.0.0.1:9095", &webhook.address.to_string());
    anyhow::ensure!(config != shipped, "the receivers' address has changed");
    let lines =
        config.lines().map(|line| match line.split_once("group_wait:").or(line.split_once("group_interval:")) {
            Some((indent, _)) if line.contains("group_wait") => format!("{indent}group_wait: 100ms\n"),
            Some((indent, _)) => format!("{indent}group_interval: 1s\n"),
            None => format!("{line}\n"),
        });
    Ok(lines.collect())
}

#[test]
fn a_lost_gpu_pages_and_its_return_resolves() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let webhook = Webhook::start()?;
    let alertmanager = Alertmanager::start(dir.path(), &config(&webhook)?)?;
    let node = FakeNode::new(dir.path(), &NodeSpec::h100(2))?;
    let exporter = Exporter::start(dir.path(), &node)?;
    let rules = files("alerts", ".rules.yml")?.iter().map(std::fs::canonicalize).collect::<Result<Vec<_>, _>>()?;
    let targets = [("goodput-exporter", exporter.address)];
    let prometheus = Prometheus::alerting(dir.path(), &targets, &rules, alertmanager.address)?;
    until("both GPUs to be read", PATIENCE, || {
        Ok((prometheus.value("count(goodput_gpu_state{state=\"ok\"} == 1)")? == Some(2.0)).then_some(()))
    })?;
    assert!(prometheus.query("ALERTS{alertname=~\"GoodputGpu.*\"}")?.is_empty());

    node.xid(1, 79)?;
    node.lose(1)?;
    let (path, alert) = webhook.until("GoodputGpuLost", "firing", PATIENCE)?;
    assert_eq!(path, "/pager");
    assert_eq!(alert["labels"]["gpu"], "1");
    let uuid = alert["labels"]["UUID"].as_str().context("no UUID")?;
    let description = alert["annotations"]["description"].as_str().context("no description")?;
    assert!(description.starts_with(&format!("GPU 1 ({uuid}) of {}", exporter.address)), "{description}");

    // The XID says why, and is not held back by the alert that the GPU is lost.
    let cause = until("the XID's alert", PATIENCE, || {
        Ok(alertmanager.alerts()?.into_iter().find(|a| a["labels"]["alertname"] == "GoodputGpuXidBoard"))
    })?;
    assert_eq!((&cause["labels"]["xid"], &cause["status"]["state"]), (&json!("79"), &json!("active")));

    node.find(1)?;
    let (path, _) = webhook.until("GoodputGpuLost", "resolved", PATIENCE)?;
    assert_eq!(path, "/pager");
    Ok(())
}

#[test]
fn what_follows_from_something_worse_is_held_back() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let alertmanager = Alertmanager::start(dir.path(), &config(&Webhook::start()?)?)?;
    let alert = |name: &str, instance: &str, uuid: &str| json!({"alertname": name, "instance": instance, "UUID": uuid});
    let oom = |name: &str, entity: &str| json!({"alertname": name, "instance": "up", "node": "a", "memory": "gpu", "entity": entity});
    let nvlink = |severity: &str, instance: &str| json!({"alertname": "GoodputGpuNvlinkDown", "severity": severity, "instance": instance, "UUID": "GPU-0"});
    let port =
        |name: &str, port: &str| json!({"alertname": name, "instance": "port", "device": "mlx5_0", "port": port});
    let kubelet = |instance: &str, why: &str| json!({"alertname": "GoodputKubeletAllocationsUnknown", "instance": instance, "why": why});
    let no_gpus = "it names devices that are none of the GPUs";
    let held_back = [
        kubelet("lost", no_gpus),
        kubelet("driver", no_gpus),
        alert("GoodputGpuThermalThrottle", "lost", "GPU-0"),
        alert("GoodputGpuRecoveryAction", "driver", "GPU-0"),
        alert("GoodputGpuNvlinkDown", "lost", "GPU-0"),
        alert("GoodputGpuNvlinkDown", "driver", "GPU-0"),
        alert("GoodputGpuNvlinkErrors", "nvlink", "GPU-0"),
        alert("GoodputGpuNvlinkErrors", "held", "GPU-0"),
        nvlink("critical", "lost"),
        port("GoodputRdmaPortSlow", "1"),
        port("GoodputRdmaLinkFlapping", "1"),
        port("GoodputRdmaLinkErrors", "1"),
        port("GoodputRdmaTimeouts", "1"),
        json!({"alertname": "GoodputRdmaPortDown", "instance": "down", "device": "mlx5_0", "port": "1"}),
        json!({"alertname": "GoodputNfsNotAnswering", "instance": "down", "mount": "/data"}),
        json!({"alertname": "GoodputNcclStalled", "instance": "down", "owner": "pod/a"}),
        json!({"alertname": "GoodputNodeSwapFull", "instance": "down"}),
        json!({"alertname": "GoodputReadingDenied", "instance": "down", "unseen": "XIDs"}),
        json!({"alertname": "GoodputKubeletAllocationsUnknown", "instance": "down"}),
        json!({"alertname": "GoodputCollectorFailing", "instance": "down", "collector": "numa"}),
        json!({"alertname": "GoodputOwnerOomKilled", "instance": "down", "owner": "pod/a"}),
        json!({"alertname": "GoodputAnalyzerIngestStopped", "instance": "analyzer"}),
        json!({"alertname": "GoodputNetworkSlow", "instance": "analyzer", "owner": "pod/a"}),
        json!({"alertname": "GoodputOomRisk", "instance": "analyzer", "node": "a", "memory": "host", "entity": "a"}),
        oom("GoodputOomRisk", "GPU-0"),
    ];
    let sent = [
        kubelet("driver", "the kubelet has stopped answering"),
        kubelet("other", no_gpus),
        alert("GoodputGpuLost", "lost", "GPU-0"),
        alert("GoodputGpuXidBoard", "lost", "GPU-0"),
        alert("GoodputGpuThermalThrottle", "lost", "GPU-1"),
        alert("GoodputGpuThermalThrottle", "other", "GPU-0"),
        json!({"alertname": "GoodputOwnerOomKilled", "instance": "lost", "owner": "pod/a"}),
        json!({"alertname": "GoodputGpuDriverDown", "instance": "driver"}),
        alert("GoodputGpuNvlinkDown", "nvlink", "GPU-0"),
        alert("GoodputGpuNvlinkErrors", "nvlink", "GPU-1"),
        nvlink("critical", "held"),
        port("GoodputRdmaPortDown", "1"),
        port("GoodputRdmaCountersFull", "1"),
        port("GoodputRdmaLinkErrors", "2"),
        json!({"alertname": "GoodputRdmaLinkFlapping", "instance": "port", "device": "eth0"}),
        json!({"alertname": "GoodputExporterDown", "instance": "down"}),
        json!({"alertname": "GoodputAnalyzerDown", "instance": "analyzer"}),
        oom("GoodputOomImminent", "GPU-0"),
        oom("GoodputOomRisk", "GPU-1"),
    ];
    alertmanager.post(&[&held_back[..], &sent[..]].concat())?;

    let state = |alerts: &[Value], labels: &Value| {
        let found = alerts.iter().find(|alert| alert["labels"] == *labels);
        found.map(|alert| alert["status"]["state"].as_str().unwrap_or_default().to_owned())
    };
    let alerts = until("all alerts to be judged", PATIENCE, || {
        let alerts = alertmanager.alerts()?;
        let judged = alerts.iter().all(|alert| alert["status"]["state"] != "unprocessed");
        Ok((judged && alerts.len() == held_back.len() + sent.len()).then_some(alerts))
    })?;
    for labels in &held_back {
        assert_eq!(state(&alerts, labels).as_deref(), Some("suppressed"), "{labels}");
    }
    for labels in &sent {
        assert_eq!(state(&alerts, labels).as_deref(), Some("active"), "{labels}");
    }
    Ok(())
}
