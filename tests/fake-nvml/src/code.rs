//! Return codes by name, number and text.

use nvml_wrapper_sys::bindings::*;
use serde::{Deserialize, Deserializer, de::Error};
use std::ffi::CStr;

/// An `nvmlReturn_t` other than success.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Code(pub nvmlReturn_t);

/// What an exported function comes to: it has written its answer, or a code says why not.
pub(crate) type Done = Result<(), Code>;

macro_rules! codes {
    ($($name:ident = $number:ident, $text:literal;)*) => {
        #[allow(missing_docs, reason = "named as in nvml.h")]
        impl Code { $(pub(crate) const $name: Code = Code($number);)* }
        const CODES: &[(&str, Code, &CStr)] = &[$((stringify!($name), Code::$name, $text)),*];
    };
}

codes! {
    UNINITIALIZED = nvmlReturn_enum_NVML_ERROR_UNINITIALIZED, c"Uninitialized";
    INVALID_ARGUMENT = nvmlReturn_enum_NVML_ERROR_INVALID_ARGUMENT, c"Invalid Argument";
    NOT_SUPPORTED = nvmlReturn_enum_NVML_ERROR_NOT_SUPPORTED, c"Not Supported";
    NO_PERMISSION = nvmlReturn_enum_NVML_ERROR_NO_PERMISSION, c"Insufficient Permissions";
    ALREADY_INITIALIZED = nvmlReturn_enum_NVML_ERROR_ALREADY_INITIALIZED, c"Already Initialized";
    NOT_FOUND = nvmlReturn_enum_NVML_ERROR_NOT_FOUND, c"Not Found";
    INSUFFICIENT_SIZE = nvmlReturn_enum_NVML_ERROR_INSUFFICIENT_SIZE, c"Insufficient Size";
    INSUFFICIENT_POWER = nvmlReturn_enum_NVML_ERROR_INSUFFICIENT_POWER, c"Insufficient External Power";
    DRIVER_NOT_LOADED = nvmlReturn_enum_NVML_ERROR_DRIVER_NOT_LOADED, c"Driver Not Loaded";
    TIMEOUT = nvmlReturn_enum_NVML_ERROR_TIMEOUT, c"Timeout";
    IRQ_ISSUE = nvmlReturn_enum_NVML_ERROR_IRQ_ISSUE, c"Interrupt Request Issue";
    LIBRARY_NOT_FOUND = nvmlReturn_enum_NVML_ERROR_LIBRARY_NOT_FOUND, c"NVML Shared Library Not Found";
    FUNCTION_NOT_FOUND = nvmlReturn_enum_NVML_ERROR_FUNCTION_NOT_FOUND, c"Function Not Found";
    CORRUPTED_INFOROM = nvmlReturn_enum_NVML_ERROR_CORRUPTED_INFOROM, c"Corrupted infoROM";
    GPU_IS_LOST = nvmlReturn_enum_NVML_ERROR_GPU_IS_LOST, c"GPU is lost";
    RESET_REQUIRED = nvmlReturn_enum_NVML_ERROR_RESET_REQUIRED, c"GPU requires reset";
    OPERATING_SYSTEM = nvmlReturn_enum_NVML_ERROR_OPERATING_SYSTEM, c"Operating system call failed";
    LIB_RM_VERSION_MISMATCH = nvmlReturn_enum_NVML_ERROR_LIB_RM_VERSION_MISMATCH, c"Driver/library version mismatch";
    IN_USE = nvmlReturn_enum_NVML_ERROR_IN_USE, c"In use by another client";
    MEMORY = nvmlReturn_enum_NVML_ERROR_MEMORY, c"Insufficient Memory";
    NO_DATA = nvmlReturn_enum_NVML_ERROR_NO_DATA, c"No data";
    INSUFFICIENT_RESOURCES = nvmlReturn_enum_NVML_ERROR_INSUFFICIENT_RESOURCES, c"Insufficient Resources";
    FREQ_NOT_SUPPORTED = nvmlReturn_enum_NVML_ERROR_FREQ_NOT_SUPPORTED, c"Frequency not supported";
    ARGUMENT_VERSION_MISMATCH = nvmlReturn_enum_NVML_ERROR_ARGUMENT_VERSION_MISMATCH, c"Argument Version Mismatch";
    DEPRECATED = nvmlReturn_enum_NVML_ERROR_DEPRECATED, c"Deprecated";
    NOT_READY = nvmlReturn_enum_NVML_ERROR_NOT_READY, c"System Not Ready";
    GPU_NOT_FOUND = nvmlReturn_enum_NVML_ERROR_GPU_NOT_FOUND, c"GPU Not Found";
    INVALID_STATE = nvmlReturn_enum_NVML_ERROR_INVALID_STATE, c"Invalid State";
    UNKNOWN = nvmlReturn_enum_NVML_ERROR_UNKNOWN, c"Unknown Error";
}

/// The text of `nvmlErrorString`, alive as long as the library.
pub(crate) fn text(number: nvmlReturn_t) -> &'static CStr {
    if number == nvmlReturn_enum_NVML_SUCCESS {
        return c"Success";
    }
    CODES.iter().find(|(_, code, _)| code.0 == number).map_or(c"Unknown Error", |(_, _, text)| *text)
}

/// A name without `NVML_ERROR_`, or any number: a driver may answer what no header knows.
impl<'de> Deserialize<'de> for Code {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged, expecting = "expected a return code by name, such as GPU_IS_LOST, or by number above 0")]
        enum Form {
            Number(std::num::NonZero<nvmlReturn_t>),
            Name(String),
        }
        match Form::deserialize(deserializer)? {
            Form::Number(number) => Ok(Code(number.get())),
            Form::Name(name) => CODES
                .iter()
                .find(|(known, ..)| *known == name)
                .map(|(_, code, _)| *code)
                .ok_or_else(|| D::Error::custom(format!("unknown return code {name:?}"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_read_by_name_and_number() {
        assert_eq!(serde_json::from_str::<Code>(r#""GPU_IS_LOST""#).unwrap(), Code(15));
        assert_eq!(serde_json::from_str::<Code>("27").unwrap(), Code::NOT_READY);
        for bad in [r#""SUCCESS""#, "0", "[]"] {
            assert!(serde_json::from_str::<Code>(bad).is_err(), "{bad}");
        }
    }
}
