use super::*;

#[test]
fn a_whole_file() {
    let config = Config::parse(
        "zone: Europe/Berlin\n\
         scrape:\n\
         - name: gpus\n  targets: [node1:9400, '[::1]:9400']\n  interval: 30s\n\
         - name: fast\n  targets: [node2:9400]\n  interval: 5s\n",
    )
    .unwrap();
    assert_eq!(config.zone.iana_name(), Some("Europe/Berlin"));
    assert_eq!(config.scrape[0].targets, ["[::1]:9400", "node1:9400"]);
    assert_eq!((config.scrape[0].interval.as_secs(), config.scrape[0].timeout.as_secs()), (30, 10));
    assert_eq!(config.scrape[1].timeout.as_secs(), 5, "the default timeout is never above the interval");
}

#[test]
fn nothing_configured_is_the_default() {
    for text in ["", "# only a comment\n", "scrape: []\n"] {
        assert_eq!(Config::parse(text).unwrap().to_string(), Config::default().to_string(), "{text:?}");
    }
}

#[test]
fn what_check_config_prints_is_a_config() {
    let config = Config::parse(
        "thresholds: {idle_window_seconds: 600}\nreads: {reports: 2, max_rows: 1000}\nstore: {head_bytes: 4096, keep_unknown: true, retention: 30d, retention_bytes: 1000000, retention_results: 52w}\nscrape: [{name: a, targets: ['n:1'], interval: 1m30s}]\n",
    )
    .unwrap();
    assert!(config.to_string().contains("\n  idle_window_seconds: 600\n"));
    assert_eq!(Config::parse(&config.to_string()).unwrap().to_string(), config.to_string());
}

#[test]
fn all_mistakes_are_listed_at_once() {
    let file = "zone: Mars/Olympus\n\
                scrape:\n\
                - name: gpus\n  targets: [node1]\n  interval: fast\n\
                colour: red\n\
                thresholds:\n  no_such: 1\n  sustained_busy_rati: 1\n";
    let mistakes = Config::parse(file).unwrap_err();
    let error = ConfigError::Mistakes("goodput.yml".into(), mistakes).to_string();
    let lines: Vec<&str> = error.lines().collect();
    assert_eq!(lines.len(), 6, "{error}");
    for (line, start) in lines.iter().zip([
        "goodput.yml:1: zone: expected the IANA name of a time zone such as Europe/Berlin, found \"Mars/Olympus\"",
        "goodput.yml:4: scrape[0].targets[0]: expected HOST:PORT such as node1:9400, found \"node1\"",
        "goodput.yml:5: scrape[0].interval: expected a positive duration such as 15s, 500ms or 1m30s, found \"fast\"",
        "goodput.yml:6: colour: unknown key, expected one of zone, scrape, thresholds, store, prices, report, application, serving",
        "goodput.yml:8: thresholds.no_such: unknown key, expected one of ",
        "goodput.yml:9: thresholds.sustained_busy_rati: unknown key (did you mean sustained_busy_ratio?), expected one of ",
    ]) {
        assert!(line.starts_with(start), "{line}\n{start}");
    }
}

#[test]
fn each_mistake_is_named_with_its_line() {
    for (file, error) in [
        (
            "thresholds:\n  confidence_floor: 1.5\n",
            "2: thresholds.confidence_floor: expected 0 to 1 ratio, found \"1.5\"",
        ),
        (
            "thresholds: {iowait_cores: many}\n",
            "1: thresholds.iowait_cores: expected 0 to 1000000 cores, found \"many\"",
        ),
        ("store: {keep_unknown: maybe}\n", "1: store.keep_unknown: expected true or false, found \"maybe\""),
        (
            "store: {retention: 12h}\n",
            "1: store.retention: expected 1d or longer, such as 15d, 2w or 36h, or forever, found \"12h\"",
        ),
        (
            "store: {retention_bytes: 10GB}\n",
            "1: store.retention_bytes: expected a whole number of bytes above 0, or unlimited, found \"10GB\"",
        ),
        (
            "store: {retention: 30d, retention_results: 2w}\n",
            "1: store.retention_results: expected store.retention or longer, found less",
        ),
        ("store: {head_bytes: 0}\n", "1: store.head_bytes: expected a whole number above 0, found \"0\""),
        ("reads: {requests: none}\n", "1: reads.requests: expected a whole number above 0, found \"none\""),
        ("- 1\n", "1: the file: expected a mapping, found a list"),
        ("scrape: yes\n", "1: scrape: expected a list, found \"yes\""),
        ("scrape:\n- targets: ['n:1']\n", "2: scrape[0].name: missing"),
        (
            "scrape:\n- name: a\n",
            "2: scrape[0].targets: missing, and no list of them: file_sd_configs, http_sd_configs, dns_sd_configs",
        ),
        ("scrape:\n- {name: a, targets: ['n:1', 'n:1']}\n", "2: scrape[0].targets[1]: \"n:1\" is listed twice"),
        (
            "scrape:\n- {name: a, targets: ['n:1']}\n- {name: a, targets: ['n:2']}\n",
            "3: scrape[1].name: \"a\" is taken by another job",
        ),
        (
            "scrape:\n- {name: a, targets: ['n:1'], interval: 5s, timeout: 6s}\n",
            "2: scrape[0].timeout: expected at most the interval, found \"6s\"",
        ),
    ] {
        let mistakes = Config::parse(file).unwrap_err();
        let shown: Vec<String> = mistakes.iter().map(|m| format!("{}: {}", m.line, m.text)).collect();
        assert_eq!(shown, [error]);
    }
    for (broken, line) in [("zone: [UTC\n", 1), ("zone: UTC\nzone: UTC\n", 2)] {
        let mistakes = Config::parse(broken).unwrap_err();
        assert!(mistakes.len() == 1 && mistakes[0].text.starts_with("expected YAML: "), "{mistakes:?}");
        assert_eq!(mistakes[0].line, line, "{mistakes:?}");
    }
}
