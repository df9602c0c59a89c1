use super::*;
use crate::config::Config;
use crate::report::{Period, Report, Site, build, html, markdown};
use goodput_testing::bare;
use goodput_verdict::{Energy, Interval};

const HOUR: i64 = 3_600_000;
const PRICES: &str =
    "prices:\n- {model: '*', currency: EUR, per_gpu_hour: 3.6, per_kwh: 0, pue: 1, valid_from: 1970-01-01}\n";

/// Each GPU draws 300 W.
fn interval(owner: &str, class: Class, hour: i64, ms: i64) -> Interval {
    let energy = Some(Energy { mj: 300 * ms, ms, counted_ms: ms });
    Interval { owner: Some(owner.into()), ms, energy, ..bare(class, hour * HOUR..(hour + 1) * HOUR) }
}

fn row(owner: Option<&str>, model: &str, hour: i64, served: Served, amount: f64) -> Achieved {
    Achieved {
        cluster: None,
        metric: format!("vllm:{}_total", served.name()),
        unit: "tokens".into(),
        start_ms: hour * HOUR,
        end_ms: (hour + 1) * HOUR,
        owner: owner.map(str::to_owned),
        subject: "ml/server".into(),
        amount,
        covered_ms: HOUR,
        ideal: None,
        served: Some(served),
        model: Some(model.to_owned()).filter(|model| !model.is_empty()),
    }
}

fn section(rows: &[Achieved], intervals: &[Interval], prices: &[Price]) -> Option<Serving> {
    let mut servers = Servers::of(rows, prices);
    let mut all = HashMap::new();
    for item in Summed::of(intervals, prices).iter().filter(|item| is_held(item.class) && servers.hold(item)) {
        *all.entry((item.cluster.clone(), item.owner.clone().unwrap())).or_default() += item.ms;
    }
    RollUp::fold(intervals).into_iter().for_each(|hour| servers.add(hour));
    servers.section(&all)
}

#[test]
fn nothing_without_servers() {
    assert_eq!(section(&[], &[interval("a", Class::Productive, 0, HOUR)], &[]), None);
}

#[test]
fn tokens_are_held_against_the_hours_in_which_they_were_told() {
    let intervals = [
        interval("a", Class::Productive, 0, HOUR / 2),
        interval("a", Class::NoDemand, 0, HOUR / 2),
        interval("a", Class::Productive, 1, HOUR),
        interval("a", Class::NoData, 2, HOUR),
        interval("a", Class::IdleHeld, 3, 2 * HOUR),
        interval("b", Class::Productive, 0, 7 * HOUR),
    ];
    let rows = [
        row(Some("a"), "m", 0, Served::GenerationTokens, 1.8e6),
        row(Some("a"), "m", 1, Served::GenerationTokens, 5.4e6),
        row(Some("a"), "m", 1, Served::PromptTokens, 7.2e6),
    ];
    let prices = Config::parse(PRICES).unwrap().prices;
    let Serving { held, without_a_request, models, unjoined } = section(&rows, &intervals, &prices).unwrap();
    assert_eq!((held.gpu_ms, held.share), (2 * HOUR, Some(0.5)), "two of four hours held are known");
    assert_eq!((without_a_request.gpu_ms, without_a_request.share), (HOUR / 2, Some(0.25)));
    assert!(unjoined.is_empty());
    let [ServedModel { models, work, servers }] = &models[..] else { panic!("{models:?}") };
    assert_eq!((&models[..], servers.len()), (&["m".to_owned()][..], 1));
    assert_eq!(work.generation_tokens_per_gpu_second, Some(1000.0));
    assert_eq!(work.generation_tokens_per_productive_gpu_second, Some(7.2e6 / 5400.0));
    let money = |all: &[Money]| all.iter().map(|m| (m.currency.clone(), (m.amount * 1e9).round() / 1e9)).next();
    assert_eq!(money(&work.cost_per_million_generation_tokens), Some(("EUR".into(), 1.0)));
    assert_eq!(money(&work.productive_cost_per_million_generation_tokens), Some(("EUR".into(), 0.75)));
    assert_eq!(money(&work.cost_per_million_tokens), Some(("EUR".into(), 0.5)));
    assert_eq!(work.joules_per_generation_token, Some(0.3));
    let classes: i64 = work.classes.iter().map(|class| class.amount.gpu_ms).sum();
    assert_eq!(classes, work.held.gpu_ms);
}

#[test]
fn what_is_not_known_is_null_and_not_zero() {
    let [mut one, two] = [0, 1].map(|hour| interval("a", Class::Productive, hour, HOUR));
    one.energy = None;
    let rows = [0, 1].map(|hour| row(Some("a"), "", hour, Served::GenerationTokens, 10.0));
    let work = |rows: &[Achieved], intervals: &[Interval], prices: &[Price]| {
        section(rows, intervals, prices).unwrap().models.remove(0).work
    };
    let found = work(&rows, &[one, two], &[]);
    assert_eq!((found.joules_per_generation_token, found.cost_per_million_generation_tokens), (None, Vec::new()));
    let intervals = [interval("a", Class::Productive, 0, HOUR)];
    let prices = Config::parse(PRICES).unwrap().prices;
    let nothing = work(&[row(Some("a"), "", 0, Served::GenerationTokens, 0.0)], &intervals, &prices);
    assert_eq!(nothing.generation_tokens_per_gpu_second, Some(0.0));
    assert_eq!((nothing.cost_per_million_tokens, nothing.joules_per_generation_token), (Vec::new(), None));
    let requests = work(&[row(Some("a"), "", 0, Served::Requests, 9.0)], &intervals, &prices);
    assert_eq!((requests.generation_tokens_per_gpu_second, requests.served.len()), (None, 1));
    let unheld = work(&rows, &[], &[]);
    assert_eq!((unheld.held.gpu_ms, unheld.generation_tokens_per_gpu_second), (0, None));
}

#[test]
fn servers_of_one_model_stand_together_and_one_of_several_models_alone() {
    let owners = ["a", "b", "c"];
    let intervals = owners.map(|owner| interval(owner, Class::Productive, 0, HOUR));
    let of = |owner, model| row(Some(owner), model, 0, Served::Requests, 5.0);
    let rows = [of("a", "m"), of("b", "m"), of("c", "m"), of("c", "lora"), row(None, "m", 0, Served::Requests, 9.0)];
    let serving = section(&rows, &intervals, &[]).unwrap();
    let shown: Vec<_> = serving.models.iter().map(|m| (m.name(), m.servers.len(), m.work.held.gpu_ms)).collect();
    assert_eq!(shown, [("m".to_owned(), 2, 2 * HOUR), ("lora, m".to_owned(), 1, HOUR)]);
    assert_eq!(serving.models[1].work.served[&Served::Requests], 10.0);
    let [left] = &serving.unjoined[..] else { panic!("{:?}", serving.unjoined) };
    assert_eq!((left.subject.as_str(), left.served[&Served::Requests]), ("ml/server", 9.0));
}

#[test]
fn the_section_stands_beside_goodput_and_escapes_names() {
    let owners = ["a|<b>", "c"];
    let intervals = owners.map(|owner| interval(owner, Class::Productive, 0, HOUR));
    let rows = owners.map(|owner| row(Some(owner), "m|<x>", 0, Served::GenerationTokens, 3_600_000.0));
    let week = Period::iso_week("1970-W01", &jiff::tz::TimeZone::UTC).unwrap();
    let prices = Config::parse(PRICES).unwrap().prices;
    let report = Report { serving: section(&rows, &intervals, &prices), ..build(&intervals, &[], week, &prices) };
    let text = markdown::render(&report).unwrap();
    for line in [
        "Servers held 2.00 GPU-hours, and had no request in 0 of them (0 %).",
        r"| m\|&lt;x> | 2 | 2.00 | 100 % | 100 % | 0 % | 0 % | 0 % | 0 % |",
        r"| m\|&lt;x> | unknown | unknown | unknown | 7.2 M | 1 k | 1 k | 1.00 EUR | 1.00 EUR | unknown | 0.3 |",
        r"| a\|&lt;b> | 1.00 | 100 % | 0 % | 0 % | 0 % | unknown | 3.6 M | 1 k |",
        r"- Counted for m\|&lt;x>: vllm:generation_tokens_total",
    ] {
        assert!(text.lines().any(|found| found == line), "{line}\n{text}");
    }
    let page = html::render(&report, &Site::default()).unwrap();
    assert!(page.contains("<h2>Serving</h2>") && page.contains("m|&#60;x&#62;"), "{page}");
    assert!(!markdown::render(&Report { serving: None, ..report }).unwrap().contains("Serving"));
}
