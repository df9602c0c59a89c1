//! A recorded scrape of dcgm-exporter, and a node of fake GPUs that reads as its machine did.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use goodput_lab::gpu::{FakeNode, NodeSpec};
use goodput_lab::process::until;
use goodput_tests::kubelet::wire::PodResources;
use goodput_tests::kubelet::{self, Kubelet, container, pod};
use goodput_tests::programs::Exporter;
use serde_json::json;
use tempfile::TempDir;

use crate::scrape::{Scrape, Series};

const MIB: f64 = 1_048_576.0;
const PATIENCE: Duration = Duration::from_secs(120);
/// How long owners may take besides: the kubelet is asked every 10 s.
const MOMENT: Duration = Duration::from_secs(90);
/// Readings of each GPU after which all that it has was read: what is a rate needs two that are 5 s apart.
const CYCLES: f64 = 12.0;

/// Families whose value the fake can be set to, and how many of its units one of theirs is.
const READINGS: &[(&str, &str, f64)] = &[
    ("DCGM_FI_DEV_SM_CLOCK", "sm_clock_mhz", 1.0),
    ("DCGM_FI_DEV_MEM_CLOCK", "memory_clock_mhz", 1.0),
    ("DCGM_FI_DEV_MEMORY_TEMP", "memory_temperature_c", 1.0),
    ("DCGM_FI_DEV_GPU_TEMP", "temperature_c", 1.0),
    ("DCGM_FI_DEV_POWER_USAGE", "power_mw", 1e3),
    ("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "energy_mj", 1.0),
    ("DCGM_FI_DEV_PCIE_REPLAY_COUNTER", "pcie_replays", 1.0),
    ("DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS", "remapped_uncorrectable", 1.0),
    ("DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS", "remapped_correctable", 1.0),
    ("DCGM_FI_DEV_ROW_REMAP_FAILURE", "remap_failure", 1.0),
];

/// Families that follow work, and its channel.
const LOADS: &[(&str, &str)] = &[
    ("DCGM_FI_DEV_GPU_UTIL", "gpu"),
    ("DCGM_FI_DEV_MEM_COPY_UTIL", "memory"),
    ("DCGM_FI_DEV_ENC_UTIL", "encoder"),
    ("DCGM_FI_DEV_DEC_UTIL", "decoder"),
];

/// A recording: its name in the table of differences, its file, and the memory in MiB of each device in order.
pub(crate) struct Recording {
    pub(crate) name: &'static str,
    file: &'static str,
    memory_mib: &'static [f64],
}

pub(crate) const RECORDINGS: &[Recording] = &[
    Recording {
        name: "8xh100",
        file: "../analyzer/rules/tests/fixtures/dcgm-8xh100-aicr/metrics.prom",
        memory_mib: &[81_559.0; 8],
    },
    Recording { name: "a100", file: "fixtures/dcgm-exporter/a100/metrics.prom", memory_mib: &[40_960.0] },
    Recording {
        name: "a100-mig",
        file: "fixtures/dcgm-exporter/a100-mig/metrics.prom",
        memory_mib: &[4864.0, 4864.0, 9856.0],
    },
    Recording { name: "l4", file: "fixtures/dcgm-exporter/l4/metrics.prom", memory_mib: &[23_034.0] },
    Recording {
        name: "t4",
        file: "../analyzer/rules/tests/fixtures/dcgm-t4-ericsson/metrics.prom",
        memory_mib: &[15_360.0],
    },
];

impl Recording {
    pub(crate) fn named(name: &str) -> &'static Self {
        RECORDINGS.iter().find(|recording| recording.name == name).unwrap()
    }

    pub(crate) fn scrape(&self) -> Scrape {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(self.file);
        Scrape::parse(&std::fs::read_to_string(path).unwrap())
    }
}

/// The fake node of a recording, and who was given its GPUs.
pub(crate) struct Node {
    folder: TempDir,
    pub(crate) gpus: FakeNode,
    _kubelet: Kubelet,
}

impl Node {
    pub(crate) fn of(recording: &Recording) -> Self {
        let recorded = recording.scrape();
        let folder = tempfile::tempdir().unwrap();
        let gpus = FakeNode::new(folder.path(), &spec(&recorded)).unwrap();
        let node = Self {
            _kubelet: Kubelet::start(&kubelet::socket(folder.path()).unwrap(), pods(&recorded)).unwrap(),
            folder,
            gpus,
        };
        let host = recorded.series[0].label("Hostname").unwrap();
        let file = node.folder().join("proc/sys/kernel/hostname");
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, host).unwrap();
        node.set(&recorded, recording.memory_mib);
        node
    }

    pub(crate) fn folder(&self) -> PathBuf {
        self.folder.path().to_owned()
    }

    fn set(&self, recorded: &Scrape, memory_mib: &[f64]) {
        let mut devices: BTreeMap<(usize, Option<u32>), Device<'_>> = BTreeMap::new();
        let mut order = Vec::new();
        for series in &recorded.series {
            let device = (series.gpu(), series.instance());
            if !order.contains(&device) {
                order.push(device);
            }
            devices.entry(device).or_default().insert(&series.name, series);
        }
        self.cut(&order, &devices);
        // Of a GPU with instances the first of them speaks last, and so for the board.
        for (device, memory_mib) in order.into_iter().zip(memory_mib).rev() {
            self.set_readings(device.0, &devices[&device]);
            if device.1.is_none() {
                self.load(device.0, &devices[&device]);
            }
            self.set_memory(device, &devices[&device], *memory_mib);
        }
    }

    /// Cuts up the GPU that has instances.
    fn cut(&self, order: &[(usize, Option<u32>)], devices: &BTreeMap<(usize, Option<u32>), Device<'_>>) {
        let profile = |device| devices[device].values().next().unwrap().label("GPU_I_PROFILE").unwrap();
        let instances = order.iter().filter_map(|device| Some((device.1?, profile(device))));
        let instances: Vec<_> = instances.collect();
        if !instances.is_empty() {
            self.gpus.mig(order[0].0, &instances).unwrap();
        }
    }

    fn set_readings(&self, gpu: usize, device: &Device<'_>) {
        for (family, reading, factor) in READINGS {
            if let Some(series) = device.get(family) {
                let value = (series.value * factor).round();
                // From the beginning: for as long as averages look back.
                let line = json!({"set": {"gpu": gpu, "at_us": 0, "reading": reading, "value": value}});
                self.gpus.append(&line).unwrap();
            }
        }
    }

    /// What utilization is made of, which no driver has of a GPU that is cut up.
    fn load(&self, gpu: usize, device: &Device<'_>) {
        let level = |family| device.get(family).map_or(0.0, |series| series.value);
        let load: BTreeMap<_, _> = LOADS.iter().map(|(family, channel)| (*channel, level(*family))).collect();
        let line = json!({"start": {"gpu": gpu, "id": "recorded", "at_us": 0, "load": load}});
        self.gpus.append(&line).unwrap();
    }

    /// Used and reserved bytes: whole MiB as recorded, and a part each of what their rounding down has lost.
    fn set_memory(&self, (gpu, instance): (usize, Option<u32>), device: &Device<'_>, total_mib: f64) {
        let mib = |family| device.get(family).map(|series| series.value);
        let (free, reserved) = (mib("DCGM_FI_DEV_FB_FREE"), mib("DCGM_FI_DEV_FB_RESERVED"));
        let Some(used) = mib("DCGM_FI_DEV_FB_USED") else { return };
        let known = reserved.is_some() || instance.is_some();
        let lost = if known { total_mib - free.unwrap() - used - reserved.unwrap_or(0.0) } else { 0.0 };
        let bytes = |mib: f64| ((mib + lost / 3.0) * MIB) as u64;
        match instance {
            Some(instance) => self.gpus.process_in(gpu, instance, 4000 + instance, bytes(used)).unwrap(),
            None => self.gpus.process(gpu, 4000, bytes(used)).unwrap(),
        }
        if let Some(reserved) = reserved {
            self.gpus.set(gpu, "reserved_bytes", bytes(reserved) as f64).unwrap();
        }
    }

    /// Starts the exporter on the node, with these arguments besides.
    pub(crate) fn start(&self, arguments: &[&str]) -> Running {
        let root = self.folder.path().display();
        let own = [
            format!("--path.rootfs={root}"),
            format!("--path.procfs={root}/proc"),
            "--collector.disable-defaults".to_owned(),
            "--collector.gpu".to_owned(),
            "--collector.owner".to_owned(),
        ];
        let arguments: Vec<_> = own.into_iter().chain(arguments.iter().map(|a| (*a).to_owned())).collect();
        self.start_with(&arguments)
    }

    /// Starts the exporter with these arguments alone.
    pub(crate) fn start_with(&self, arguments: &[String]) -> Running {
        Running(Exporter::start_with(self.folder.path(), &self.gpus, arguments).unwrap())
    }
}

/// Families of a device.
type Device<'a> = BTreeMap<&'a str, &'a Series>;

/// Model, driver, UUIDs and addresses.
fn spec(recorded: &Scrape) -> NodeSpec {
    let mut gpus = BTreeMap::new();
    for series in &recorded.series {
        gpus.insert(series.gpu(), json!({"uuid": series.label("UUID"), "pci": series.label("pci_bus_id")}));
    }
    let first = &recorded.series[0];
    let gpus: Vec<_> = gpus.into_values().collect();
    NodeSpec::new(first.label("modelName").unwrap(), gpus.len())
        .with("driver", first.label("DCGM_FI_DRIVER_VERSION").unwrap())
        .with("gpus", gpus)
}

/// Who was given a GPU.
fn pods(recorded: &Scrape) -> Vec<PodResources> {
    let mut pods = BTreeMap::new();
    for series in &recorded.series {
        if let Some(name) = series.label("pod") {
            let uuid = series.label("UUID").unwrap();
            let container = container(series.label("container").unwrap(), "nvidia.com/gpu", &[uuid]);
            let namespace = series.label("namespace").unwrap().to_owned();
            pods.insert(name, PodResources { namespace, ..pod(name, vec![container]) });
        }
    }
    pods.into_values().collect()
}

pub(crate) struct Running(pub(crate) Exporter);

impl Running {
    pub(crate) fn text(&mut self) -> String {
        self.0.running.goes_on().unwrap();
        let url = format!("http://{}/metrics", self.0.address);
        ureq::get(url).call().unwrap().body_mut().read_to_string().unwrap()
    }

    /// Scrapes until every GPU was read so often that nothing more can come, and `like` holds; at the latest the
    /// last scrape before patience is at its end.
    pub(crate) fn settled(&mut self, gpus: usize, like: impl Fn(&Scrape) -> bool) -> Scrape {
        let read = |text: &str| {
            let of = |line: &str| line.strip_prefix("goodput_gpu_read_cycles_total{")?.rsplit_once(' ')?.1.parse().ok();
            text.lines().filter_map(of).filter(|cycles: &f64| *cycles >= CYCLES).count() == gpus
        };
        until("every GPU to be read", PATIENCE, || Ok(read(&self.text()).then_some(()))).unwrap();
        let mut last = Scrape::default();
        let _ = until("the scrape to be as expected", MOMENT, || {
            last = Scrape::parse(&self.text());
            Ok(like(&last).then_some(()))
        });
        last
    }
}
