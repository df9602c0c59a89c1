use super::*;
use crate::config::Config;
use crate::report::{Period, Price, Report, Site, build, html, markdown};
use goodput_testing::bare;
use goodput_verdict::{Counted, Energy, Histogram};

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
        served: Some(Counted {
            amounts: [(served, (amount, format!("vllm:{}_total", served.name())))].into(),
            ..Counted::default()
        }),
        model: Some(model.to_owned()).filter(|model| !model.is_empty()),
    }
}

fn section(rows: &[Achieved], intervals: &[Interval], prices: &[Price]) -> Option<Serving> {
    let mut servers = Servers::new(prices);
    servers.report(rows);
    servers.nodes(&Summed::of(intervals, prices));
    RollUp::fold(intervals).into_iter().for_each(|hour| servers.add(hour));
    servers.section()
}

fn amount(money: &Option<Money>) -> Option<(&str, f64)> {
    money.as_ref().map(|money| (money.currency.as_str(), (money.amount * 1e9).round() / 1e9))
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
    let [ServedModel { models, work, servers, .. }] = &models[..] else { panic!("{models:?}") };
    assert_eq!((&models[..], servers.len()), (&["m".to_owned()][..], 1));
    assert_eq!(work.generation_tokens_per_gpu_second, Some(1000.0));
    assert_eq!(work.generation_tokens_per_productive_gpu_second, Some(7.2e6 / 5400.0));
    assert_eq!(amount(&work.cost_per_million_generation_tokens), Some(("EUR", 1.0)));
    assert_eq!(amount(&work.productive_cost_per_million_generation_tokens), Some(("EUR", 0.75)));
    assert_eq!(amount(&work.cost_per_million_tokens), Some(("EUR", 0.5)));
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
    assert_eq!((found.joules_per_generation_token, found.cost_per_million_generation_tokens), (None, None));
    let intervals = [interval("a", Class::Productive, 0, HOUR)];
    let prices = Config::parse(PRICES).unwrap().prices;
    let nothing = work(&[row(Some("a"), "", 0, Served::GenerationTokens, 0.0)], &intervals, &prices);
    assert_eq!(nothing.generation_tokens_per_gpu_second, Some(0.0));
    assert_eq!((nothing.cost_per_million_tokens, nothing.joules_per_generation_token), (None, None));
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
    assert_eq!(serving.models[0].work.served[&Served::Requests], 10.0);
    assert!(serving.models[1].work.served.is_empty(), "models of an ensemble each count a request: not known");
    let tokens = row(Some("c"), "m", 0, Served::GenerationTokens, 7.0);
    let all = [&rows[..], &[tokens]].concat();
    let adapters = section(&all, &intervals, &[]).unwrap().models.remove(1);
    assert_eq!((adapters.name().as_str(), adapters.work.served[&Served::Requests]), ("lora, m", 10.0));
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
        "0 of them (0 %). Tokens are never part of goodput.",
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

#[test]
fn an_hour_that_is_not_known_for_half_of_it_is_left_out_and_one_without_a_counter_is_not() {
    let hours: Vec<Interval> = (0..3).map(|hour| interval("a", Class::NoDemand, hour, HOUR)).collect();
    let nothing = Achieved { served: Some(Counted::default()), ..row(Some("a"), "m", 1, Served::Requests, 0.0) };
    let mut rows = vec![row(Some("a"), "m", 0, Served::GenerationTokens, 9.0), nothing];
    let short = Achieved { covered_ms: HOUR / 2 - 1, ..row(Some("a"), "m", 2, Served::GenerationTokens, 9.0) };
    rows.push(short);
    let Serving { held, without_a_request, models, .. } = section(&rows, &hours, &[]).unwrap();
    assert_eq!((held.gpu_ms, without_a_request.gpu_ms), (2 * HOUR, 2 * HOUR));
    assert_eq!(models[0].work.served, BTreeMap::from([(Served::GenerationTokens, 9.0)]));
    assert_eq!(models[0].work.counters.len(), 1, "a gauge counts nothing");
}

#[test]
fn a_cluster_that_is_named_for_a_part_of_the_period_makes_no_second_server() {
    let of = |cluster: Option<&str>, hour| Interval {
        cluster: cluster.map(str::to_owned),
        ..interval("a", Class::Productive, hour, HOUR)
    };
    let told = |cluster: Option<&str>, hour| Achieved {
        cluster: cluster.map(str::to_owned),
        ..row(Some("a"), "m", hour, Served::GenerationTokens, 5.0)
    };
    let east = Some("east");
    for (rows, intervals) in [
        ([told(None, 0), told(east, 1)], [of(None, 0), of(east, 1)]),
        ([told(None, 0), told(None, 1)], [of(None, 0), of(east, 1)]),
        ([told(east, 0), told(east, 1)], [of(None, 0), of(None, 1)]),
    ] {
        let models = section(&rows, &intervals, &[]).unwrap().models;
        let [ServedModel { work, servers, .. }] = &models[..] else { panic!("{models:?}") };
        assert_eq!((servers.len(), work.held.gpu_ms, work.held.share), (1, 2 * HOUR, Some(1.0)), "{rows:?}");
        assert_eq!(work.served[&Served::GenerationTokens], 10.0);
    }
    let both = [of(east, 0), of(Some("west"), 0)];
    let servers = section(&[told(east, 0), told(Some("west"), 0)], &both, &[]).unwrap().models.remove(0).servers;
    let held: Vec<_> = servers.iter().map(|server| (server.cluster.as_deref(), server.work.held.gpu_ms)).collect();
    assert_eq!(held, [(Some("east"), HOUR), (Some("west"), HOUR)]);
}

#[test]
fn money_is_told_where_all_of_the_time_has_a_price_in_one_currency() {
    let priced = |config: &str| {
        let mut other = interval("a", Class::Productive, 0, HOUR);
        (other.node, other.gpu) = ("n2".into(), "GPU-2".into());
        let intervals = [interval("a", Class::Productive, 0, HOUR), other];
        let prices = Config::parse(config).unwrap().prices;
        let rows = [row(Some("a"), "m", 0, Served::GenerationTokens, 2e6)];
        let work = section(&rows, &intervals, &prices).unwrap().models.remove(0).work;
        assert_eq!(work.held.gpu_ms, 2 * HOUR, "an owner on two nodes");
        amount(&work.cost_per_million_generation_tokens).map(|(currency, amount)| (currency.to_owned(), amount))
    };
    let price = |currency: &str, node: &str| {
        format!(
            "- {{model: '*', node: {node}, currency: {currency}, per_gpu_hour: 2, per_kwh: 0, pue: 1, valid_from: 1970-01-01}}\n"
        )
    };
    let node = interval("a", Class::Productive, 0, HOUR).node;
    let both = |one: &str, other: &str| format!("prices:\n{}{}", price(one, &node), price(other, "n2"));
    assert_eq!(priced(&both("EUR", "EUR")), Some(("EUR".to_owned(), 2.0)));
    assert_eq!(priced(&both("EUR", "USD")), None);
    assert_eq!(priced(&format!("prices:\n{}", price("EUR", &node))), None, "half of it has no price");
}

/// An hour of a server with these buckets of its time to first token, up to 1 s, 2.5 s and above.
fn timed(owner: &str, hour: i64, requests: f64, buckets: Option<[f64; 3]>) -> Achieved {
    let mut row = row(Some(owner), "m", hour, Served::Requests, requests);
    let bounds = [1.0, 2.5, f64::INFINITY];
    let histogram = |growths: [f64; 3]| Histogram::of_cumulative(bounds.into_iter().zip(growths).collect()).unwrap();
    let told = buckets.map(|growths| (Latency::TimeToFirstToken, histogram(growths)));
    row.served.as_mut().unwrap().latencies.extend(told);
    row
}

#[test]
fn requests_keep_their_limits_as_far_as_histograms_tell() {
    let intervals: Vec<_> = ["a", "b"].map(|owner| interval(owner, Class::Productive, 0, HOUR)).into();
    let config = |ttft: &str| {
        let slo = format!("serving:\n  slo:\n  - {{model: 'm*', ttft: {ttft}, at: 0.9}}\n");
        Config::parse(&slo).unwrap().serving
    };
    let with = |rows: &[Achieved], ttft: &str| {
        let mut models = section(rows, &intervals, &[]).unwrap().with_terms(&config(ttft)).models;
        models.remove(0).work
    };
    let within = |low: f64, high: f64| Some(Within { low, high: Some(high) });
    let both = [timed("a", 0, 100.0, Some([60.0, 90.0, 100.0])), timed("b", 0, 100.0, Some([80.0, 100.0, 100.0]))];
    let work = with(&both, "2.5s");
    let slo = work.slo.unwrap();
    assert_eq!((slo.requests, slo.met, slo.ratio), (200.0, within(190.0, 190.0), within(0.95, 0.95)));
    assert_eq!(slo.met_per_gpu_second, within(190.0 / 7200.0, 190.0 / 7200.0));
    assert!(slo.unmeasured.is_empty() && slo.within_a_bucket.is_empty() && slo.remarks().is_empty());
    let first = &work.latencies[&Latency::TimeToFirstToken];
    assert_eq!(
        (first.requests, first.p50_seconds, first.p99_seconds),
        (200.0, within(0.0, 1.0).unwrap(), Within { low: 2.5, high: None })
    );
    let slo = with(&both, "2s").slo.unwrap();
    assert_eq!((slo.met, slo.within_a_bucket.len()), (within(140.0, 190.0), 1), "2 s is no bound");
    let one = [both[0].clone(), timed("b", 0, 50.0, None)];
    let slo = with(&one, "1s").slo.unwrap();
    assert_eq!((slo.requests, slo.met, slo.unmeasured.len()), (150.0, within(60.0, 110.0), 1), "b may be all or none");
    assert!(slo.remarks()[0].starts_with("some servers have no histogram"), "{:?}", slo.remarks());
    let slo = with(&one[1..], "1s").slo.unwrap();
    assert_eq!((slo.requests, slo.met, slo.ratio, slo.met_per_gpu_second), (50.0, None, None, None));
    assert_eq!(
        section(&both, &intervals, &[]).unwrap().with_terms(&ServingTerms::default()).models[0].work.slo,
        None,
        "never assumed"
    );
}

#[test]
fn the_report_shows_latencies_and_limits() {
    let intervals = [interval("a", Class::Productive, 0, HOUR)];
    let rows = [timed("a", 0, 3600.0, Some([1800.0, 3600.0, 3600.0]))];
    let week = Period::iso_week("1970-W01", &jiff::tz::TimeZone::UTC).unwrap();
    let terms = Config::parse("serving:\n  slo:\n  - {model: '*', ttft: 2s, e2e: 30s, at: 0.99}\n").unwrap().terms();
    let report = Report { serving: section(&rows, &intervals, &[]), ..build(&intervals, &[], week, &[]) };
    let text = markdown::render(&report.clone().with_terms(&terms)).unwrap();
    for line in [
        "| m | time to first token | 3.6 k | up to 1 s | 1 to 2.5 s |",
        "| m | time to first token 2 s, end-to-end latency 30 s | 3.6 k | unknown | 99.0 % | unknown |",
        "- m: no histogram of the end-to-end latency is stored, so that limit cannot be judged",
        "- m: 2 s is no bucket bound of the time to first token: with one there, the share is known better",
    ] {
        assert!(text.lines().any(|found| found == line), "{line}\n{text}");
    }
    let terms = Config::parse("serving:\n  slo:\n  - {model: '*', ttft: 2s, at: 0.99}\n").unwrap().terms();
    let text = markdown::render(&report.clone().with_terms(&terms)).unwrap();
    let line = "| m | time to first token 2 s | 3.6 k | 50.0 % to 100 % | 99.0 % | 0.5 to 1 |";
    assert!(text.lines().any(|found| found == line), "{text}");
    let page = html::render(&report.clone().with_terms(&terms), &Site::default()).unwrap();
    assert!(page.contains(">50.0 % to 100 %</td>") && page.contains(">1 to 2.5 s</td>"), "{page}");
    assert!(!markdown::render(&report).unwrap().contains("kept all limits"), "no limits, nothing is said of them");
}

/// An hour of a replica that needed this much of itself in each five minutes.
fn busy(owner: &str, hour: i64, demand: &[f64]) -> Achieved {
    let mut row = row(Some(owner), "m", hour, Served::Requests, 9.0);
    let slots = (0..12).map(|n| demand.get(n % demand.len()).copied());
    row.served.as_mut().unwrap().demand = slots.collect();
    row
}

#[test]
fn replicas_that_no_request_needed_are_spare() {
    let owners = ["a", "b", "c", "d"];
    let intervals: Vec<_> =
        owners.iter().flat_map(|owner| [0, 1].map(|hour| interval(owner, Class::Productive, hour, HOUR))).collect();
    let prices = Config::parse(PRICES).unwrap().prices;
    let replicas = |rows: &[Achieved], terms: &str| {
        let terms = Config::parse(terms).unwrap().serving;
        let models = section(rows, &intervals, &prices).unwrap().with_terms(&terms).models;
        models[0].replicas.clone()
    };
    let four: Vec<_> = owners.iter().flat_map(|owner| [0, 1].map(|hour| busy(owner, hour, &[0.1, 0.3]))).collect();
    let found = replicas(&four, "").unwrap();
    assert_eq!((found.most, found.fewest, found.needed), (4, 4, 2), "1.2 of one at most");
    assert_eq!((found.hours, found.spare_hours), (8.0, 4.0));
    assert_eq!(found.spare_gpu_hours, 4.0);
    assert_eq!(amount(&found.spare_cost), Some(("EUR", 14.4)));
    let slo = "serving:\n  slo:\n  - {model: '*', ttft: 1s, at: 0.9}\n";
    let quiet: Vec<_> = owners.iter().map(|owner| busy(owner, 0, &[0.01])).collect();
    assert_eq!(replicas(&quiet, "").unwrap().needed, 1);
    assert_eq!(replicas(&quiet, slo).unwrap().needed, 2, "one that fails leaves another");
    assert_eq!(replicas(&quiet, &format!("{slo}  min_replicas: {{m: 3}}\n")).unwrap().needed, 3);
    let full: Vec<_> = owners.iter().map(|owner| busy(owner, 0, &[1.25])).collect();
    assert_eq!(replicas(&full, "").map(|found| (found.needed, found.spare_hours)), Some((5, 0.0)));
    assert_eq!(replicas(&quiet[..1], ""), None, "one replica is not compared");
    let one_after_another = [busy("a", 0, &[0.9]), busy("b", 1, &[0.9])];
    assert_eq!(replicas(&one_after_another, ""), None, "never at once");
    let of = |cluster: &str, owner| Achieved { cluster: Some(cluster.into()), ..busy(owner, 0, &[0.2]) };
    let apart = [of("east", "a"), of("west", "b")];
    assert_eq!(replicas(&apart, ""), None, "no request of one cluster reaches the other");
    let later = |owner| Achieved { cluster: Some("east".into()), ..busy(owner, 1, &[0.2]) };
    let named_later = [busy("a", 0, &[0.2]), busy("b", 0, &[0.2]), later("a"), later("b")];
    let found = replicas(&named_later, "").unwrap();
    assert_eq!(
        (found.most, found.needed, found.hours, found.spare_hours),
        (2, 1, 4.0, 2.0),
        "one cluster all the time"
    );
    let east = [of("east", "a"), of("east", "c"), of("west", "b")];
    assert_eq!(replicas(&east, "").map(|found| (found.most, found.needed, found.spare_hours)), Some((3, 2, 1.0)));
    let both =
        [busy("a", 0, &[0.2]), busy("b", 0, &[0.2]), Achieved { model: Some("lora".into()), ..busy("b", 0, &[0.2]) }];
    assert_eq!(replicas(&both, ""), None, "b serves another model too");
}

#[test]
fn the_first_entry_whose_pattern_fits_all_names_is_meant() {
    let entries = [("meta-llama/*".to_owned(), 1), ("*".to_owned(), 2)];
    let found = |entries: &[(String, i32)], models: &[&str]| {
        let models: Vec<_> = models.iter().map(|name| (*name).to_owned()).collect();
        fitting(entries, |(pattern, _)| pattern, &models).map(|(_, number)| *number)
    };
    assert_eq!(found(&entries, &["meta-llama/Llama-3.1-8B"]), Some(1));
    assert_eq!(found(&entries, &["meta-llama/Llama-3.1-8B", "Qwen"]), Some(2));
    assert_eq!(found(&entries, &[]), Some(2), "of servers that name no model");
    assert_eq!(found(&entries[..1], &[]), None);
}
