//! What NCCL's Inspector would have written of a rank: every exchange is a collective of all ranks.

use serde::Deserialize;

/// Slots in which the exporter keeps every 16th collective.
pub const SLOTS: usize = 8;
/// How many collectives go from one that is kept to the next.
const EVERY: u64 = 16;

/// How a job is set up to record its collectives.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq)]
#[serde(default, deny_unknown_fields)]
pub struct Inspector {
    /// Bytes on the bus of each collective.
    pub bytes: f64,
    /// Ranks of the communicator.
    pub ranks: usize,
    /// The others complete one more collective than the odd GPU, which never comes to it.
    pub stays_behind: bool,
}

impl Default for Inspector {
    fn default() -> Self {
        Inspector { bytes: 2e9, ranks: 4, stays_behind: false }
    }
}

/// What a rank has done in collectives since the start.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rank {
    /// Time in them, in seconds.
    pub seconds: f64,
    /// Bytes on the bus.
    pub bytes: f64,
    /// The number of the last one that it completed, from 1 on.
    pub sequence: u64,
    /// Number and time of the last one of each slot.
    pub slots: [Option<(u64, f64)>; SLOTS],
    /// Time in the one that goes on.
    pub within: f64,
}

impl Rank {
    /// The one that goes on is completed, and written where there is an Inspector.
    pub fn complete(&mut self, inspector: Option<Inspector>) {
        let Some(inspector) = inspector else {
            self.within = 0.0;
            return;
        };
        self.sequence += 1;
        self.seconds += self.within;
        self.bytes += inspector.bytes;
        if self.sequence.is_multiple_of(EVERY) {
            self.slots[(self.sequence / EVERY) as usize % SLOTS] = Some((self.sequence, self.within));
        }
        self.within = 0.0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_16th_is_kept() {
        let mut rank = Rank::default();
        for n in 1..=160 {
            rank.within = f64::from(n);
            rank.complete(Some(Inspector::default()));
        }
        assert_eq!((rank.sequence, rank.seconds), (160, 12_880.0));
        assert_eq!(rank.slots[1], Some((144, 144.0)));
        assert_eq!(rank.slots[7], Some((112, 112.0)));
    }
}
