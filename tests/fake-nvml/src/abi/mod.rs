//! The C functions. Each passes the gate of [`crate::library::Call`]; its own work is one expression.
//!
//! The caller's duty is NVML's: an output pointer that is not null is valid for the type, and an array for its count.
#![allow(unsafe_code, reason = "the C boundary: exported names and the caller's pointers")]
#![allow(non_snake_case, non_upper_case_globals, reason = "functions, arguments and constants are named as in nvml.h")]

mod events;
mod gpm;
mod health;
mod identity;
mod links;
mod mig;
mod process;
mod readings;
mod samples;
mod system;
mod unsupported;

use crate::code::{Code, Done};
use nvml_wrapper_sys::bindings::{nvmlDevice_t, nvmlReturn_enum_NVML_SUCCESS, nvmlReturn_t};
use std::os::raw::{c_char, c_uint};

/// Functions about one GPU, whose handle is their first argument.
macro_rules! gpu_calls {
    ($($name:ident($($arg:ident: $type:ty),*) |$view:ident| $body:expr;)*) => {$(
        #[unsafe(no_mangle)]
        extern "C" fn $name(device: $crate::abi::nvmlDevice_t $(, $arg: $type)*) -> $crate::abi::nvmlReturn_t {
            static CALL: $crate::library::Call = $crate::library::Call::new(stringify!($name));
            let gpu = |node: &$crate::state::Node| $crate::library::Target::of_gpu(node, device);
            $crate::abi::number(CALL.on_gpu(gpu, |$view| $body))
        }
    )*};
}

/// Functions about one GPU or MIG device, whose handle is their first argument.
macro_rules! device_calls {
    ($($name:ident($($arg:ident: $type:ty),*) |$view:ident| $body:expr;)*) => {$(
        #[unsafe(no_mangle)]
        extern "C" fn $name(device: $crate::abi::nvmlDevice_t $(, $arg: $type)*) -> $crate::abi::nvmlReturn_t {
            static CALL: $crate::library::Call = $crate::library::Call::new(stringify!($name));
            let target = |node: &$crate::state::Node| $crate::library::Target::of(node, device);
            $crate::abi::number(CALL.on_device(target, |$view| $body))
        }
    )*};
}

/// Functions about the node.
macro_rules! node_calls {
    ($($name:ident($($arg:ident: $type:ty),*) |$node:ident| $body:expr;)*) => {$(
        #[unsafe(no_mangle)]
        extern "C" fn $name($($arg: $type),*) -> $crate::abi::nvmlReturn_t {
            static CALL: $crate::library::Call = $crate::library::Call::new(stringify!($name));
            $crate::abi::number(CALL.run(|$node| $body))
        }
    )*};
}

use {device_calls, gpu_calls, node_calls};

fn number(done: Done) -> nvmlReturn_t {
    done.map_or_else(|code| code.0, |()| nvmlReturn_enum_NVML_SUCCESS)
}

/// Where a caller wants one value, or passes one in.
#[repr(transparent)]
struct Ptr<T>(*mut T);

impl<T> Ptr<T> {
    fn set(&self, value: T) -> Done {
        if self.0.is_null() {
            return Err(Code::INVALID_ARGUMENT);
        }
        // SAFETY: not null, hence valid for a `T` by the caller's duty.
        unsafe { self.0.write(value) };
        Ok(())
    }

    fn get(&self) -> Result<T, Code>
    where
        T: Copy,
    {
        if self.0.is_null() {
            return Err(Code::INVALID_ARGUMENT);
        }
        // SAFETY: not null, hence a valid `T` by the caller's duty.
        Ok(unsafe { self.0.read() })
    }

    /// Writes the first `values` of an array of at least as many.
    fn fill(&self, values: impl IntoIterator<Item = T>) -> Done {
        for (i, value) in values.into_iter().enumerate() {
            // SAFETY: the caller of `fill` gives no more values than the array was said to hold.
            Ptr(self.0.wrapping_add(i)).set(value)?;
        }
        Ok(())
    }
}

impl Ptr<c_char> {
    /// Writes the text and its NUL into a buffer of `length` bytes.
    fn text(&self, text: &str, length: c_uint) -> Done {
        if self.0.is_null() {
            return Err(Code::INVALID_ARGUMENT);
        }
        if text.len() >= length as usize {
            return Err(Code::INSUFFICIENT_SIZE);
        }
        self.fill(text.bytes().chain([0]).map(|byte| byte as c_char))
    }
}

/// The count protocol: how many there are, and all of them if the caller has room.
fn list<T>(count: &Ptr<c_uint>, array: &Ptr<T>, values: Vec<T>) -> Done {
    let room = count.get()? as usize;
    count.set(values.len() as c_uint)?;
    if room < values.len() { Err(Code::INSUFFICIENT_SIZE) } else { array.fill(values) }
}

/// Checks the version field of a struct: its size, and its version in the top byte.
fn check_version<T>(given: c_uint, version: c_uint) -> Done {
    let expected = size_of::<T>() as c_uint | version << 24;
    if given == expected { Ok(()) } else { Err(Code::ARGUMENT_VERSION_MISMATCH) }
}

/// A text in a fixed array of C characters.
fn chars<const N: usize>(text: &str) -> [c_char; N] {
    let mut chars = [0; N];
    chars.iter_mut().zip(text.bytes().take(N - 1)).for_each(|(char, byte)| *char = byte as c_char);
    chars
}
