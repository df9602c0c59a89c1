//! What README and docs tell people to type, typed: every command runs, every snippet is accepted, every flag exists.
//!
//! The commands run as they stand, with these substitutions and no others:
//! * They run in a scratch tree of links to this repository, with a temporary folder of its own.
//! * [`CARGO`] stands for cargo: a release build costs CI a quarter of an hour. The programs under test lie where such a
//!   build would have put them, and in the `PATH`, as if installed.
//! * `make demo` makes [`PART_OF_THE_WEEK`] instead of all of it, which takes minutes.
//! * What installs packages is only read: they must be those that `deploy/package` makes. The programs of the unpacked
//!   archive are those under test.
//! * Ports are free ones, `why` looks at the exporter that runs here, and for [`BRIEFLY`].

use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, SystemTime};

use anyhow::{Context as _, Result, ensure};
use goodput_lab::bin;
use goodput_lab::gpu::{FakeNode, FakeNvml, NodeSpec};
use goodput_lab::process::{Running, free_address, signal_group, until};
use goodput_tests::prometheus::Prometheus;

/// Folders of `docs/` with pages, besides the runbooks.
const ROOMS: [&str; 3] = ["use", "reference", "internals"];

/// How one command of the README is run, and what is expected of it.
type Check = fn(&World, &str) -> Result<()>;

/// Every command of the README; the second part says how CI runs it.
const COMMANDS: &[(&str, Check)] = &[
    (
        "helm install goodput target/dist/goodput-0.2.0.tgz -n goodput --create-namespace --set analyzer.source=scrape",
        installs,
    ),
    ("helm test goodput -n goodput --logs", installs),
    ("apt install ./goodput-exporter_0.2.0-1_amd64.deb", installs),
    ("apt install ./goodput-analyzer_0.2.0-1_amd64.deb", installs),
    ("goodput-slurm-targets /etc/goodput/targets/slurm.json", installs),
    ("goodput-analyzer why --target node1:9400 --for 60s", why),
    ("tar xf goodput-0.2.0-linux-amd64.tar.gz", installs),
    ("goodput-0.2.0-linux-amd64/goodput-exporter audit", audit),
    ("goodput-0.2.0-linux-amd64/goodput-analyzer why --for 60s", why_alone),
    ("make run", comes_up),
    ("make demo", demo),
    ("make test", is_what_ci_runs),
    ("make test-long PART=store", is_a_long_form),
    ("cargo build --release -p goodput-exporter", |w, c| w.succeeds(c, "")),
    ("target/release/goodput-exporter print", |w, c| w.succeeds(c, "goodput_node_info{")),
    ("target/release/goodput-exporter audit", audit),
    ("target/release/goodput-exporter catalog", |w, c| w.succeeds(c, "goodput_gpu_busy_seconds_total")),
    ("goodput-exporter", exporter),
    ("goodput-analyzer why --target localhost:9400", why),
    ("goodput-analyzer why --target gpu-node:9400 --for 60s", why),
    ("goodput-analyzer serve --config.file=goodput.yml", serve),
    ("goodput-analyzer try --prometheus http://prometheus:9090", try_out),
    ("goodput-analyzer report --week 2026-W47 --format markdown|html|json|csv|csv-accounts|csv-intervals", report),
];

/// The last hours of the week, after which it goes on live.
const PART_OF_THE_WEEK: &str = "--hours 166..168";

/// The least that `why` takes.
const BRIEFLY: &str = "--for 5s";

/// Stands for cargo: says whether what it is asked to build is a program of this workspace.
const CARGO: &str = r#"#!/bin/bash
words=$*
words=${words/ --locked/}
[[ $words == "build --release" ]] && exit
program=${words##* }
for asked in -p --bin; do
  if [[ $words == "build --release $asked $program" && -x target/release/$program ]]; then exit; fi
done
echo "expected: cargo build --release [--locked] [-p PROGRAM or --bin PROGRAM]; found: cargo $*" >&2
exit 101
"#;

const PROGRAMS: [&str; 2] = ["goodput-exporter", "goodput-analyzer"];

#[test]
fn every_command_of_the_readme_runs() -> Result<()> {
    let text = read("README.md")?;
    let commands = commands(&text);
    for command in &commands {
        let known = COMMANDS.iter().any(|(known, _)| known == command);
        assert!(
            known,
            "README.md has a command that no test runs: `{command}`; add to COMMANDS in {} how it is run",
            file!()
        );
    }
    let world = World::new()?;
    for (command, check) in COMMANDS {
        assert!(commands.iter().any(|c| c == command), "`{command}` is not in README.md; take it out of COMMANDS");
        check(&world, command).with_context(|| format!("README.md: `{command}`"))?;
    }
    Ok(())
}

#[test]
fn the_snippets_of_the_readme_are_accepted() -> Result<()> {
    let (world, text) = (World::new()?, read("README.md")?);
    let snippets = snippets(&text);
    let analyzer = "goodput-analyzer check-config --config.file";
    let judges = [("remote_write:", "promtool check config"), ("scrape:", analyzer), ("prices:", analyzer)];
    assert_eq!(snippets.len(), judges.len(), "one for each of {judges:?}: {snippets:?}");
    for (key, judge) in judges {
        let snippet =
            snippets.iter().find(|s| s.starts_with(key)).with_context(|| format!("README.md has no {key}"))?;
        fs::write(world.tree.join("snippet.yml"), snippet)?;
        world.succeeds(&format!("{judge} snippet.yml"), "")?;
    }
    Ok(())
}

#[test]
fn every_page_is_in_the_index_and_every_link_leads_to_a_file() -> Result<()> {
    let index = read("docs/README.md")?;
    for folder in ROOMS {
        for page in pages(&format!("docs/{folder}"))? {
            let name = page.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            ensure!(index.contains(&format!("| [{name}]({folder}/{name}) |")), "docs/README.md has no {folder}/{name}");
        }
    }
    let mut dead = Vec::new();
    let rooms = ROOMS.map(|room| format!("docs/{room}"));
    let others = [".", "docs", "docs/runbooks", "tests/lab", "tests/scenarios"].map(str::to_owned);
    for folder in others.iter().chain(&rooms) {
        for page in pages(folder)? {
            let text = fs::read_to_string(&page)?;
            let links = text.split("](").skip(1).filter_map(|rest| rest.split([')', '#']).next());
            let files = links.filter(|link| !link.is_empty() && !link.contains("://"));
            let gone = files.filter(|link| !page.with_file_name(link).try_exists().unwrap_or(false));
            dead.extend(gone.map(|link| format!("{}: {link}", page.display())));
        }
    }
    ensure!(dead.is_empty(), "links to files that are not there:\n{}", dead.join("\n"));
    Ok(())
}

#[test]
fn every_flag_in_the_docs_exists() -> Result<()> {
    let world = World::new()?;
    let mut files = vec![root().join("README.md")];
    for folder in ["docs/runbooks".to_owned()].into_iter().chain(ROOMS.map(|room| format!("docs/{room}"))) {
        files.extend(pages(&folder)?);
    }
    let mut seen = 0;
    for file in files {
        let text = fs::read_to_string(&file)?;
        for call in blocks(&text).into_iter().flat_map(|block| calls(block.text)) {
            let flags =
                call.words.iter().filter(|word| word.starts_with("--")).filter_map(|word| word.split('=').next());
            let command = call.words.first().filter(|word| !word.starts_with('-')).copied().unwrap_or_default();
            let mut help = world.output(&format!("{} {command} --help", call.program))?;
            // A command of a command, as in `store verify`.
            let listed = |word: &&&str| String::from_utf8_lossy(&help.stdout).contains(&format!("\n  {word} "));
            if let Some(inner) = call.words.get(1).filter(|word| !word.starts_with('-')).filter(listed) {
                help = world.output(&format!("{} {command} {inner} --help", call.program))?;
            }
            let page = file.display();
            ensure!(help.status.success(), "{page}: {} has no command {command}", call.program);
            let help = String::from_utf8_lossy(&help.stdout).replace("--[no-]", "--no-");
            for flag in flags {
                let known = help.contains(flag) || help.contains(&flag.replacen("--", "--no-", 1));
                ensure!(known, "{page}: {} {command} has no flag {flag}", call.program);
                seen += 1;
            }
        }
    }
    assert!(seen > 5, "only {seen} flags were found in the docs");
    Ok(())
}

/// A fenced block.
struct Block<'a> {
    language: &'a str,
    text: &'a str,
}

fn blocks(markdown: &str) -> Vec<Block<'_>> {
    let fenced = markdown.split("```").skip(1).step_by(2);
    fenced.filter_map(|block| block.split_once('\n')).map(|(language, text)| Block { language, text }).collect()
}

/// Every line of a `sh` block, what stands behind a prompt in others, and inline code that calls a program with arguments.
fn commands(readme: &str) -> Vec<String> {
    let mut found = Vec::new();
    for block in blocks(readme) {
        let typed = |line| if block.language == "sh" { Some(line) } else { str::strip_prefix(line, "$ ") };
        let typed = block.text.lines().filter_map(typed).map(uncommented);
        found.extend(typed.filter(|line| !line.is_empty()).map(str::to_owned));
    }
    let prose: String = readme.split("```").step_by(2).collect();
    let inline =
        prose.split('`').skip(1).step_by(2).filter(|code| PROGRAMS.iter().any(|p| code.starts_with(&format!("{p} "))));
    found.extend(inline.map(str::to_owned));
    found
}

fn uncommented(line: &str) -> &str {
    line.split(" #").next().unwrap_or_default().trim()
}

fn snippets(readme: &str) -> Vec<&str> {
    blocks(readme).into_iter().filter(|block| block.language == "yaml").map(|block| block.text).collect()
}

/// A call of one of our programs.
struct Call<'a> {
    program: &'a str,
    words: Vec<&'a str>,
}

fn calls(block: &str) -> Vec<Call<'_>> {
    let typed = block.lines().map(|line| uncommented(line.trim_start_matches("$ ")));
    typed.flat_map(|line| line.split(['|', ';', '>', '&'])).filter_map(call).collect()
}

fn call(part: &str) -> Option<Call<'_>> {
    let mut words = part.split_ascii_whitespace();
    let program = words.next()?.rsplit('/').next()?;
    PROGRAMS.contains(&program).then(|| Call { program, words: words.collect() })
}

/// The Markdown files of a folder of this repository.
fn pages(folder: &str) -> Result<Vec<PathBuf>> {
    let all = fs::read_dir(root().join(folder))?.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
    Ok(all.into_iter().filter(|path| path.extension().is_some_and(|end| end == "md")).collect())
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn read(name: &str) -> Result<String> {
    fs::read_to_string(root().join(name)).with_context(|| name.to_owned())
}

/// Where commands run: a tree like a clone after a release build, and a node with a GPU in use.
struct World {
    dir: tempfile::TempDir,
    tree: PathBuf,
    node: FakeNode,
}

impl World {
    fn new() -> Result<Self> {
        let dir = tempfile::tempdir()?;
        let [tree, path, temporary] = ["tree", "bin", "tmp"].map(|name| dir.path().join(name));
        let release = tree.join("target/release");
        for folder in [&release, &path, &temporary] {
            fs::create_dir_all(folder)?;
        }
        for entry in fs::read_dir(root())? {
            let entry = entry?;
            if entry.file_name() != "target" {
                symlink(fs::canonicalize(entry.path())?, tree.join(entry.file_name()))?;
            }
        }
        for program in PROGRAMS {
            for folder in [&release, &path] {
                symlink(bin(program)?, folder.join(program))?;
            }
        }
        symlink(bin("goodput-demo")?, release.join("goodput-demo"))?;
        fs::write(path.join("cargo"), CARGO)?;
        fs::set_permissions(path.join("cargo"), fs::Permissions::from_mode(0o755))?;
        let node = FakeNode::new(dir.path(), &NodeSpec::h100(1))?;
        Ok(Self { dir, tree, node })
    }

    /// The command as a user types it in the tree.
    #[allow(clippy::disallowed_methods, reason = "runs what the README says")]
    fn shell(&self, command: &str) -> Result<Command> {
        let mut shell = Command::new("bash");
        let path = format!("{}:{}", self.dir.path().join("bin").display(), std::env::var("PATH")?);
        shell.args(["-c", command]).current_dir(&self.tree).env("PATH", path).env("TMPDIR", self.temporary());
        // The make that runs the tests must not speak to the one that the README starts.
        shell.env_remove("MAKEFLAGS").env_remove("MAKELEVEL").env_remove("MFLAGS");
        Ok(shell)
    }

    fn temporary(&self) -> PathBuf {
        self.dir.path().join("tmp")
    }

    fn output(&self, command: &str) -> Result<Output> {
        Ok(self.shell(command)?.output()?)
    }

    /// Runs it to its end, which must be a success, with this in its output.
    fn succeeds(&self, command: &str, expected: &str) -> Result<()> {
        let output = self.output(command)?;
        let (text, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        ensure!(output.status.success(), "{command} ended with {}: {text}{errors}", output.status);
        let beginning: String = text.chars().take(2000).collect();
        ensure!(text.contains(expected), "{command} says nothing of {expected}: {beginning}{errors}");
        Ok(())
    }

    /// Starts it, in a process group of its own.
    fn start(&self, command: &str, settings: &[(&str, &str)]) -> Result<Started> {
        let mut shell = self.shell(command)?;
        shell.process_group(0).envs(settings.iter().copied());
        Ok(Started { running: Running::start(&mut shell, &self.dir.path().join("started.log"))? })
    }

    /// Starts the exporter over the fake GPU, waits until it shows that, and says where it listens.
    fn exporter(&self, command: &str) -> Result<(Started, SocketAddr)> {
        let (address, library) = (free_address()?, FakeNvml::build()?);
        let mut shell = self.shell(&format!("exec {command}"))?;
        shell.env("GOODPUT_EXPORTER_WEB_LISTEN_ADDRESS", address.to_string());
        shell.env("GOODPUT_EXPORTER_NVML_LIBRARY", library.path()).envs([self.node.env()]).process_group(0);
        let mut started = Started { running: Running::start(&mut shell, &self.dir.path().join("exporter.log"))? };
        started.running.until_listens(address)?;
        until("metrics of the GPU", Duration::from_secs(60), || {
            let metrics = get(&format!("http://{address}/metrics"))?;
            Ok(metrics.contains("DCGM_FI_DEV_GPU_UTIL{").then_some(()))
        })?;
        Ok((started, address))
    }
}

/// A running command; whatever it has started ends with it.
struct Started {
    running: Running,
}

impl Drop for Started {
    fn drop(&mut self) {
        signal_group(self.running.pid(), libc::SIGKILL);
    }
}

fn get(url: &str) -> Result<String> {
    Ok(ureq::get(url).call().with_context(|| url.to_owned())?.body_mut().read_to_string()?)
}

/// Both programs come up, every address that is printed answers, Ctrl-C leaves nothing behind.
fn comes_up(world: &World, command: &str) -> Result<()> {
    let (exporter, analyzer) = (free_address()?, free_address()?);
    let addresses = [("EXPORTER_ADDRESS", exporter.to_string()), ("ANALYZER_ADDRESS", analyzer.to_string())];
    let mut started = world.start(command, &addresses.each_ref().map(|(name, value)| (*name, value.as_str())))?;
    let text = until("the addresses to be printed", Duration::from_secs(300), || {
        started.running.goes_on()?;
        Ok(Some(started.running.log_text()).filter(|text| text.contains("Ctrl-C")))
    })?;
    let urls: Vec<_> = text.split_whitespace().filter(|word| word.starts_with("http://")).collect();
    ensure!(urls.len() >= 3, "expected the addresses of metrics, analyzer and report: {text}");
    for url in urls {
        ensure!(!get(url)?.is_empty(), "{url} answers nothing");
    }
    started.running.interrupt()?;
    until("its processes to end", Duration::from_secs(90), || {
        Ok((!signal_group(started.running.pid(), 0)).then_some(()))
    })?;
    for address in [exporter, analyzer] {
        ensure!(TcpStream::connect(address).is_err(), "something still listens on {address}");
    }
    let left: Vec<_> = fs::read_dir(world.temporary())?.filter_map(Result::ok).map(|entry| entry.path()).collect();
    ensure!(left.is_empty(), "it left {left:?}");
    Ok(())
}

/// A week is made, reported, and goes on live.
fn demo(world: &World, command: &str) -> Result<()> {
    comes_up(world, &format!("{command} ARGS='{PART_OF_THE_WEEK}'"))
}

/// This test is part of it: running it here would run for ever.
fn is_what_ci_runs(_: &World, command: &str) -> Result<()> {
    ensure!(read(".ci/run")?.lines().any(|line| line == command), ".ci/run does not call it");
    let makefile = read("Makefile")?;
    for part in ["--lib --bins --test '[a-f]*'", "--test '[g-z]*'", "--doc"] {
        let runs = |line: &str| line.starts_with("\tcargo test --workspace --locked ") && line.ends_with(part);
        ensure!(makefile.lines().any(runs), "Makefile does not run every test: {part}");
    }
    Ok(())
}

/// Names what `deploy/package` makes of this version, in the places that packages have.
fn installs(_: &World, command: &str) -> Result<()> {
    let version = env!("CARGO_PKG_VERSION");
    let made = [
        format!("goodput-{version}.tgz"),
        format!("goodput-{version}-linux-amd64.tar.gz"),
        format!("goodput-exporter_{version}-1_amd64.deb"),
        format!("goodput-analyzer_{version}-1_amd64.deb"),
    ];
    let archives = command.split(['/', ' ']).filter(|word| word.contains(version));
    for archive in archives {
        ensure!(made.iter().any(|made| made == archive), "deploy/package makes no {archive}");
    }
    let holds = |file: &str, text: &str| -> Result<()> {
        ensure!(read(file)?.contains(text), "{file} has no {text}");
        Ok(())
    };
    holds("deploy/helm/goodput/values.schema.json", "\"enum\": [\"remoteWrite\", \"scrape\"")?;
    holds("deploy/helm/goodput/templates/tests/why.yaml", "helm.sh/hook: test")?;
    holds("deploy/debian/nfpm-analyzer.yaml", "dst: /usr/bin/goodput-slurm-targets")
}

/// Takes too long to be run: the target is there and knows the part, whose short form every run has.
fn is_a_long_form(_: &World, command: &str) -> Result<()> {
    let part = command.rsplit_once('=').context("a part")?.1;
    ensure!(read("Makefile")?.contains("\ntest-long: "), "Makefile has no target test-long");
    ensure!(
        read("deploy/local/test-long")?.contains(&format!("\n  {part})\n")),
        "deploy/local/test-long has no {part}"
    );
    Ok(())
}

/// A failed check is an answer about this machine, with status 1.
fn audit(world: &World, command: &str) -> Result<()> {
    let output = world.output(&unpacked(command))?;
    let text = String::from_utf8_lossy(&output.stdout);
    ensure!(matches!(output.status.code(), Some(0 | 1)), "it ended with {}: {text}", output.status);
    ensure!(text.contains("NOT APPLICABLE (") && text.contains(": --all shows them"), "checks are not folded: {text}");
    Ok(())
}

/// It serves the GPU's metrics, and the help shows its default port.
fn exporter(world: &World, command: &str) -> Result<()> {
    let (_started, _address) = world.exporter(command)?;
    world.succeeds("goodput-exporter --help", ":9400")
}

fn why(world: &World, command: &str) -> Result<()> {
    // Before the exporter reads for the first time: it looks for processes less often than `why` looks at it here.
    let pid = std::process::id();
    world.node.process(0, pid, 1 << 30)?;
    // And since before that: the first look at the utilization, which holds for ten seconds, is at the time before it.
    world.node.busy(0, SystemTime::now() - Duration::from_secs(30), Duration::from_secs(150), Some(pid))?;
    let (_started, address) = world.exporter("goodput-exporter")?;
    let targets = ["gpu-node:9400", "localhost:9400", "node1:9400"];
    let here = targets.iter().fold(command.to_owned(), |c, t| c.replace(t, &address.to_string()));
    let brief = format!("{} {BRIEFLY} --verbose", here.trim_end_matches("--for 60s"));
    world.succeeds(&brief, "productive: The GPU was busy.")
}

/// The exporter that it starts sees the fake GPU.
fn why_alone(world: &World, command: &str) -> Result<()> {
    let mut shell = world.shell(&unpacked(command).replace("--for 60s", BRIEFLY))?;
    shell.env("GOODPUT_EXPORTER_NVML_LIBRARY", FakeNvml::build()?.path()).envs([world.node.env()]);
    let output = shell.output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    ensure!(output.status.success() && text.contains("damage  "), "{text}{}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}

/// The programs of the archive are those under test.
fn unpacked(command: &str) -> String {
    command.replace(&format!("goodput-{}-linux-amd64/", env!("CARGO_PKG_VERSION")), "target/release/")
}

/// With the README's own configuration, whose targets are the exporter that runs here.
fn serve(world: &World, command: &str) -> Result<()> {
    let (_exporter, target) = world.exporter("goodput-exporter")?;
    let text = read("README.md")?;
    let config = snippets(&text).into_iter().find(|s| s.starts_with("scrape:")).context("README.md has no scrape:")?;
    let config = config.replace("'node1:9400', 'node2:9400'", &format!("'{target}'"));
    ensure!(config.contains(&target.to_string()), "its targets are no longer node1 and node2: {config}");
    fs::write(world.tree.join("goodput.yml"), config)?;
    let address = free_address()?;
    let mut started = world.start(&format!("exec {command} --web.listen-address={address}"), &[])?;
    started.running.until_listens(address)?;
    ensure!(get(&format!("http://{address}/report"))?.contains("<html"), "no page at /report");
    Ok(())
}

/// Of a Prometheus without GPUs it says so.
fn try_out(world: &World, command: &str) -> Result<()> {
    let prometheus = Prometheus::start(world.dir.path(), &[], None)?;
    let here = command.replace("prometheus:9090", &prometheus.address().to_string());
    let output = world.output(&here)?;
    let told = String::from_utf8_lossy(&output.stderr);
    ensure!(!output.status.success() && told.contains("no metric of GPUs"), "{command}: {told}");
    Ok(())
}

/// Reads what [`serve`] has stored, in each form that the README names.
fn report(world: &World, command: &str) -> Result<()> {
    let (call, forms) = command.rsplit_once(' ').context("no forms")?;
    for form in forms.split('|') {
        // The directory has no verdicts.
        let output = world.output(&format!("{call} {form}"))?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.code() == Some(3) && said.contains("no data for 2026-W47"), "{form}: {said}");
    }
    Ok(())
}
