//! Every source of settings, their precedence, and every kind of mistake.

use std::io::Write as _;
use std::path::Path;
use std::time::Duration;

use super::*;
use crate::collect::{CollectError, Collector, Done};
use crate::context::Context;
use goodput_exposition::Families;

struct Nothing;

impl Collector for Nothing {
    fn collect(&mut self, _: &Context, _: &mut Families) -> Result<Done, CollectError> {
        Ok(Done::Ok)
    }
}

const fn entry(name: &'static str, default: bool) -> Entry {
    Entry { name, about: "Nothing.", default, deadline: Duration::from_secs(1), new: || Box::new(Nothing) }
}

static REGISTRY: &[Entry] =
    &[entry("numa", true), entry("irq", true), entry("links", false), entry(crate::collect::nccl::NAME, false)];

fn read(args: &[&str], variables: &[(&str, &str)]) -> Result<Config, ConfigError> {
    let args = std::iter::once("goodput-exporter").chain(args.iter().copied()).map(OsString::from);
    let variable = |name: &str| variables.iter().find(|(n, _)| *n == name).map(|(_, v)| (*v).to_owned());
    Config::read(REGISTRY, args, &variable)
}

fn good(args: &[&str], variables: &[(&str, &str)]) -> Config {
    match read(args, variables) {
        Ok(config) => config,
        Err(ConfigError::CommandLine(error)) => panic!("{error}"),
        Err(ConfigError::Mistakes(mistakes)) => panic!("{mistakes}"),
    }
}

fn mistakes(args: &[&str], variables: &[(&str, &str)]) -> Vec<String> {
    match read(args, variables) {
        Err(ConfigError::Mistakes(mistakes)) => mistakes.list,
        Err(ConfigError::CommandLine(error)) => panic!("{error}"),
        Ok(_) => panic!("accepted"),
    }
}

fn file(text: &str) -> (tempfile::NamedTempFile, String) {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(text.as_bytes()).unwrap();
    let flag = format!("--config.file={}", file.path().display());
    (file, flag)
}

fn names(config: &Config) -> Vec<&str> {
    config.collectors.iter().map(|entry| entry.name).collect()
}

fn listen(config: &Config) -> Vec<String> {
    config.listen.iter().map(ToString::to_string).collect()
}

#[test]
fn works_without_any_setting() {
    let config = good(&[], &[]);
    assert_eq!(config.command, None);
    assert_eq!(listen(&config), [":9400"]);
    assert_eq!(config.telemetry_path, "/metrics");
    assert_eq!(names(&config), ["numa", "irq"]);
    assert_eq!(config.roots().cgroup, PathBuf::from("/sys/fs/cgroup"));
    assert_eq!(config.host(), std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap().trim());
}

#[test]
fn a_folder_of_nccls_inspector_switches_its_collector_on() {
    for (args, expected) in [
        (&["--nccl.inspector-dir=/run/nccl/*"][..], &["numa", "irq", "nccl"][..]),
        (&["--nccl.inspector-dir=/run/nccl/*", "--collector.disable-defaults"], &["nccl"]),
        (&["--nccl.inspector-dir=/run/nccl/*", "--no-collector.nccl"], &["numa", "irq"]),
        (&["--nccl.comm-names"], &["numa", "irq"]),
    ] {
        assert_eq!(names(&good(args, &[])), expected, "{args:?}");
    }
    let config = good(&["--nccl.inspector-dir=/a,/b/*", "--nccl.comm-names"], &[]);
    assert_eq!((config.nccl().folders, config.nccl().has_names), (vec!["/a".to_owned(), "/b/*".to_owned()], true));
    for folder in ["nccl", "/run/../etc", "/run//nccl", "/"] {
        assert!(read(&[&format!("--nccl.inspector-dir={folder}")], &[]).is_err(), "{folder}");
    }
}

#[test]
fn no_error_shows_a_password() {
    let address = "http://user:s3cret@node1:9401/metrics";
    let flag = format!("--dcgm.relay-url={address}");
    let Err(ConfigError::CommandLine(error)) = read(&[&flag], &[]) else { panic!("accepted") };
    let environment = mistakes(&[], &[("GOODPUT_EXPORTER_DCGM_RELAY_URL", address)]).concat();
    let (_file, flag) = file(&format!("dcgm.relay-url: {address}\n"));
    for text in [error.to_string(), environment, mistakes(&[&flag], &[]).concat()] {
        assert!(text.contains("***@node1") && !text.contains("s3cret"), "{text}");
    }
}

#[test]
fn flags_win_over_environment_over_file() {
    let (_file, flag) = file("web.max-requests: 1\nweb.telemetry-path: /file\nlog.level: debug\n");
    let environment = [("GOODPUT_EXPORTER_WEB_MAX_REQUESTS", "2"), ("GOODPUT_EXPORTER_WEB_TELEMETRY_PATH", "/env")];
    for args in [[flag.as_str(), "--web.max-requests=3", "serve"], ["serve", "--web.max-requests=3", flag.as_str()]] {
        let config = good(&args, &environment);
        assert_eq!(config.max_requests, 3);
        assert_eq!(config.telemetry_path, "/env");
        assert_eq!(config.log_level, Some(LogLevel::Debug));
    }
}

#[test]
fn cgroups_to_include() {
    let config = good(&["--collector.cgroup.include=/a.slice/*.service,/b"], &[]);
    assert_eq!(config.cgroup_patterns, ["/a.slice/*.service", "/b"]);
    for wrong in ["relative", "/", "/a//b", "/a/../b"] {
        let (_file, flag) = file(&format!("collector.cgroup.include: ['{wrong}']\n"));
        let list = mistakes(&[&flag], &[]);
        assert!(list.len() == 1 && list[0].contains("expected a path such as /system.slice"), "{wrong}: {list:?}");
    }
}

#[test]
fn accounts_are_asked_for_by_the_collector_that_tells_them_alone() {
    static OWNER: &[Entry] = &[entry("owner", true)];
    type IsTold = fn(&Config) -> bool;
    let accounts: IsTold = |config| config.owner_settings().slurm_accounts;
    for (name, is_told) in [("slurm-account", accounts), ("mps-limits", |c| c.owner_settings().mps_limits)] {
        let (flag, off) = (format!("--collector.owner.{name}"), format!("--no-collector.owner.{name}"));
        for (args, expected) in [
            (&[][..], false),
            (&[flag.as_str()], true),
            (&[flag.as_str(), off.as_str()], false),
            (&[flag.as_str(), "--no-collector.owner"], false),
        ] {
            let args = std::iter::once("goodput-exporter").chain(args.iter().copied()).map(OsString::from);
            let config = Config::read(OWNER, args, &|_| None).unwrap();
            assert_eq!(is_told(&config), expected, "{name}");
        }
    }
}

#[test]
fn lists_are_replaced_not_extended() {
    let (_file, flag) = file("web.listen-address: ['127.0.0.1:1', '[::1]:2']\n");
    assert_eq!(listen(&good(&[&flag], &[])), ["127.0.0.1:1", "[::1]:2"]);
    let environment = [("DCGM_EXPORTER_LISTEN", ":3, localhost:4")];
    assert_eq!(listen(&good(&[&flag], &environment)), [":3", "localhost:4"]);
    assert_eq!(listen(&good(&[&flag, "-a", ":5"], &environment)), [":5"]);
    let twice = ["--web.listen-address=:5", "--web.listen-address=:6", "print"];
    assert_eq!(listen(&good(&twice, &environment)), [":5", ":6"]);
}

#[test]
fn collectors_are_switched_one_by_one() {
    assert_eq!(names(&good(&["--no-collector.numa", "--collector.links"], &[])), ["irq", "links"]);
    assert_eq!(names(&good(&["--collector.disable-defaults", "--collector.irq"], &[])), ["irq"]);
    assert_eq!(names(&good(&["--no-collector.irq", "--collector.irq"], &[])), ["numa", "irq"], "the last one counts");
    let (_file, flag) = file("collector.numa: true\ncollector.links: true\n");
    assert_eq!(names(&good(&[&flag, "print", "--no-collector.numa"], &[])), ["irq", "links"]);
    assert_eq!(names(&good(&[], &[("GOODPUT_EXPORTER_COLLECTOR_NUMA", "false")])), ["irq"]);
}

#[test]
fn variables_of_dcgm_exporter_are_understood() {
    let config = good(&[], &[("NODE_NAME", "node-7"), ("DCGM_EXPORTER_NO_HOSTNAME", "true")]);
    assert_eq!((config.host().as_str(), config.host_label()), ("node-7", None));
    assert_eq!(good(&["-n"], &[]).host_label(), None);
    assert_eq!(good(&["--dcgm.hostname-label=hostname"], &[]).host_label(), Some("hostname"));
    assert_eq!(listen(&good(&[], &[("DCGM_EXPORTER_LISTEN", "")])), [":9400"], "an empty variable counts as unset");
}

#[test]
fn all_mistakes_are_listed_with_their_lines() {
    let (_file, flag) = file(
        "web.listen-adress: ':9400'\n\
         web.max-requests: many\n\
         dcgm.hostname-label: HOSTNAME\n\
         \n\
         path.procfs: /no/such/dir\n\
         collector.irq: perhaps\n\
         log: {level: info}\n\
         log.format: [text, json]\n\
         config.file: other.yml\n\
         web.listen-address: 9400\n",
    );
    let list = mistakes(&[&flag], &[("GOODPUT_EXPORTER_WEB_TELEMETRY_PATH", "/-/ready")]);
    let expected = [
        "environment variable GOODPUT_EXPORTER_WEB_TELEMETRY_PATH: web.telemetry-path: expected a path such as /metrics, \
         of letters, digits and /-_., other than the health paths, found \"/-/ready\"",
        "line 1: unknown key \"web.listen-adress\", did you mean \"web.listen-address\"",
        "line 2: web.max-requests: expected a whole number from 1 to 65535, found \"many\"",
        "line 3: dcgm.hostname-label: expected one of Hostname, hostname, found \"HOSTNAME\"",
        "line 5: path.procfs: expected a directory: No such file or directory (os error 2), found \"/no/such/dir\"",
        "line 6: collector.irq: expected true or false, found \"perhaps\"",
        "line 7: unknown key \"log\", did you mean \"log.level\"",
        "line 8: log.format: expected one value",
        "line 9: unknown key \"config.file\"",
        "line 10: web.listen-address: expected HOST:PORT, [IPV6]:PORT or :PORT, found \"9400\"",
    ];
    assert_eq!(list, expected);
}

#[test]
fn places_of_the_kernels_files_are_looked_at_wherever_they_come_from() {
    let (empty, file) = (tempfile::tempdir().unwrap(), tempfile::NamedTempFile::new().unwrap());
    let paths = [empty.path(), file.path(), Path::new("/no/such")].map(|path| path.display().to_string());
    let wrong = ["this one is empty: is it mounted?", "this is a file", "No such file or directory"];
    for flag in ["path.procfs", "path.sysfs", "path.rootfs", "path.cgroup"] {
        for (path, wrong) in paths.iter().zip(wrong) {
            let Err(ConfigError::CommandLine(error)) = read(&[&format!("--{flag}={path}")], &[]) else {
                panic!("--{flag}={path} is accepted");
            };
            let error = error.to_string();
            assert!(error.contains(&format!("--{flag}")) && error.contains(path) && error.contains(wrong), "{error}");
        }
    }
    // Flags at their defaults are checked too.
    for flag in ["procfs", "sysfs", "rootfs"] {
        let command = flags::command(REGISTRY).mut_arg(flag, |arg| arg.default_value("/no/such"));
        let error = matches(&command, &["goodput-exporter".into()]).unwrap_err().to_string();
        assert!(error.contains(&format!("--path.{flag}")) && error.contains("No such file"), "{error}");
    }
}

/// The container image has no such folder, and needs none.
#[test]
fn the_folder_of_programs_need_not_be_there() {
    let config = good(&["--path.programs=/no/such"], &[]);
    assert_eq!(config.roots().programs, Some("/no/such".into()));
}

#[test]
fn a_file_that_is_no_yaml_map_names_the_line() {
    for (text, part) in [("a: 1\nb: [\n", "line"), ("- a\n- b\n", "line 1"), ("a: 1\na: 2\n", "duplicate")] {
        let (_file, flag) = file(text);
        let list = mistakes(&[&flag], &[]);
        assert!(list.len() == 1 && list[0].contains(part), "{text:?}: {list:?}");
    }
    assert_eq!(mistakes(&["--config.file=/no/such/file"], &[]), ["No such file or directory (os error 2)"]);
}

#[test]
fn an_empty_file_sets_nothing() {
    for text in ["", "# nothing yet\n\n"] {
        let (_file, flag) = file(text);
        assert_eq!(good(&[&flag], &[]).max_requests, 40);
    }
}

#[test]
fn a_wrong_flag_is_an_error_of_the_command_line() {
    for arg in ["--web.listen-adress=:1", "--collector.nosuch", "--no-collector.nosuch", "--dcgm.names=newest"] {
        assert!(matches!(read(&[arg], &[]), Err(ConfigError::CommandLine(_))), "{arg}");
    }
}

#[test]
fn addresses_are_read_in_every_form() {
    for (text, host, port) in [(":9400", "", 9400), ("localhost:1", "localhost", 1), ("[::1]:0", "::1", 0)] {
        let address: Address = text.parse().unwrap();
        assert_eq!((address.host.as_str(), address.port), (host, port));
        assert_eq!(address.to_string(), text);
    }
    for text in ["", "9400", ":", ":port", "::1:80", "http://a:80", ":70000", "[::1:80"] {
        assert!(text.parse::<Address>().is_err(), "{text}");
    }
}

/// A flag or variable of dcgm-exporter, and whether it did what it should.
type Effect = fn(&Config) -> bool;

#[test]
fn flags_and_variables_of_dcgm_exporter_do_what_they_did() {
    let (_csv, counters) = listed("DCGM_FI_DEV_GPU_TEMP, gauge, Temperature.\n");
    let (_yaml, yaml) =
        listed("version: 1\nmetrics: {fields: [{name: DCGM_FI_DEV_GPU_TEMP, prometheusType: gauge}]}\n");
    let temperature: Effect = |c| c.counters.as_ref().unwrap().current().family("DCGM_FI_DEV_GPU_TEMP").is_some();
    #[rustfmt::skip]
    let table: &[(&str, &str, &str, &str, Effect)] = &[
        ("collectors", "f", "DCGM_EXPORTER_COLLECTORS", &counters, temperature),
        ("config-file", "", "DCGM_EXPORTER_CONFIG_FILE", &yaml, temperature),
        ("address", "a", "DCGM_EXPORTER_LISTEN", ":7", |c| listen(c) == [":7"]),
        ("devices", "d", "DCGM_EXPORTER_DEVICES_STR", "g:1", |c| c.devices.include(Some("1")) && !c.devices.include(Some("0"))),
        ("no-hostname", "n", "DCGM_EXPORTER_NO_HOSTNAME", "", |c| c.host_label().is_none()),
        ("replace-blanks-in-model-name", "rbmn", "DCGM_EXPORTER_REPLACE_BLANKS_IN_MODEL_NAME", "", |c| c.style().dashed_model),
        ("xid-count-window-size", "x", "DCGM_EXPORTER_XID_COUNT_WINDOW_SIZE", "7", |c| c.xid_window.as_millis() == 7),
        ("clock-events-count-window-size", "", "DCGM_EXPORTER_CLOCK_EVENTS_COUNT_WINDOW_SIZE", "7", |c| c.clock_events_window.as_millis() == 7),
        ("web-config-file", "", "DCGM_EXPORTER_WEB_CONFIG_FILE", "/w.yml", |c| c.web_config == Some("/w.yml".into())),
        ("web-systemd-socket", "", "DCGM_EXPORTER_SYSTEMD_SOCKET", "", |c| c.systemd_socket),
        ("web-read-timeout", "", "DCGM_EXPORTER_WEB_READ_TIMEOUT", "1m30s", |c| c.read_timeout == Some(Duration::from_secs(90))),
        ("debug", "", "DCGM_EXPORTER_DEBUG", "", |c| c.log_level == Some(LogLevel::Debug)),
        ("log-format", "", "DCGM_EXPORTER_LOG_FORMAT", "json", |c| c.log_format == LogFormat::Json),
        ("kubernetes", "k", "DCGM_EXPORTER_KUBERNETES", "", |c| c.kubernetes_pods == Some(true)),
        ("pod-resources-kubelet-socket", "", "DCGM_POD_RESOURCES_KUBELET_SOCKET", "/s", |c| c.pod_resources_socket() == Some("/s".into())),
        ("nvidia-resource-names", "", "NVIDIA_RESOURCE_NAMES", "a/b,c/d", |c| c.resource_names == ["a/b", "c/d"]),
        ("hpc-job-mapping-dir", "", "DCGM_HPC_JOB_MAPPING_DIR", "/j", |c| c.job_mapping == Some("/j".into())),
    ];
    for (long, short, name, value, effect) in table {
        assert!(*long == "collectors" || *long == "config-file" || !effect(&good(&[], &[])), "{long} is the default");
        let switch = value.is_empty();
        let long = if switch { format!("--{long}") } else { format!("--{long}={value}") };
        assert!(effect(&good(&[&long], &[])), "{long}");
        assert!(effect(&good(&[&long[1..]], &[])), "{long} behind one dash, as Go programs allow");
        assert!(effect(&good(&[], &[(name, if switch { "true" } else { value })])), "{name}");
        let short = format!("-{short}");
        let args: &[&str] = if switch { &[&short] } else { &[&short, value] };
        assert!(short == "-" || effect(&good(args, &[])), "{args:?}");
        let joined = format!("{short}={}", if switch { "true" } else { value });
        assert!(short == "-" || effect(&good(&[&joined], &[])), "{joined}");
        assert_eq!(good(&[&long], &[]).warnings, [""; 0], "{long}");
    }
}

#[test]
fn what_means_nothing_here_is_accepted_with_one_warning() {
    let args = [
        "-c",
        "10000",
        "-m",
        "gpu:metrics",
        "-r",
        "localhost:5555",
        "-s",
        "g:0",
        "-p",
        "f",
        "--fake-gpus",
        "--enable-dcgm-log",
        "--dcgm-log-level=DEBUG",
        "--kubernetes-enable-pod-labels=true",
        "--kubernetes-pod-label-allowlist-regex",
        "^app$",
        "--container-labels=false",
        "--dump-enabled",
        "--dump-directory",
        "/d",
        "--dump-retention=24",
        "--disable-startup-validate",
        "--enable-gpu-bind-unbind-watch",
        "--gpu-bind-unbind-poll-interval=1s",
        "--enable-pprof",
        "--enable-exporter-metrics",
        "--web-write-timeout=30s",
        "-d",
        "i:0",
        "--use-old-namespace=false",
    ];
    let warnings = good(&args, &[]).warnings;
    let warned: Vec<_> = warnings.iter().map(|warning| warning.split([' ', '=']).next().unwrap()).collect();
    let expected = [
        "--collect-interval",
        "--configmap-data",
        "--remote-hostengine-info",
        "--switch-devices",
        "--fake-gpus",
        "--enable-dcgm-log",
        "--dcgm-log-level",
        "--kubernetes-enable-pod-labels",
        "--kubernetes-pod-label-allowlist-regex",
        "--dump-enabled",
        "--dump-directory",
        "--dump-retention",
        "--disable-startup-validate",
        "--enable-gpu-bind-unbind-watch",
        "--gpu-bind-unbind-poll-interval",
        "--enable-pprof",
        "--enable-exporter-metrics",
        "--web-write-timeout",
        "--dcgm.devices",
    ];
    assert_eq!(warned, expected);
    let environment = [("DCGM_REMOTE_HOSTENGINE_INFO", "localhost:5555"), ("DCGM_EXPORTER_CONFIGMAP_DATA", "none")];
    let warnings = good(&[], &environment).warnings;
    let expected =
        "--remote-hostengine-info of dcgm-exporter has no effect: GPUs are read through NVML, without a hostengine";
    assert_eq!(warnings, [expected]);
}

#[test]
fn the_docs_say_what_becomes_of_every_flag_and_variable_of_dcgm_exporter() {
    let docs = include_str!("../../../docs/use/exporter.md");
    let command = flags::command(REGISTRY);
    for (variable, flag) in dcgm_exporter::variables() {
        let arg = command.get_arguments().find(|arg| arg.get_long() == Some(flag)).unwrap();
        let theirs = arg.get_all_aliases().and_then(|aliases| aliases.first().copied());
        let theirs = theirs.or(arg.is_hide_set().then_some(flag));
        assert!(docs.contains(&format!("`{variable}`")), "{variable}");
        let written = theirs.is_none_or(|flag| docs.contains(&format!("| `--{flag}`")));
        assert!(written, "--{}", theirs.unwrap_or_default());
    }
}

#[test]
fn the_names_of_1_x_are_refused() {
    for args in [["-o"], ["--use-old-namespace"]] {
        let Err(ConfigError::CommandLine(error)) = read(&args, &[]) else { panic!("{args:?} was accepted") };
        assert!(error.to_string().contains("labels of dcgm-exporter 1.x"), "{error}");
    }
    let refused = mistakes(&[], &[("DCGM_EXPORTER_USE_OLD_NAMESPACE", "true")]);
    assert!(refused[0].contains("metric_relabel_configs"), "{refused:?}");
    assert!(matches!(read(&["--no-such-flag"], &[]), Err(ConfigError::CommandLine(_))));
}

fn listed(text: &str) -> (tempfile::NamedTempFile, String) {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(text.as_bytes()).unwrap();
    let path = file.path().display().to_string();
    (file, path)
}

#[test]
fn fields_that_cannot_be_had_are_one_remark_each() {
    let (_file, path) = listed(
        "DCGM_FI_DEV_GPU_TEMP, gauge, x\n\
         DCGM_FI_DEV_GPU_UTIL, histogram, x\n\
         DCGM_FI_DEV_NVSWITCH_TEMPERATURE_CURRENT, gauge, x\n\
         DCGM_FI_DEV_NO_SUCH, gauge, x\n\
         dcgm_gpu_temp, gauge, x\n\
         DCGM_FI_DEV_GPU_TEMP, label, x\n\
         DCGM_FI_DEV_SERIAL, label, x\n\
         DCGM_FI_DRIVER_VERSION, label, x\n\
         DCGM_FI_DEV_PCIE_TX_THROUGHPUT, gauge, x\n",
    );
    let relay = "--dcgm.relay-url can add families of a dcgm-exporter";
    let expected = [
        "line 2: DCGM_FI_DEV_GPU_UTIL: one value is none; served as its own type".to_owned(),
        format!(
            "line 3: DCGM_FI_DEV_NVSWITCH_TEMPERATURE_CURRENT: not served. NVSwitches answer to libraries of their own \
             (NSCQ, NVSDM), not to NVML. {relay}"
        ),
        format!("line 4: DCGM_FI_DEV_NO_SUCH: not served. It is not a field that NVML gives this exporter. {relay}"),
        format!(
            "line 5: dcgm_gpu_temp: not served. This is a name of dcgm-exporter 1.x; use the field's DCGM_FI name. \
             {relay}"
        ),
        format!("line 6: DCGM_FI_DEV_GPU_TEMP: not served. It is not known as a label. {relay}"),
        format!(
            "line 9: DCGM_FI_DEV_PCIE_TX_THROUGHPUT: not served. NVML measures it for 20 ms while the caller waits, and \
             DCGM itself gave it up; DCGM_FI_PROF_PCIE_*_BYTES say the same. {relay}"
        ),
    ];
    let warnings = good(&["-f", &path], &[]).warnings;
    assert_eq!(warnings, expected.map(|remark| format!("{path}: {remark}")));
}

#[test]
fn a_malformed_counters_file_is_a_mistake_with_its_line() {
    for (text, part) in [
        ("A, gauge, x\nB, gauge\n", ": line 2: expected three columns: field, type, help, found \"B, gauge\""),
        ("# nothing\n", ": expected at least one line of field, type, help"),
        ("version: 3\nmetrics: {file: x}\n", ": version: expected 1 or 2, found 3"),
        ("version: 1\nmetrics: {file: gone.csv}\n", "gone.csv: No such file or directory"),
    ] {
        let (_file, path) = listed(text);
        let list = mistakes(&["--dcgm.counters", &path], &[]);
        assert!(list.len() == 1 && list[0].contains(part), "{list:?}");
    }
    assert!(mistakes(&["-f", "/no/such/file.csv"], &[])[0].starts_with("/no/such/file.csv: No such file"));
}

#[test]
fn the_two_configurations_are_told_apart() {
    let (_theirs, flag) = file("version: 1\nmetrics: {file: x.csv}\n");
    let hint = "which is dcgm-exporter's: its configuration goes to --dcgm.config-file";
    let expected =
        [format!("line 1: unknown key \"version\", {hint}"), format!("line 2: unknown key \"metrics\", {hint}")];
    assert_eq!(mistakes(&[&flag], &[]), expected);
    let (_ours, path) = listed("web.max-requests: 3\n");
    let list = mistakes(&["--config-file", &path], &[]);
    assert!(list[0].ends_with("--config.file for this exporter's)") && list[0].contains("version"), "{list:?}");
}

#[test]
fn files_of_its_image_are_asked_for_in_vain() {
    let path = "/etc/dcgm-exporter/dcp-metrics-included.csv";
    let config = good(&[], &[("DCGM_EXPORTER_COLLECTORS", path)]);
    assert!(config.counters.is_none());
    assert_eq!(
        config.warnings,
        [format!("{path}: a file of dcgm-exporter's image, and not here: the default fields are served")]
    );
}

#[test]
fn yaml_is_known_by_name_or_content_and_csv_wins_over_it() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        std::fs::write(folder.path().join(name), text).unwrap();
        folder.path().join(name).display().to_string()
    };
    write("list.csv", "DCGM_FI_DEV_GPU_TEMP, gauge, x\n");
    let text = "# fields\nversion: 1\nmetrics: {file: list.csv}\ncollection: {interval: 30s}\n";
    for name in ["dcgm.yaml", "dcgm.yml", "dcgm"] {
        let path = write(name, text);
        let config = good(&["--config-file", &path], &[]);
        assert!(config.counters.unwrap().current().family("DCGM_FI_DEV_GPU_TEMP").is_some(), "{name}");
        assert_eq!(config.warnings.len(), 1);
        assert!(
            config.warnings[0].starts_with(&format!("{path}: collection has no effect: ")),
            "{:?}",
            config.warnings
        );
        let csv = write("other.csv", "DCGM_FI_DEV_GPU_UTIL, gauge, x\n");
        let config = good(&["--config-file", &path, "-f", &csv], &[]);
        assert!(config.counters.unwrap().current().family("DCGM_FI_DEV_GPU_TEMP").is_none());
    }
}

#[test]
fn a_counters_file_that_became_wrong_is_kept_as_it_was() {
    let (mut file, path) = listed("DCGM_FI_DEV_GPU_TEMP, gauge, x\n");
    let counters = good(&["-f", &path], &[]).counters.unwrap();
    writeln!(file, "DCGM_FI_DEV_GPU_UTIL").unwrap();
    counters.reload();
    assert!(counters.current().family("DCGM_FI_DEV_GPU_TEMP").is_some());
    std::fs::write(&path, "DCGM_FI_DEV_GPU_UTIL, gauge, x\n").unwrap();
    counters.reload();
    assert!(counters.current().family("DCGM_FI_DEV_GPU_TEMP").is_none());
    assert!(counters.current().family("DCGM_FI_DEV_GPU_UTIL").is_some());
    drop(file);
    counters.reload();
    assert!(counters.current().family("DCGM_FI_DEV_GPU_UTIL").is_some());
}

#[test]
fn durations_are_gos() {
    for (text, milliseconds) in [("500ms", 500), ("10s", 10_000), ("1.5s", 1500), ("1m30s", 90_000), ("2h", 7_200_000)]
    {
        let config = good(&[&format!("--web.read-timeout={text}")], &[]);
        assert_eq!(config.read_timeout, Some(Duration::from_millis(milliseconds)), "{text}");
    }
    for text in ["", "0s", "10", "s", "-1s", "1d", "99999999999s"] {
        assert!(read(&[&format!("--web.read-timeout={text}")], &[]).is_err(), "{text}");
    }
}
