//! Through nvml-wrapper.

use crate::{PATIENCE, isolated, load, until};
use goodput_lab::gpu::{Calls, NodeSpec, now_us};
use nvml_wrapper::Nvml;
use nvml_wrapper::bitmasks::event::EventTypes;
use nvml_wrapper::enum_wrappers::device::{Clock, Sampling, TemperatureSensor, TopologyLevel};
use nvml_wrapper::enums::device::{SampleValue, UsedGpuMemory};
use nvml_wrapper::enums::event::XidError;
use nvml_wrapper::error::NvmlError;
use serde_json::json;
use std::sync::mpsc;
use std::time::{Duration, Instant, SystemTime};

fn gpu_samples(device: &nvml_wrapper::Device, seen_us: u64) -> Vec<(u64, u32)> {
    let value = |value| match value {
        SampleValue::U32(percent) => percent,
        other => panic!("a utilization sample is {other:?}"),
    };
    match device.samples(Sampling::GpuUtilization, seen_us) {
        Ok(samples) => samples.into_iter().map(|s| (s.timestamp, value(s.value))).collect(),
        Err(NvmlError::NotFound) => Vec::new(),
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn a_node_is_enumerated_as_described() {
    isolated(NodeSpec::h100(8), |_, library| {
        let nvml = load(library);
        assert_eq!(nvml.device_count().unwrap(), 8);
        assert_eq!(nvml.sys_driver_version().unwrap(), "580.105.08");
        let device = nvml.device_by_index(4).unwrap();
        assert_eq!(device.name().unwrap(), "NVIDIA H100 80GB HBM3");
        let pci = device.pci_info().unwrap();
        assert_eq!((pci.bus_id.as_str(), pci.pci_device_id), ("00000000:9B:00.0", 0x2330_10de));
        for same in [nvml.device_by_uuid(device.uuid().unwrap()), nvml.device_by_pci_bus_id("0000:9b:00.0")] {
            assert_eq!(same.unwrap().index().unwrap(), 4);
        }
        assert_eq!(device.memory_info().unwrap().total, 81559 << 20);
        assert_eq!(device.cpu_affinity(2).unwrap(), [!0 << 52, (1 << 40) - 1]);
        let level = device.topology_common_ancestor(nvml.device_by_index(0).unwrap()).unwrap();
        assert_eq!(level, TopologyLevel::System);
        assert!(matches!(nvml.device_by_index(8), Err(NvmlError::InvalidArg)));
    });
}

#[test]
fn utilization_follows_work() {
    isolated(NodeSpec::h100(2), |node, library| {
        let nvml = load(library);
        let device = nvml.device_by_index(1).unwrap();
        let utilization = || device.utilization_rates().unwrap().gpu;
        let idle = device.clock_info(Clock::SM).unwrap();
        assert_eq!((utilization(), idle), (0, 345));
        let work = node.work(1, None).unwrap();
        until("full utilization", || utilization() == 100);
        until("more power", || device.power_usage().unwrap() > 500_000);
        assert_eq!(device.clock_info(Clock::SM).unwrap(), 1980);
        assert_eq!(nvml.device_by_index(0).unwrap().utilization_rates().unwrap().gpu, 0);
        work.stop().unwrap();
        until("no utilization", || utilization() == 0);
    });
}

#[test]
fn the_samples_hold_exactly_the_injected_work() {
    isolated(NodeSpec::h100(1), |node, library| {
        let nvml = load(library);
        let device = nvml.device_by_index(0).unwrap();
        let begin = SystemTime::now() - Duration::from_secs(10);
        for step in 0..20 {
            node.busy(0, begin + Duration::from_millis(250 * step), Duration::from_millis(110), None).unwrap();
        }
        let samples = gpu_samples(&device, 0);
        assert_eq!(samples.len(), 120);
        assert!(samples.windows(2).all(|pair| pair[1].0 - pair[0].0 == 166_667));
        let busy_ms: f64 = samples.iter().map(|(_, percent)| f64::from(*percent) / 100.0 * 166.667).sum();
        assert!((busy_ms - 20.0 * 110.0).abs() < 166.667, "{busy_ms} ms");
        let last = samples[119].0;
        assert!(gpu_samples(&device, last).iter().all(|(at, _)| *at > last));
    });
}

#[test]
fn samples_can_count_from_boot_and_run_dry() {
    let boot_us = now_us() - 3_600_000_000;
    let spec = NodeSpec::h100(1).with("sample_epoch_us", boot_us).with("dry_when_idle", true);
    isolated(spec, |node, library| {
        let nvml = load(library);
        let device = nvml.device_by_index(0).unwrap();
        assert!(matches!(device.samples(Sampling::GpuUtilization, 0), Err(NvmlError::NotFound)));
        node.busy(0, SystemTime::now() - Duration::from_secs(2), Duration::from_secs(1), None).unwrap();
        let samples = gpu_samples(&device, 0);
        assert!((6..=7).contains(&samples.len()), "{samples:?}");
        let hour = 3_590_000_000..3_660_000_000;
        assert!(samples.iter().all(|(at, percent)| hour.contains(at) && *percent > 0), "{samples:?}");
        assert_eq!(gpu_samples(&device, samples[2].0), samples[3..]);
    });
}

#[test]
fn two_readers_see_the_same() {
    isolated(NodeSpec::h100(1), |node, library| {
        // Another inode is another library to the loader: two copies share nothing but the log.
        let copy = node.env().1.with_file_name("copy.so");
        std::fs::copy(library, &copy).unwrap();
        let (one, two) = (load(library), load(&copy));
        node.process(0, std::process::id(), 5 << 30).unwrap();
        node.busy(0, SystemTime::now() - Duration::from_secs(3), Duration::from_millis(1700), None).unwrap();
        let read = |nvml: &Nvml| {
            let device = nvml.device_by_index(0).unwrap();
            (gpu_samples(&device, 0), device.memory_info().unwrap().used)
        };
        until("the same samples in both", || {
            let (first, second) = (read(&one), read(&two));
            assert_eq!(first.1, second.1);
            first == second && first.0.iter().map(|(_, percent)| percent).sum::<u32>() > 900
        });
    });
}

#[test]
fn any_call_can_fail_with_any_code_on_any_gpu() {
    isolated(NodeSpec::h100(2), |node, library| {
        let nvml = load(library);
        let (zero, one) = (nvml.device_by_index(0).unwrap(), nvml.device_by_index(1).unwrap());
        let power = Calls::all().named("nvmlDeviceGetPowerUsage").on(1);
        node.fault(&power, "NO_PERMISSION").unwrap();
        assert!(matches!(one.power_usage(), Err(NvmlError::NoPermission)));
        assert!(zero.power_usage().is_ok() && one.name().is_ok());
        node.fault(&power, 28).unwrap();
        assert!(matches!(one.power_usage(), Err(NvmlError::UnexpectedVariant(28))));
        node.clear(&power).unwrap();
        assert!(one.power_usage().is_ok());
        node.fault(&Calls::all(), "UNKNOWN").unwrap();
        assert!(matches!(zero.name(), Err(NvmlError::Unknown)));
        assert!(matches!(nvml.device_count(), Err(NvmlError::Unknown)));
    });
}

#[test]
fn a_hang_blocks_its_own_calls_until_it_is_cleared() {
    isolated(NodeSpec::h100(2), |node, library| {
        let nvml = load(library);
        node.hang(&Calls::all().on(1), None).unwrap();
        std::thread::scope(|scope| {
            let (done, finished) = mpsc::channel();
            let device = nvml.device_by_index(0).unwrap();
            scope.spawn(|| {
                let nvml = load(library);
                done.send(nvml.device_by_index(1).and_then(|device| device.name())).unwrap();
                drop(done);
            });
            for _ in 0..100 {
                device.power_usage().unwrap();
                assert!(matches!(finished.try_recv(), Err(mpsc::TryRecvError::Empty)));
            }
            node.clear(&Calls::all().on(1)).unwrap();
            assert_eq!(finished.recv_timeout(PATIENCE).unwrap().unwrap(), "NVIDIA H100 80GB HBM3");
        });
        let slow = Calls::all().named("nvmlDeviceGetName");
        node.hang(&slow, Some(Duration::from_millis(300))).unwrap();
        let begun = Instant::now();
        nvml.device_by_index(0).unwrap().name().unwrap();
        assert!(begun.elapsed() >= Duration::from_millis(300));
    });
}

#[test]
fn each_xid_comes_once_and_waiting_takes_its_time() {
    isolated(NodeSpec::h100(2), |node, library| {
        let nvml = load(library);
        node.xid(0, 13).unwrap();
        let set = nvml.create_event_set().unwrap();
        let set = nvml.device_by_index(0).unwrap().register_events(EventTypes::CRITICAL_XID_ERROR, set).unwrap();
        node.xid(1, 48).unwrap();
        let begun = Instant::now();
        assert!(matches!(set.wait(100), Err(NvmlError::Timeout)));
        assert!(begun.elapsed() >= Duration::from_millis(100));
        node.xid(0, 79).unwrap();
        let event = set.wait(PATIENCE.as_millis() as u32).unwrap();
        assert_eq!((event.event_data, event.device.index().unwrap()), (Some(XidError::Value(79)), 0));
        assert!(matches!(set.wait(0), Err(NvmlError::Timeout)));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(Duration::from_millis(50));
                node.xid(0, 63).unwrap();
            });
            assert_eq!(set.wait(PATIENCE.as_millis() as u32).unwrap().event_data, Some(XidError::Value(63)));
        });
    });
}

#[test]
fn a_lost_gpu_fails_at_its_lookup_and_the_others_go_on() {
    isolated(NodeSpec::h100(3), |node, library| {
        let nvml = load(library);
        let held = nvml.device_by_index(1).unwrap();
        node.lose(1).unwrap();
        assert!(matches!(nvml.device_by_index(1), Err(NvmlError::GpuLost)));
        assert!(matches!(held.power_usage(), Err(NvmlError::GpuLost)));
        assert!(nvml.device_by_index(0).unwrap().power_usage().is_ok());
        assert_eq!(nvml.device_count().unwrap(), 3);
        node.find(1).unwrap();
        assert!(held.power_usage().is_ok());
    });
}

#[test]
fn a_reloaded_driver_wants_a_new_initialisation() {
    isolated(NodeSpec::h100(1), |node, library| {
        let nvml = load(library);
        node.unload().unwrap();
        assert!(matches!(nvml.device_count(), Err(NvmlError::DriverNotLoaded)));
        let again = Nvml::builder().lib_path(library.as_os_str()).init();
        assert!(matches!(again, Err(NvmlError::DriverNotLoaded)));
        node.load(Some("595.91.07")).unwrap();
        assert!(matches!(nvml.device_count(), Err(NvmlError::Uninitialized)));
        nvml.shutdown().unwrap();
        let nvml = load(library);
        assert_eq!(nvml.sys_driver_version().unwrap(), "595.91.07");
        assert!(nvml.device_by_index(0).unwrap().total_energy_consumption().unwrap() < 68 * 60_000);
    });
}

#[test]
fn processes_are_listed_with_what_they_use() {
    isolated(NodeSpec::h100(1), |node, library| {
        let nvml = load(library);
        let device = nvml.device_by_index(0).unwrap();
        assert!(device.running_compute_processes().unwrap().is_empty());
        for pid in [11, 12, 13] {
            node.process(0, pid, 1 << 30).unwrap();
        }
        node.append(&json!({"process": {"gpu": 0, "pid": 14}})).unwrap();
        assert_eq!(device.running_compute_processes_count().unwrap(), 4);
        let memory = |pid| {
            device.running_compute_processes().unwrap().iter().find(|p| p.pid == pid).unwrap().used_gpu_memory.clone()
        };
        assert_eq!(memory(12), UsedGpuMemory::Used(1 << 30));
        assert_eq!(memory(14), UsedGpuMemory::Unavailable);
        let _work = node.work_at(0, Some(13), json!({"gpu": 40, "memory": 5})).unwrap();
        let uses = || device.process_utilization_stats(now_us() - 2_000_000).unwrap_or_default();
        until("the process at 40 %", || uses().iter().any(|u| (u.pid, u.sm_util, u.mem_util) == (13, 40, 5)));
        node.exit(0, 13).unwrap();
        assert_eq!(device.running_compute_processes_count().unwrap(), 3);
    });
}

#[test]
fn gpm_averages_over_the_callers_interval() {
    isolated(NodeSpec::h100(1), |node, library| {
        let nvml = load(library);
        let device = nvml.device_by_index(0).unwrap();
        assert!(device.gpm_support().unwrap());
        let load = json!({"gpu": 80, "sm": 60, "pcie_rx": 1_048_576_000});
        let _work = node.work_at(0, None, load).unwrap();
        let first = device.gpm_sample().unwrap();
        std::thread::sleep(Duration::from_millis(100));
        let second = device.gpm_sample().unwrap();
        use nvml_wrapper::enums::gpm::GpmMetricId::{PcieRxPerSec, SmUtil};
        let metrics = nvml_wrapper::gpm::gpm_metrics_get(&nvml, &first, &second, &[SmUtil, PcieRxPerSec]).unwrap();
        let values: Vec<_> = metrics.into_iter().map(|metric| metric.unwrap().value).collect();
        assert!((values[0] - 60.0).abs() < 0.01 && (values[1] - 1000.0).abs() < 0.1, "{values:?}");
    });
}

#[test]
fn a_gpu_that_is_cut_up_refuses_what_the_real_one_refuses_and_its_parts_answer() {
    isolated(NodeSpec::h100(2), |node, library| {
        let nvml = load(library);
        let device = nvml.device_by_index(1).unwrap();
        assert_eq!((device.mig_mode().unwrap().current, device.mig_device_count().unwrap()), (0, 7));
        assert!(matches!(device.mig_device_by_index(0), Err(NvmlError::NotFound)));
        node.mig(1, &[(2, "3g.40gb"), (9, "1g.10gb")]).unwrap();
        node.process_in(1, 9, 4711, 1 << 30).unwrap();
        assert_eq!(device.mig_mode().unwrap().current, 1);
        assert!(matches!(device.utilization_rates(), Err(NvmlError::NotSupported)));
        assert!(matches!(device.samples(Sampling::GpuUtilization, 0), Err(NvmlError::NotSupported)));
        assert!(device.power_usage().is_ok() && device.samples(Sampling::Power, 0).is_ok());
        let (large, small) = (device.mig_device_by_index(0).unwrap(), device.mig_device_by_index(1).unwrap());
        assert_eq!(large.name().unwrap(), "NVIDIA H100 80GB HBM3 MIG 3g.40gb");
        assert_eq!(small.uuid().unwrap(), "MIG-00002330-0001-5000-8000-000000000900");
        assert_eq!(small.mig_parent_device().unwrap().index().unwrap(), 1);
        assert_eq!(large.attributes().unwrap().gpu_instance_slice_count, 3);
        let used = |device: &nvml_wrapper::Device| device.memory_info().unwrap().used;
        assert_eq!((used(&device), used(&large), used(&small)), (1 << 30, 0, 1 << 30));
        assert_eq!(device.running_compute_processes().unwrap()[0].gpu_instance_id, Some(9));
        assert_eq!(small.running_compute_processes().unwrap().len(), 1);
        assert!(large.running_compute_processes().unwrap().is_empty());
        assert!(matches!(small.power_usage(), Err(NvmlError::NotSupported)));
        node.fault(&Calls::all().named("mig:nvmlDeviceGetMemoryInfo_v2"), "NO_PERMISSION").unwrap();
        assert!(matches!(small.memory_info(), Err(NvmlError::NoPermission)));
        assert!(device.memory_info().is_ok());
        node.mig(1, &[(9, "1g.10gb")]).unwrap();
        assert!(matches!(large.name(), Err(NvmlError::InvalidArg)));
        assert_eq!(device.mig_device_by_index(0).unwrap().uuid().unwrap(), small.uuid().unwrap());
    });
}

#[test]
fn calls_are_counted_by_name() {
    isolated(NodeSpec::h100(1), |node, library| {
        let nvml = load(library);
        let device = nvml.device_by_index(0).unwrap();
        for _ in 0..5 {
            device.temperature(TemperatureSensor::Gpu).unwrap();
        }
        let counts = || -> serde_json::Value {
            serde_json::from_slice(&std::fs::read(node.env().1.with_file_name("calls.json")).unwrap()).unwrap()
        };
        node.count().unwrap();
        device.name().unwrap();
        assert_eq!(counts()["nvmlDeviceGetTemperature"], 5);
        nvml.shutdown().unwrap();
        assert_eq!((&counts()["nvmlDeviceGetName"], &counts()["nvmlInit_v2"]), (&json!(1), &json!(1)));
    });
}

#[test]
fn a_log_that_makes_no_sense_stops_everything() {
    isolated(NodeSpec::h100(1), |node, library| {
        let nvml = load(library);
        node.append(&json!({"busy": {"gpu": 0}})).unwrap();
        assert!(matches!(nvml.device_count(), Err(NvmlError::Unknown)));
        node.find(0).unwrap();
        assert!(matches!(nvml.device_count(), Err(NvmlError::Unknown)));
    });
}
