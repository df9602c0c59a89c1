//! Names in a folder that users write to: no link is followed, no other file system is entered, and no file system is asked for
//! anything that its server has to answer. Any user can mount a file system of his own in a folder of his, whose server never
//! answers.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Mode, OFlags, ResolveFlags, Statx, StatxFlags};
use rustix::io::Errno;

/// Device and inode: which file it is, whatever it is called.
pub type Key = (u64, u64);

/// Opens a name of the folder for reading.
///
/// # Errors
/// When it is a link, is on another file system, or cannot be opened.
pub(super) fn open(folder: &OwnedFd, name: &str, flags: OFlags) -> io::Result<OwnedFd> {
    let flags = flags | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let resolve = ResolveFlags::NO_XDEV | ResolveFlags::NO_SYMLINKS;
    match rustix::fs::openat2(folder, name, flags, Mode::empty(), resolve) {
        Err(Errno::XDEV) => Err(elsewhere()),
        // Linux has it since 5.6, and a filter of system calls may refuse it. A mount that is made between these two is followed.
        Err(Errno::NOSYS | Errno::PERM) => {
            if key(&stat(folder, name)?).0 != key(&stat(folder, "")?).0 {
                return Err(elsewhere());
            }
            Ok(rustix::fs::openat(folder, name, flags, Mode::empty())?)
        }
        opened => Ok(opened?),
    }
}

fn elsewhere() -> io::Error {
    io::Error::other("it is another file system, which --nccl.inspector-dir has to name itself")
}

/// What a name of the folder is, or the folder itself where there is no name.
///
/// # Errors
/// When there is no such name.
pub(super) fn stat(folder: &OwnedFd, name: &str) -> io::Result<Statx> {
    let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT | AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
    Ok(rustix::fs::statx(folder, name, flags, StatxFlags::BASIC_STATS)?)
}

/// Which file a link in `/proc` leads to.
///
/// # Errors
/// When it leads to none.
pub(super) fn linked(path: &Path) -> io::Result<Key> {
    Ok(key(&rustix::fs::statx(CWD, path, AtFlags::STATX_DONT_SYNC, StatxFlags::INO)?))
}

/// Which file it is.
pub(super) fn key(stat: &Statx) -> Key {
    (rustix::fs::makedev(stat.stx_dev_major, stat.stx_dev_minor), stat.stx_ino)
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::unix::fs::{MetadataExt as _, symlink};

    use super::*;

    #[test]
    fn a_file_is_known_by_one_key() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, "text").unwrap();
        let opened: OwnedFd = File::open(folder.path()).unwrap().into();
        let told = std::fs::metadata(&path).unwrap();
        assert_eq!(key(&stat(&opened, "file").unwrap()), (told.dev(), told.ino()));
        symlink(&path, folder.path().join("link")).unwrap();
        assert_eq!(linked(&folder.path().join("link")).unwrap(), (told.dev(), told.ino()));
        assert_ne!(key(&stat(&opened, "link").unwrap()), (told.dev(), told.ino()), "the link itself");
    }

    #[test]
    fn links_and_other_file_systems_are_not_opened() {
        let folder = tempfile::tempdir().unwrap();
        symlink(folder.path(), folder.path().join("link")).unwrap();
        let opened: OwnedFd = File::open(folder.path()).unwrap().into();
        assert!(open(&opened, "link", OFlags::RDONLY).is_err());
        assert!(open(&opened, ".", OFlags::RDONLY | OFlags::DIRECTORY).is_ok());
        let root: OwnedFd = File::open("/").unwrap().into();
        let error = open(&root, "proc", OFlags::RDONLY | OFlags::DIRECTORY).unwrap_err();
        assert!(error.to_string().contains("another file system"), "{error}");
    }
}
