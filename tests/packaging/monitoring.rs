//! Configuration for Prometheus, Alertmanager and Grafana.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use goodput_tests::rules::{files, root};
use serde_json::{Value, json};

use crate::{command, deploy, read, run};

#[test]
fn prometheus_takes_its_configuration_with_the_rules() -> Result<()> {
    let folder = tempfile::tempdir()?;
    fs::create_dir(folder.path().join("goodput"))?;
    for path in files("alerts", ".rules.yml")? {
        fs::copy(&path, folder.path().join("goodput").join(path.file_name().context("a name")?))?;
    }
    fs::copy(deploy("prometheus/prometheus.yml"), folder.path().join("prometheus.yml"))?;
    let said = run(command("promtool").args(["check", "config", "prometheus.yml"]).current_dir(&folder))?;
    ensure!(said.contains("2 rule files found"), "{said}");
    Ok(())
}

#[test]
fn alertmanager_takes_the_receivers() -> Result<()> {
    let said = run(command("amtool").arg("check-config").arg(deploy("alertmanager/receivers.example.yml")))?;
    ensure!(said.contains("1 templates"), "{said}");
    Ok(())
}

/// Alertmanager 0.27 and earlier do not know the section.
#[test]
fn teams_gets_the_same_texts() -> Result<()> {
    let teams: Value = serde_saphyr::from_str(&read("alertmanager/receivers.teams.example.yml")?)?;
    let expected = json!({
        "webhook_url_file": "/etc/alertmanager/teams.url", "send_resolved": true,
        "title": "{{ template \"goodput.title\" . }}", "text": "{{ template \"goodput.text\" . }}",
    });
    assert_eq!(teams["receivers"][0]["msteamsv2_configs"], json!([expected]));
    assert_eq!(teams["templates"], json!(["templates/goodput.tmpl"]));
    Ok(())
}

/// What a template makes of one GPU that is lost and one that is back.
fn rendered(folder: &Path, template: &str, kind: &str) -> Result<String> {
    let alert =
        |status: &str, text: &str| json!({"status": status, "labels": {}, "annotations": {"description": text}});
    let data = json!({
        "status": "firing", "receiver": "chat", "groupLabels": {}, "externalURL": "http://alertmanager",
        "alerts": [alert("firing", "GPU 0 of node1 is lost."), alert("resolved", "GPU 1 of node1 is <lost>.")],
        "commonLabels": {"alertname": "GoodputGpuLost", "instance": "node1:9400", "cluster": "a"},
        "commonAnnotations": {"summary": "A GPU is lost.", "runbook_url": "https://example.com/runbook"},
    });
    fs::write(folder.join("data.json"), data.to_string())?;
    let mut amtool = command("amtool");
    amtool.args(["template", "render"]).arg(format!("--template.text={{{{ template \"goodput.{template}\" . }}}}"));
    amtool.arg(format!("--template.glob={}", deploy("alertmanager/templates/*.tmpl").display()));
    amtool.arg(format!("--template.data={}", folder.join("data.json").display()));
    run(amtool.arg(format!("--template.type={kind}")))
}

#[test]
fn notifications_say_what_where_and_what_to_do() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let expected = [
        ("title", "text", "[FIRING:1] GoodputGpuLost in a on node1:9400"),
        (
            "text",
            "text",
            "A GPU is lost.\n\n- GPU 0 of node1 is lost.\n- resolved: GPU 1 of node1 is <lost>.\n\n\
             What to do: https://example.com/runbook",
        ),
        (
            "html",
            "html",
            "<p><b>A GPU is lost.</b></p>\n<ul>\n<li>GPU 0 of node1 is lost.</li>\n\
             <li>resolved: GPU 1 of node1 is &lt;lost&gt;.</li>\n</ul>\n\
             <p><a href=\"https://example.com/runbook\">What to do</a></p>",
        ),
    ];
    for (template, kind, text) in expected {
        assert_eq!(rendered(folder.path(), template, kind)?.trim(), text);
    }
    Ok(())
}

#[test]
fn grafana_is_pointed_at_the_dashboards() -> Result<()> {
    let source: Value = serde_saphyr::from_str(&read("grafana/provisioning/datasources/goodput.yaml")?)?;
    assert_eq!((&source["apiVersion"], &source["datasources"][0]["uid"]), (&json!(1), &json!("goodput-prometheus")));
    let kind = &source["datasources"][0]["type"];
    for path in files("dashboards", ".json")? {
        let dashboard: Value = serde_json::from_str(&fs::read_to_string(root().join(path))?)?;
        let variables = dashboard["templating"]["list"].as_array().context("no variables")?;
        // Provisioned dashboards cannot ask for a data source: the variable finds one by its type.
        ensure!(variables.iter().any(|variable| variable["type"] == "datasource" && variable["query"] == *kind));
        ensure!(dashboard.get("__inputs").is_none());
    }
    let provider: Value = serde_saphyr::from_str(&read("grafana/provisioning/dashboards/goodput.yaml")?)?;
    assert_eq!((&provider["apiVersion"], &provider["providers"][0]["type"]), (&json!(1), &json!("file")));
    Ok(())
}
