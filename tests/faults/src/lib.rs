//! Preloaded (`LD_PRELOAD`) into a program under test: libc's calls fail, or the clock jumps, while a file says so.
//!
//! The environment variable `GOODPUT_FAULTS` names a folder. While there is a file `fsync` in it, `fsync` and `fdatasync`
//! fail with `EIO`; `rename`: so does `rename`; `full`: writes to regular files fail with `ENOSPC`, the standard streams
//! excepted. A file `clock` holds the seconds that are added to the wall clock.

#![allow(unsafe_code, reason = "the C boundary: exported names and the caller's pointers")]

use std::ffi::{CString, OsString};
use std::os::unix::ffi::OsStringExt as _;
use std::path::PathBuf;
use std::sync::OnceLock;

use libc::{c_char, c_int, c_void, clockid_t, off_t, size_t, ssize_t, timespec};

fn folder() -> Option<&'static PathBuf> {
    static FOLDER: OnceLock<Option<PathBuf>> = OnceLock::new();
    FOLDER.get_or_init(|| std::env::var_os("GOODPUT_FAULTS").map(PathBuf::from)).as_ref()
}

fn active(fault: &str) -> bool {
    let Some(path) = folder().map(|folder| folder.join(fault)) else { return false };
    let Ok(path) = CString::new(OsString::from(path).into_vec()) else { return false };
    // SAFETY: the path ends with a zero.
    unsafe { libc::faccessat(libc::AT_FDCWD, path.as_ptr(), libc::F_OK, 0) == 0 }
}

fn failed(error: c_int) -> c_int {
    // SAFETY: errno is this thread's own.
    unsafe { *libc::__errno_location() = error };
    -1
}

fn is_full(fd: c_int) -> bool {
    // SAFETY: all zeros is a valid stat.
    let mut stat: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer is to a stat.
    let known = fd > 2 && unsafe { libc::fstat(fd, &raw mut stat) } == 0;
    known && stat.st_mode & libc::S_IFMT == libc::S_IFREG && active("full")
}

/// As libc's.
#[unsafe(no_mangle)]
pub extern "C" fn fsync(fd: c_int) -> c_int {
    if active("fsync") {
        return failed(libc::EIO);
    }
    // SAFETY: no pointers.
    unsafe { libc::syscall(libc::SYS_fsync, fd) as c_int }
}

/// As libc's.
#[unsafe(no_mangle)]
pub extern "C" fn fdatasync(fd: c_int) -> c_int {
    if active("fsync") {
        return failed(libc::EIO);
    }
    // SAFETY: no pointers.
    unsafe { libc::syscall(libc::SYS_fdatasync, fd) as c_int }
}

/// As libc's.
///
/// # Safety
/// Both are paths that end with a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rename(from: *const c_char, to: *const c_char) -> c_int {
    if active("rename") {
        return failed(libc::EIO);
    }
    // SAFETY: as the caller promises.
    unsafe { libc::renameat(libc::AT_FDCWD, from, libc::AT_FDCWD, to) }
}

/// As libc's.
///
/// # Safety
/// There are `count` bytes to read.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn write(fd: c_int, bytes: *const c_void, count: size_t) -> ssize_t {
    if is_full(fd) {
        return failed(libc::ENOSPC) as ssize_t;
    }
    // SAFETY: as the caller promises.
    unsafe { libc::syscall(libc::SYS_write, fd, bytes, count) as ssize_t }
}

/// As libc's.
///
/// # Safety
/// There are `count` bytes to read.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pwrite(fd: c_int, bytes: *const c_void, count: size_t, offset: off_t) -> ssize_t {
    if is_full(fd) {
        return failed(libc::ENOSPC) as ssize_t;
    }
    // SAFETY: as the caller promises.
    unsafe { libc::syscall(libc::SYS_pwrite64, fd, bytes, count, offset) as ssize_t }
}

/// As libc's.
///
/// # Safety
/// There are `count` bytes to read.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pwrite64(fd: c_int, bytes: *const c_void, count: size_t, offset: off_t) -> ssize_t {
    // SAFETY: as the caller promises; on 64-bit machines they are the same.
    unsafe { pwrite(fd, bytes, count, offset) }
}

/// As libc's.
///
/// # Safety
/// The pointer is to a timespec.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clock_gettime(clock: clockid_t, time: *mut timespec) -> c_int {
    // SAFETY: as the caller promises.
    let outcome = unsafe { libc::syscall(libc::SYS_clock_gettime, clock, time) as c_int };
    if outcome == 0 && clock == libc::CLOCK_REALTIME && active("clock") {
        let text = folder().and_then(|folder| std::fs::read_to_string(folder.join("clock")).ok());
        let seconds: i64 = text.and_then(|text| text.trim().parse().ok()).unwrap_or(0);
        // SAFETY: as the caller promises, and the kernel has just written it.
        unsafe { (*time).tv_sec += seconds };
    }
    outcome
}
