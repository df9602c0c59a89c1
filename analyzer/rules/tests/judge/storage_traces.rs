//! MLPerf Storage: step times of emulated accelerators over real I/O, with the utilisation (AU) that the benchmark computed
//! itself: time of computation over wall time, the first step left out. Read in place.

use std::path::{Path, PathBuf};

use goodput_exposition::sample::{Labels, Sample, Series, TimeMs};
use goodput_rules::classify::{Thresholds, judge_series};
use goodput_verdict::Class;
use serde_json::Value;

/// Points of AU by which the ledger may differ from what the file says of itself: what recomputing it from the file's
/// own steps does.
const TOLERANCE: f64 = 0.15;

fn read(path: &Path) -> Value {
    let text = std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}: this test needs it", path.display()));
    serde_json::from_str(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

fn traces() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/traces/mlperf-storage")
}

/// One epoch of one rank, in seconds.
struct Epoch {
    wall: f64,
    steps: Vec<f64>,
    compute: Vec<f64>,
    /// Percent, by the file.
    au: f64,
}

impl Epoch {
    fn of(rank: &Value, stats: &Value, number: &str) -> Epoch {
        let seconds = |name: &str| -> Vec<f64> {
            rank[number][name]["block1"].as_array().unwrap().iter().map(|v| v.as_f64().unwrap()).collect()
        };
        let wall = stats[number]["block1"]["duration"].as_str().unwrap().parse().unwrap();
        let au = rank[number]["au"]["block1"].as_f64().unwrap();
        Epoch { wall, steps: seconds("proc"), compute: seconds("compute"), au }
    }

    /// Wall time after the first step, which is a cold read.
    fn length_ms(&self) -> TimeMs {
        ((self.wall - self.steps[0]) * 1000.0).round() as TimeMs
    }

    /// When the accelerator computed, from the end of the first step on: at the end of each step. What no step explains
    /// lies between them.
    fn busy(&self) -> Vec<(f64, f64)> {
        let rest = self.wall - self.steps.iter().sum::<f64>();
        let pause = rest / (self.steps.len() - 1) as f64;
        let mut end = 0.0;
        let of_step = |(step, compute): (&f64, &f64)| {
            end += pause + step;
            (end - compute, end)
        };
        self.steps.iter().zip(&self.compute).skip(1).map(of_step).collect()
    }

    /// What our exporter's counters tell of it, sampled every second.
    fn series(&self) -> Vec<Series> {
        let busy = self.busy();
        let end = self.length_ms();
        let times = || (0..end).step_by(1000).chain([end]);
        let busy_until = |time: TimeMs| {
            let now = time as f64 / 1000.0;
            busy.iter().map(|(from, to)| now.min(*to) - now.min(*from)).sum::<f64>()
        };
        let series = |name: &str, more: &[(&str, &str)], value: &dyn Fn(TimeMs) -> f64| {
            let all =
                [("__name__", name), ("UUID", "GPU-1"), ("Hostname", "n1"), ("modelName", "NVIDIA H100 80GB HBM3")];
            let samples = times().map(|time_ms| Sample { time_ms, value: value(time_ms) }).collect();
            Series { labels: Labels::new(all.into_iter().chain(more.iter().copied())), samples }
        };
        vec![
            series("goodput_gpu_busy_seconds_total", &[], &busy_until),
            series("goodput_gpu_observed_seconds_total", &[], &|time| time as f64 / 1000.0),
            series("goodput_gpu_owner_info", &[("owner", "train")], &|_| 1.0),
        ]
    }
}

/// Of every epoch of these ranks: the ledger's productive share is the benchmark's AU, and not the 5 points and more
/// above it that computation over the sum of steps would give; what no step explains is in the ledger too.
fn check(run: &str, ranks: &[&str]) {
    let stats = read(&traces().join(run).join("per_epoch_stats.json"));
    for rank in ranks {
        let file = read(&traces().join(run).join(format!("{rank}_output.json")));
        for number in ["1", "2", "3", "4", "5"] {
            let epoch = Epoch::of(&file, &stats, number);
            let window = 0..epoch.length_ms();
            let judged = judge_series(&epoch.series(), window.clone(), &Thresholds::default()).unwrap();
            let ms =
                |is: &dyn Fn(Class) -> bool| judged.intervals.iter().filter(|i| is(i.class)).map(|i| i.ms).sum::<i64>();
            let (whole, productive) = (window.end, ms(&|class| class == Class::Productive));
            let case = format!("{run}, rank {rank}, epoch {number}");
            let share = 100.0 * productive as f64 / whole as f64;
            assert!((share - epoch.au).abs() <= TOLERANCE, "{case}: {share} against {}", epoch.au);
            let of_steps = 100.0 * epoch.compute[1..].iter().sum::<f64>() / epoch.steps[1..].iter().sum::<f64>();
            assert!(of_steps - share > 5.0, "{case}: {of_steps} % of the time of steps, {share} % of the time");
            assert_eq!(ms(&|_| true), whole, "{case}: every millisecond once");
            let unexplained_by_steps = epoch.wall - epoch.steps.iter().sum::<f64>();
            let lost = (whole - productive) as f64 / 1000.0;
            assert!(lost > unexplained_by_steps && unexplained_by_steps > 0.0, "{case}: {lost} s lost");
        }
    }
}

#[test]
fn the_productive_share_of_unet3d_on_emulated_h100_is_its_au() {
    check("hpe-unet3d-h100-run1", &["0", "7", "14"]);
}

#[test]
fn the_productive_share_of_unet3d_on_emulated_a100_is_its_au() {
    check("weka-unet3d-a100-run1", &["0", "12"]);
}
