//! The network between the nodes of a run: what its ports carry, and what is the matter with one of them.

use serde::Deserialize;

/// What ports are like for some minutes. How long an exchange takes is said by the phase.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(default, deny_unknown_fields)]
pub struct Network {
    /// The node whose first port is not as the others; `all` are all nodes.
    pub at: String,
    /// RDMA ports of each node.
    pub rails: usize,
    /// Of these, how many carry the exchange.
    pub carry: usize,
    /// Line rate of each, in bytes a second.
    pub speed: f64,
    /// Bytes that a node sends, and receives, in each exchange.
    pub bytes: f64,
    /// Seconds that an exchange would take on a sound network, where it takes longer on this one.
    pub sound: Option<f64>,
    /// Line rate of the first port there, as a share of the others'.
    pub slow: f64,
    /// Is it down?
    pub down: bool,
    /// Timeouts of it a second.
    pub timeouts: f64,
    /// Timeouts of every port a second, by chance.
    pub stray: f64,
    /// Share of the time in which its peer asks it to send nothing.
    pub paused: f64,
    /// Ticks a second in which it may not send, where exporters count them.
    pub ticks: Option<f64>,
    /// Packets a second for which it has no buffer ready: ranks there are late to take them.
    pub unready: f64,
    /// Packets a second that come to every port out of order, none of them lost.
    pub reordered: f64,
    /// Notices of congestion a second, of every port.
    pub congestion: f64,
    /// Does the exchange go over Ethernet, by TCP?
    pub tcp: bool,
    /// Bytes a second that come from storage over Ethernet.
    pub storage: f64,
    /// NVLinks that are up of the last GPU there, of the 18 that it has, where exporters tell of them.
    pub nvlinks: Option<u32>,
}

/// Where the counter of ticks stops: it has 32 bits.
pub const MOST_TICKS: f64 = 4_294_967_295.0;

/// NVLinks of an H100.
pub const NVLINKS: u32 = 18;

impl Default for Network {
    fn default() -> Self {
        Network {
            at: String::new(),
            rails: 2,
            carry: 2,
            speed: 25e9,
            bytes: 1.2e9,
            sound: None,
            slow: 1.0,
            down: false,
            timeouts: 0.0,
            stray: 0.0,
            paused: 0.0,
            ticks: None,
            unready: 0.0,
            reordered: 0.0,
            congestion: 0.0,
            tcp: false,
            storage: 0.0,
            nvlinks: None,
        }
    }
}

impl Network {
    /// What it is like on this node: its first port is as the others, unless it is that node.
    #[must_use]
    pub fn on(&self, node: &str) -> Network {
        if self.at == node || self.at == "all" {
            return self.clone();
        }
        Network {
            slow: 1.0,
            down: false,
            timeouts: 0.0,
            paused: 0.0,
            ticks: self.ticks.map(|_| 0.0),
            unready: 0.0,
            nvlinks: self.nvlinks.map(|_| NVLINKS),
            ..self.clone()
        }
    }
}

/// What the ports of a node counted since the start.
#[derive(Clone, Copy, Debug, Default)]
pub struct Carried {
    /// Bytes sent and received by each port that carries.
    pub rail: [f64; MOST_RAILS],
    /// Bytes sent over Ethernet.
    pub sent: f64,
    /// Bytes received over Ethernet.
    pub received: f64,
    /// Timeouts of the first port, for what is the matter with it.
    pub timeouts: f64,
    /// Timeouts of each port, by chance.
    pub stray: [f64; MOST_RAILS],
    /// Seconds in which the peer of the first port asked it to send nothing.
    pub paused: f64,
    /// Ticks in which the first port might not send.
    pub ticks: f64,
    /// Packets for which the first port had no buffer ready.
    pub unready: f64,
    /// Notices of congestion of each port.
    pub congestion: f64,
    /// Packets of each port that came out of order.
    pub reordered: f64,
}

/// Ports of a simulated node at most.
pub const MOST_RAILS: usize = 8;

impl Network {
    /// Seconds that an exchange takes at least, where it goes over RDMA ports: ranks go on when the slowest port is done.
    #[must_use]
    pub fn least_exchange(&self) -> f64 {
        let carry = self.carry.min(MOST_RAILS) - usize::from(self.down);
        if self.tcp { 0.0 } else { self.bytes / carry as f64 / (self.speed * self.slow) }
    }
}

impl Carried {
    /// One exchange more.
    pub fn exchange(&mut self, network: &Network) {
        if network.tcp {
            self.sent += network.bytes;
            self.received += network.bytes;
            return;
        }
        // Nothing goes over a port that is down.
        let carry = usize::from(network.down)..network.carry.min(MOST_RAILS);
        let each = network.bytes / carry.len() as f64;
        self.rail[carry].iter_mut().for_each(|rail| *rail += each);
    }

    /// Packets that are lost by chance within some seconds; each draw is a number from 0 to 1.
    pub fn stray(&mut self, network: &Network, seconds: f64, mut draw: impl FnMut() -> f64) {
        for rail in &mut self.stray[..network.rails.min(MOST_RAILS)] {
            *rail += f64::from(u8::from(draw() < network.stray * seconds));
        }
    }

    /// Some seconds later.
    pub fn pass(&mut self, network: &Network, seconds: f64) {
        self.timeouts += network.timeouts * seconds;
        self.paused += network.paused * seconds;
        self.ticks = (self.ticks + network.ticks.unwrap_or(0.0) * seconds).min(MOST_TICKS);
        self.unready += network.unready * seconds;
        self.reordered += network.reordered * seconds;
        self.congestion += network.congestion * seconds;
        self.received += network.storage * seconds;
        self.sent += 2e5 * seconds;
        self.received += 2e5 * seconds;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_others_carry_the_bytes_of_a_port_that_is_down() {
        let network = Network { at: "n1".to_owned(), down: true, rails: 3, carry: 3, bytes: 6.0, ..Network::default() };
        let mut carried = Carried::default();
        carried.exchange(&network.on("n1"));
        assert_eq!(carried.rail[..3], [0.0, 3.0, 3.0]);
        carried.exchange(&network.on("n2"));
        assert_eq!(carried.rail[..3], [2.0, 5.0, 5.0]);
    }

    #[test]
    fn a_counter_of_ticks_stops_at_its_maximum() {
        let network = Network { at: "n1".to_owned(), ticks: Some(3e9), ..Network::default() };
        let mut carried = Carried::default();
        carried.pass(&network.on("n2"), 1.0);
        assert_eq!(carried.ticks, 0.0);
        carried.pass(&network.on("n1"), 1.0);
        assert_eq!(carried.ticks, 3e9);
        carried.pass(&network.on("n1"), 1.0);
        assert_eq!(carried.ticks, MOST_TICKS);
    }
}
