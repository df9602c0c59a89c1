//! A `libnvidia-ml.so.1` without a GPU: the C ABI of NVML over a state that a test changes while programs read it.
//!
//! It exports every name that a driver 590 library exports, except the export table that only `nvidia-smi` asks for. About
//! 130 functions answer; the others say `NOT_SUPPORTED`. As in the real library, a plain name is version 1 of its function,
//! struct versions are checked, and list calls follow the count protocol.
//!
//! # State
//!
//! The environment variable `FAKE_NVML` names an event log, read from its beginning at `nvmlInit` and followed from then on:
//! every call first applies what has been appended. All processes that follow the same log therefore see the same GPUs.
//! Without the variable there is an idle node of eight H100. A line that cannot be understood is reported on stderr with its
//! number, and from then on every call answers `UNKNOWN`.
//!
//! The log is JSON lines; append each line with one `write` in append mode. Times are microseconds of the wall clock since
//! 1970, as NVML's own timestamps, unless the log fixes the clock. `gpu` is the GPU's place in the node, which is its NVML index
//! as long as the driver is bound to all.
//!
//! # Events
//!
//! **Node**, the first line if it is there at all. Everything may be left out: `model` (an NVML name: `NVIDIA H100 80GB HBM3`,
//! `NVIDIA H200`, `NVIDIA A100-SXM4-80GB`, `NVIDIA A100-SXM4-40GB`, `NVIDIA L4`, `Tesla T4`), `count`, `driver` and `cuda`
//! version, `loaded_us` (when the driver was loaded, where energy starts), `cpus` per NUMA node, and address, NUMA node, UUID and serial of each GPU. Two things
//! that some drivers do: `sample_epoch_us` has the timestamps of `nvmlDeviceGetSamples` count from that moment, such as the
//! boot, and with `dry_when_idle` an idle GPU leaves no utilization samples (both reported of a DGX Spark). Products differ in
//! `sample_period_us`, the time from one utilization sample to the next: 1/6 s, as here without it, to 1 s, and in
//! `power_sample_period_us`, that of power samples: 20 ms, as here without it, to 1 s. With `gpm_counters`, GPM has the
//! counters 248 to 260 as well, which only newer drivers know. `virtualization` is `none`, as here without it, `passthrough`,
//! `vgpu`, `host_vgpu` or `host_vsga`; a vGPU lacks what `guest.rs` lists.
//! ```json
//! {"node":{"model":"NVIDIA H200","count":1,"driver":"590.48.01","cuda":13010,"loaded_us":1767225600000000,"sample_epoch_us":0,"dry_when_idle":false,"sample_period_us":166667,"power_sample_period_us":20000,"gpm_counters":false,"virtualization":"none","cpus":["0-51","52-103"],"gpus":[{"pci":"0000:19:00.0","numa":0,"uuid":"GPU-1","serial":"1"}]}}
//! ```
//! The `driver` version decides on habits too (`driver.rs`): the length of process records, field ids that are known, the
//! newest version of the fabric's struct.
//!
//! **Work** from one moment to another, or from a start to the stop of the same `id`. `pid` gives it to a process. `load` holds
//! levels in percent (`gpu`: a kernel runs, `memory`, `encoder`, `decoder`; for GPM `sm`, `occupancy`, `tensor`, `dram`, `fp64`,
//! `fp32`, `fp16`) or bytes per second (`pcie_tx`, `pcie_rx`, `nvlink_tx`, `nvlink_rx`); left out, the GPU is fully used.
//! Work that overlaps adds up to at most 100 %. Work may lie in the past or the future, but a sample that was read does not
//! change any more: append a start or a stop within 50 ms of its moment, other work before its time.
//! ```json
//! {"busy":{"gpu":0,"from_us":1790000000000000,"to_us":1790000001000000,"pid":4711,"load":{"gpu":90,"sm":60,"pcie_rx":2000000000}}}
//! {"start":{"gpu":0,"id":"step 7","at_us":1790000002000000,"pid":4711}}
//! {"stop":{"gpu":0,"id":"step 7","at_us":1790000002300000}}
//! ```
//! **Processes** on a GPU. `used_bytes` left out means not available; `kind` is `compute` (default), `graphics` or `mps`. An exit
//! ends the work that the process had started; a later stop of it does nothing.
//! ```json
//! {"process":{"gpu":0,"pid":4711,"used_bytes":17179869184,"kind":"compute"}}
//! {"exit":{"gpu":0,"pid":4711,"at_us":1790000003000000}}
//! ```
//! **Set** a reading from a moment on; `null` gives it back to the model. Readings: `power_mw`, `power_limit_mw`, `energy_mj`,
//! `temperature_c`, `memory_temperature_c`, `used_bytes`, `reserved_bytes`, `bar1_used_bytes`, `sm_clock_mhz`, `memory_clock_mhz`,
//! `video_clock_mhz`, `pstate`, `fan_percent` (also makes a fan), `clocks_event_reasons`, `persistence_mode`, `compute_mode`,
//! `ecc_mode`, `ecc_corrected_volatile`, `ecc_uncorrected_volatile`, `ecc_corrected_aggregate`, `ecc_uncorrected_aggregate`,
//! `retired_sbe`, `retired_dbe`, `retired_pending`, `remapped_correctable`, `remapped_uncorrectable`, `remap_pending`,
//! `remap_failure`, `pcie_generation`, `pcie_width`, `pcie_replays`, `nvlink_active_mask`, `nvlink_crc_errors`,
//! `nvlink_replay_errors`, `nvlink_recovery_errors`, `fabric_state`, `recovery_action`, `sm_application_clock_mhz`,
//! `memory_application_clock_mhz`, `temperature_margin_c`, `remap_banks_high`,
//! `remap_banks_partial`, `remap_banks_low`, `remap_banks_none`, `fabric_status`, `fabric_clique`, `fabric_health_mask`,
//! `fabric_health_summary`, `p2p_status` (towards every other GPU), `vgpu_licensed`. Energy integrates the power set, and
//! throttle counters the time for which a clock event reason is set.
//! ```json
//! {"set":{"gpu":0,"at_us":1790000004000000,"reading":"power_mw","value":350000}}
//! {"set":{"gpu":0,"at_us":1790000005000000,"reading":"power_mw","value":null}}
//! ```
//! **Fields and GPM metrics** by their number, whatever the model says of them; of a field, for one scope or for all.
//! ```json
//! {"field":{"gpu":0,"id":208,"scope":3,"value":5}}
//! {"gpm":{"gpu":0,"id":30,"value":12.5}}
//! ```
//! **XIDs** reach each event set that watches the GPU once, if they are appended after it was registered. `instance` is the
//! MIG GPU instance they are about.
//! ```json
//! {"xid":{"gpu":0,"code":79}}
//! {"xid":{"gpu":0,"code":13,"instance":5}}
//! ```
//! **MIG** cuts a GPU into GPU instances, and these into compute instances of N slices each; where `compute` is left
//! out, one compute instance fills the GPU instance. Profiles are those of the model, such as `1g.10gb`. The line is
//! the whole layout: what it repeats stays as it is, everything else is gone or new, with new handles under the same
//! UUIDs. `enabled` left out is `true`, `pending` left out is the same. Work and processes may name their GPU
//! `instance`, processes their `compute_instance` in it too. Then utilization is not supported, nor are NVLink's
//! fields, and GPM also works for an instance. Faults and hangs know a call about a MIG device by its name behind
//! `mig:`.
//! ```json
//! {"mig":{"gpu":0,"enabled":true,"pending":true,"instances":[{"id":2,"profile":"3g.40gb","compute":[1,2]},{"id":9,"profile":"1g.10gb"}]}}
//! {"process":{"gpu":0,"pid":4711,"used_bytes":1073741824,"instance":2,"compute_instance":1}}
//! {"start":{"gpu":0,"id":"step 8","at_us":1790000002000000,"instance":9,"load":{"gpu":50}}}
//! {"fault":{"call":"mig:nvmlDeviceGetMemoryInfo_v2","gpu":0,"code":"NO_PERMISSION"}}
//! {"mig":{"gpu":0,"enabled":false}}
//! ```
//! **Lost** GPUs answer `GPU_IS_LOST`, also to the lookup of their handle, until they are found again.
//! ```json
//! {"lose":{"gpu":3}}
//! {"find":{"gpu":3}}
//! ```
//! **Unbound** GPUs are not listed any more, and those behind them have lower indices, until they are bound again; their old
//! handles answer `GPU_IS_LOST`.
//! ```json
//! {"unbind":{"gpu":3}}
//! {"bind":{"gpu":3}}
//! ```
//! **Driver**: unloaded, every call answers `DRIVER_NOT_LOADED`; loaded again, possibly in another version, a process
//! has to initialise again (`UNINITIALIZED` until then), and energy starts from zero.
//! ```json
//! {"unload":{}}
//! {"load":{"at_us":1790000006000000,"driver":"595.91.07"}}
//! ```
//! **Faults**: any return code, by name without `NVML_ERROR_` or by number, for one call or those whose name begins so, on one
//! GPU; for every call and GPU where left out. `field:82` is one entry of `nvmlDeviceGetFieldValues`. **Hangs** block each such
//! call for a time, or until cleared where it is left out; then the call goes on as usual. The last line that fits a call
//! counts; `clear` takes back all lines of exactly the same call and GPU. `nvmlErrorString` always works.
//! ```json
//! {"fault":{"call":"nvmlDeviceGetPowerUsage","gpu":1,"code":"NO_PERMISSION"}}
//! {"fault":{"call":"field:82","code":999}}
//! {"hang":{"call":"nvmlDevice*","gpu":2,"for_us":500000}}
//! {"hang":{"gpu":4}}
//! {"clear":{"call":"nvmlDevice*","gpu":2}}
//! {"clear":{"gpu":4}}
//! ```
//! **Counts**: at the last `nvmlShutdown`, and at its next call after this line, each process writes its number of calls by name
//! as a JSON object to the file that `FAKE_NVML_CALLS` names in its environment.
//! ```json
//! {"count":{}}
//! ```
//!
//! **Clock**: fixed, it shows the same moment until the next such line; without `now_us` the wall clock holds again. So
//! a writer of the log that also paces a program can show it a past week, moment by moment. The clock should not go
//! back. Waits and hangs take real time all the same.
//! ```json
//! {"clock":{"now_us":1790000007000000}}
//! {"clock":{}}
//! ```
//!
//! # Model
//!
//! Utilization samples are averages over a fixed grid, power samples over a finer one; the ring buffers hold 120.
//! `nvmlDeviceGetUtilizationRates` is the newest sample. Power follows multiprocessor activity between the model's idle and
//! busy draw, temperature follows its last 30 s; clocks and power state are those of a busy GPU if a kernel ran in the last
//! 1/6 s. GPM averages over the caller's own interval. `nvmlDeviceGetPcieThroughput` takes 20 ms, as the real one does.
//! Accounting is not supported. Past work is kept, a quarter of a KiB for each line about it.

mod abi;
mod code;
mod driver;
mod event;
mod events;
mod field;
mod gpm;
mod guest;
mod handle;
mod library;
mod mig;
mod profile;
mod state;
mod tail;
mod view;
mod work;

#[cfg(test)]
mod tests {
    use crate::event::{Event, Set};

    #[test]
    fn every_documented_line_is_understood() {
        let lines: Vec<_> = include_str!("lib.rs").lines().filter_map(|line| line.strip_prefix("//! {")).collect();
        assert!(lines.len() > 15);
        for line in lines {
            let line = format!("{{{line}");
            let event = serde_json::from_str::<Event>(&line);
            assert!(event.is_ok(), "{line}: {event:?}");
        }
    }

    #[test]
    fn every_documented_reading_is_known() {
        let doc = include_str!("lib.rs").split("Readings:").nth(1).unwrap().split("Energy").next().unwrap();
        let names: Vec<_> = doc.split('`').skip(1).step_by(2).collect();
        assert!(names.len() > 30);
        for name in names {
            let line = format!(r#"{{"gpu":0,"at_us":0,"reading":"{name}","value":1}}"#);
            assert!(serde_json::from_str::<Set>(&line).is_ok(), "{name}");
        }
    }
}
