//! Processes on a GPU, and their share of it.

use super::{Ptr, check_version, device_calls, gpu_calls, list};
use crate::code::{Code, Done};
use crate::driver::Driver;
use crate::event::{Process, ProcessKind};
use crate::view::View;
use crate::work::Channel;
use nvml_wrapper_sys::bindings::*;
use std::os::raw::{c_uint, c_ulonglong};

device_calls! {
    nvmlDeviceGetComputeRunningProcesses(count: Ptr<c_uint>, infos: Ptr<nvmlProcessInfo_v1_t>) |view|
        list(&count, &infos, old(&view, ProcessKind::Compute));
    nvmlDeviceGetComputeRunningProcesses_v2(count: Ptr<c_uint>, infos: Ptr<nvmlProcessInfo_v2_t>) |view|
        list(&count, &infos, new(&view, ProcessKind::Compute));
    nvmlDeviceGetComputeRunningProcesses_v3(count: Ptr<c_uint>, infos: Ptr<nvmlProcessInfo_v2_t>) |view|
        newest(&count, infos, &view, ProcessKind::Compute);
    nvmlDeviceGetGraphicsRunningProcesses(count: Ptr<c_uint>, infos: Ptr<nvmlProcessInfo_v1_t>) |view|
        list(&count, &infos, old(&view, ProcessKind::Graphics));
    nvmlDeviceGetGraphicsRunningProcesses_v2(count: Ptr<c_uint>, infos: Ptr<nvmlProcessInfo_v2_t>) |view|
        list(&count, &infos, new(&view, ProcessKind::Graphics));
    nvmlDeviceGetGraphicsRunningProcesses_v3(count: Ptr<c_uint>, infos: Ptr<nvmlProcessInfo_v2_t>) |view|
        newest(&count, infos, &view, ProcessKind::Graphics);
    nvmlDeviceGetMPSComputeRunningProcesses(count: Ptr<c_uint>, infos: Ptr<nvmlProcessInfo_v1_t>) |view|
        list(&count, &infos, old(&view, ProcessKind::Mps));
    nvmlDeviceGetMPSComputeRunningProcesses_v2(count: Ptr<c_uint>, infos: Ptr<nvmlProcessInfo_v2_t>) |view|
        list(&count, &infos, new(&view, ProcessKind::Mps));
    nvmlDeviceGetMPSComputeRunningProcesses_v3(count: Ptr<c_uint>, infos: Ptr<nvmlProcessInfo_v2_t>) |view|
        newest(&count, infos, &view, ProcessKind::Mps);
}

gpu_calls! {
    nvmlDeviceGetProcessUtilization(
        samples: Ptr<nvmlProcessUtilizationSample_t>,
        count: Ptr<c_uint>,
        seen_us: c_ulonglong
    ) |view| {
        view.whole()?;
        let sample = |use_: Use| nvmlProcessUtilizationSample_t {
            pid: use_.pid,
            timeStamp: use_.at_us,
            smUtil: use_.gpu,
            memUtil: use_.memory,
            encUtil: use_.encoder,
            decUtil: use_.decoder,
        };
        list(&count, &samples, found(uses(&view, seen_us))?.into_iter().map(sample).collect())
    };
    nvmlDeviceGetProcessesUtilizationInfo(info: Ptr<nvmlProcessesUtilizationInfo_t>) |view| {
        view.whole()?;
        let mut asked = info.get()?;
        check_version::<nvmlProcessesUtilizationInfo_v1_t>(asked.version, 1)?;
        let sample = |use_: Use| nvmlProcessUtilizationInfo_v1_t {
            timeStamp: use_.at_us,
            pid: use_.pid,
            smUtil: use_.gpu,
            memUtil: use_.memory,
            encUtil: use_.encoder,
            decUtil: use_.decoder,
            jpgUtil: 0,
            ofaUtil: 0,
        };
        let samples = found(uses(&view, asked.lastSeenTimeStamp))?.into_iter().map(sample).collect();
        let done = list(&Ptr(&raw mut asked.processSamplesCount), &Ptr(asked.procUtilArray), samples);
        info.set(asked)?;
        done
    };
}

/// All ones stands for "not available"; all ones as instance ids for "no MIG instance".
const NONE: c_uint = c_uint::MAX;

fn old(view: &View, kind: ProcessKind) -> Vec<nvmlProcessInfo_v1_t> {
    let info = |p: &Process| nvmlProcessInfo_v1_t { pid: p.pid, usedGpuMemory: p.used_bytes.unwrap_or(u64::MAX) };
    view.processes(kind).into_iter().map(info).collect()
}

fn new(view: &View, kind: ProcessKind) -> Vec<nvmlProcessInfo_v2_t> {
    let info = |p: &Process| nvmlProcessInfo_v2_t {
        pid: p.pid,
        usedGpuMemory: p.used_bytes.unwrap_or(u64::MAX),
        gpuInstanceId: p.instance.unwrap_or(NONE),
        computeInstanceId: p.instance.map_or(NONE, |_| p.compute_instance),
    };
    view.processes(kind).into_iter().map(info).collect()
}

/// A record as drivers 535.43 to 535.86 write it: with the protected memory that confidential computing keeps.
#[repr(C)]
struct LongRecord {
    info: nvmlProcessInfo_v2_t,
    protected_bytes: c_ulonglong,
}

/// What the `_v3` calls write.
fn newest(count: &Ptr<c_uint>, infos: Ptr<nvmlProcessInfo_v2_t>, view: &View, kind: ProcessKind) -> Done {
    let records = new(view, kind);
    if !Driver::of(&view.node.driver).has_long_records() {
        return list(count, &infos, records);
    }
    let long = |info| LongRecord { info, protected_bytes: c_ulonglong::MAX };
    list(count, &Ptr(infos.0.cast()), records.into_iter().map(long).collect())
}

/// Percent of the GPU that a process used in a utilization period.
struct Use {
    pid: u32,
    at_us: u64,
    gpu: u32,
    memory: u32,
    encoder: u32,
    decoder: u32,
}

/// The newest period after `seen_us` in which each process used the GPU.
fn uses(view: &View, seen_us: u64) -> Vec<Use> {
    let (mut uses, grid) = (Vec::new(), view.node.utilization);
    for (pid, work) in &view.gpu.work_by_pid {
        let percent = |channel, end| work.average(channel, end - grid.period_us, end).round() as u32;
        let active = |end: &u64| percent(Channel::Gpu, *end) > 0;
        if let Some(at_us) = grid.since(seen_us, view.now_us).filter(active).last() {
            uses.push(Use {
                pid: *pid,
                at_us,
                gpu: percent(Channel::Gpu, at_us),
                memory: percent(Channel::Memory, at_us),
                encoder: percent(Channel::Encoder, at_us),
                decoder: percent(Channel::Decoder, at_us),
            });
        }
    }
    uses
}

fn found<T>(all: Vec<T>) -> Result<Vec<T>, Code> {
    if all.is_empty() { Err(Code::NOT_FOUND) } else { Ok(all) }
}
