//! `lustre`: what programs read from and write to Lustre file systems.

use std::path::PathBuf;
use std::time::Duration;

use super::{CollectError, Collector, Context, Done, Entry};
use crate::catalog::lustre::*;
use crate::family::Families;
use crate::parse::lustre::{self, Client};
use crate::source::files::{self, FileError, Roots};

/// Most clients that get series of their own; a node has one per mount.
const MAX_CLIENTS: usize = 16;

/// The row of this collector.
pub(super) const ENTRY: Entry = Entry {
    name: "lustre",
    about: "Reads, writes and other calls of Lustre clients; 1 file per mount, for which root is needed from Lustre 2.12 on. No server is asked.",
    default: true,
    deadline: Duration::from_secs(1),
    new: || Box::<Lustre>::default(),
};

/// Reads `stats` of every client.
#[derive(Default)]
pub struct Lustre;

impl Collector for Lustre {
    fn collect(&mut self, context: &Context, out: &mut Families) -> Result<Done, CollectError> {
        let roots = &context.roots;
        let mut denied = 0;
        let Some(clients) = clients(roots)? else {
            return Ok(Done::NotApplicable("no Lustre client in /proc/fs and /sys/fs".to_owned()));
        };
        out.push(&LUSTRE_CLIENTS, &[], clients.len() as f64);
        for name in clients.iter().take(MAX_CLIENTS) {
            match stats(roots, name) {
                Ok(Some(client)) => push(name, &client, out),
                Ok(None) => {}
                Err(FileError::Denied { .. }) => denied += 1,
                Err(error) => drop(files::found::<()>(Err(error))),
            }
        }
        out.push(&LUSTRE_DENIED, &[], f64::from(denied));
        Ok(Done::Ok)
    }
}

/// The folders of the clients. From 2.12 on everybody may list them in sysfs, and root alone may read what they count,
/// in debugfs.
fn clients(roots: &Roots) -> Result<Option<Vec<String>>, FileError> {
    for folder in [roots.sys.join("fs/lustre/llite"), roots.proc.join("fs/lustre/llite")] {
        if let Some(mut names) = files::list(&folder)?.filter(|names| !names.is_empty()) {
            names.sort_unstable();
            return Ok(Some(names));
        }
    }
    Ok(None)
}

fn stats(roots: &Roots, client: &str) -> Result<Option<Client>, FileError> {
    let below = |folder: PathBuf| folder.join("lustre/llite").join(client).join("stats");
    match files::parse_optional(&below(roots.sys.join("kernel/debug")), lustre::parse) {
        Ok(None) => files::parse_optional(&below(roots.proc.join("fs")), lustre::parse),
        found => found,
    }
}

fn push(name: &str, client: &Client, out: &mut Families) {
    let (filesystem, id) = lustre::names(name);
    out.push(&LUSTRE_READ_BYTES, &[filesystem, id], client.read_bytes.map(|n| n as f64));
    out.push(&LUSTRE_WRITTEN_BYTES, &[filesystem, id], client.written_bytes.map(|n| n as f64));
    for (operation, calls) in [("read", client.read), ("write", client.write), ("other", client.other)] {
        let (labels, Some(calls)) = ([filesystem, id, operation], calls) else { continue };
        out.push(&LUSTRE_CALLS, &labels, calls.count as f64);
        out.push(&LUSTRE_CALL_TIME, &labels, calls.time.map(|time| time.as_secs_f64()));
    }
}
