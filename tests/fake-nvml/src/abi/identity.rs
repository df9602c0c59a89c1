//! Enumeration, names, addresses.

use super::{Ptr, chars, gpu_calls, node_calls, number};
use crate::code::Code;
use crate::event::Reading;
use crate::handle;
use crate::library::Call;
use crate::state::{Gpu, Node, PciAddress};
use nvml_wrapper_sys::bindings::*;
use std::ffi::CStr;
use std::os::raw::{c_char, c_int, c_uint};

/// Looks a handle up; a lost GPU fails here already.
macro_rules! lookups {
    ($($name:ident($arg:ident: $type:ty) |$node:ident| $find:expr;)*) => {$(
        #[unsafe(no_mangle)]
        extern "C" fn $name($arg: $type, device: Ptr<nvmlDevice_t>) -> nvmlReturn_t {
            static CALL: Call = Call::new(stringify!($name));
            number(CALL.on_gpu(|$node| $find, |view| device.set(handle::of_gpu(view.gpu.index))))
        }
    )*};
}

lookups! {
    nvmlDeviceGetHandleByIndex(index: c_uint) |node| by_index(node, index);
    nvmlDeviceGetHandleByIndex_v2(index: c_uint) |node| by_index(node, index);
    nvmlDeviceGetHandleByUUID(uuid: *const c_char) |node| by_text(node, uuid, |gpu| &gpu.uuid);
    nvmlDeviceGetHandleBySerial(serial: *const c_char) |node| by_text(node, serial, |gpu| &gpu.serial);
    nvmlDeviceGetHandleByPciBusId(id: *const c_char) |node| by_pci(node, id);
    nvmlDeviceGetHandleByPciBusId_v2(id: *const c_char) |node| by_pci(node, id);
}

fn by_index(node: &Node, index: c_uint) -> Result<usize, Code> {
    node.listed().nth(index as usize).map(|gpu| gpu.index).ok_or(Code::INVALID_ARGUMENT)
}

fn by_text(node: &Node, text: *const c_char, of: impl Fn(&Gpu) -> &String) -> Result<usize, Code> {
    let text = read(text)?;
    node.listed().find(|gpu| *of(gpu) == text).map(|gpu| gpu.index).ok_or(Code::NOT_FOUND)
}

fn by_pci(node: &Node, id: *const c_char) -> Result<usize, Code> {
    let address = PciAddress::parse(&read(id)?).map_err(|_| Code::INVALID_ARGUMENT)?;
    node.listed().find(|gpu| gpu.pci == address).map(|gpu| gpu.index).ok_or(Code::NOT_FOUND)
}

fn read(text: *const c_char) -> Result<String, Code> {
    if text.is_null() {
        return Err(Code::INVALID_ARGUMENT);
    }
    // SAFETY: not null, hence a C string by the caller's duty.
    let text = unsafe { CStr::from_ptr(text) };
    text.to_str().map(str::to_owned).map_err(|_| Code::INVALID_ARGUMENT)
}

node_calls! {
    nvmlDeviceGetCount(count: Ptr<c_uint>) |node| count.set(node.listed().filter(|gpu| !gpu.lost).count() as c_uint);
    nvmlDeviceGetCount_v2(count: Ptr<c_uint>) |node| count.set(node.listed().count() as c_uint);
}

gpu_calls! {
    nvmlDeviceGetIndex(index: Ptr<c_uint>) |view|
        index.set(view.node.listed().take_while(|gpu| gpu.index < view.gpu.index).count() as c_uint);
    nvmlDeviceGetMinorNumber(minor: Ptr<c_uint>) |view| minor.set(view.gpu.index as c_uint);
    nvmlDeviceGetSerial(serial: Ptr<c_char>, length: c_uint) |view| serial.text(&view.gpu.serial, length);
    nvmlDeviceGetBrand(brand: Ptr<nvmlBrandType_t>) |_view| brand.set(nvmlBrandType_enum_NVML_BRAND_NVIDIA);
    nvmlDeviceGetArchitecture(architecture: Ptr<nvmlDeviceArchitecture_t>) |view|
        architecture.set(view.gpu.profile.architecture as nvmlDeviceArchitecture_t);
    nvmlDeviceGetCudaComputeCapability(major: Ptr<c_int>, minor: Ptr<c_int>) |view| {
        major.set(view.gpu.profile.compute_capability.0)?;
        minor.set(view.gpu.profile.compute_capability.1)
    };
    nvmlDeviceGetNumGpuCores(cores: Ptr<c_uint>) |view| cores.set(view.gpu.profile.cores);
    nvmlDeviceGetMemoryBusWidth(bits: Ptr<c_uint>) |view| bits.set(view.gpu.profile.bus_width_bits);
    nvmlDeviceGetVbiosVersion(version: Ptr<c_char>, length: c_uint) |view| version.text(view.gpu.profile.vbios, length);
    nvmlDeviceGetBoardPartNumber(part: Ptr<c_char>, length: c_uint) |view| part.text(view.gpu.profile.board_part, length);
    nvmlDeviceGetBoardId(id: Ptr<c_uint>) |view| id.set(view.gpu.pci.bus << 8 | view.gpu.pci.device);
    nvmlDeviceGetInforomImageVersion(version: Ptr<c_char>, length: c_uint) |view|
        version.text(view.gpu.profile.inforom.0, length);
    nvmlDeviceGetInforomVersion(object: nvmlInforomObject_t, version: Ptr<c_char>, length: c_uint) |view| match object {
        nvmlInforomObject_enum_NVML_INFOROM_OEM => version.text(view.gpu.profile.inforom.1, length),
        nvmlInforomObject_enum_NVML_INFOROM_ECC => version.text(view.gpu.profile.inforom.2, length),
        _ => Err(Code::NOT_SUPPORTED),
    };
    nvmlDeviceGetGspFirmwareVersion(version: Ptr<c_char>) |view| version.text(&view.node.driver, 0x40);
    nvmlDeviceGetGspFirmwareMode(enabled: Ptr<c_uint>, default: Ptr<c_uint>) |_view| {
        enabled.set(1)?;
        default.set(1)
    };
    nvmlDeviceGetPciInfo(pci: Ptr<nvmlPciInfo_t>) |view| pci.set(pci_info(view.gpu));
    nvmlDeviceGetPciInfo_v2(pci: Ptr<nvmlPciInfo_t>) |view| pci.set(pci_info(view.gpu));
    nvmlDeviceGetPciInfo_v3(pci: Ptr<nvmlPciInfo_t>) |view| pci.set(pci_info(view.gpu));
    nvmlDeviceGetVirtualizationMode(mode: Ptr<nvmlGpuVirtualizationMode_t>) |view|
        mode.set(view.node.virtualization.mode());
    nvmlDeviceGetGridLicensableFeatures_v4(features: Ptr<nvmlGridLicensableFeatures_t>) |view|
        features.set(view.node.virtualization.license(view.set_or(Reading::VgpuLicensed, 1)));
    nvmlDeviceGetMultiGpuBoard(multi: Ptr<c_uint>) |_view| multi.set(0);
    nvmlDeviceGetDisplayActive(active: Ptr<nvmlEnableState_t>) |_view| active.set(0);
    nvmlDeviceGetDisplayMode(mode: Ptr<nvmlEnableState_t>) |_view| mode.set(0);
}

/// The bus id with a domain of eight digits and, in the older field, of four; upper case as NVML writes it.
pub(super) fn pci_info(gpu: &Gpu) -> nvmlPciInfo_t {
    let PciAddress { domain, bus, device, function } = gpu.pci;
    nvmlPciInfo_t {
        busIdLegacy: chars(&format!("{domain:04X}:{bus:02X}:{device:02X}.{function}")),
        domain,
        bus,
        device,
        pciDeviceId: gpu.profile.pci_id.0,
        pciSubSystemId: gpu.profile.pci_id.1,
        busId: chars(&format!("{domain:08X}:{bus:02X}:{device:02X}.{function}")),
    }
}
