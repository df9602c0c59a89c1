//! Why NVML gave no value.

use nvml_wrapper::error::NvmlError;
use nvml_wrapper_sys::bindings as sys;

/// Why NVML gave no value. Never a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Absent {
    /// This GPU, driver or mode has no such value.
    NotSupported,
    /// The caller may not read it.
    NotPermitted,
    /// The GPU is lost.
    Lost,
    /// Any other NVML return code.
    Failed(u32),
}

/// A value, or why there is none.
pub type Reading<T> = Result<T, Absent>;

impl Absent {
    /// An answer that makes no sense, or an error of NVML that has no code.
    pub(super) const UNKNOWN: Self = Self::Failed(sys::nvmlReturn_enum_NVML_ERROR_UNKNOWN);

    /// An answer took so long that the GPU was not asked any further.
    pub(super) const TOO_SLOW: Self = Self::Failed(sys::nvmlReturn_enum_NVML_ERROR_TIMEOUT);

    /// An index leads to another GPU than it did: the library is reloaded, as when it says so itself.
    pub(super) const RENUMBERED: Self = Self::Failed(sys::nvmlReturn_enum_NVML_ERROR_UNINITIALIZED);

    /// Reads a return code. A value that the library or driver is too old for counts as not supported.
    pub(super) fn check(code: sys::nvmlReturn_t) -> Reading<()> {
        match code {
            sys::nvmlReturn_enum_NVML_SUCCESS => Ok(()),
            sys::nvmlReturn_enum_NVML_ERROR_NOT_SUPPORTED
            | sys::nvmlReturn_enum_NVML_ERROR_FUNCTION_NOT_FOUND
            | sys::nvmlReturn_enum_NVML_ERROR_ARGUMENT_VERSION_MISMATCH
            | sys::nvmlReturn_enum_NVML_ERROR_DEPRECATED => Err(Self::NotSupported),
            sys::nvmlReturn_enum_NVML_ERROR_NO_PERMISSION => Err(Self::NotPermitted),
            sys::nvmlReturn_enum_NVML_ERROR_GPU_IS_LOST | sys::nvmlReturn_enum_NVML_ERROR_GPU_NOT_FOUND => {
                Err(Self::Lost)
            }
            code => Err(Self::Failed(code)),
        }
    }

    /// May the answer be another one the next time?
    pub(super) fn may_pass(self) -> bool {
        matches!(self, Self::Lost | Self::Failed(_))
    }

    /// Does it mean that the whole library must be reloaded: driver unloaded, or replaced by another version?
    pub(super) fn is_driver_gone(self) -> bool {
        matches!(
            self,
            Self::Failed(
                sys::nvmlReturn_enum_NVML_ERROR_UNINITIALIZED
                    | sys::nvmlReturn_enum_NVML_ERROR_DRIVER_NOT_LOADED
                    | sys::nvmlReturn_enum_NVML_ERROR_LIB_RM_VERSION_MISMATCH
            )
        )
    }
}

impl From<NvmlError> for Absent {
    fn from(error: NvmlError) -> Self {
        match error {
            NvmlError::FailedToLoadSymbol(_) => Self::NotSupported,
            error => Self::check(error.into()).err().unwrap_or(Self::UNKNOWN),
        }
    }
}
