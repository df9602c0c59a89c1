//! Opaque handles: small non-null numbers that are never followed, stable as long as the process lives.

use crate::code::Code;
use parking_lot::Mutex;
use std::collections::BTreeMap;

/// Distance of two handles, so that an offset one is not another valid one.
const STEP: usize = 16;
const GPUS: usize = 0x1000;
const MIG_DEVICES: usize = 0x10_0000;
const ISSUED: usize = 0x1000_0000;

/// The handle of the GPU.
pub(crate) fn of_gpu<T>(index: usize) -> *mut T {
    std::ptr::without_provenance_mut(GPUS + index * STEP)
}

/// The GPU of the handle, if the node has that many.
pub(crate) fn gpu<T>(handle: *mut T, count: usize) -> Result<usize, Code> {
    let offset = handle.addr().checked_sub(GPUS).ok_or(Code::INVALID_ARGUMENT)?;
    let index = offset / STEP;
    if offset % STEP == 0 && index < count { Ok(index) } else { Err(Code::INVALID_ARGUMENT) }
}

/// The handle of the MIG device with that serial number.
pub(crate) fn of_mig_device<T>(serial: usize) -> *mut T {
    std::ptr::without_provenance_mut(MIG_DEVICES + serial * STEP)
}

/// The serial number of the MIG device of the handle, if it is one.
pub(crate) fn mig_device<T>(handle: *mut T) -> Option<usize> {
    let offset = handle.addr().checked_sub(MIG_DEVICES).filter(|_| handle.addr() < ISSUED)?;
    (offset % STEP == 0).then_some(offset / STEP)
}

/// Things handed out by handle until they are freed.
#[derive(Debug)]
pub(crate) struct Issued<T>(Mutex<(usize, BTreeMap<usize, T>)>);

impl<T> Default for Issued<T> {
    fn default() -> Self {
        Issued(Mutex::new((ISSUED, BTreeMap::new())))
    }
}

impl<T> Issued<T> {
    pub(crate) fn issue<H>(&self, thing: T) -> *mut H {
        let (next, things) = &mut *self.0.lock();
        *next += STEP;
        things.insert(*next, thing);
        std::ptr::without_provenance_mut(*next)
    }

    pub(crate) fn free<H>(&self, handle: *mut H) -> Result<(), Code> {
        self.0.lock().1.remove(&handle.addr()).map(drop).ok_or(Code::INVALID_ARGUMENT)
    }

    pub(crate) fn with<H, R>(&self, handle: *mut H, use_it: impl FnOnce(&mut T) -> R) -> Result<R, Code> {
        self.0.lock().1.get_mut(&handle.addr()).map(use_it).ok_or(Code::INVALID_ARGUMENT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_issued_handles_are_known() {
        assert_eq!(gpu(of_gpu::<u8>(3), 8), Ok(3));
        for bad in [std::ptr::null_mut(), of_gpu::<u8>(8), std::ptr::without_provenance_mut(GPUS + 1)] {
            assert_eq!(gpu(bad, 8), Err(Code::INVALID_ARGUMENT));
        }
        assert_eq!(mig_device(of_mig_device::<u8>(5)), Some(5));
        assert_eq!((mig_device(of_gpu::<u8>(3)), gpu(of_mig_device::<u8>(5), 8)), (None, Err(Code::INVALID_ARGUMENT)));
        let issued = Issued::default();
        let (a, b) = (issued.issue::<u8>(1), issued.issue::<u8>(2));
        assert_eq!(issued.with(a, |n| *n), Ok(1));
        assert_eq!((issued.free(a), issued.free(a)), (Ok(()), Err(Code::INVALID_ARGUMENT)));
        assert_eq!(issued.with(b, |n| *n), Ok(2));
    }
}
