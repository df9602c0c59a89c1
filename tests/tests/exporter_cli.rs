//! The exporter as a program: its sub-commands, its exit codes and what it says when something is wrong.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test ends where its world is broken")]

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Output, Stdio};

use goodput_lab::gpu::{FakeNode, FakeNvml, NodeSpec};

/// The exporter with these arguments and none of the caller's settings.
#[allow(clippy::disallowed_methods, reason = "the program under test")]
fn exporter(args: &[&str]) -> Command {
    let mut command = Command::new(goodput_lab::bin("goodput-exporter").unwrap());
    command.args(args).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("GOODPUT_") || text.starts_with("DCGM_") || text == "NODE_NAME" {
            command.env_remove(&name);
        }
    }
    command
}

fn run(args: &[&str]) -> Output {
    exporter(args).output().unwrap()
}

fn stderr(output: &Output) -> &str {
    std::str::from_utf8(&output.stderr).unwrap()
}

fn stdout(output: &Output) -> &str {
    std::str::from_utf8(&output.stdout).unwrap()
}

/// A running exporter; killed when the test ends early.
struct Serving {
    child: Child,
    address: String,
    log: BufReader<std::process::ChildStderr>,
}

impl Serving {
    /// Starts it on a free port, and waits until it says where it listens.
    fn start(args: &[&str], variables: &[(&str, &str)]) -> Self {
        let mut child = exporter(args)
            .arg("--web.listen-address=127.0.0.1:0")
            .envs(variables.iter().copied())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let mut log = BufReader::new(child.stderr.take().unwrap());
        let address = loop {
            let mut line = String::new();
            assert_ne!(log.read_line(&mut line).unwrap(), 0, "the exporter ended: {:?}", child.wait());
            if let Some((_, rest)) = line.split_once("listening on http://") {
                break rest.split('/').next().unwrap().to_owned();
            }
        };
        Self { child, address, log }
    }

    fn get(&self, path: &str) -> String {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    #[allow(clippy::disallowed_methods, reason = "std sends no signal but SIGKILL")]
    fn signal(&self, name: &str) {
        let kill = format!("kill -{name} {}", self.child.id());
        assert!(Command::new("sh").args(["-c", &kill]).status().unwrap().success());
    }

    /// Ends it with a signal; its status and the rest of its log.
    fn stop(mut self, signal: &str) -> (ExitStatus, String) {
        self.signal(signal);
        let mut log = String::new();
        self.log.read_to_string(&mut log).unwrap();
        (self.child.wait().unwrap(), log)
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn print_without_gpu_and_driver_gives_host_families_and_one_line() {
    let output = run(&["print", "--nvml.library=/no/such/libnvidia-ml.so"]);
    assert!(output.status.success(), "{output:?}");
    assert!(stdout(&output).contains("\nprocess_resident_memory_bytes "));
    let lines: Vec<_> = stderr(&output).lines().collect();
    assert!(lines.len() == 1 && lines[0].starts_with("no GPU driver"), "{lines:?}");
}

#[test]
fn print_writes_openmetrics_when_asked() {
    let output = run(&["print", "--format", "openmetrics", "--nvml.library=/no/such/libnvidia-ml.so"]);
    assert!(output.status.success() && stdout(&output).ends_with("\n# EOF\n"), "{output:?}");
}

/// promtool's verdict on what `print` writes. Its lint (exit 3) may complain about DCGM's names only.
#[test]
#[allow(clippy::disallowed_methods, reason = "promtool is the judge here")]
fn promtool_accepts_the_text() {
    let text = run(&["print", "--nvml.library=/no/such/libnvidia-ml.so"]).stdout;
    let spawned = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut promtool = spawned.expect("this test needs promtool (Debian: prometheus)");
    promtool.stdin.take().unwrap().write_all(&text).unwrap();
    let output = promtool.wait_with_output().unwrap();
    let complaints: Vec<_> = stderr(&output).lines().chain(stdout(&output).lines()).collect();
    assert!(matches!(output.status.code(), Some(0 | 3)), "{complaints:?}");
    assert!(complaints.iter().all(|line| line.starts_with("DCGM_")), "{complaints:?}");
}

#[test]
fn print_into_a_closed_pipe_is_no_error() {
    let mut child = exporter(&["print", "--nvml.library=/no/such/libnvidia-ml.so"]).spawn().unwrap();
    drop(child.stdout.take());
    assert!(child.wait().unwrap().success());
}

#[test]
fn catalog_lists_every_metric() {
    let markdown = run(&["catalog"]);
    let repository = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..");
    assert_eq!(stdout(&markdown), fs::read_to_string(repository.join("docs/reference/METRICS.md")).unwrap());
    let json: serde_json::Value = serde_json::from_slice(&run(&["catalog", "--format=json"]).stdout).unwrap();
    assert_eq!(json["metrics"].as_array().unwrap().len(), goodput_catalog::all().count());
    assert!(json["not_available"].as_array().unwrap().iter().any(|row| row["ids"] == "700-878"));
    let parity = fs::read_to_string(repository.join("docs/reference/dcgm-parity.md")).unwrap();
    assert_eq!(stdout(&run(&["catalog", "--format=dcgm"])), parity);
}

#[test]
fn serves_until_it_is_told_to_stop() {
    for signal in ["TERM", "INT"] {
        let serving = Serving::start(&["--nvml.library=/no/such/libnvidia-ml.so"], &[]);
        assert!(serving.get("/-/healthy").starts_with("HTTP/1.1 200"));
        assert!(serving.get("/metrics").contains("\ngoodput_exporter_build_info{"));
        let (status, log) = serving.stop(signal);
        assert!(status.success(), "{status} {log}");
        assert!(log.contains("stopping"), "{log}");
    }
}

#[test]
fn hangup_reads_the_web_configuration_again() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("web.yml");
    fs::write(&file, "").unwrap();
    let flag = format!("--web.config.file={}", file.display());
    let mut serving = Serving::start(&[&flag], &[]);
    fs::write(&file, "basic_auth_users: {a: b}\n").unwrap();
    serving.signal("HUP");
    let mut line = String::new();
    while !line.contains("kept the web configuration as it was") {
        line.clear();
        assert_ne!(serving.log.read_line(&mut line).unwrap(), 0);
    }
    assert!(line.contains("web.yml: basic_auth_users: a: expected a bcrypt hash"), "{line}");
    assert!(serving.stop("TERM").0.success());
}

#[test]
fn a_port_in_use_is_named_and_ends_the_program() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let output = run(&[&format!("--web.listen-address={address}")]);
    assert_eq!(output.status.code(), Some(1));
    let last = stderr(&output).lines().last().unwrap();
    assert!(last.starts_with(&format!("goodput-exporter: cannot listen on {address}: ")), "{last}");
}

#[test]
fn a_file_with_five_mistakes_lists_all_of_them() {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(
        b"web.listen-adress: ':9400'\nweb.max-requests: 0\nlog.level: loud\ndcgm.names: newest\npath.sysfs: /no/such\n",
    )
    .unwrap();
    let output = run(&[&format!("--config.file={}", file.path().display())]);
    assert_eq!(output.status.code(), Some(2));
    let lines: Vec<_> = stderr(&output).lines().collect();
    assert_eq!(lines.len(), 6, "{lines:#?}");
    assert!(lines[0].contains("5 mistakes") && lines[0].contains(file.path().to_str().unwrap()), "{}", lines[0]);
    for (line, number) in lines[1..].iter().zip(1..) {
        assert!(line.starts_with(&format!("  line {number}: ")), "{line}");
    }
}

#[test]
fn a_bad_flag_is_a_usage_error() {
    for (flag, part) in [
        ("--web.listen-adress=:1", "--web.listen-address"),
        ("--no-collector.nosuch", "collector.nosuch"),
        ("--web.listen-address=9400", "expected HOST:PORT"),
        ("--path.procfs=/no/such", "expected a directory"),
    ] {
        let output = run(&[flag]);
        assert_eq!(output.status.code(), Some(2), "{flag}");
        assert!(stderr(&output).contains(part), "{flag}: {}", stderr(&output));
    }
}

#[test]
fn variables_of_dcgm_exporter_set_the_address() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let output = exporter(&[]).env("DCGM_EXPORTER_LISTEN", &address).output().unwrap();
    assert!(stderr(&output).contains(&format!("cannot listen on {address}")), "{}", stderr(&output));
}

/// What systemd is told, over a socket of the test's own.
#[test]
fn systemd_hears_of_readiness_watchdog_and_the_end() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("notify");
    let socket = std::os::unix::net::UnixDatagram::bind(&path).unwrap();
    let variables = [("NOTIFY_SOCKET", path.to_str().unwrap()), ("WATCHDOG_USEC", "200000")];
    let serving = Serving::start(&["--nvml.library=/no/such/libnvidia-ml.so"], &variables);
    let hear = |wanted: &str| {
        let mut buffer = [0; 4096];
        loop {
            let length = socket.recv(&mut buffer).unwrap();
            let text = String::from_utf8_lossy(&buffer[..length]).into_owned();
            if text.contains(wanted) {
                return text;
            }
        }
    };
    assert!(hear("READY=1").contains("STATUS=serving /metrics"));
    hear("WATCHDOG=1");
    hear("WATCHDOG=1");
    assert!(serving.get("/-/ready").starts_with("HTTP/1.1 200"));
    let (status, _) = serving.stop("TERM");
    assert!(status.success());
    hear("STOPPING=1");
}

/// A machine of one clock, and nothing else to judge but the absence of a time daemon, which is a warning.
fn machine_with_clock(name: &str) -> tempfile::TempDir {
    let machine = tempfile::tempdir().unwrap();
    let clock = machine.path().join("sys/devices/system/clocksource/clocksource0");
    fs::create_dir_all(&clock).unwrap();
    fs::create_dir_all(machine.path().join("proc")).unwrap();
    // An empty procfs is one that is not mounted.
    fs::write(machine.path().join("proc/uptime"), "1.00 1.00\n").unwrap();
    fs::write(clock.join("current_clocksource"), format!("{name}\n")).unwrap();
    fs::write(clock.join("available_clocksource"), "tsc hpet\n").unwrap();
    machine
}

fn audit_command(machine: &std::path::Path, args: &[&str]) -> Command {
    let mut command = exporter(&["audit", "--nvml.library=/no/such/libnvidia-ml.so"]);
    for (flag, folder) in [("procfs", "proc"), ("sysfs", "sys"), ("rootfs", "")] {
        command.arg(format!("--path.{flag}={}", machine.join(folder).display()));
    }
    command.args(args);
    command
}

fn audit(machine: &tempfile::TempDir, args: &[&str]) -> Output {
    audit_command(machine.path(), args).output().unwrap()
}

#[test]
fn a_failed_check_is_exit_status_1_and_a_warning_is_not() {
    let bad = audit(&machine_with_clock("hpet"), &[]);
    assert_eq!(bad.status.code(), Some(1), "{bad:?}");
    assert!(stdout(&bad).contains("\nFAIL (1)\n  clocksource "), "{}", stdout(&bad));
    assert!(stderr(&bad).starts_with("no GPU driver: "), "{}", stderr(&bad));
    let good = audit(&machine_with_clock("tsc"), &["--profile", "training"]);
    assert_eq!(good.status.code(), Some(0), "{good:?}");
    assert!(stdout(&good).contains(", profile training\n\nWARN (1)\n  time_sync "), "{}", stdout(&good));
    assert!(!stdout(&good).contains('\x1b'), "no colours into a pipe");
}

#[test]
fn the_audit_runs_only_the_checks_asked_for() {
    let output = audit(&machine_with_clock("hpet"), &["--check=time_sync", "--check=thp_enabled", "--format=json"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let ids: Vec<_> = document["checks"].as_array().unwrap().iter().map(|row| row["id"].as_str().unwrap()).collect();
    assert_eq!(ids, ["thp_enabled", "time_sync"]);
    assert_eq!(document["checks"][0]["status"], "not_applicable");

    let unknown = audit(&machine_with_clock("tsc"), &["--check=time"]);
    assert_eq!(unknown.status.code(), Some(2));
    assert!(stderr(&unknown).contains("time_sync"), "the similar name is offered: {}", stderr(&unknown));
}

#[test]
fn checks_that_do_not_apply_are_one_line_unless_they_are_asked_for() {
    let machine = machine_with_clock("tsc");
    let lines = |args: &[&str]| {
        let output = stdout(&audit(&machine, args)).to_owned();
        let (_, folded) = output.split_once("\nNOT APPLICABLE (").unwrap_or_else(|| panic!("{output}"));
        folded.split("\n\n").next().unwrap().lines().map(str::to_owned).collect::<Vec<_>>()
    };
    let folded = lines(&[]);
    assert!(folded.len() == 1 && folded[0].ends_with("): --all shows them"), "{folded:?}");
    assert!(lines(&["--all"]).iter().any(|line| line.starts_with("  thp_enabled ")));
    assert!(lines(&["--check=thp_enabled"])[1].starts_with("  thp_enabled "));
}

#[test]
fn the_audit_speaks_markdown_and_survives_a_closed_pipe() {
    let machine = machine_with_clock("hpet");
    let output = audit(&machine, &["--format=markdown"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stdout(&output).contains("\n| fail | `clocksource` | hpet, of tsc hpet | "), "{}", stdout(&output));
    let mut child = audit_command(machine.path(), &[]).spawn().unwrap();
    drop(child.stdout.take());
    assert_eq!(child.wait().unwrap().code(), Some(1));
}

#[test]
fn saved_audits_are_compared() {
    let machine = machine_with_clock("tsc");
    let save = |name: &str, clock: &str| {
        let path = machine.path().join(name);
        let current = machine.path().join("sys/devices/system/clocksource/clocksource0/current_clocksource");
        fs::write(current, format!("{clock}\n")).unwrap();
        fs::write(&path, audit(&machine, &["--format=json"]).stdout).unwrap();
        path.display().to_string()
    };
    let (good, bad) = (save("good.json", "tsc"), save("bad.json", "hpet"));
    let diff = |arguments: &[&str]| exporter(&["audit", "diff"]).args(arguments).output().unwrap();

    let worse = diff(&[&good, &bad]);
    assert_eq!(worse.status.code(), Some(1), "{worse:?}");
    assert!(stdout(&worse).contains("\nWORSE (1)\n  clocksource: "), "{}", stdout(&worse));
    assert!(
        stdout(&worse).contains("before  pass: tsc, of tsc hpet\n      after   fail: hpet, of tsc hpet\n"),
        "{}",
        stdout(&worse)
    );
    let better = diff(&[&bad, &good, "--format=json"]);
    assert_eq!(better.status.code(), Some(0), "{better:?}");
    let document: serde_json::Value = serde_json::from_slice(&better.stdout).unwrap();
    assert_eq!(document["changes"][0]["direction"], "better");
    let same = diff(&[&good, &good]);
    assert_eq!(same.status.code(), Some(0));
    assert!(stdout(&same).contains("0 worse, 0 better, 0 not comparable, 0 drifted, "), "{}", stdout(&same));

    let wrong = diff(&[&good, "/no/such/audit.json"]);
    assert_eq!(wrong.status.code(), Some(2), "{wrong:?}");
    assert!(stderr(&wrong).contains("/no/such/audit.json"), "{}", stderr(&wrong));
}

/// Through NVML's C boundary: a GPU without persistence, at half its lanes.
#[test]
fn the_audit_asks_the_driver() {
    let folder = tempfile::tempdir().unwrap();
    let fake = FakeNvml::build().unwrap();
    let library = fake.path();
    let node = FakeNode::new(folder.path(), &NodeSpec::h100(2)).unwrap();
    let run = || {
        let (name, log) = node.env();
        let checks = ["--check=persistence_mode", "--check=pcie_link", "--format=json"];
        let output = exporter(&["audit"])
            .arg(format!("--nvml.library={}", library.display()))
            .args(checks)
            .env(name, log)
            .output()
            .unwrap();
        let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let rows = document["checks"].as_array().unwrap().clone();
        (output.status.code(), rows.into_iter().map(|row| row["read"].as_str().unwrap().to_owned()).collect::<Vec<_>>())
    };
    let (status, read) = run();
    assert_eq!((status, read[0].as_str()), (Some(0), "on for 2 GPUs"), "{read:?}");
    node.set(1, "persistence_mode", 0.0).unwrap();
    node.set(0, "pcie_width", 8.0).unwrap();
    let (status, read) = run();
    assert_eq!((status, read[0].as_str()), (Some(1), "off for GPU 1"));
    assert!(read[1].starts_with("GPU 0 x8 of x16, "), "{read:?}");
}

/// What the chart and the GPU Operator give dcgm-exporter.
#[test]
fn a_command_line_of_dcgm_exporter_starts_unchanged() {
    let args = ["-f", "/etc/dcgm-exporter/dcp-metrics-included.csv", "-c", "30000", "-k", "--no-hostname=false"];
    let variables = [
        ("DCGM_EXPORTER_KUBERNETES_ENABLE_POD_LABELS", "true"),
        ("DCGM_REMOTE_HOSTENGINE_INFO", "localhost:5555"),
        ("NODE_NAME", "node-7"),
    ];
    let output = exporter(&["print", "--log.level=warn", "--nvml.library=/no/such/libnvidia-ml.so"])
        .args(args)
        .envs(variables)
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let warned: Vec<_> = stderr(&output).lines().filter(|line| line.contains("WARN")).collect();
    let parts =
        ["dcp-metrics-included.csv: ", "--collect-interval ", "--remote-hostengine-info ", "-enable-pod-labels "];
    for part in parts {
        assert_eq!(warned.iter().filter(|line| line.contains(part)).count(), 1, "{part}: {warned:#?}");
    }
}

#[test]
fn a_counters_file_selects_what_is_served_and_is_read_again() {
    let folder = tempfile::tempdir().unwrap();
    let list = folder.path().join("list.csv");
    fs::write(&list, "DCGM_FI_DEV_POWER_USAGE, gauge, Power, in watts.\nDCGM_FI_DEV_SERIAL, label, Serial number.\n")
        .unwrap();
    let fake = FakeNvml::build().unwrap();
    let node = FakeNode::new(folder.path(), &NodeSpec::h100(1)).unwrap();
    let library = format!("--nvml.library={}", fake.path().display());
    let path = list.display().to_string();
    let mut serving =
        Serving::start(&[&library, "--collectors", &path], &[node.env()].map(|(n, v)| (n, v.to_str().unwrap())));
    let families = |text: &str| {
        let declared = text.lines().filter_map(|line| line.strip_prefix("# TYPE DCGM_"));
        declared.map(str::to_owned).collect::<Vec<_>>()
    };
    while !serving.get("/-/ready").starts_with("HTTP/1.1 200") {
        std::thread::yield_now();
    }
    let text = serving.get("/metrics");
    assert_eq!(families(&text), ["FI_DEV_POWER_USAGE gauge"], "{text}");
    assert!(text.contains("# HELP DCGM_FI_DEV_POWER_USAGE Power, in watts.\n"), "{text}");
    let line = text.lines().find(|line| line.starts_with("DCGM_FI_DEV_POWER_USAGE{")).unwrap();
    assert!(line.contains("DCGM_FI_DEV_SERIAL=") && !line.contains("DCGM_FI_DRIVER_VERSION="), "{line}");
    assert!(text.contains("\ngoodput_gpu_info{"));

    let until = |serving: &mut Serving, part: &str| {
        let mut line = String::new();
        while !line.contains(part) {
            line.clear();
            assert_ne!(serving.log.read_line(&mut line).unwrap(), 0);
        }
        line
    };
    fs::write(&list, "DCGM_FI_DEV_GPU_TEMP\n").unwrap();
    serving.signal("HUP");
    let line = until(&mut serving, "kept the counters as they were");
    assert!(line.contains("list.csv: line 1: expected three columns: field, type, help"), "{line}");
    fs::write(&list, "DCGM_FI_DEV_GPU_TEMP, gauge, Temperature.\n").unwrap();
    serving.signal("HUP");
    until(&mut serving, "list.csv again");
    while families(&serving.get("/metrics")) != ["FI_DEV_GPU_TEMP gauge"] {
        std::thread::yield_now();
    }
    assert!(serving.stop("TERM").0.success());
}

/// As systemd does it: the socket is descriptor 3, the variables name the process.
#[test]
#[allow(clippy::disallowed_methods, reason = "a shell moves the descriptor")]
fn a_socket_of_systemd_is_served_on() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let program = exporter(&[]).get_program().to_owned();
    let script = "exec 3<&0 </dev/null; LISTEN_PID=$$ LISTEN_FDS=1 exec \"$0\" \"$@\"";
    let child = Command::new("sh")
        .args(["-c", script])
        .arg(&program)
        .args(["--web.systemd-socket", "--nvml.library=/no/such/libnvidia-ml.so"])
        .stdin(Stdio::from(std::os::fd::OwnedFd::from(listener)))
        .stderr(Stdio::piped())
        .spawn();
    let mut child = child.unwrap();
    let log = BufReader::new(child.stderr.take().unwrap());
    let serving = Serving { child, address: address.to_string(), log };
    assert!(serving.get("/-/healthy").starts_with("HTTP/1.1 200"));
    assert!(serving.stop("TERM").0.success());

    let output = run(&["--web.systemd-socket"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("expected sockets from systemd"), "{}", stderr(&output));
}
