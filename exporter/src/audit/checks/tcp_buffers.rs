//! Buffers of TCP connections on fast Ethernet.

use super::*;
use crate::context::Context;
use crate::parse::{ParseError, mounts};
use crate::source::files;

/// Ethernet slower than this is filled by the kernel's defaults, Mbit/s.
const FAST: u64 = 100_000;

/// Bytes under way at 1 Mbit/s over a round trip of 1 ms.
const BYTES_PER_MEGABIT: u64 = 125;

pub(super) static BUFFERS: Check = Check {
    id: "tcp_buffers",
    title: "Buffers of TCP connections on fast Ethernet",
    reads: "/proc/sys/net/ipv4/{tcp_rmem,tcp_wmem}, /sys/class/net/*/{operstate,speed}, \
            /sys/class/infiniband/*/ports/*/state, /proc/1/mounts",
    families: &[&catalog::network::NETWORK_UP, &catalog::network::NETWORK_SPEED],
    expected: Expected::always(
        "maxima that hold what is under way in 1 ms at the line rate (12.5 MB at 100 Gbit/s), from 100 Gbit/s on where jobs \
         or NFS may use TCP",
    ),
    why: "A connection has no more bytes under way than its buffers hold. Where they are smaller than rate times round trip, \
          one connection cannot fill the link, and NCCL over sockets and NFS use few.",
    fixes: &[Fix {
        command: "sysctl -w net.ipv4.tcp_rmem='4096 131072 MAX' net.ipv4.tcp_wmem='4096 16384 MAX'",
        lasting: Some("the same in /etc/sysctl.d"),
        restarts: "nothing; connections that are open keep theirs",
        risk: "each busy connection may take that much memory",
        ..Fix::USUAL
    }],
    sources: &[
        kernel("IP Sysctl: tcp_rmem, tcp_wmem", "https://docs.kernel.org/networking/ip-sysctl.html"),
        own("a warning; the round trip of 1 ms, which is long within one room"),
    ],
    run: |context, _| {
        let fastest = network::ethernet(context)?.filter(|speed| *speed >= FAST);
        let fastest =
            fastest.ok_or_else(|| Unread::Absent("no Ethernet of 100 Gbit/s or more that is up".to_owned()))?;
        let is_used = !network::has_active_port(context)? || has_nfs_over_tcp(context)?;
        Unread::unless(is_used, "jobs have RDMA, and no NFS is over TCP")?;
        let sizes = |file: &str| files::parse(&context.roots.proc.join("sys/net/ipv4").join(file), sizes);
        Ok(judge(fastest, sizes("tcp_rmem")?, sizes("tcp_wmem")?))
    },
};

/// Least, first and most bytes of a buffer.
type Sizes = [u64; 3];

fn sizes(text: &str) -> Result<Sizes, ParseError> {
    let numbers: Option<Vec<u64>> = text.split_ascii_whitespace().map(|word| word.parse().ok()).collect();
    let sizes = numbers.and_then(|numbers| Sizes::try_from(numbers).ok());
    sizes.ok_or_else(|| ParseError::new(1, "three unsigned numbers", text.trim()))
}

fn has_nfs_over_tcp(context: &Context) -> Result<bool, Unread> {
    let is_one = |mount: &mounts::Mount<'_>| {
        ["nfs", "nfs4"].contains(&mount.kind) && mount.option("proto").is_some_and(|proto| proto.starts_with("tcp"))
    };
    let any = |text: &str| mounts::parse(text).map(|mounts| mounts.iter().any(is_one));
    Ok(files::parse_optional(&context.roots.proc.join("1/mounts"), any)?.unwrap_or_default())
}

fn judge(megabits: u64, receive: Sizes, send: Sizes) -> Verdict {
    let needed = megabits.saturating_mul(BYTES_PER_MEGABIT);
    let small = [("tcp_rmem", receive), ("tcp_wmem", send)].into_iter().filter(|(_, [.., most])| *most < needed);
    let small = small
        .map(|(name, [.., most])| format!("{name} at most {} of {} at {megabits} Mbit/s", bytes(most), bytes(needed)));
    let right = format!("at least {} at {megabits} Mbit/s", bytes(needed));
    let verdict = Verdict::listing(Status::Warn, small.collect(), right);
    if verdict.status != Status::Warn {
        return verdict;
    }
    let [receive, send] = [receive, send].map(|[least, first, most]| format!("{least} {first} {}", most.max(needed)));
    verdict.with(vec![format!("sysctl -w net.ipv4.tcp_rmem='{receive}' net.ipv4.tcp_wmem='{send}'")])
}

#[cfg(test)]
mod tests {
    use super::*;
    use Status::{Pass, Warn};

    #[test]
    fn buffers() {
        let [receive, send] = [|most| [4096, 131_072, most], |most| [8192, 16_384, most]];
        let enough = judge(100_000, receive(12_500_000), send(12_500_000));
        assert_eq!((enough.status, enough.commands), (Pass, Vec::new()));
        let verdict = judge(100_000, receive(6_291_456), send(16_777_216));
        assert_eq!(
            (verdict.status, verdict.read.as_str()),
            (Warn, "tcp_rmem at most 6 MiB of 12 MiB at 100000 Mbit/s")
        );
        let command = "sysctl -w net.ipv4.tcp_rmem='4096 131072 12500000' net.ipv4.tcp_wmem='8192 16384 16777216'";
        assert_eq!(verdict.commands, [command]);
        assert_eq!(judge(400_000, receive(16_777_216), send(67_108_864)).status, Warn);
    }

    #[test]
    fn three_numbers() {
        assert_eq!(sizes("4096\t131072\t6291456\n"), Ok([4096, 131_072, 6_291_456]));
        for text in ["4096 131072", "4096 131072 many", "", "1 2 3 4"] {
            assert!(sizes(text).is_err(), "{text}");
        }
    }
}
