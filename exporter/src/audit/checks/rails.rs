//! Frame sizes of the NICs that are the rails of one network, and of their peers.

use std::collections::BTreeMap;

use super::network::{ABI_TESTING, FAST, Nic, nics};
use super::*;
use crate::context::Context;
use crate::parse::ethtool::Statistic;
use crate::parse::number;
use crate::source::ethtool::{self, is_plain};
use crate::source::files;
use crate::source::program::ProgramError;

/// Oversize packets of an interface that are worth a warning, of the packets that it received: own choice. The driver counts
/// both since it was loaded, and a peer whose frames were too long for a moment is no finding.
const SHARE: f64 = 1e-6;

pub(super) static MTU: Check = Check {
    id: "rail_mtu",
    title: "Frame size of NICs of one model",
    reads: "/sys/class/net/*/{mtu,operstate,speed,statistics/rx_packets,device/{vendor,device}}, ethtool -S",
    families: &[
        &catalog::network::NETWORK_UP,
        &catalog::network::NETWORK_SPEED,
        &catalog::network::NETWORK_MTU,
        &catalog::ethtool::NETWORK_OVERSIZE,
    ],
    expected: Expected::always(
        "the same on all of one model and rate, from 25 Gbit/s on; fewer than one packet in a million too long",
    ),
    why: "NICs of one model and rate are usually the rails of one network. RDMA over Ethernet takes its largest message \
          from the frame size: a rail with smaller frames does more work per byte than the others, and one with larger \
          frames than its peer loses them silently. A NIC that counts oversize packets has a peer with larger frames.",
    fixes: &[Fix {
        command: "ip link set dev NIC mtu SIZE",
        lasting: Some("in the network's configuration (netplan, NetworkManager, systemd-networkd)"),
        restarts: "connections that run over the NIC may stall for a moment",
        risk: "every switch and peer of that network has to take such frames",
        ..Fix::USUAL
    }],
    sources: &[
        kernel("ABI: /sys/class/net/IFACE/{mtu,speed}", ABI_TESTING),
        kernel(
            "mlx5, Ethtool counters: rx_oversize_pkts_phy",
            "https://docs.kernel.org/networking/device_drivers/ethernet/mellanox/mlx5/counters.html",
        ),
        own("a warning: ports of one model can be for different networks, and oversize packets may be old"),
        own("oversize packets count from one in a million received packets on, both since the driver was loaded"),
        own("a running exporter starts no program for it, and judges the frame sizes alone"),
    ],
    run: |context, _| {
        let nics = nics(context)?;
        let rails = rails(&nics)?;
        Ok(judge(&rails, &Oversize::read(context, rails.iter().flatten())))
    },
};

/// Rails of one network: NICs of one model and rate.
fn rails(nics: &[Nic]) -> Result<Vec<Vec<&Nic>>, Unread> {
    let mut rails: BTreeMap<(&str, u64), Vec<&Nic>> = BTreeMap::new();
    for nic in nics {
        // IP over InfiniBand has frame sizes of its own.
        let is_ethernet = !nic.name.starts_with("ib");
        let Some(speed) = nic.speed.filter(|speed| is_ethernet && *speed >= FAST) else { continue };
        rails.entry((&nic.model, speed)).or_default().push(nic);
    }
    rails.retain(|_, rails| rails.len() > 1);
    Unread::unless(!rails.is_empty(), "no two NICs of one model and rate, 25 Gbit/s or more, that are up")?;
    Ok(rails.into_values().collect())
}

/// Packets that NICs dropped because they are longer than their MTU, since their driver was loaded.
#[derive(Default)]
struct Oversize {
    /// By NIC, where they are [`SHARE`] of what it received.
    dropped: Vec<(String, u64)>,
    /// Why it is not known of some.
    unknown: Option<String>,
}

impl Oversize {
    fn read<'a>(context: &Context, nics: impl Iterator<Item = &'a &'a Nic>) -> Self {
        let mut oversize = Self::default();
        let Some(folder) = &context.roots.programs else { return oversize };
        for nic in nics.filter(|nic| is_plain(&nic.name)) {
            match ethtool::read(folder, &nic.name) {
                Ok(parsed) => {
                    let count = parsed.value.get(&Statistic::Oversize).filter(|count| **count > 0);
                    let count = count.filter(|count| is_many(**count, received(context, &nic.name)));
                    oversize.dropped.extend(count.map(|count| (nic.name.clone(), *count)));
                }
                Err(error) => {
                    // Firmware that does not answer is waited for once.
                    let is_late = matches!(error, ProgramError::TimedOut { .. });
                    oversize.unknown.get_or_insert(error.to_string());
                    if is_late {
                        break;
                    }
                }
            }
        }
        oversize
    }
}

/// Packets that the interface received; `None` where the kernel does not say.
fn received(context: &Context, nic: &str) -> Option<u64> {
    files::get(&context.roots.sys.join("class/net").join(nic).join("statistics/rx_packets"), number)
}

/// Without a count of what was received, any are.
fn is_many(oversize: u64, received: Option<u64>) -> bool {
    received.is_none_or(|received| oversize as f64 >= received as f64 * SHARE)
}

fn judge(rails: &[Vec<&Nic>], oversize: &Oversize) -> Verdict {
    let mut wrong = Vec::new();
    for rails in rails.iter().filter(|rails| rails.iter().any(|nic| nic.mtu != rails[0].mtu)) {
        wrong.extend(rails.iter().map(|nic| format!("{} on {}", nic.mtu, nic.name)));
    }
    let dropped = oversize.dropped.iter();
    wrong.extend(dropped.map(|(nic, count)| {
        format!("{nic} dropped {count} packets longer than its frames since the driver was loaded")
    }));
    let all = count(rails.iter().map(Vec::len).sum(), "NIC");
    let but = oversize.unknown.as_ref().map(|why| format!("; oversize packets not known: {why}"));
    Verdict::listing(Status::Warn, wrong, format!("equal, of {all}{}", but.unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use Status::{Pass, Warn};

    fn nic(name: &str, mtu: u64, speed: u64) -> Nic {
        let (name, model) = (name.to_owned(), "a".to_owned());
        Nic { name, mtu, speed: Some(speed), model, node: Some(0), lanes: Some((16, 16)) }
    }

    fn said(nics: &[Nic], oversize: &Oversize) -> (Status, String) {
        let verdict = judge(&rails(nics).unwrap(), oversize);
        (verdict.status, verdict.read)
    }

    #[test]
    fn frame_sizes_of_rails() {
        let fast = |name: &str, mtu| nic(name, mtu, 100_000);
        let all = [fast("eth0", 9000), fast("eth1", 4200), nic("eth2", 1500, 25_000)];
        assert_eq!(said(&all, &Oversize::default()), (Warn, "9000 on eth0, 4200 on eth1".to_owned()));
        let equal = [fast("eth0", 9000), fast("eth1", 9000)];
        assert_eq!(said(&equal, &Oversize::default()), (Pass, "equal, of 2 NICs".to_owned()));
        assert!(rails(&all[1..]).is_err(), "of different rates");
        assert!(rails(&[nic("eth0", 9000, 10_000), nic("eth1", 1500, 10_000)]).is_err(), "slow ones");
        let other = Nic { model: "b".to_owned(), ..fast("eth1", 1500) };
        assert!(rails(&[fast("eth0", 9000), other]).is_err(), "of different models");
    }

    #[test]
    fn one_packet_in_a_million_counts() {
        for (oversize, received, expected) in
            [(1, Some(1_000_001), false), (1, Some(1_000_000), true), (12, Some(0), true), (1, None, true)]
        {
            assert_eq!(is_many(oversize, received), expected, "{oversize} of {received:?}");
        }
    }

    #[test]
    fn frame_sizes_of_peers() {
        let equal = [nic("eth0", 9000, 100_000), nic("eth1", 9000, 100_000)];
        let dropped = Oversize { dropped: vec![("eth1".to_owned(), 12)], unknown: None };
        assert_eq!(
            said(&equal, &dropped),
            (Warn, "eth1 dropped 12 packets longer than its frames since the driver was loaded".to_owned())
        );
        let unknown = Oversize { dropped: Vec::new(), unknown: Some("no ethtool".to_owned()) };
        let read = "equal, of 2 NICs; oversize packets not known: no ethtool".to_owned();
        assert_eq!(said(&equal, &unknown), (Pass, read), "equal all the same");
    }
}
