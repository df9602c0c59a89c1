//! Roll-ups say what their intervals say.

use std::collections::BTreeMap;

use goodput_testing::bare;
use goodput_verdict::{Class, Culprit, Energy, Evidence, HOUR_MS, Instance, Interval, RollUp, Stretch, Sums, Version};

const MINUTE: i64 = 60_000;

fn at(class: Class, from: i64, to: i64) -> Interval {
    bare(class, from * MINUTE..to * MINUTE)
}

#[test]
fn what_differs_in_time_and_evidence_alone_is_summed() {
    let energy = |mj| Some(Energy { mj, ms: MINUTE, counted_ms: 0 });
    let first = Interval {
        ms: MINUTE,
        confidence: 0.5,
        energy: energy(3),
        variance_ms2: Some(4),
        ..at(Class::IdleHeld, 0, 10)
    };
    let second = Interval { ms: 3 * MINUTE, confidence: 0.9, energy: energy(4), ..at(Class::IdleHeld, 10, 20) };
    let third = Interval { ms: 5 * MINUTE, energy: None, ..at(Class::IdleHeld, 25, 60) };
    let [hour] = RollUp::fold(&[third, first, second]).try_into().unwrap();
    let [(_, part)] = hour.parts().collect::<Vec<_>>().try_into().unwrap();
    assert_eq!((part.ms, part.variance_ms2), (9 * MINUTE, Some(4)));
    assert_eq!(part.energy, Some(Energy { mj: 7, ms: 2 * MINUTE, counted_ms: 0 }));
    assert!((part.confidence_ms - 7.7 * MINUTE as f64).abs() < 1e-6, "{}", part.confidence_ms);
    let stretch = |from, to, ms| Stretch { start_ms: from * MINUTE, end_ms: to * MINUTE, ms: ms * MINUTE };
    assert_eq!(part.stretches, [stretch(0, 20, 4), stretch(25, 60, 5)]);
}

#[test]
fn all_else_keeps_intervals_apart() {
    let one = || at(Class::IdleHeld, 0, 60);
    let contradicts =
        Evidence { signal: "gpu_power contradicts".into(), value: 1.0, unit: "ratio".into(), threshold: 0.0 };
    let all = [
        one(),
        at(Class::Productive, 0, 60),
        Interval { gpu: "GPU-b".into(), ..one() },
        Interval { gpu_instance: Some(Instance { id: 7, profile: None }), ..one() },
        Interval { gpu_instance: Some(Instance { id: 7, profile: Some("1g.10gb".into()) }), ..one() },
        Interval { model: Some("H100".into()), ..one() },
        Interval { owner: Some("job".into()), ..one() },
        Interval { run: Some("run".into()), ..one() },
        Interval { account: Some("account".into()), ..one() },
        Interval { charged_to: Some(Culprit { node: "n2".into(), gpu: Some("GPU-c".into()) }), ..one() },
        Interval { busy_signal: Some("gpu_busy".into()), ..one() },
        Interval { missing: vec!["gpu_busy".into()], ..one() },
        Interval { evidence: vec![contradicts], ..one() },
        Interval { version: Some(Version { rule: 1, rules: 2 }), ..one() },
    ];
    let [hour] = RollUp::fold(&all).try_into().unwrap();
    assert_eq!(hour.parts().count(), all.len());
    let place = (hour.cluster.clone(), hour.node.clone());
    assert_eq!(Sums::of(&hour).hour(place, hour.start_ms, hour.end_ms), Some(hour), "as it is written and read");
    let elsewhere =
        [one(), Interval { cluster: Some("east".into()), ..one() }, Interval { node: "n2".into(), ..one() }];
    assert_eq!(RollUp::fold(&elsewhere).len(), elsewhere.len());
    assert_eq!(RollUp::fold(&[one(), at(Class::IdleHeld, 60, 120)]).len(), 2, "of two hours");
}

#[test]
fn windows_of_half_an_hour_stay_apart() {
    let halves = [at(Class::IdleHeld, 0, 30), at(Class::Productive, 30, 45), at(Class::IdleHeld, 40, 60)];
    let spans = |all: &[Interval]| {
        RollUp::fold(all).iter().map(|h| (h.start_ms / MINUTE, h.end_ms / MINUTE)).collect::<Vec<_>>()
    };
    assert_eq!(spans(&halves), [(0, 30), (30, 60)]);
    assert_eq!(spans(&[&halves[..], &[at(Class::Checkpoint, 20, 31)]].concat()), [(0, 60)]);
}

/// Two hours that have a part and grounds in common.
#[test]
fn joined_hours_say_what_both_say() {
    let at = |class, hour: i64, from, to| Interval {
        ms: 7 * MINUTE,
        confidence: 0.5,
        variance_ms2: (hour == 0).then_some(4),
        energy: (hour == 1).then_some(Energy { mj: 3, ms: MINUTE, counted_ms: 0 }),
        missing: vec![format!("of hour {hour}")].into_iter().filter(|_| class == Class::Productive).collect(),
        ..at(class, hour * 60 + from, hour * 60 + to)
    };
    let all = [
        at(Class::IdleHeld, 0, 50, 60),
        at(Class::IdleHeld, 1, 0, 10),
        at(Class::Productive, 0, 0, 50),
        at(Class::Productive, 1, 10, 60),
    ];
    let hours = RollUp::fold(&all);
    assert_eq!(hours.len(), 2);
    let joined = RollUp::joined(hours.iter().rev().cloned().collect()).unwrap();
    assert_eq!(RollUp::joined(hours).as_ref(), Some(&joined));
    assert_eq!((joined.start_ms, joined.end_ms, joined.grounds.len()), (0, 120 * MINUTE, 3));
    let parts: Vec<_> = joined.parts().map(|(_, part)| part).collect();
    let told: Vec<_> = parts.iter().map(|part| (part.class, &joined.grounds[part.grounds].missing[..])).collect();
    let of = |hour: usize| [format!("of hour {hour}")];
    let mut expected = [(Class::IdleHeld, &[][..]), (Class::Productive, &of(0)[..]), (Class::Productive, &of(1)[..])];
    expected.sort_by_key(|(class, missing)| (*class, missing.to_vec()));
    assert_eq!(told, expected);
    let idle = parts.iter().find(|part| part.class == Class::IdleHeld).unwrap();
    assert_eq!((idle.ms, idle.variance_ms2), (14 * MINUTE, None));
    assert_eq!(idle.energy, Some(Energy { mj: 3, ms: MINUTE, counted_ms: 0 }));
    assert_eq!(idle.stretches, [Stretch { start_ms: 50 * MINUTE, end_ms: 70 * MINUTE, ms: 14 * MINUTE }]);
    assert_eq!(RollUp::joined(Vec::new()), None);
}

/// Whatever the order, the sums by class and the file are the same.
#[test]
fn the_order_of_intervals_does_not_matter() {
    let all: Vec<Interval> = (0..24)
        .map(|n| Interval {
            gpu: format!("GPU-{}", n % 3),
            confidence: 0.1 * f64::from(n % 7),
            ..at(Class::ALL[n as usize % 5], i64::from(n) * 10, i64::from(n) * 10 + 10)
        })
        .collect();
    let folded = RollUp::fold(&all);
    let reversed: Vec<Interval> = all.iter().rev().cloned().collect();
    assert_eq!(folded, RollUp::fold(&reversed));
    let mut sums: BTreeMap<Class, i64> = BTreeMap::new();
    all.iter().for_each(|i| *sums.entry(i.class).or_default() += i.ms);
    for (_, part) in folded.iter().flat_map(RollUp::parts) {
        *sums.entry(part.class).or_default() -= part.ms;
    }
    assert!(sums.values().all(|left| *left == 0), "{sums:?}");
    assert!(folded.iter().all(|hour| hour.end_ms - hour.start_ms <= HOUR_MS));
}
