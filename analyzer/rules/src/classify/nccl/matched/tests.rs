//! Simulated runs whose lateness is known: each step every rank computes, comes to the collective and has its result when the
//! last one has come and the transfer is over. Every 16th number is told in its slot, and read every 15 s.

use super::*;

const SCRAPE_MS: TimeMs = 15_000;
const SLOTS: u64 = 8;
const HALF_HOUR_MS: TimeMs = 1_800_000;

/// A generator of numbers from 0 to 1, the same in every run (Knuth's MMIX).
struct Chance(u64);

impl Chance {
    fn draw(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// A run, and who is late in it.
struct Run<'a> {
    ranks: usize,
    /// Seconds by which a rank comes late to a step.
    late: &'a dyn Fn(usize, u64, &mut Chance) -> f64,
    /// Seconds that a step computes, and its collective transfers.
    step: (f64, f64),
    minutes: i64,
    seed: u64,
}

/// Numbers and times of each slot of a rank.
type Slots = [(Vec<Sample>, Vec<Sample>); SLOTS as usize];

/// What is read of a run, and the truth.
struct Simulated {
    /// By rank and slot.
    slots: Vec<Slots>,
    /// Share of the time in collectives that is waiting for late ranks, of all of them.
    truth: f64,
}

impl Run<'_> {
    fn simulate(&self) -> Simulated {
        let empty = || std::array::from_fn(|_| (Vec::new(), Vec::new()));
        let mut slots: Vec<Slots> = (0..self.ranks).map(|_| empty()).collect();
        let mut shown = vec![[None; SLOTS as usize]; self.ranks];
        let (mut chance, mut now, mut scraped) = (Chance(self.seed), 0.0, 0);
        let (mut late, mut all, mut sequence) = (0.0, 0.0, 0_u64);
        while now < self.minutes as f64 * 60.0 {
            let comes: Vec<f64> = (0..self.ranks).map(|rank| (self.late)(rank, sequence, &mut chance)).collect();
            let last = comes.iter().copied().fold(0.0, f64::max);
            let seconds: Vec<f64> = comes.iter().map(|comes| last - comes + self.step.1).collect();
            late += comes.iter().map(|comes| last - comes).sum::<f64>();
            all += seconds.iter().sum::<f64>();
            now += self.step.0 + last + self.step.1;
            while ((scraped + 1) * SCRAPE_MS) as f64 / 1000.0 <= now {
                scraped += 1;
                read(&mut slots, &shown, scraped * SCRAPE_MS);
            }
            if sequence.is_multiple_of(16) {
                let slot = (sequence / 16 % SLOTS) as usize;
                shown.iter_mut().zip(&seconds).for_each(|(shown, seconds)| shown[slot] = Some((sequence, *seconds)));
            }
            sequence += 1;
        }
        Simulated { slots, truth: late / all }
    }
}

fn read(slots: &mut [Slots], shown: &[[Option<(u64, f64)>; SLOTS as usize]], time_ms: TimeMs) {
    for (slots, shown) in slots.iter_mut().zip(shown) {
        for ((sequences, seconds), shown) in slots.iter_mut().zip(shown) {
            let Some((sequence, took)) = shown else { continue };
            sequences.push(Sample { time_ms, value: *sequence as f64 });
            seconds.push(Sample { time_ms, value: *took });
        }
    }
}

impl Simulated {
    fn told(&self) -> Vec<Told> {
        let of = |(rank, slots): (usize, &Slots)| {
            slots.iter().flat_map(move |(sequences, seconds)| once(rank, sequences, seconds)).collect::<Vec<_>>()
        };
        self.slots.iter().enumerate().flat_map(of).collect()
    }

    /// What is said of the half hour, by the number of ranks on a node.
    fn lateness(&self, on_node: usize) -> Option<Lateness> {
        let place: Vec<usize> = (0..self.slots.len()).map(|rank| rank / on_node).collect();
        let t = Thresholds::default();
        Matched::of(self.told(), self.slots.len(), &t).lateness(&(0..HALF_HOUR_MS), &place, &t)
    }
}

/// Steps of 0.4 s, a quarter of which is transfer, for half an hour.
fn run<'a>(ranks: usize, late: &'a dyn Fn(usize, u64, &mut Chance) -> f64) -> Run<'a> {
    Run { ranks, late, step: (0.3, 0.1), minutes: 30, seed: 7 }
}

fn off(run: &Run<'_>, on_node: usize) -> (f64, Vec<usize>) {
    let simulated = run.simulate();
    let lateness = simulated.lateness(on_node).unwrap();
    ((lateness.share() - simulated.truth).abs(), lateness.culprits)
}

#[test]
fn one_late_rank_is_named_and_its_share_is_right() {
    let (off, culprits) = off(&run(16, &|rank, _, chance| 0.01 * chance.draw() + if rank == 5 { 0.2 } else { 0.0 }), 8);
    assert!(off < 0.01 && culprits == [5], "{off} {culprits:?}");
}

#[test]
fn ranks_late_by_turns_are_told_and_none_is_named() {
    let by_turns = |rank: usize, step: u64, _: &mut Chance| if step * 7 % 11 % 4 == rank as u64 { 0.2 } else { 0.0 };
    let (first, culprits) = off(&run(4, &by_turns), 2);
    assert!(first < 0.01 && culprits.is_empty(), "{first} {culprits:?}");
    let by_chance = |rank: usize, step: u64, _: &mut Chance| {
        let drawn = Chance(step.wrapping_mul(0x9e37_79b9_7f4a_7c15)).draw();
        if (drawn * 4.0) as usize == rank { 0.2 } else { 0.0 }
    };
    let (second, culprits) = off(&run(4, &by_chance), 2);
    assert!(second < 0.01 && culprits.is_empty(), "{second} {culprits:?}");
}

#[test]
fn jitter_is_told_as_it_is() {
    for ranks in [2, 16, 64] {
        let (off, culprits) = off(&run(ranks, &|_, _, chance| 0.05 * chance.draw()), 8);
        assert!(off < 0.01 && culprits.is_empty(), "{ranks}: {off} {culprits:?}");
    }
}

#[test]
fn rare_lateness_is_told_within_a_twentieth_for_95_of_100() {
    let rare = |rank: usize, _: u64, chance: &mut Chance| {
        let jitter = 0.02 * chance.draw();
        if rank == 3 && chance.draw() < 0.1 { 10.0 * (0.02 + jitter) } else { jitter }
    };
    // A collective every 0.15 s, so that each reading of the slots has eight others.
    let off = |seed| {
        let simulated = Run { seed, step: (0.05, 0.05), ..run(8, &rare) }.simulate();
        simulated.lateness(8).unwrap().share() - simulated.truth
    };
    let off: Vec<f64> = (0..40).map(off).collect();
    let within = off.iter().filter(|off| off.abs() < 0.05).count();
    let mean = off.iter().sum::<f64>() / off.len() as f64;
    assert!(within >= 38 && mean.abs() < 0.01, "{within} of 40, {mean} off in the mean: {off:?}");
}

#[test]
fn what_is_not_sure_is_not_said() {
    let rare = |rank: usize, _: u64, chance: &mut Chance| if rank == 3 && chance.draw() < 0.1 { 0.3 } else { 0.0 };
    let told = |step| Run { step, ..run(8, &rare) }.simulate().lateness(8).is_some();
    assert!(told((0.05, 0.05)) && !told((0.8, 0.05)), "about 1,000 collectives and 130");
}

#[test]
fn a_late_node_of_64_is_named() {
    let late = |rank: usize, _: u64, chance: &mut Chance| 0.01 * chance.draw() + if rank / 8 == 17 { 0.1 } else { 0.0 };
    let (off, culprits) = off(&run(512, &late), 8);
    assert!(off < 0.01, "{off}");
    assert_eq!(culprits.iter().copied().collect::<BTreeSet<_>>(), (136..144).collect());
}

#[test]
fn waiting_is_split_rank_by_rank() {
    let turns = |rank: usize, step: u64| if step % 3 == rank as u64 { 0.1 } else { 0.0 };
    let late = |rank: usize, step: u64, _: &mut Chance| if rank == 3 { 0.2 } else { turns(rank, step) };
    let simulated = run(4, &late).simulate();
    let lateness = simulated.lateness(2).unwrap();
    assert_eq!(lateness.culprits, [3]);
    let own = lateness.waits(3).unwrap();
    assert_eq!((own.named, own.turns), (0.0, 0.0), "it never waits");
    // A third of the time 0.1 s, else 0.2 s, and 0.1 s of transfer.
    let other = lateness.waits(0).unwrap();
    assert!((other.named - 0.1667 / 0.2667).abs() < 0.01 && other.turns < 0.01, "{other:?}");
    assert_eq!(lateness.last(3), lateness.collectives);
    assert!(lateness.waits(4).is_none());
}

#[test]
fn too_little_says_nothing() {
    let late = |rank: usize, _: u64, _: &mut Chance| if rank == 1 { 0.2 } else { 0.0 };
    let told = |minutes| Run { minutes, ..run(4, &late) }.simulate().lateness(2).map(|lateness| lateness.culprits);
    assert_eq!(told(14), None);
    assert_eq!(told(16), Some(vec![1]));
    // As many collectives, but of a few minutes.
    let short = Run { minutes: 10, step: (0.03, 0.01), ..run(4, &late) }.simulate();
    assert!(short.told().len() > 400 && short.lateness(2).is_none());
    let cell = run(4, &late).simulate();
    let (t, told) = (Thresholds::default(), cell.told());
    assert!(Matched::of(told, 4, &t).lateness(&(0..60_000), &[0, 0, 1, 1], &t).is_none(), "never a cell");
}

#[test]
fn ranks_that_are_missing_are_borne_up_to_a_fifth() {
    let late = |rank: usize, _: u64, _: &mut Chance| if rank == 1 { 0.2 } else { 0.0 };
    let mut simulated = run(10, &late).simulate();
    let all = simulated.lateness(5).unwrap().share();
    let t = Thresholds::default();
    let without = |simulated: &Simulated| {
        Matched::of(simulated.told(), 10, &t).lateness(&(0..HALF_HOUR_MS), &[0; 10], &t).map(|told| told.share())
    };
    simulated.slots.truncate(8);
    assert!((without(&simulated).unwrap() - all).abs() < 0.03);
    simulated.slots.truncate(7);
    assert_eq!(without(&simulated), None);
}

#[test]
fn a_collective_counts_once_however_often_it_is_read() {
    let sample = |(time_ms, value)| Sample { time_ms, value };
    let sequences = [(0, 16.0), (15, 16.0), (30, 144.0), (45, 16.0), (60, 144.0), (75, 272.0), (90, f64::NAN)];
    let sequences = sequences.map(sample);
    let seconds = [(0, 0.1), (15, 0.1), (30, 0.2), (45, 0.1), (60, 0.2), (75, 0.3), (90, 0.4)].map(sample);
    let told = |told: Vec<Told>| told.into_iter().map(|told| (told.time_ms, told.sequence)).collect::<Vec<_>>();
    let expected = [(0, 16), (30, 144), (75, 272)];
    assert_eq!(told(once(0, &sequences, &seconds)), expected, "the file was read from its begin again");
    assert_eq!(told(once(0, &sequences, &seconds[3..])), [(45, 16), (60, 144), (75, 272)]);
    assert_eq!(told(once(0, &sequences, &[])), []);
    let twice: Vec<Told> = [0, 1, 0].into_iter().flat_map(|rank| once(rank, &sequences, &seconds)).collect();
    let matched = Matched::of(twice, 2, &Thresholds::default());
    assert!(matched.collectives.iter().all(|(_, times)| times.len() == 2) && matched.collectives.len() == 3);
}

#[test]
fn communicators_come_and_go() {
    // The second rank's records begin later, and end earlier: only what both tell is matched.
    let late = |rank: usize, _: u64, _: &mut Chance| if rank == 1 { 0.2 } else { 0.0 };
    let mut simulated = run(2, &late).simulate();
    for (sequences, seconds) in &mut simulated.slots[1] {
        let is_there = |s: &Sample| (300_000..1_500_000).contains(&s.time_ms);
        sequences.retain(is_there);
        seconds.retain(is_there);
    }
    let told = simulated.lateness(1).unwrap();
    assert!((told.share() - simulated.truth).abs() < 0.01 && told.culprits == [1], "{told:?}");
    // More ranks than the communicator has: two communicators with one number.
    let t = Thresholds::default();
    assert!(Matched::of(simulated.told(), 1, &t).collectives.is_empty());
}
