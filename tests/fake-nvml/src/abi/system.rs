//! Initialisation, versions, error texts.

use super::{Ptr, node_calls, number};
use crate::code;
use crate::library::Call;
use nvml_wrapper_sys::bindings::*;
use std::os::raw::{c_char, c_int, c_uint};

#[unsafe(no_mangle)]
extern "C" fn nvmlInit() -> nvmlReturn_t {
    static CALL: Call = Call::new("nvmlInit");
    number(CALL.init())
}

#[unsafe(no_mangle)]
extern "C" fn nvmlInit_v2() -> nvmlReturn_t {
    static CALL: Call = Call::new("nvmlInit_v2");
    number(CALL.init())
}

#[unsafe(no_mangle)]
extern "C" fn nvmlInitWithFlags(_flags: c_uint) -> nvmlReturn_t {
    static CALL: Call = Call::new("nvmlInitWithFlags");
    number(CALL.init())
}

#[unsafe(no_mangle)]
extern "C" fn nvmlShutdown() -> nvmlReturn_t {
    static CALL: Call = Call::new("nvmlShutdown");
    number(CALL.shutdown())
}

#[unsafe(no_mangle)]
extern "C" fn nvmlErrorString(result: nvmlReturn_t) -> *const c_char {
    code::text(result).as_ptr()
}

node_calls! {
    nvmlSystemGetDriverVersion(version: Ptr<c_char>, length: c_uint) |node| version.text(&node.driver, length);
    nvmlSystemGetNVMLVersion(version: Ptr<c_char>, length: c_uint) |node|
        version.text(&format!("{}.{}", node.cuda / 1000, node.driver), length);
    nvmlSystemGetCudaDriverVersion(version: Ptr<c_int>) |node| version.set(node.cuda);
    nvmlSystemGetCudaDriverVersion_v2(version: Ptr<c_int>) |node| version.set(node.cuda);
    nvmlSystemGetProcessName(pid: c_uint, name: Ptr<c_char>, length: c_uint) |_node|
        name.text(&process_name(pid)?, length);
    nvmlUnitGetCount(count: Ptr<c_uint>) |_node| count.set(0);
}

/// The first argument of a live process.
fn process_name(pid: c_uint) -> Result<String, code::Code> {
    let line = std::fs::read(format!("/proc/{pid}/cmdline")).map_err(|_| code::Code::NOT_FOUND)?;
    let first = line.split(|byte| *byte == 0).next().unwrap_or_default();
    Ok(String::from_utf8_lossy(first).into_owned())
}
