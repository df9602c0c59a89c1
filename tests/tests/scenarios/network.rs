//! How much of what the network took is told, over all scenarios: the time, its cause, and who is named. What it took is how much
//! longer the exchange of the judged GPU was than on a sound network, as the simulation counts it.

use super::{ALL, MINUTE_MS, Told, causes, culprits};

/// Time told and true time differ by no more than this share of the truth (own: a report is read to two digits) ...
const OFF: f64 = 0.1;
/// ... or this share of the time (own: three minutes of a hundred).
const OFF_HELD: f64 = 0.03;
/// Share of the time told whose cause is right, and whose port (own: nine visits of ten find the fault).
const RIGHT: f64 = 0.9;
/// Share of the time that is told where the network takes nothing (own: below `claim_floor` of the rules).
const FALSE: f64 = 0.01;

/// Milliseconds of GPUs.
#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    all: f64,
    truth: f64,
    told: f64,
    right_cause: f64,
    right_port: f64,
}

impl Sum {
    /// Of one scenario.
    fn of(told: &Told) -> Sum {
        let (mut sum, mut first) = (Sum::default(), 0);
        for phase in &told.scenario.phases {
            // Of a GPU and a port that are named, the port is the network's.
            let culprit = culprits(phase).last();
            let minutes = first..first + phase.minutes;
            first += phase.minutes;
            for (minute, delayed) in told.minutes[minutes.clone()].iter().zip(&told.delayed[minutes]) {
                sum.all += MINUTE_MS as f64;
                // What has nothing to be compared with is advised, without a time.
                let is_advised = minute.advice.contains(&"network_constant");
                sum.truth += if is_advised { 0.0 } else { 1000.0 * delayed };
                for ((cause, who), ms) in &minute.network {
                    sum.told += *ms as f64;
                    sum.right_cause += if causes(phase).any(|known| known == *cause) { *ms as f64 } else { 0.0 };
                    sum.right_port += if *who == culprit { *ms as f64 } else { 0.0 };
                }
            }
        }
        sum
    }

    fn plus(self, other: Sum) -> Sum {
        Sum {
            all: self.all + other.all,
            truth: self.truth + other.truth,
            told: self.told + other.told,
            right_cause: self.right_cause + other.right_cause,
            right_port: self.right_port + other.right_port,
        }
    }

    /// Is about as much told as was taken?
    fn is_near(self) -> bool {
        (self.told - self.truth).abs() <= (OFF * self.truth).max(OFF_HELD * self.all)
    }
}

#[test]
fn what_the_network_took_is_told() {
    let sums: Vec<(&Told, Sum)> = ALL.iter().map(|told| (told, Sum::of(told))).collect();
    let sound = sums.iter().filter(|(_, sum)| sum.truth == 0.0);
    let wrong: Vec<_> = sound.filter(|(_, sum)| sum.told > FALSE * sum.all).map(|(told, _)| &told.file).collect();
    assert!(wrong.is_empty(), "the network took nothing in {wrong:?}");
    let all = sums.into_iter().map(|(_, sum)| sum).filter(|sum| sum.truth > 0.0).fold(Sum::default(), Sum::plus);
    assert!(all.truth > 0.0 && all.is_near(), "{all:?}");
    assert!(all.right_cause >= RIGHT * all.told, "causes: {all:?}");
    assert!(all.right_port >= RIGHT * all.told, "ports: {all:?}");
}

#[test]
fn ports_carry_no_more_than_they_can() {
    for told in ALL.iter() {
        for phase in told.scenario.phases.iter().filter(|phase| phase.sync) {
            let Some(network) = &phase.network else { continue };
            let least = network.least_exchange();
            assert!(phase.exchange >= least, "{:?}: {} s, which take {least} s", told.file, phase.exchange);
        }
    }
}
