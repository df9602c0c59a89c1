//! One load of the library, and what borrows from it while stored next to a share of it.

#![allow(unsafe_code)]

use std::sync::Arc;

use nvml_wrapper::Nvml;

use super::absent::Reading;
use super::reader::Reader;
use super::shared::{Hold, Shared, Slot};

/// One load of the library, shared by all its callers. It is closed before the hold ends.
pub(super) struct Library {
    pub(super) nvml: Nvml,
    pub(super) _hold: Hold,
}

/// An open reader with its share of the library, so that it can go from thread to thread.
pub(super) struct Opened {
    // Before the library: fields are dropped in order.
    reader: Reader<'static>,
    _library: Arc<Library>,
}

impl Opened {
    pub(super) fn open(shared: &Arc<Shared>, library: &Arc<Library>, slot: &Arc<Slot>) -> Reading<Self> {
        // SAFETY: the library neither moves nor ends while there is a share of it; the reader is dropped before the
        // share next to it, or within this call, and hands out nothing that borrows.
        let nvml: &'static Nvml = unsafe { &*std::ptr::from_ref(&library.nvml) };
        Ok(Self { reader: Reader::open(shared, nvml, slot)?, _library: Arc::clone(library) })
    }

    /// One cycle.
    pub(super) fn read(&mut self) -> Reading<()> {
        self.reader.read()
    }
}
