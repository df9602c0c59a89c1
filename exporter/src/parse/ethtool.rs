//! What `ethtool -S DEVICE` prints: a line per statistic of the driver, `     rx_prio3_pause_duration: 1200`.
//!
//! Names are those of mlx5 (kernel, device_drivers/ethernet/mellanox/mlx5/counters.rst) and, for the time of pauses, of
//! ionic, which AMD's Pensando cards have.

use std::collections::BTreeMap;

use super::{ParseError, Parsed, each_line};

/// Priorities of Ethernet (IEEE 802.1Q).
pub const PRIORITIES: u8 = 8;

goodput_catalog::named! {
    /// Which way packets go.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub enum Direction {
        /// From the peer. A pause that was received stops the interface.
        Receive = "receive",
        /// To the peer. A pause that was sent stops the peer.
        Transmit = "transmit",
    }
}

/// One statistic of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Statistic {
    /// Microseconds of pause, of one priority.
    Paused(Direction, u8),
    /// Pause packets, of one priority.
    Pauses(Direction, u8),
    /// Packets that the port discarded for lack of buffers.
    Discarded(Direction),
    /// Packets longer than the interface's MTU, which the port dropped.
    Oversize,
}

/// The statistics that are known here; the first of those with one name.
pub fn statistics(text: &str) -> Parsed<BTreeMap<Statistic, u64>> {
    let mut all = BTreeMap::new();
    each_line(text, |number, line| {
        let Some((name, value)) = line.split_once(':') else { return Ok(()) };
        let Some(statistic) = statistic(name) else { return Ok(()) };
        let value = value.trim().parse().map_err(|_| ParseError::new(number, "an unsigned number", line))?;
        all.entry(statistic).or_insert(value);
        Ok(())
    })
    .map(|()| all)
}

fn statistic(name: &str) -> Option<Statistic> {
    let (direction, name) = match name.split_once('_')? {
        ("rx", name) => (Direction::Receive, name),
        ("tx", name) => (Direction::Transmit, name),
        _ => return None,
    };
    match (direction, name) {
        (_, "discards_phy") => return Some(Statistic::Discarded(direction)),
        (Direction::Receive, "oversize_pkts_phy") => return Some(Statistic::Oversize),
        _ => {}
    }
    if let Some(name) = name.strip_prefix("pripause_") {
        return Some(Statistic::Paused(direction, priority(name.strip_suffix("_1us_count")?)?));
    }
    match name.strip_prefix("prio")?.split_once('_')? {
        (number, "pause_duration") => Some(Statistic::Paused(direction, priority(number)?)),
        (number, "pause") => Some(Statistic::Pauses(direction, priority(number)?)),
        _ => None,
    }
}

/// One digit, so that a priority has one spelling.
fn priority(text: &str) -> Option<u8> {
    text.parse().ok().filter(|priority| *priority < PRIORITIES && text.len() == 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use Direction::{Receive, Transmit};
    use proptest::prelude::*;

    #[test]
    fn mlx5() {
        let text = "NIC statistics:\n     rx_packets: 1\n     rx_prio3_bytes: 2\n     rx_prio3_pause: 3\n     \
                    rx_prio3_pause_duration: 4\n     rx_prio3_pause_transition: 5\n     tx_prio3_pause: 6\n     \
                    tx_prio3_pause_duration: 7\n     rx_discards_phy: 8\n     tx_discards_phy: 9\n     \
                    rx_oversize_pkts_phy: 10\n     tx_oversize_pkts_phy: 11\n     rx_prio3_discards: 12\n     \
                    rx_global_pause_duration: 13\n";
        let parsed = statistics(text);
        let expected = [
            (Statistic::Paused(Receive, 3), 4),
            (Statistic::Paused(Transmit, 3), 7),
            (Statistic::Pauses(Receive, 3), 3),
            (Statistic::Pauses(Transmit, 3), 6),
            (Statistic::Discarded(Receive), 8),
            (Statistic::Discarded(Transmit), 9),
            (Statistic::Oversize, 10),
        ];
        assert_eq!((parsed.value.into_iter().collect::<Vec<_>>(), parsed.left_out.count), (expected.to_vec(), 0));
    }

    #[test]
    fn ionic() {
        let parsed = statistics("frames_rx_pripause: 0\nrx_pripause_5_1us_count: 77\nrx_pause_1us_count: 3\n");
        assert_eq!(parsed.value, BTreeMap::from([(Statistic::Paused(Receive, 5), 77)]));
    }

    #[test]
    fn a_bad_line_costs_itself() {
        for bad in ["rx_prio3_pause: -1", "rx_discards_phy:", "tx_pripause_0_1us_count: 1e3"] {
            let parsed = statistics(&format!("{bad}\nrx_prio3_pause_duration: 4\n"));
            assert_eq!(parsed.value, BTreeMap::from([(Statistic::Paused(Receive, 3), 4)]), "{bad}");
            assert_eq!(parsed.left_out.first.unwrap().line, 1, "{bad}");
        }
    }

    #[test]
    fn priorities_have_one_digit_and_statistics_one_value() {
        for other in
            ["rx_prio8_pause", "rx_prio03_pause", "rx_prio+3_pause", "rx_prio_pause", "rx_pripause_8_1us_count"]
        {
            assert!(statistics(&format!("{other}: 7\n")).value.is_empty(), "{other}");
        }
        let twice = statistics("rx_discards_phy: 1\nrx_discards_phy: 2\n");
        assert_eq!(twice.value, BTreeMap::from([(Statistic::Discarded(Receive), 1)]));
    }

    proptest! {
        #[test]
        fn never_panics(text in "((rx|tx)_|prio|pripause_|[0-9]{1,21}|_pause(_duration)?|_1us_count|discards_phy|: |\n|\\PC)*") {
            let _ = statistics(&text);
        }
    }
}
