use super::super::text::Form;
use super::*;
use goodput_exposition::sample::{Labels, Sample};
use goodput_exposition::{Format, Limits, parse};
use goodput_verdict::CauseKind;

const FORM: Form = Form { width: 100, is_verbose: false };

/// Some second of some hour: no cell begins here.
const START: TimeMs = 1_795_230_017_345;

/// A minute of scrapes: GPU 0 works half of the time while its job waits for reads, GPU 1 is held and idle.
fn minute() -> Vec<Series> {
    let mut all: BTreeMap<_, Vec<Sample>> = BTreeMap::new();
    for second in 0..=60 {
        let busy = 0.5 * f64::from(second);
        let text = format!(
            "node_uname_info{{nodename=\"n1\",instance=\"n1:9400\"}} 1\n\
             goodput_gpu_busy_seconds_total{{gpu=\"0\",UUID=\"GPU-a\",instance=\"n1:9400\"}} {busy}\n\
             goodput_gpu_observed_seconds_total{{gpu=\"0\",UUID=\"GPU-a\",instance=\"n1:9400\"}} {second}\n\
             goodput_gpu_owner_info{{gpu=\"0\",UUID=\"GPU-a\",owner=\"job/7\",instance=\"n1:9400\"}} 1\n\
             goodput_cgroup_pressure_waiting_seconds_total{{owner=\"job/7\",resource=\"io\",instance=\"n1:9400\"}} {busy}\n\
             goodput_cgroup_cpu_usage_seconds_total{{owner=\"job/7\",instance=\"n1:9400\"}} {second}\n\
             goodput_cgroup_allowed_cpus{{owner=\"job/7\",instance=\"n1:9400\"}} 16\n\
             goodput_gpu_busy_seconds_total{{gpu=\"1\",UUID=\"GPU-b\",instance=\"n1:9400\"}} 0\n\
             goodput_gpu_observed_seconds_total{{gpu=\"1\",UUID=\"GPU-b\",instance=\"n1:9400\"}} {second}\n\
             goodput_gpu_owner_info{{gpu=\"1\",UUID=\"GPU-b\",owner=\"job/8\",instance=\"n1:9400\"}} 1\n\
             goodput_gpu_numa_info{{gpu=\"1\",UUID=\"GPU-b\",node=\"1\",instance=\"n1:9400\"}} 1\n\
             goodput_gpu_numa_allowed_cpus{{gpu=\"1\",UUID=\"GPU-b\",node=\"0\",instance=\"n1:9400\"}} 16\n"
        );
        let batch = parse(&text, Format::Text, Limits::NONE, START + i64::from(second) * 1000).unwrap();
        for series in batch {
            all.entry(series.labels).or_default().extend(series.samples);
        }
    }
    all.into_iter().map(|(labels, samples)| Series { labels, samples }).collect()
}

fn asked() -> Answer {
    answer(minute(), START, Duration::from_secs(60), &Thresholds::default()).unwrap()
}

#[test]
fn a_minute_is_one_whole_cell_and_names_class_and_evidence() {
    let answer = asked();
    let shares: Vec<Vec<(Class, f64)>> =
        answer.gpus.iter().map(|g| g.classes.iter().map(|c| (c.class, c.share)).collect()).collect();
    assert_eq!(
        shares,
        [
            vec![(Class::Productive, 0.5), (Class::DataloaderStorage, 0.5)],
            vec![(Class::IdleHeld, 1.0)] // although a minute is less than the idle window
        ]
    );
    let storage = &answer.gpus[0].classes[1];
    assert_eq!(storage.owner.as_deref(), Some("job/7"));
    assert!(storage.evidence.iter().any(|e| e.signal == "job_io_pressure" && e.value > e.threshold));
    assert_eq!(answer.gpus[0].remedies, Class::DataloaderStorage.info().remedies);
}

#[test]
fn the_text_has_a_table_then_a_block_for_each_cause_and_all_of_it_when_asked() {
    let text = asked().text(FORM);
    for part in [
        "damage  unknown: the target exports no errors and no states of hardware\nrisks   none\naudit   unknown",
        "\nGPU  job      busy  cause                      lost\n\
         1    job/8     0 %  Held without work         100 %\n\
         0    job/7  50.0 %  Late input from storage  50.0 %\n",
        "\nLate input from storage (dataloader_storage): job/7\n  The GPU waited",
        "\n  lost 50.0 % of GPU 0; confidence ",
        "job_io_pressure = 50 % of the time (threshold 10 % of the time)\n",
        "    1. See whether an I/O limit is set",
    ] {
        assert!(text.contains(part), "{part:?} is not in\n{text}");
    }
    let all = asked().text(Form { is_verbose: true, ..FORM });
    for part in ["\nGPU 0 on n1  model unknown  GPU-a\n", "   50.0 %  productive: ", "; rule version "] {
        assert!(all.contains(part) && !text.contains(part), "{part:?} in\n{all}");
    }
}

#[test]
fn the_port_that_was_waited_for_is_named_with_its_cause() {
    let mut answer = asked();
    let class = &mut answer.gpus[1].classes[0];
    class.class = Class::NetworkSlow;
    class.charged_to = Some(Culprit { node: "n2".into(), gpu: None });
    class.cause = Some(Cause { kind: CauseKind::Link, which: Some("mlx5_4/1".into()) });
    let text = answer.text(FORM);
    for part in [
        "\n  cause link: A port is down, or runs below the line rate of its peers.\n",
        "; caused by port mlx5_4/1 of n2\n",
        "what to do\n    1. See why the link is as it is",
        "\n         mlxlink -d mlx5_4 -m -c\n",
    ] {
        assert!(text.contains(part), "{part:?} is not in\n{text}");
    }
    let all = answer.text(Form { is_verbose: true, ..FORM });
    assert!(all.contains("\n           caused by port mlx5_4/1 of n2\n           cause link: A port is down"), "{all}");
}

/// The minute of GPU 0, on eight GPUs of one job.
fn eight_alike() -> Vec<Series> {
    let of_gpu = |gpu| move |series: &Series| series.labels.get("gpu") == gpu;
    let (first, others): (Vec<Series>, Vec<Series>) = minute().into_iter().partition(of_gpu(Some("0")));
    let mut all: Vec<Series> = others.into_iter().filter(of_gpu(None)).collect();
    for (gpu, series) in (0..8).flat_map(|gpu| first.iter().map(move |series| (gpu, series))) {
        let own = |(name, value): (&str, &str)| match name {
            "gpu" => (name.to_owned(), format!("{gpu}")),
            "UUID" => (name.to_owned(), format!("GPU-{gpu}")),
            _ => (name.to_owned(), value.to_owned()),
        };
        all.push(Series { labels: Labels::new(series.labels.iter().map(own)), samples: series.samples.clone() });
    }
    all
}

#[test]
fn gpus_that_wait_for_one_cause_share_its_evidence_and_remedy() {
    let answer = answer(eight_alike(), START, Duration::from_secs(60), &Thresholds::default()).unwrap();
    let text = answer.text(FORM);
    assert!(text.contains("  lost 50.0 % of GPU 0, 1, 2, 3, 4, 5, 6, 7; confidence "), "{text}");
    assert_eq!(text.matches("what to do").count(), 1, "{text}");
    assert_eq!(text.matches("job_io_pressure = ").count(), 1, "{text}");
}

#[test]
fn advisories_are_told_beside_the_classes() {
    let answer = asked();
    assert_eq!(answer.gpus[0].advisories, []);
    let [advised] = answer.gpus[1].advisories.as_slice() else { panic!("{answer:?}") };
    assert_eq!((advised.advice, advised.owner.as_deref()), (Advice::CrossNuma, Some("job/8")));
    let text = answer.text(FORM);
    for part in [
        "\nAdvisory (cross_numa): job/8 on GPU 1\n  The GPU's processes",
        "gpu_allowed_cpus on its NUMA node / all = 0 % (threshold 10 %)\n",
        "    1. Bind each process to the NUMA node of its GPU",
    ] {
        assert!(text.contains(part), "{part:?} is not in\n{text}");
    }
}

#[test]
fn a_free_gpu_that_is_damaged_is_not_sent_to_the_queue() {
    let mut series = minute();
    let told = [("gpu", "1"), ("UUID", "GPU-b"), ("xid", "79"), ("class", "bus"), ("action", "restart_node")];
    let instance = [("__name__", "goodput_gpu_xid_errors_total"), ("instance", "n1:9400")];
    let labels = Labels::new(told.into_iter().chain(instance));
    let samples = (0..=60).map(|second| Sample { time_ms: START + second * 1000, value: 1.0 }).collect();
    series.push(Series { labels, samples });
    let answer = answer(series, START, Duration::from_secs(60), &Thresholds::default()).unwrap();
    let text = answer.text(FORM);
    assert!(text.starts_with("damage  GPU 1: XID 79 ("), "{text}");
    assert_ne!(answer.gpus[1].remedies, answer.gpus[1].classes[0].class.info().remedies, "{text}");
    assert!(text.contains("\nDamaged: GPU 1\n  what to do\n") && !text.contains("(idle_held)"), "{text}");
}

#[test]
fn gpus_are_chosen_by_index_uuid_or_owner() {
    let chosen = |choose: &dyn Fn(&mut Answer)| {
        let mut answer = asked();
        choose(&mut answer);
        answer.gpus.into_iter().map(|g| g.gpu).collect::<Vec<_>>()
    };
    assert_eq!(chosen(&|a| a.keep_gpu("1")), ["GPU-b"]);
    assert_eq!(chosen(&|a| a.keep_gpu("GPU-a")), ["GPU-a"]);
    assert_eq!(chosen(&|a| a.keep_owner("job/8")), ["GPU-b"]);
    assert_eq!(chosen(&|a| a.keep_gpu("2")), [] as [&str; 0]);
}
