//! What goodput-exporter tells of the files of NCCL's Inspector: one communicator of all ranks.

use goodput_catalog::nccl::{
    NCCL_BUS_BYTES, NCCL_COLLECTIVES, NCCL_COMMUNICATOR, NCCL_SAMPLED_SECONDS, NCCL_SAMPLED_SEQUENCE, NCCL_SECONDS,
    NCCL_SEQUENCE,
};

use super::{Recorder, Samples, View, push};

/// The id of the communicator.
const COMM: (&str, &str) = ("comm", "0x7f8c496ae9f661");

impl Recorder {
    pub(super) fn collectives(&self, samples: &mut Samples, view: &View<'_>, target: [(&str, &str); 2]) {
        let Some(inspector) = view.phase.inspector else { return };
        let gpus = view.machine.layout.gpus;
        let before = self.node.trim_start_matches(|c: char| !c.is_ascii_digit()).parse().unwrap_or(1) - 1;
        for gpu in (0..gpus).filter(|gpu| view.is_held(*gpu)) {
            let done = view.machine.counters.gpus[gpu].rank;
            let (index, uuid) = ((gpu + self.first_gpu).to_string(), self.uuid(gpu));
            let place = [("gpu", index.as_str()), ("UUID", uuid.as_str()), ("owner", self.owner()), COMM];
            let numbers =
                [inspector.ranks, inspector.ranks / gpus, before * gpus + gpu].map(|number| number.to_string());
            let about = [("ranks", numbers[0].as_str()), ("nodes", &numbers[1]), ("rank", &numbers[2])];
            push(samples, &NCCL_COMMUNICATOR, target, &[&place[..], &about].concat(), 1.0);
            let pair = [&place[..], &[("operation", "AllReduce")]].concat();
            push(samples, &NCCL_SECONDS, target, &pair, done.seconds);
            push(samples, &NCCL_COLLECTIVES, target, &pair, done.sequence as f64);
            push(samples, &NCCL_BUS_BYTES, target, &pair, done.bytes);
            push(samples, &NCCL_SEQUENCE, target, &pair, done.sequence as f64);
            for (slot, sample) in done.slots.iter().enumerate() {
                let (slot, Some((sequence, seconds))) = (slot.to_string(), sample) else { continue };
                let labels = [&pair[..], &[("slot", slot.as_str())]].concat();
                push(samples, &NCCL_SAMPLED_SEQUENCE, target, &labels, *sequence as f64);
                push(samples, &NCCL_SAMPLED_SECONDS, target, &labels, *seconds);
            }
        }
    }
}
