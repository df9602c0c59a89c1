//! What the readers left out: files, and lines of files, that could not be read or made no sense.
//!
//! What is left out is absent, costs nothing else, and is named once. A read is many calls below the code that reports
//! it, and a thread answers one question at a time: so each thread keeps what it left out until it is asked for.

use std::cell::RefCell;

use super::files::FileError;

/// Errors that are kept for naming; more are counted.
const KEPT: usize = 16;

/// What one thread left out.
#[derive(Debug, Default)]
pub struct LeftOut {
    /// The first of it.
    pub errors: Vec<FileError>,
    /// How much it was.
    pub count: u64,
}

thread_local! {
    static LEFT_OUT: RefCell<LeftOut> = const { RefCell::new(LeftOut { errors: Vec::new(), count: 0 }) };
}

/// Notes that this many lines of a file, or the file, are left out.
pub fn note(error: FileError, count: u64) {
    LEFT_OUT.with_borrow_mut(|left_out| {
        left_out.count = left_out.count.saturating_add(count);
        if left_out.errors.len() < KEPT {
            left_out.errors.push(error);
        }
    });
}

/// Has what was taken asked for again.
pub fn put_back(left_out: LeftOut) {
    LEFT_OUT.set(left_out);
}

/// What this thread left out since it was asked last.
#[must_use]
pub fn take() -> LeftOut {
    LEFT_OUT.take()
}
