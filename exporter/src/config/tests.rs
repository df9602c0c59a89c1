//! Every source of settings, their precedence, and every kind of mistake.

use std::io::Write as _;
use std::time::Duration;

use super::*;
use crate::collect::{CollectError, Collector, Context, Done};
use crate::family::Families;

struct Nothing;

impl Collector for Nothing {
    fn collect(&mut self, _: &Context, _: &mut Families) -> Result<Done, CollectError> {
        Ok(Done::Ok)
    }
}

const fn entry(name: &'static str, default: bool) -> Entry {
    Entry { name, about: "Nothing.", default, deadline: Duration::from_secs(1), new: || Box::new(Nothing) }
}

static REGISTRY: &[Entry] = &[entry("numa", true), entry("irq", true), entry("links", false)];

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
