//! `lustre`: what programs read from and write to Lustre file systems, and how long storage targets took to answer.

mod targets;

use std::path::PathBuf;

use super::*;
use crate::parse::Outcome;
use crate::parse::lustre::{self, Client};
use goodput_catalog::lustre::*;

/// Most clients that get series of their own; a node has one per mount.
const MAX_CLIENTS: usize = 16;

/// The row of this collector.
pub(crate) const ENTRY: Entry = Entry::new::<Lustre>(
    "lustre",
    "Reads, writes and other calls of Lustre clients, and answers of storage targets; 1 file per mount and 2 per target, for which root is needed from Lustre 2.12 on. No server is asked.",
    1,
);

/// Reads `stats` of every client.
#[derive(Default)]
pub struct Lustre;

impl Collector for Lustre {
    fn collect(&mut self, context: &Context, out: &mut Families) -> Result<Done, CollectError> {
        let roots = &context.roots;
        let Some(clients) = folders(roots, "llite")? else {
            return Ok(Done::NotApplicable("no Lustre client in /proc/fs and /sys/fs".to_owned()));
        };
        out.push(&LUSTRE_CLIENTS, &[], clients.len() as f64);
        let mut denied = 0;
        for name in clients.iter().take(MAX_CLIENTS) {
            if let Some(client) =
                files::found_or_denied(read(roots, "llite", name, "stats", lustre::parse), &mut denied)
            {
                push(name, &client, out);
            }
        }
        targets::push(roots, out, &mut denied)?;
        out.push(&LUSTRE_DENIED, &[], denied as f64);
        Ok(Done::Ok)
    }
}

/// The folders of clients or of their connections to targets. From 2.12 on everybody may list them in sysfs, and root alone may
/// read what they count, in debugfs.
fn folders(roots: &Roots, kind: &str) -> Result<Option<Vec<String>>, FileError> {
    for folder in [roots.sys.join("fs/lustre").join(kind), roots.proc.join("fs/lustre").join(kind)] {
        if let Some(mut names) = files::list(&folder)?.filter(|names| !names.is_empty()) {
            names.sort_unstable();
            return Ok(Some(names));
        }
    }
    Ok(None)
}

/// Reads one file of a folder of this kind, in debugfs, else in procfs.
fn read<R: Outcome>(
    roots: &Roots,
    kind: &str,
    name: &str,
    file: &str,
    parser: impl Fn(&str) -> R,
) -> Result<Option<R::Value>, FileError> {
    let below = |folder: PathBuf| folder.join("lustre").join(kind).join(name).join(file);
    match files::parse_optional(&below(roots.sys.join("kernel/debug")), &parser) {
        Ok(None) => files::parse_optional(&below(roots.proc.join("fs")), &parser),
        found => found,
    }
}

fn push(name: &str, client: &Client, out: &mut Families) {
    let (filesystem, id) = lustre::names(name);
    out.push(&LUSTRE_READ_BYTES, &[filesystem, id], client.read_bytes.map(|n| n as f64));
    out.push(&LUSTRE_WRITTEN_BYTES, &[filesystem, id], client.written_bytes.map(|n| n as f64));
    for (operation, calls) in [("read", client.read), ("write", client.write), ("other", client.other)] {
        let labels = [filesystem, id, operation];
        out.push(&LUSTRE_CALLS, &labels, calls.count.map(|n| n as f64));
        out.push(&LUSTRE_CALL_TIME, &labels, calls.time.map(|time| time.as_secs_f64()));
    }
}
