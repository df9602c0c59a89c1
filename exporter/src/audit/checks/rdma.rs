//! Counters of RDMA ports.

use super::*;
use crate::collect::network::rdma::{self, TRANSMIT_WAIT};
use crate::context::Context;
use crate::parse::ParseError;
use crate::source::files;

pub(super) static COUNTERS: Check = Check {
    id: "rdma_counters_full",
    title: "Counters of RDMA ports that count no more",
    reads: "/sys/class/infiniband/*/ports/*/{link_layer,counters/*}",
    families: &[&catalog::network::RDMA_SATURATED, &catalog::network::RDMA_INFO],
    expected: Expected::always("none at its maximum, but for transmit wait on InfiniBand"),
    why: "Error counters have 4, 8 or 16 bits, and stop when they are full: the next error of the kind is not seen, and a \
          bad cable looks like a sound one. A full transmit wait says that the port was blocked, never for how long: a \
          fast link fills it in seconds.",
    fixes: &[Fix {
        command: "perfquery -C DEVICE -P PORT -R",
        risk: "other monitoring that reads these counters sees them fall; over Ethernet the driver may not take it, and \
               then a reboot clears them",
        ..Fix::USUAL
    }],
    sources: &[
        kernel(
            "ABI: /sys/class/infiniband/DEVICE/ports/PORT/counters",
            "https://docs.kernel.org/admin-guide/abi-stable.html",
        ),
        own("a warning: the errors may be old, from a cable that has been replaced since"),
    ],
    run: |context, _| judge(&ports(context)?),
};

/// The full counters of one port.
struct Port {
    device: String,
    port: String,
    is_infiniband: bool,
    full: Vec<&'static str>,
}

fn ports(context: &Context) -> Result<Vec<Port>, Unread> {
    let class = context.roots.sys.join("class/infiniband");
    let mut devices = files::list(&class)?.unwrap_or_default();
    devices.sort_unstable();
    let mut found = Vec::new();
    for device in devices {
        let folder = class.join(&device).join("ports");
        let mut ports = files::list(&folder)?.unwrap_or_default();
        ports.sort_unstable();
        for port in ports {
            // A port that counts nothing can be full of nothing.
            let Some(full) = rdma::full(&folder.join(&port)) else { continue };
            let word = |text: &str| Ok::<_, ParseError>(text.trim() == "InfiniBand");
            let is_infiniband =
                files::parse_optional(&folder.join(&port).join("link_layer"), word)?.unwrap_or_default();
            found.push(Port { device: device.clone(), port, is_infiniband, full });
        }
    }
    Ok(found)
}

impl Port {
    /// Those of its full counters that say something is wrong, or no longer known.
    fn lost(&self) -> Vec<&'static str> {
        let is_usual = |name: &&str| self.is_infiniband && *name == TRANSMIT_WAIT;
        self.full.iter().copied().filter(|name| !is_usual(name)).collect()
    }
}

fn judge(ports: &[Port]) -> Result<Verdict, Unread> {
    Unread::unless(!ports.is_empty(), "no RDMA port with counters")?;
    let lost: Vec<&Port> = ports.iter().filter(|port| !port.lost().is_empty()).collect();
    if lost.is_empty() {
        let blocked = ports.iter().filter(|port| !port.full.is_empty()).count();
        let but = match blocked {
            0 => String::new(),
            _ => format!("; transmit wait of {blocked}: blocked at some time, not known for how long"),
        };
        return Ok(Verdict::new(Status::Pass, format!("none full on {}{but}", count(ports.len(), "port"))));
    }
    let read = |port: &&Port| format!("{} port {}: {}", port.device, port.port, port.lost().join(" and "));
    let command = |port: &&Port| format!("perfquery -C {} -P {} -R", port.device, port.port);
    let verdict = Verdict::new(Status::Warn, list(&lost.iter().map(read).collect::<Vec<_>>()));
    Ok(verdict.with(lost.iter().map(command).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use Status::{Pass, Warn};

    #[test]
    fn counters() {
        let port = |n: u32, is_infiniband, full: &[&'static str]| Port {
            device: format!("mlx5_{n}"),
            port: "1".to_owned(),
            is_infiniband,
            full: full.to_vec(),
        };
        let said = |ports: &[Port]| judge(ports).map(|verdict| (verdict.status, verdict.read)).unwrap();
        assert_eq!(said(&[port(0, true, &[])]), (Pass, "none full on 1 port".to_owned()));
        let usual = "none full on 1 port; transmit wait of 1: blocked at some time, not known for how long";
        assert_eq!(said(&[port(0, true, &[TRANSMIT_WAIT])]), (Pass, usual.to_owned()));
        assert_eq!(said(&[port(0, false, &[TRANSMIT_WAIT])]), (Warn, "mlx5_0 port 1: port_xmit_wait".to_owned()));
        let both = [port(0, true, &[TRANSMIT_WAIT, "symbol_error", "link_downed"]), port(1, true, &[])];
        assert_eq!(said(&both), (Warn, "mlx5_0 port 1: symbol_error and link_downed".to_owned()));
        assert_eq!(judge(&both).unwrap().commands, ["perfquery -C mlx5_0 -P 1 -R"]);
        assert!(judge(&[]).is_err());
    }
}
