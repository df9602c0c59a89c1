//! What boards draw: by model, and how boards of one model differ.

use crate::demo::machine::noise::hash;

/// A model of boards. Draws are ranges that a run's level is taken from, as shares of the limit.
#[derive(Debug)]
pub struct Board {
    /// As the driver names it.
    pub name: &'static str,
    /// Power limit as made, in watts.
    pub limit: f64,
    /// Draw without a process.
    bare: [f64; 2],
    /// Draw with an idle context.
    context: [f64; 2],
    /// Device memory, in bytes.
    pub memory: f64,
    /// Highest SM clock, in hertz.
    pub clock: f64,
}

/// What one board draws, in watts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Draw {
    /// Without a process.
    pub bare: f64,
    /// With an idle context.
    pub context: f64,
    /// While kernels spin until the other ranks are there.
    pub spin: f64,
    /// At work at the full clock.
    pub full: f64,
}

const MIB: f64 = 1_048_576.0;

/// Limits, memory and clocks are those of NVIDIA's data sheets. Idle draws: H100 66 to 72 W bare and 113 to 116 W with a
/// context (NVIDIA/aicr), A100 46 W bare and 65 to 70 W with a context (JUWELS), an L40S 27 % of its limit with a context.
/// No recording is known of the other two, so their ranges are wide.
pub static BOARDS: [Board; 5] = [
    Board {
        name: "NVIDIA A100-SXM4-80GB",
        limit: 400.0,
        bare: [0.11, 0.17],
        context: [0.16, 0.2],
        memory: 81_000.0 * MIB,
        clock: 1.41e9,
    },
    Board {
        name: "NVIDIA H100 80GB HBM3",
        limit: 700.0,
        bare: [0.09, 0.11],
        context: [0.15, 0.18],
        memory: 81_000.0 * MIB,
        clock: 1.98e9,
    },
    Board {
        name: "NVIDIA H200",
        limit: 700.0,
        bare: [0.09, 0.13],
        context: [0.14, 0.2],
        memory: 143_000.0 * MIB,
        clock: 1.98e9,
    },
    Board {
        name: "NVIDIA L40S",
        limit: 350.0,
        bare: [0.08, 0.12],
        context: [0.2, 0.3],
        memory: 45_500.0 * MIB,
        clock: 2.52e9,
    },
    Board {
        name: "NVIDIA B200",
        limit: 1000.0,
        bare: [0.12, 0.16],
        context: [0.16, 0.22],
        memory: 183_000.0 * MIB,
        clock: 1.965e9,
    },
];

/// How far boards of a model differ to either side: 8 % in performance on average and 22 % at most at equal settings
/// (Sinha et al., Not All GPUs Are Created Equal, SC 2022).
const BETWEEN_BOARDS: f64 = 0.08;
/// Spinning kernels take this share of the room between an idle context and the limit: 150 to 156 W of 700 W were
/// recorded on 8xH100 with 115 W idle, which is 0.065; half and twice of it, for other collectives and models.
const SPINNING: [f64; 2] = [0.03, 0.13];
/// Work takes this share of the limit: training at 520 of 700 W was recorded; half and nearly all of it are as usual.
const WORKING: [f64; 2] = [0.5, 0.95];

impl Board {
    /// The board of this index in the run of this seed. Levels are the run's, and what a board differs by is its own.
    #[must_use]
    pub fn draw(&self, run: u64, node: u64, gpu: usize) -> Draw {
        let level = |what: &str, [low, high]: [f64; 2]| low + (high - low) * unit(what, run);
        let own = run.wrapping_mul(4099).wrapping_add(node * 64 + gpu as u64);
        let differs = |what: &str| 1.0 + BETWEEN_BOARDS * (2.0 * unit(what, own) - 1.0);
        let bare = self.limit * level("bare", self.bare) * differs("bare board");
        let context = (self.limit * level("context", self.context) * differs("context board")).max(bare);
        let spin = context + level("spin", SPINNING) * (self.limit - context) * differs("spin board");
        let full = (self.limit * level("full", WORKING) * differs("full board")).min(self.limit);
        Draw { bare, context, spin, full: full.max(spin) }
    }
}

/// A number from 0 to 1, the same in every run.
fn unit(what: &str, seed: u64) -> f64 {
    hash(what, seed) as f64 / u64::MAX as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_in_order_and_some_boards_idle_above_what_others_spin_at() {
        let mut mixed = 0;
        for (run, board) in (0..100).flat_map(|run| BOARDS.iter().map(move |board| (run, board))) {
            let draws: Vec<Draw> = (0..8).map(|gpu| board.draw(run, 0, gpu)).collect();
            for Draw { bare, context, spin, full } in &draws {
                assert!(0.0 < *bare && bare <= context && context < spin && spin <= full && *full <= board.limit);
            }
            let most = |of: fn(&Draw) -> f64| draws.iter().map(of).fold(0.0, f64::max);
            let least = |of: fn(&Draw) -> f64| draws.iter().map(of).fold(f64::MAX, f64::min);
            mixed += usize::from(most(|d| d.context) > least(|d| d.spin));
        }
        assert!(mixed >= 10, "{mixed} of 500 nodes have an idle board that draws more than a spinning one");
    }
}
