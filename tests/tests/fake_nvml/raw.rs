//! Through bare function pointers: what a wrapper would hide.
#![allow(unsafe_code, reason = "calls C functions as a C program does")]

use crate::{isolated, load};
use goodput_lab::gpu::{Calls, FakeNvml, NodeSpec};
use nvml_wrapper_sys::bindings as sys;
use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;

#[test]
fn arguments_are_checked_as_the_real_library_checks_them() {
    isolated(NodeSpec::h100(1), |_, library| {
        // SAFETY: the path names the library just built, whose functions have the types of the bindings.
        let lib = unsafe { sys::NvmlLib::new(library) }.unwrap();
        let mut memory = sys::nvmlMemory_v2_t { version: 0, total: 0, reserved: 0, free: 0, used: 0 };
        let (mut device, mut number) = (std::ptr::null_mut(), 0);
        // SAFETY: every pointer is null or to a local of its type.
        unsafe {
            assert_eq!(lib.nvmlDeviceGetCount_v2(&mut number), sys::nvmlReturn_enum_NVML_ERROR_UNINITIALIZED);
            assert_eq!(lib.nvmlShutdown(), sys::nvmlReturn_enum_NVML_ERROR_UNINITIALIZED);
            assert_eq!((lib.nvmlInit_v2(), lib.nvmlInit_v2(), lib.nvmlShutdown()), (0, 0, 0));
            assert_eq!(lib.nvmlDeviceGetHandleByIndex_v2(0, &mut device), 0);
            let null = lib.nvmlDeviceGetPowerUsage(device, std::ptr::null_mut());
            assert_eq!(null, sys::nvmlReturn_enum_NVML_ERROR_INVALID_ARGUMENT);
            let nobody = lib.nvmlDeviceGetPowerUsage(std::ptr::null_mut(), &mut number);
            assert_eq!(nobody, sys::nvmlReturn_enum_NVML_ERROR_INVALID_ARGUMENT);
            let version = lib.nvmlDeviceGetMemoryInfo_v2(device, &mut memory);
            assert_eq!(version, sys::nvmlReturn_enum_NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
            memory.version = 0x0200_0028;
            assert_eq!(lib.nvmlDeviceGetMemoryInfo_v2(device, &mut memory), 0);
            let mut name = [0; 8];
            let short = lib.nvmlDeviceGetName(device, name.as_mut_ptr(), 8);
            assert_eq!(short, sys::nvmlReturn_enum_NVML_ERROR_INSUFFICIENT_SIZE);
            let text = std::ffi::CStr::from_ptr(lib.nvmlErrorString(15));
            assert_eq!(text, c"GPU is lost");
            assert_eq!(lib.nvmlShutdown(), 0);
            assert_eq!(lib.nvmlDeviceGetCount_v2(&mut number), sys::nvmlReturn_enum_NVML_ERROR_UNINITIALIZED);
        }
    });
}

#[test]
fn fields_fail_one_by_one() {
    isolated(NodeSpec::h100(1), |node, library| {
        let nvml = load(library);
        let device = nvml.device_by_index(0).unwrap();
        node.set(0, "memory_temperature_c", 91.0).unwrap();
        node.fault(&Calls::all().named("field:83"), "NO_DATA").unwrap();
        let mut fields = [82, 83, 29].map(|id| {
            // SAFETY: a struct of integers and a union of numbers may be all zero.
            let mut field: sys::nvmlFieldValue_t = unsafe { std::mem::zeroed() };
            field.fieldId = id;
            field
        });
        let call = nvml.lib().nvmlDeviceGetFieldValues.as_ref().unwrap();
        // SAFETY: a live handle and an array of three entries.
        assert_eq!(unsafe { call(device.handle(), 3, fields.as_mut_ptr()) }, 0);
        assert_eq!(fields.map(|f| f.nvmlReturn), [0, 21, 3]);
        // SAFETY: the entry says that it holds an unsigned int.
        assert_eq!((fields[0].valueType, unsafe { fields[0].value.uiVal }), (1, 91));
    });
}

#[test]
fn lists_follow_the_count_protocol() {
    isolated(NodeSpec::h100(1), |node, library| {
        let nvml = load(library);
        let device = nvml.device_by_index(0).unwrap();
        for pid in [11, 12] {
            node.process(0, pid, 1 << 30).unwrap();
        }
        let call = nvml.lib().nvmlDeviceGetComputeRunningProcesses_v3.as_ref().unwrap();
        let mut infos =
            [sys::nvmlProcessInfo_t { pid: 0, usedGpuMemory: 0, gpuInstanceId: 0, computeInstanceId: 0 }; 3];
        let mut count = 0;
        // SAFETY: a live handle; no array for a count of none, then one of three for a count of three.
        unsafe {
            let code = call(device.handle(), &mut count, std::ptr::null_mut());
            assert_eq!((code, count), (sys::nvmlReturn_enum_NVML_ERROR_INSUFFICIENT_SIZE, 2));
            count = 3;
            assert_eq!((call(device.handle(), &mut count, infos.as_mut_ptr()), count), (0, 2));
        }
        assert_eq!(infos.map(|info| (info.pid, info.gpuInstanceId)), [(11, u32::MAX), (12, u32::MAX), (0, 0)]);
    });
}

#[test]
fn it_exports_what_a_real_library_exports() {
    let real = "../../shared/fixtures/nvml-symbols-590/symbols.txt";
    let real = std::fs::read_to_string(real).unwrap_or_else(|error| panic!("{real} is needed for this test: {error}"));
    let path = CString::new(FakeNvml::build().unwrap().path().as_os_str().as_bytes()).unwrap();
    // SAFETY: the path names the library just built, which runs nothing when it is loaded.
    let library = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW) };
    assert!(!library.is_null());
    // SAFETY: a live library; the symbol is looked up and not used.
    let exports = |name: &str| unsafe { !libc::dlsym(library, CString::new(name).unwrap().as_ptr()).is_null() };
    for name in real.lines().filter(|name| *name != "nvmlInternalGetExportTable") {
        assert!(exports(name), "{name}");
    }
    for absent in ["nvmlInit_v1", "nvmlEventSetWait_v1", "nvmlDeviceGetRemappedRows_v2"] {
        assert!(!exports(absent), "{absent}");
    }
}
