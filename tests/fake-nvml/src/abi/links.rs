//! PCIe, NVLink, topology, affinity, fabric.

use super::{Ptr, check_version, gpu_calls, list, number};
use crate::code::{Code, Done};
use crate::driver::Driver;
use crate::event::Reading;
use crate::field::link_is_active;
use crate::handle;
use crate::library::Call;
use crate::profile::NvLink;
use crate::view::View;
use crate::work::Channel;
use nvml_wrapper_sys::bindings::*;
use std::os::raw::{c_uint, c_ulong, c_ulonglong};
use std::time::Duration;

/// The NVML reference: the counter is read over 20 ms, and the call takes as long.
const PCIE_WINDOW: Duration = Duration::from_millis(20);

gpu_calls! {
    nvmlDeviceGetCurrPcieLinkGeneration(generation: Ptr<c_uint>) |view| generation.set(view.pcie_generation());
    nvmlDeviceGetMaxPcieLinkGeneration(generation: Ptr<c_uint>) |view|
        generation.set(view.gpu.profile.pcie.generation.busy);
    nvmlDeviceGetGpuMaxPcieLinkGeneration(generation: Ptr<c_uint>) |view|
        generation.set(view.gpu.profile.pcie.generation.busy);
    nvmlDeviceGetCurrPcieLinkWidth(width: Ptr<c_uint>) |view|
        width.set(view.set_or(Reading::PcieWidth, view.gpu.profile.pcie.width));
    nvmlDeviceGetMaxPcieLinkWidth(width: Ptr<c_uint>) |view| width.set(view.gpu.profile.pcie.max_width);
    nvmlDeviceGetPcieReplayCounter(replays: Ptr<c_uint>) |view| replays.set(view.set_or(Reading::PcieReplays, 0));

    nvmlDeviceGetNvLinkState(link: c_uint, active: Ptr<nvmlEnableState_t>) |view| {
        nvlink(&view, link)?;
        active.set(link_is_active(&view, link).into())
    };
    // A fabric means switches; without one the links go to other GPUs.
    nvmlDeviceGetNvLinkRemoteDeviceType(link: c_uint, kind: Ptr<nvmlIntNvLinkDeviceType_t>) |view| {
        nvlink(&view, link)?;
        kind.set(if view.gpu.profile.fabric {
            nvmlIntNvLinkDeviceType_enum_NVML_NVLINK_DEVICE_TYPE_SWITCH
        } else {
            nvmlIntNvLinkDeviceType_enum_NVML_NVLINK_DEVICE_TYPE_GPU
        })
    };
    nvmlDeviceGetNvLinkCapability(link: c_uint, capability: nvmlNvLinkCapability_t, has: Ptr<c_uint>) |view| {
        nvlink(&view, link)?;
        has.set((capability != nvmlNvLinkCapability_enum_NVML_NVLINK_CAP_SLI_BRIDGE).into())
    };
    nvmlDeviceGetNvLinkErrorCounter(link: c_uint, counter: nvmlNvLinkErrorCounter_t, count: Ptr<c_ulonglong>) |view| {
        nvlink(&view, link)?;
        let reading = match counter {
            nvmlNvLinkErrorCounter_enum_NVML_NVLINK_ERROR_DL_REPLAY => Reading::NvlinkReplayErrors,
            nvmlNvLinkErrorCounter_enum_NVML_NVLINK_ERROR_DL_RECOVERY => Reading::NvlinkRecoveryErrors,
            nvmlNvLinkErrorCounter_enum_NVML_NVLINK_ERROR_DL_CRC_FLIT => Reading::NvlinkCrcErrors,
            _ => return Err(Code::NOT_SUPPORTED),
        };
        count.set(if link == 0 { view.count(reading) } else { 0 })
    };

    nvmlDeviceGetTopologyCommonAncestor(other: nvmlDevice_t, level: Ptr<nvmlGpuTopologyLevel_t>) |view| {
        let other = &view.node.gpus[handle::gpu(other, view.node.gpus.len())?];
        level.set(match (other.index == view.gpu.index, other.numa == view.gpu.numa) {
            (true, _) => nvmlGpuLevel_enum_NVML_TOPOLOGY_INTERNAL,
            (_, true) => nvmlGpuLevel_enum_NVML_TOPOLOGY_NODE,
            _ => nvmlGpuLevel_enum_NVML_TOPOLOGY_SYSTEM,
        })
    };
    nvmlDeviceGetTopologyNearestGpus(level: nvmlGpuTopologyLevel_t, count: Ptr<c_uint>, near: Ptr<nvmlDevice_t>) |view| {
        let is_near = |gpu: &&crate::state::Gpu| gpu.index != view.gpu.index
            && (gpu.numa == view.gpu.numa) == (level == nvmlGpuLevel_enum_NVML_TOPOLOGY_NODE);
        list(&count, &near, view.node.gpus.iter().filter(is_near).map(|gpu| handle::of_gpu(gpu.index)).collect())
    };
    // GPUs with NVLink all reach each other over it, unless a test says otherwise.
    nvmlDeviceGetP2PStatus(other: nvmlDevice_t, index: nvmlGpuP2PCapsIndex_t, status: Ptr<nvmlGpuP2PStatus_t>) |view| {
        handle::gpu(other, view.node.gpus.len())?;
        let linked = index != nvmlGpuP2PCapsIndex_enum_NVML_P2P_CAPS_INDEX_NVLINK || view.gpu.profile.nvlink.is_some();
        let model = if linked {
            nvmlGpuP2PStatus_enum_NVML_P2P_STATUS_OK
        } else {
            nvmlGpuP2PStatus_enum_NVML_P2P_STATUS_NOT_SUPPORTED
        };
        status.set(view.set_or(Reading::P2pStatus, model))
    };
    nvmlDeviceGetCpuAffinity(size: c_uint, set: Ptr<c_ulong>) |view| cpu_set(&view, size, &set);
    nvmlDeviceGetCpuAffinityWithinScope(size: c_uint, set: Ptr<c_ulong>, _scope: nvmlAffinityScope_t) |view|
        cpu_set(&view, size, &set);
    nvmlDeviceGetMemoryAffinity(size: c_uint, set: Ptr<c_ulong>, _scope: nvmlAffinityScope_t) |view|
        bit_set([view.gpu.numa as usize], size, &set);

    nvmlDeviceGetGpuFabricInfo(info: Ptr<nvmlGpuFabricInfo_t>) |view| info.set(nvmlGpuFabricInfo_t {
        clusterUuid: [0; 16],
        status: view.set_or(Reading::FabricStatus, nvmlReturn_enum_NVML_SUCCESS),
        cliqueId: view.set_or(Reading::FabricClique, 0),
        state: fabric_state(&view)?,
    });
    nvmlDeviceGetGpuFabricInfoV(info: Ptr<nvmlGpuFabricInfo_v2_t>) |view| fabric(&view, &info);
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetPcieThroughput(
    device: nvmlDevice_t,
    counter: nvmlPcieUtilCounter_t,
    kilobytes_per_s: Ptr<c_uint>,
) -> nvmlReturn_t {
    static CALL: Call = Call::new("nvmlDeviceGetPcieThroughput");
    std::thread::sleep(PCIE_WINDOW);
    let gpu = |node: &crate::state::Node| handle::gpu(device, node.gpus.len());
    number(CALL.on_gpu(gpu, |view| {
        let channel = match counter {
            nvmlPcieUtilCounter_enum_NVML_PCIE_UTIL_TX_BYTES => Channel::PcieTx,
            nvmlPcieUtilCounter_enum_NVML_PCIE_UTIL_RX_BYTES => Channel::PcieRx,
            _ => return Err(Code::INVALID_ARGUMENT),
        };
        let from_us = view.now_us - PCIE_WINDOW.as_micros() as u64;
        kilobytes_per_s.set((view.gpu.work.average(channel, from_us, view.now_us) / 1000.0) as c_uint)
    }))
}

fn nvlink<'a>(view: &View<'a>, link: c_uint) -> Result<&'a NvLink, Code> {
    let nvlink = view.gpu.profile.nvlink.as_ref().ok_or(Code::NOT_SUPPORTED)?;
    if link < nvlink.links { Ok(nvlink) } else { Err(Code::INVALID_ARGUMENT) }
}

/// Sets these bits in an array of `size` words and clears the others.
fn bit_set(bits: impl IntoIterator<Item = usize>, size: c_uint, set: &Ptr<c_ulong>) -> Done {
    let mut words = vec![0; size as usize];
    for bit in bits {
        let word = words.get_mut(bit / c_ulong::BITS as usize).ok_or(Code::INSUFFICIENT_SIZE)?;
        *word |= 1 << (bit % c_ulong::BITS as usize);
    }
    if words.is_empty() { Err(Code::INVALID_ARGUMENT) } else { set.fill(words) }
}

fn cpu_set(view: &View, size: c_uint, set: &Ptr<c_ulong>) -> Done {
    let list = view.node.cpus.get(view.gpu.numa as usize).ok_or(Code::NOT_SUPPORTED)?;
    bit_set(cpus(list).ok_or(Code::UNKNOWN)?, size, set)
}

/// The numbers of a kernel list such as `0-3,8`.
fn cpus(list: &str) -> Option<Vec<usize>> {
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.parse().ok()?..=last.parse().ok()?)
    };
    let ranges: Option<Vec<_>> = list.split(',').map(range).collect();
    Some(ranges?.into_iter().flatten().collect())
}

fn fabric_state(view: &View) -> Result<nvmlGpuFabricState_t, Code> {
    if !view.gpu.profile.fabric {
        return Err(Code::NOT_SUPPORTED);
    }
    Ok(view.set_or(Reading::FabricState, NVML_GPU_FABRIC_STATE_COMPLETED) as nvmlGpuFabricState_t)
}

/// Version 3, of newer drivers, adds a health summary at the end of version 2.
fn fabric(view: &View, info: &Ptr<nvmlGpuFabricInfo_v2_t>) -> Done {
    let version = info.get()?.version;
    let third =
        Driver::of(&view.node.driver).has_fabric_v3() && check_version::<nvmlGpuFabricInfo_v3_t>(version, 3).is_ok();
    if !third {
        check_version::<nvmlGpuFabricInfo_v2_t>(version, 2)?;
    }
    let state = fabric_state(view)?;
    let status = view.set_or(Reading::FabricStatus, nvmlReturn_enum_NVML_SUCCESS);
    let (clique, mask) = (view.set_or(Reading::FabricClique, 0), view.set_or(Reading::FabricHealthMask, 0));
    let info_v2 =
        nvmlGpuFabricInfo_v2_t { version, clusterUuid: [0; 16], status, cliqueId: clique, state, healthMask: mask };
    info.set(info_v2)?;
    if third {
        let whole = Ptr(info.0.cast::<nvmlGpuFabricInfo_v3_t>());
        whole.set(nvmlGpuFabricInfo_v3_t {
            healthSummary: view.set_or(Reading::FabricHealthSummary, 0) as u8,
            ..whole.get()?
        })?;
    }
    Ok(())
}
