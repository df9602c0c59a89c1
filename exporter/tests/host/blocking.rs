//! Files whose read does not come back, as on a device or server that hangs.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use goodput_exporter::attribute::Owners;
use goodput_exporter::registry::REGISTRY;
use goodput_exporter::scrape::{Outcome, Scrape, Scraper, Setup};
use goodput_exposition::{Format, Style, encode};
use rustix::fs::{CWD, Mode, mkfifoat};

use crate::support::Machine;

/// Collectors, each with a file that it reads.
const BLOCKED: [(&str, &str); 3] =
    [("pressure", "proc/pressure/cpu"), ("storage", "proc/diskstats"), ("cpu", "proc/stat")];

fn scraper(machine: &Machine) -> Scraper {
    let names = ["pressure", "storage", "memory", "cpu", "swap"];
    let entry = |name| REGISTRY.iter().find(|entry| entry.name == name).unwrap();
    let setup = Setup {
        collectors: names.map(entry).to_vec(),
        roots: Arc::new(machine.roots()),
        gpus: Arc::new(Arc::default),
        resolve: Arc::new(|_, _| Owners::default()),
        hostname: "node".into(),
        style: Style::default(),
        dcgm: Arc::default(),
        nccl: Arc::default(),
        counters: None,
        relay: None,
        reuse: Duration::ZERO,
        refusals: Arc::default(),
    };
    Scraper::start(setup).unwrap()
}

fn scrape(scraper: &Scraper) -> Arc<Scrape> {
    scraper.request(Instant::now() + Duration::from_secs(60)).blocking_recv().unwrap()
}

fn outcome<'a>(scrape: &'a Scrape, name: &str) -> &'a Outcome {
    &scrape.reports.iter().find(|report| report.name == name).unwrap().outcome
}

fn block(path: &Path) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    mkfifoat(CWD, path, Mode::RUSR | Mode::WUSR).unwrap();
}

#[test]
fn a_read_that_blocks_costs_its_own_families_and_heals() {
    let machine = Machine::empty();
    machine.write("sys/block/vda/size", "1\n");
    machine.write("proc/meminfo", "MemTotal: 10 kB\nDirty: 5 kB\n");
    machine.write("proc/vmstat", "pgmajfault 7\npswpin 3\npswpout 4\n");
    machine.write("proc/swaps", "Filename\tType\tSize\tUsed\tPriority\n");
    BLOCKED.iter().for_each(|(_, file)| block(&machine.path(file)));
    let scraper = scraper(&machine);
    for _ in 0..2 {
        let scrape = scrape(&scraper);
        for (name, _) in BLOCKED {
            assert_eq!(outcome(&scrape, name), &Outcome::TimedOut, "{name}");
        }
        assert_eq!((outcome(&scrape, "memory"), outcome(&scrape, "swap")), (&Outcome::Ok, &Outcome::Ok));
        let text = encode(&scrape.families, Format::Text);
        assert!(text.contains("goodput_memory_dirty_bytes 5120\n"), "{text}");
        assert!(!text.contains("goodput_pressure_") && !text.contains("goodput_disk_"), "{text}");
    }

    for (name, file) in BLOCKED {
        // Opening the pipe for writing ends the wait of the thread that opened it for reading.
        let pipe = std::fs::OpenOptions::new().write(true).open(machine.path(file)).unwrap();
        std::fs::remove_file(machine.path(file)).unwrap();
        let text = match name {
            "pressure" => "some avg10=0.00 avg60=0.00 avg300=0.00 total=2000000\n",
            "storage" => " 254 0 vda 1 2 3 4 5 6 7 8 0 10 11\n",
            _ => "cpu0 1 2 3 4 5 6 7 8 9 10\n",
        };
        machine.write(file, text);
        drop(pipe);
    }
    let text = (0..10_000).find_map(|_| {
        let scrape = scrape(&scraper);
        let healed = BLOCKED.iter().all(|(name, _)| outcome(&scrape, name) == &Outcome::Ok);
        healed.then(|| encode(&scrape.families, Format::Text))
    });
    let text = text.unwrap();
    assert!(text.contains("goodput_pressure_waiting_seconds_total{resource=\"cpu\"} 2\n"), "{text}");
}
