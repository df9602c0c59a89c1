//! Connections to NFS servers.

use super::*;
use crate::parse::mountstats::{self, Mount, Operations, Options};
use crate::source::files;

/// Fewer reads say nothing of how the mount is used.
const FEW_READS: u64 = 1000;

/// From this share of the reads' time on it is the node that they wait at.
const MUCH_WAITING: f64 = 0.5;

pub(super) static NCONNECT: Check = Check {
    id: "nfs_nconnect",
    title: "Connections of busy NFS mounts",
    reads: "/proc/1/mountstats: nconnect and proto of NFS, times of READ; /sys/class/net/*/{operstate,speed}",
    families: &[
        &catalog::storage::NFS_REQUESTS,
        &catalog::storage::NFS_ROUND_TRIP,
        &catalog::storage::NFS_EXECUTION,
        &catalog::network::NETWORK_UP,
        &catalog::network::NETWORK_SPEED,
    ],
    expected: Expected::always(
        "more than one over TCP where the node has a NIC of 25 Gbit/s or more and reads wait at the node for half of their \
         time",
    ),
    why: "One TCP connection is served by one CPU and one queue of the NIC, and has a limited number of requests in flight. \
          On a fast network reads queue up in front of it while server and link are idle.",
    fixes: &[Fix {
        command: "mount option nconnect=8",
        lasting: Some("in /etc/fstab, the automounter's map or the PersistentVolume"),
        restarts: "all mounts of that server, and every process that uses them",
        risk: "the server holds more connections; all mounts of one server share the number of the first",
        ..Fix::USUAL
    }],
    sources: &[
        vendor("nfs(5): nconnect", "https://man7.org/linux/man-pages/man5/nfs.5.html"),
        own(
            "at least 1,000 reads, and half of their time spent waiting at the node, summed since the mount; encryption \
             (krb5p, TLS) on the node counts as waiting too",
        ),
    ],
    run: |context, _| {
        Unread::unless(network::fastest(context)? >= Some(network::FAST), "no NIC of 25 Gbit/s or more that is up")?;
        let path = context.roots.proc.join("1/mountstats");
        files::parse(&path, |text| mountstats::parse(text).map(|mounts| judge(&mounts)))?
    },
};

/// Over TCP, by one connection.
fn is_narrow(mount: &Mount<'_>) -> bool {
    let of = |options: &Options<'_>| {
        options.connections == 1 && options.protocol.is_some_and(|protocol| protocol.starts_with("tcp"))
    };
    mount.options.as_ref().is_some_and(of)
}

/// The share of the reads' time that they waited at this node, where there were enough of them.
fn waiting(reads: &Operations) -> Option<f64> {
    let all = reads.execution.as_secs_f64();
    (reads.requests >= FEW_READS && all > 0.0)
        .then(|| reads.execution.saturating_sub(reads.round_trip).as_secs_f64() / all)
}

fn judge(mounts: &[Mount<'_>]) -> Result<Verdict, Unread> {
    let known: Vec<_> = mounts.iter().filter(|mount| mount.options.is_some()).collect();
    Unread::unless(!known.is_empty(), "no NFS mount whose options are known")?;
    let waits = |mount: &Mount<'_>| waiting(mount.read.as_ref()?).filter(|share| *share >= MUCH_WAITING);
    let slow = known.iter().filter(|mount| is_narrow(mount)).filter_map(|mount| Some((mount, waits(mount)?)));
    let slow = slow.map(|(mount, share)| {
        format!("{}: one connection, reads wait at the node for {:.0} % of their time", mount.point, 100.0 * share)
    });
    Ok(Verdict::listing(Status::Warn, slow.collect(), format!("none of {} waits so", count(known.len(), "mount"))))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use Status::{Pass, Warn};

    #[test]
    fn connections() {
        let mount = |protocol, connections, requests, round_trip, execution| Mount {
            point: "/data",
            export: "nas:/data",
            options: Some(Options { protocol: Some(protocol), connections, ..Options::default() }),
            read: Some(Operations {
                requests,
                round_trip: Duration::from_secs(round_trip),
                execution: Duration::from_secs(execution),
                ..Operations::default()
            }),
            ..Mount::default()
        };
        for (mount, status) in [
            (mount("tcp", 1, 1000, 50, 100), Warn),
            (mount("tcp6", 1, 1000, 50, 100), Warn),
            (mount("tcp", 1, 999, 50, 100), Pass),
            (mount("tcp", 1, 1000, 51, 100), Pass),
            (mount("tcp", 2, 1000, 50, 100), Pass),
            (mount("rdma", 1, 1000, 50, 100), Pass),
            (mount("tcp", 1, 1000, 0, 0), Pass),
            (mount("tcp", 1, 1000, 9, 3), Pass),
        ] {
            let verdict = judge(std::slice::from_ref(&mount)).unwrap();
            assert_eq!(verdict.status, status, "{mount:?}: {}", verdict.read);
        }
        let unknown = Mount { options: None, ..mount("tcp", 1, 1000, 50, 100) };
        assert!(judge(&[unknown]).is_err(), "how it was made is not known");
        assert!(judge(&[]).is_err());
    }
}
