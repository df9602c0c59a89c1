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
    /// Line rate of the first port there, as a share of the others'.
    pub slow: f64,
    /// Is it down?
    pub down: bool,
    /// Timeouts of it a second.
    pub timeouts: f64,
    /// Notices of congestion a second, of every port.
    pub congestion: f64,
    /// Does the exchange go over Ethernet, by TCP?
    pub tcp: bool,
    /// Bytes a second that come from storage over Ethernet.
    pub storage: f64,
    /// NVLinks that are up of the last GPU there, of the 18 that it has, where exporters tell of them.
    pub nvlinks: Option<u32>,
}

/// NVLinks of an H100.
pub const NVLINKS: u32 = 18;

impl Default for Network {
    fn default() -> Self {
        Network {
            at: String::new(),
            rails: 2,
            carry: 2,
            speed: 25e9,
            bytes: 6e9,
            slow: 1.0,
            down: false,
            timeouts: 0.0,
            congestion: 0.0,
            tcp: false,
            storage: 0.0,
            nvlinks: None,
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
    /// Timeouts of the port that is not as the others.
    pub timeouts: f64,
    /// Notices of congestion of each port.
    pub congestion: f64,
}

/// Ports of a simulated node at most.
pub const MOST_RAILS: usize = 8;

impl Carried {
    /// One exchange more.
    pub fn exchange(&mut self, network: &Network) {
        if network.tcp {
            self.sent += network.bytes;
            self.received += network.bytes;
            return;
        }
        let carry = network.carry.min(MOST_RAILS);
        self.rail[..carry].iter_mut().for_each(|rail| *rail += network.bytes / carry as f64);
    }

    /// Some seconds later.
    pub fn pass(&mut self, network: &Network, seconds: f64) {
        self.timeouts += network.timeouts * seconds;
        self.congestion += network.congestion * seconds;
        self.received += network.storage * seconds;
        self.sent += 2e5 * seconds;
        self.received += 2e5 * seconds;
    }
}
