//! A real browser looks at the pages of a real analyzer: from the fleet to the evidence, by mouse and by keyboard.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, SystemTime};

use anyhow::{Context as _, Result};
use goodput_analyzer::report::text;
use goodput_lab::process::until;
use goodput_lab::remote_write::{TimeSeries, send};
use goodput_lab::report::Interval;
use goodput_tests::axe;
use goodput_tests::browser::Browser;
use goodput_tests::programs::Analyzer;
use serde_json::json;

const HOURS: i64 = 6;
const HOUR_MS: i64 = 3_600_000;
const MINUTE_MS: i64 = 60_000;
const SCRAPE_MS: i64 = 30_000;

/// Names that are markup, a path, an escape and a query at once.
const NODES: [&str; 2] = ["gpu-node-1", "<b>n2</b>/50%?x=1&y"];
const OWNERS: [&str; 4] = ["job_4711", "job_4712", "pod_<i>ml/train</i>", "job_4713"];

/// A GPU: its node, who holds it, and what it does in each minute: the share that is work, and that its job waits for reads.
struct Gpu {
    uuid: String,
    node: &'static str,
    owner: Option<&'static str>,
    course: fn(i64) -> (f64, f64),
}

fn gpus() -> Vec<Gpu> {
    let gpu = |n: usize, node, owner, course| {
        let uuid = format!("GPU-0000{n}330-0000-4000-8000-00000000000{n}");
        Gpu { uuid, node, owner, course }
    };
    vec![
        gpu(
            0,
            NODES[0],
            Some(OWNERS[0]),
            |minute| if (120..192).contains(&minute) { (0.1, 0.85) } else { (0.95, 0.01) },
        ),
        gpu(1, NODES[0], Some(OWNERS[1]), |minute| if minute % 20 < 2 { (0.3, 0.7) } else { (0.9, 0.02) }),
        gpu(2, NODES[0], Some(OWNERS[3]), |minute| if minute < 150 { (0.8, 0.02) } else { (0.0, 0.0) }),
        gpu(3, NODES[0], None, |_| (0.0, 0.0)),
        gpu(4, NODES[1], Some(OWNERS[2]), |minute| if minute % 90 < 25 { (0.2, 0.6) } else { (1.0, 0.01) }),
        gpu(5, NODES[1], None, |_| (0.0, 0.0)),
    ]
}

/// What exporters on the nodes would have told from `start` on.
fn history(start: i64) -> Vec<TimeSeries> {
    let times = || (0..=HOURS * HOUR_MS / SCRAPE_MS).map(move |n| n * SCRAPE_MS);
    let level = |value: f64| times().map(move |time| (start + time, value));
    let total = |share: &dyn Fn(i64) -> f64| -> Vec<(i64, f64)> {
        let mut sum = 0.0;
        let add = |time: i64| {
            let sample = (start + time, sum);
            sum += share(time / MINUTE_MS) * SCRAPE_MS as f64 / 1000.0;
            sample
        };
        times().map(add).collect()
    };
    let mut all = Vec::new();
    for node in NODES {
        all.push(TimeSeries::new(
            &[("__name__", "node_uname_info"), ("nodename", node), ("instance", node)],
            level(1.0),
        ));
    }
    for Gpu { uuid, node, owner, course } in gpus() {
        let about =
            [("UUID", uuid.as_str()), ("Hostname", node), ("instance", node), ("modelName", "NVIDIA H100 80GB HBM3")];
        let with = |name, more: &[(&'static str, &'static str)]| [&[("__name__", name)], &about[..], more].concat();
        all.push(TimeSeries::new(&with("goodput_gpu_busy_seconds_total", &[]), total(&|minute| course(minute).0)));
        all.push(TimeSeries::new(&with("goodput_gpu_observed_seconds_total", &[]), total(&|_| 1.0)));
        let used = if owner.is_some() { 60_000.0 } else { 0.0 };
        all.push(TimeSeries::new(&with("DCGM_FI_DEV_FB_USED", &[]), level(used)));
        let Some(owner) = owner else { continue };
        all.push(TimeSeries::new(&with("goodput_gpu_owner_info", &[("owner", owner)]), level(1.0)));
        let of = |name, more: &[(&'static str, &'static str)]| {
            [&[("__name__", name), ("owner", owner), ("instance", node)], more].concat()
        };
        let waiting = of("goodput_cgroup_pressure_waiting_seconds_total", &[("resource", "io")]);
        all.push(TimeSeries::new(&waiting, total(&|minute| course(minute).1)));
        // Workers that wait for reads do not compute.
        let computing = total(&|minute| 2.0 * (1.0 - course(minute).1));
        all.push(TimeSeries::new(&of("goodput_cgroup_cpu_usage_seconds_total", &[]), computing));
        all.push(TimeSeries::new(&of("goodput_cgroup_allowed_cpus", &[]), level(16.0)));
    }
    all
}

/// An analyzer that has judged the history, which begins at the returned time.
fn judged(dir: &Path) -> Result<(Analyzer, i64)> {
    let now = jiff::Timestamp::now().as_millisecond();
    let start = now.div_euclid(HOUR_MS) * HOUR_MS - HOURS * HOUR_MS;
    let analyzer = Analyzer::start(dir)?;
    assert_eq!(send(analyzer.address, history(start))?, 204);
    // What was missed while it was down is judged at once; what comes in later, within a minute.
    analyzer.running.terminate()?;
    let analyzer = Analyzer::start(dir)?;
    until("every hour to be judged", Duration::from_secs(300), || {
        let intervals = csv(&analyzer, start)?;
        let judged: f64 = intervals.iter().map(|i| i.gpu_seconds).sum();
        Ok((judged >= gpus().len() as f64 * HOURS as f64 * 3600.0).then_some(()))
    })?;
    Ok((analyzer, start))
}

/// The intervals of the report's CSV form.
fn csv(analyzer: &Analyzer, start: i64) -> Result<Vec<Interval>> {
    let time = |ms: i64| SystemTime::UNIX_EPOCH + Duration::from_millis(ms.unsigned_abs());
    let mut intervals = analyzer.intervals(time(start), time(start + HOURS * HOUR_MS - 1))?;
    intervals.retain(|i| i.end <= time(start + HOURS * HOUR_MS));
    Ok(intervals)
}

fn hours(intervals: &[Interval], of: impl Fn(&Interval) -> bool) -> String {
    let seconds: f64 = intervals.iter().filter(|i| of(i)).map(|i| i.gpu_seconds).sum();
    text::hours((seconds * 1000.0).round() as i64)
}

/// The pages' text as people see it.
const CONTENT: &str = "document.querySelector('main').innerText.replaceAll(/\\s+/g, ' ')";

/// The link of the long stretch in which the first GPU starved.
const STARVED: &str = "[...document.querySelectorAll('svg.strip a')].find(a => \
    a.querySelector('title').textContent.startsWith('dataloader_storage, ') && a.getBBox().width > 100)";

#[test]
fn a_browser_goes_from_the_fleet_to_the_evidence() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let (analyzer, start) = judged(dir.path())?;
    let intervals = csv(&analyzer, start)?;
    let rfc3339 = |ms| jiff::Timestamp::from_millisecond(ms).map(|time| time.to_string());
    let home = format!("http://{}/", analyzer.address);
    let fleet = format!("{home}?start={}&end={}", rfc3339(start)?, rfc3339(start + HOURS * HOUR_MS)?);
    let starved = &gpus()[0].uuid;
    let mut browser = Browser::start(dir.path())?;
    browser.look(1280, false)?;

    browser.open(&fleet)?;
    let seen = browser.text(CONTENT)?;
    let whole = hours(&intervals, |_| true);
    assert!(seen.contains(&format!("% of {whole} GPU-hours")), "{whole}: {seen}");
    assert!(seen.contains(NODES[1]), "a name is shown as it is: {seen}");
    let spoken = browser.spoken()?;
    let is_spoken = |role: &str, name: &str| spoken.iter().any(|s| s.role == role && s.name == name);
    assert!(is_spoken("heading", "Fleet") && is_spoken("link", NODES[0]) && is_spoken("link", NODES[1]), "{spoken:#?}");

    browser.follow_by_mouse(&link_to(NODES[1]))?;
    assert_eq!(browser.text("document.querySelector('h1').innerText")?, format!("Node {}", NODES[1]));
    browser.open(&fleet)?;
    browser.follow_by_mouse(&link_to(NODES[0]))?;
    browser.follow_by_mouse(&format!("document.querySelector('.laneName a[title=\"{starved}\"]')"))?;
    let seen = browser.text(CONTENT)?;
    let lost = hours(&intervals, |i| i.gpu == *starved && i.class == "dataloader_storage");
    assert!(seen.contains(&format!("dataloader_storage {lost} ")), "{lost} of the CSV are not in {seen}");
    let name = browser.text(&format!("{STARVED}.querySelector('title').textContent"))?;
    let spoken = browser.spoken()?;
    assert!(spoken.iter().any(|s| s.role == "link" && s.name == name), "{name} is not a link's name: {spoken:#?}");

    browser.follow_by_mouse(&format!("{STARVED}.querySelector('path')"))?;
    let by_mouse = browser.text("location.href")?;
    let seen = browser.text(CONTENT)?;
    for part in ["job_io_pressure 85 % of the time", "threshold", "What to do", OWNERS[0]] {
        assert!(seen.contains(part), "{part} is not in {seen}");
    }
    let drawn =
        browser.eval("[...document.querySelectorAll('figure')].map(f => f.querySelectorAll('path.mean').length)")?;
    assert!(
        drawn.as_array().is_some_and(|charts| charts.len() >= 3 && charts.iter().all(|lines| *lines == json!(1))),
        "{drawn}"
    );

    acts(&mut browser, &fleet)?;

    browser.open(&fleet)?;
    browser.press_until("Tab", &format!("e.innerText === {}", json!(NODES[0])))?;
    browser.follow_by_keyboard()?;
    browser.press_until("Tab", &format!("e.title === '{starved}'"))?;
    browser.follow_by_keyboard()?;
    browser.press_until("Tab", "e.closest('svg.strip')")?;
    browser.press_until("ArrowRight", &format!("e === {STARVED}"))?;
    let hint = browser.text("document.querySelector('.hint').textContent")?;
    assert_eq!(hint, name, "what has the focus is said");
    browser.follow_by_keyboard()?;
    assert_eq!(browser.text("location.href")?, by_mouse, "both ways lead to the same page");

    looks(&mut browser, &fleet, &by_mouse)?;
    // That someone else was first is an answer 412, of which browsers complain.
    let mut complaints = browser.complaints(&home);
    complaints.retain(|complaint| !(complaint.contains("412") && complaint.contains("/events\"")));
    assert_eq!(complaints, Vec::<String>::new());
    Ok(())
}

/// From the first finding to its evidence, and over the run to its GPU; a search and a period by their forms.
fn acts(browser: &mut Browser, fleet: &str) -> Result<()> {
    browser.open(fleet)?;
    browser.follow_by_mouse("document.querySelector('.findings tbody th > a')")?;
    let evidence = browser.text("location.pathname")?;
    assert!(evidence.ends_with("/evidence"), "{evidence}");
    let copied = browser.text(
        "new Promise(done => { navigator.clipboard.writeText = async text => done(text); \
         document.querySelector('pre + button.copy').click(); })",
    )?;
    assert_eq!(copied, browser.text("document.querySelector('pre').textContent")?);

    browser.open(fleet)?;
    browser.follow_by_mouse("document.querySelector('nav.top a[href=\"/runs\"]')")?;
    browser.follow_by_mouse(&link_to(OWNERS[0]))?;
    let seen = browser.text(CONTENT)?;
    assert!(seen.contains("Late input from storage") && seen.contains("Its GPUs over time"), "{seen}");
    browser.follow_by_mouse("document.querySelector('.laneName a')")?;
    assert!(browser.text("location.pathname")?.starts_with("/gpus/GPU-"));

    let search = "document.querySelector('input[type=search]')";
    browser.eval(&format!("{search}.value = 'job_47'; 0"))?;
    browser.follow_by_mouse("document.querySelector('form.search button')")?;
    assert!(browser.text(CONTENT)?.contains("Runs job_4711 job_4712 job_4713"), "{}", browser.text(CONTENT)?);
    let typed = browser.text(
        "new Promise(done => { const results = document.querySelector('#results'); \
         new MutationObserver(() => done(results.innerText.replace(/\\s+/g, ' '))).observe(results, {childList: true}); \
         const field = document.querySelector('main input[type=search]'); field.value = 'job_4712'; \
         field.dispatchEvent(new Event('input')); })",
    )?;
    assert!(typed.contains("job_4712") && !typed.contains("job_4711"), "{typed}");
    assert_eq!(browser.text("location.search")?, "?q=job_4712");

    compares(browser, fleet)?;
    owns(browser, fleet)?;

    browser.open(fleet)?;
    browser.eval("document.querySelector('details.picker').open = true; 0")?;
    browser.follow_by_mouse("document.querySelector('details.picker form button')")?;
    let hours = browser.text("document.querySelector('h1 + p').innerText")?;
    browser.open(fleet)?;
    assert_eq!(
        hours,
        browser.text("document.querySelector('h1 + p').innerText")?,
        "the form begins with what is shown"
    );
    Ok(())
}

/// From the fleet to the time before, and from there by the form to two nodes.
fn compares(browser: &mut Browser, fleet: &str) -> Result<()> {
    browser.open(fleet)?;
    browser.follow_by_mouse(&link_to("compare with the time before"))?;
    let seen = browser.text(CONTENT)?;
    assert!(seen.contains("No changes are shown: no verdicts are stored for"), "{seen}");
    browser.eval("document.querySelectorAll('details.picker')[1].open = true; 0")?;
    for (name, node) in [("node", NODES[0]), ("with", NODES[1])] {
        browser.eval(&format!("document.querySelector('input[name={name}]').value = {}; 0", json!(node)))?;
    }
    browser
        .follow_by_mouse("[...document.querySelectorAll('button')].find(b => b.innerText === 'Compare the nodes')")?;
    let seen = browser.text(CONTENT)?;
    assert!(seen.contains(&format!("B: Node {}", NODES[1])) && seen.contains("greatest change first"), "{seen}");
    Ok(())
}

/// From the fleet to a finding, which is acknowledged, assigned and snoozed by forms; then the list says so.
fn owns(browser: &mut Browser, fleet: &str) -> Result<()> {
    browser.open(fleet)?;
    let finding = browser.text("document.querySelector('.findings tbody tr').id")?;
    browser.follow_by_mouse(&link_to("state and history"))?;
    assert!(browser.text("location.pathname")?.ends_with(&format!("/findings/{finding}")));
    assert!(browser.text(CONTENT)?.contains("Open: nothing was said about it."));
    let old = browser.text("location.href")?;
    let fill = |browser: &mut Browser, action: &str, fields: &[(&str, &str)]| {
        let form = format!("document.querySelector('button[value={action}]').form");
        browser.eval(&format!("const box = {form}.closest('details'); if (box) box.open = true; 0"))?;
        for (name, value) in fields {
            browser.eval(&format!("{form}.elements[{}].value = {}; 0", json!(name), json!(value)))?;
        }
        browser.follow_by_mouse(&format!("document.querySelector('button[value={action}]')"))
    };
    let markup = "<b>mine</b><script>document.title='x'</script>";
    fill(browser, "acknowledge", &[("actor", "ann"), ("comment", markup)])?;
    let seen = browser.text(CONTENT)?;
    assert!(seen.contains("acknowledged by ann") && seen.contains(markup), "{seen}");
    fill(browser, "assign", &[("actor", "ann"), ("assignee", "bob")])?;
    assert!(browser.text(CONTENT)?.contains("acknowledged by ann assigned to bob"), "{}", browser.text(CONTENT)?);
    let until = browser.text("document.querySelector('input[name=until]').max")?;
    fill(browser, "snooze", &[("actor", "ann"), ("until", &until)])?;
    assert!(browser.text(CONTENT)?.contains(&format!("snoozed until {until} by ann")), "{}", browser.text(CONTENT)?);
    // Someone whose page is older than that is told so.
    browser.open(&old)?;
    browser.eval("document.querySelector('button[value=claim]').form.elements.seq.value = 1; 0")?;
    fill(browser, "claim", &[("actor", "eve")])?;
    assert!(browser.text(CONTENT)?.contains("Someone else said something about this finding first"));
    browser.open(fleet)?;
    let seen = browser.text(CONTENT)?;
    assert!(seen.contains(&format!("snoozed until {until} by ann assigned to bob")), "{seen}");
    Ok(())
}

/// The link with this text.
fn link_to(name: &str) -> String {
    format!("[...document.querySelectorAll('main a')].find(a => a.innerText === {})", json!(name))
}

/// Widths of a phone, a large phone, a tablet and a desk, in pixels of CSS.
const WIDTHS: [u32; 4] = [320, 390, 820, 1300];

/// Every page fits every width, is dark where that is preferred, and breaks no rule of WCAG that a program can see. Pictures
/// are kept for the eye.
fn looks(browser: &mut Browser, fleet: &str, evidence: &str) -> Result<()> {
    let query = fleet.split_once('?').context("no query")?.1.to_owned();
    let home = fleet.split_once('?').context("no query")?.0.to_owned();
    let gpu = evidence.split_once("/evidence").context("no evidence")?.0.to_owned();
    browser.open(fleet)?;
    let finding = browser.text("document.querySelector('.findings tbody tr').id")?;
    let other = browser.text(&format!("encodeURIComponent({})", json!(NODES[1])))?;
    let pages = [
        ("fleet", fleet.to_owned()),
        // The name of a period is longest where it goes on over midnight.
        ("midnight", format!("{home}?start=2026-09-23T21:00:00Z&end=2026-09-24T03:00:00Z")),
        ("node", format!("{home}nodes/{}?{query}", NODES[0])),
        ("gpu", format!("{gpu}?{query}")),
        ("evidence", evidence.to_owned()),
        ("findings", format!("{home}findings?{query}")),
        ("finding", format!("{home}findings/{finding}?{query}")),
        ("repeat", format!("{home}findings/repeat")),
        ("runs", format!("{home}runs?{query}")),
        ("run", format!("{home}runs/{}?{query}", OWNERS[0])),
        ("compare", format!("{home}compare?{query}&node={}&with={other}", NODES[0])),
        ("teams", format!("{home}teams?{query}")),
        ("serving", format!("{home}serving?{query}")),
        ("search", format!("{home}search?q=job")),
        ("state", format!("{home}state")),
        ("report", format!("{home}report")),
    ];
    let axe = axe::script(&Path::new(env!("CARGO_TARGET_TMPDIR")).join("axe"))?;
    let (mut too_wide, mut violations) = (Vec::new(), BTreeSet::new());
    let (mut missed, mut coloured) = (Vec::new(), Vec::new());
    for (name, url) in pages {
        let mut backgrounds = [BTreeSet::new(), BTreeSet::new()];
        for (width, is_dark) in WIDTHS.into_iter().flat_map(|width| [(width, false), (width, true)]) {
            browser.look(width, is_dark)?;
            browser.open(&url)?;
            let overflow = "document.documentElement.scrollWidth - document.documentElement.clientWidth";
            if browser.eval(overflow)? != json!(0) {
                too_wide.push(format!("{name} at {width}"));
            }
            let background = browser.text("getComputedStyle(document.body).backgroundColor")?;
            backgrounds[usize::from(is_dark)].insert(background);
            let look = if is_dark { "dark" } else { "light" };
            let found = axe::violations(browser, &axe)?;
            violations.extend(found.into_iter().map(|rule| format!("{name} at {width}, {look}: {rule}")));
            let picture = format!("web-{name}-{width}-{look}.png");
            browser.screenshot(&Path::new(env!("CARGO_TARGET_TMPDIR")).join(picture))?;
            if width == 1300 && !is_dark {
                missed.extend(unreached(browser)?.into_iter().map(|what| format!("{name}: {what}")));
                coloured.extend(by_colour_alone(browser)?.into_iter().map(|what| format!("{name}: {what}")));
            }
        }
        let [light, dark] = backgrounds.each_ref().map(BTreeSet::len);
        assert!((light, dark) == (1, 1) && backgrounds[0] != backgrounds[1], "{name} in the dark: {backgrounds:?}");
    }
    assert_eq!(violations, BTreeSet::new());
    assert_eq!(too_wide, Vec::<String>::new(), "these pages scroll sideways");
    assert_eq!(missed, Vec::<String>::new(), "Tab does not lead to these");
    assert_eq!(coloured, Vec::<String>::new(), "these have a colour and no letter");
    Ok(())
}

/// What can be followed, pressed or filled in and is never reached by the Tab key. Of the links of a timeline one is, and
/// arrows lead to the others.
fn unreached(browser: &mut Browser) -> Result<Vec<String>> {
    let all = "[...document.querySelectorAll('a[href], button, input:not([type=hidden]), select, summary')]\
        .filter(e => e.checkVisibility() && !(e.closest('svg.strip') && e.tabIndex < 0))";
    let count = browser.eval(&format!("{all}.length"))?.as_u64().context("no number")?;
    browser.eval("document.activeElement.blur(); scrollTo(0, 0); 0")?;
    // A field for times is several stops.
    for _ in 0..count + 20 {
        browser.press("Tab")?;
        browser.eval("document.activeElement.dataset.reached = 1; 0")?;
    }
    let missed = format!("{all}.filter(e => !e.dataset.reached).map(e => e.outerHTML.slice(0, 120))");
    Ok(serde_json::from_value(browser.eval(&missed)?)?)
}

/// Classes of timelines and bars that have 3 % of the width, and in timelines half of the height, and no letter. A bar of one
/// class stands next to its name.
fn by_colour_alone(browser: &mut Browser) -> Result<Vec<String>> {
    let bare = r"[...document.querySelectorAll('svg.strip, svg.bar, .lane > svg')].flatMap(picture => {
        const box = picture.getBoundingClientRect();
        const letters = new Set([...picture.querySelectorAll('text')].map(text => text.getAttribute('class')?.slice(2)));
        const shapes = [...picture.querySelectorAll('[class^=c-]')];
        const sizes = shape => shape.tagName === 'rect'
            ? [[shape.getBoundingClientRect().width, shape.getBoundingClientRect().height]]
            : shape.getAttribute('d').split('M').slice(1).map(part => part.match(/-?[\d.]+/g).map(Number))
                .map(([, , width, height]) => [width / 1000 * box.width, height / 20 * box.height]);
        const isLarge = shape => sizes(shape).some(([width, height]) => width >= 0.03 * box.width && height >= box.height / 2);
        return shapes.length < 2 ? [] : shapes.filter(isLarge).map(shape => shape.getAttribute('class').slice(2))
            .filter(name => !letters.has(name)); })";
    Ok(serde_json::from_value(browser.eval(bare)?)?)
}
