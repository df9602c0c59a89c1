//! Jobs that end against their will, and such as were to end.

use super::{Cause, Chance, Exporters, Phase, Plan, Step, free, lost};

impl Plan {
    /// Ranks work, save their state and work on; the step ends in a crash.
    fn crashes(&mut self, chance: &mut Chance, saves: bool) {
        let ranks = |plan: &Plan, chance: &mut Chance, minutes| Phase { sync: true, ..plan.healthy(chance, minutes) };
        let here = ranks(self, chance, 12);
        self.step(here, Cause::default());
        if saves {
            let here = ranks(self, chance, 1);
            self.step(Phase { minutes: chance.minutes(3), save: 60.0, ..here }, lost("checkpoint"));
        }
        let here = ranks(self, chance, 40);
        self.step(here, Cause { ends_in_crash: true, ..Cause::default() });
    }

    /// The job starts again, and that is the crash's doing.
    fn starts_again(&mut self, chance: &mut Chance, xid: u32) {
        self.step(Phase { minutes: chance.minutes(7), workers: 0, xid, ..Phase::default() }, lost("lost_work"));
        let here = self.healthy(chance, 10);
        self.step(Phase { xid, ..here }, Cause::default());
    }

    fn tells_of_hosts(&mut self, chance: &mut Chance) {
        self.exporters = chance.one_of(&[Exporters::Ours, Exporters::Ours, Exporters::DcgmAndNode]);
    }
}

/// An XID ends the job: one that takes the program down, or one with which the GPU is lost for a while.
pub(super) fn lost_work_xid(plan: &mut Plan, chance: &mut Chance) {
    plan.nodes = chance.one_of(&[1, 2]);
    plan.tells_of_hosts(chance);
    plan.crashes(chance, plan.layout.seed.is_multiple_of(2));
    let (xid, lost) = chance.one_of(&[(31, false), (13, false), (94, false), (79, true)]);
    let here = Phase { minutes: chance.minutes(5), job: false, xid, lost, ..Phase::default() };
    plan.steps.push(Step {
        elsewhere: Some(Phase { xid: 0, lost: false, ..here.clone() }),
        here,
        cause: Cause::default(),
    });
    plan.starts_again(chance, xid);
}

/// The last node of the run goes down, and comes back or does not for a long time; the others let go.
pub(super) fn lost_work_node(plan: &mut Plan, chance: &mut Chance) {
    plan.nodes = chance.one_of(&[1, 2]);
    plan.tells_of_hosts(chance);
    plan.crashes(chance, true);
    let comes_back = plan.nodes == 1 || chance.one_of(&[true, false]);
    let free = Phase { minutes: if comes_back { chance.minutes(9) } else { 40 }, job: false, ..Phase::default() };
    let down = Phase { scraped: false, boots: comes_back, ..free.clone() };
    let here = if plan.nodes == 1 { down.clone() } else { free };
    plan.steps.push(Step { here, elsewhere: Some(down), cause: Cause::default() });
    if comes_back {
        plan.starts_again(chance, 0);
    }
}

/// What looks like a crash and is none: XIDs that the job outlives, a job that saves and ends, a node that restarts
/// while its GPUs are free.
pub(super) fn ends_well(plan: &mut Plan, chance: &mut Chance) {
    plan.tells_of_hosts(chance);
    let xid = chance.one_of(&[31, 13, 43]);
    plan.works(chance, 15);
    let here = plan.healthy(chance, 12);
    plan.step(Phase { xid, ..here }, Cause::default());
    let save = plan.healthy(chance, 1);
    plan.step(Phase { minutes: chance.minutes(3), save: 60.0, xid, ..save }, lost("checkpoint"));
    let here = plan.healthy(chance, 6);
    plan.step(Phase { xid, ..here }, Cause::default());
    plan.step(Phase { minutes: 6, job: false, xid, ..Phase::default() }, Cause::default());
    let down = Phase { minutes: 8, job: false, scraped: false, boots: true, ..Phase::default() };
    plan.step(down, Cause::default());
    free(plan, 4);
    plan.step(Phase { minutes: chance.minutes(7), workers: 0, ..Phase::default() }, lost("cold_start"));
    plan.works(chance, 12);
}
