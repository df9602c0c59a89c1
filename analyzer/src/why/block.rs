//! What GPUs have in common: losses of one job by one cause, and advice for one job.

use super::answer::{AdvisoryAnswer, ClassAnswer, GpuAnswer};
use crate::report::filled;

/// The loss of one job on one node by one cause.
pub(super) struct Loss<'a> {
    /// Whose loss is the greatest: its evidence stands for all.
    pub(super) greatest: (&'a GpuAnswer, &'a ClassAnswer),
    pub(super) gpus: Vec<&'a GpuAnswer>,
    /// The sum over the GPUs, in GPUs.
    pub(super) share: f64,
}

impl Loss<'_> {
    /// The remedies' commands, about the GPU that lost most or the one that it waited for.
    pub(super) fn commands(&self) -> Vec<Option<String>> {
        let (gpu, class) = self.greatest;
        filled(class.remedies(), &gpu.about_loss(Some(class)))
    }

    fn is_of(&self, gpu: &GpuAnswer, class: &ClassAnswer) -> bool {
        let (own_gpu, own) = self.greatest;
        (&own_gpu.node, own.class, &own.owner) == (&gpu.node, class.class, &class.owner)
    }
}

/// All losses that are large enough to act on, the greatest first. A damaged GPU has none: it is to be repaired.
pub(super) fn losses<'a>(gpus: &[&'a GpuAnswer], is_damaged: &dyn Fn(&str) -> bool) -> Vec<Loss<'a>> {
    let mut all: Vec<Loss<'a>> = Vec::new();
    let sound = gpus.iter().copied().filter(|gpu| !is_damaged(&gpu.gpu));
    for (gpu, class) in sound.flat_map(|gpu| gpu.causes().map(move |class| (gpu, class))) {
        match all.iter_mut().find(|loss| loss.is_of(gpu, class)) {
            Some(loss) => {
                loss.share += class.share;
                loss.gpus.push(gpu);
                if class.share > loss.greatest.1.share {
                    loss.greatest = (gpu, class);
                }
            }
            None => all.push(Loss { greatest: (gpu, class), gpus: vec![gpu], share: class.share }),
        }
    }
    all.iter_mut().for_each(|loss| in_order(&mut loss.gpus));
    all.sort_by(|a, b| b.share.total_cmp(&a.share));
    all
}

/// The same advice for GPUs of one job.
pub(super) struct Advised<'a> {
    pub(super) first: (&'a GpuAnswer, &'a AdvisoryAnswer),
    pub(super) gpus: Vec<&'a GpuAnswer>,
}

/// All advice, in the order of the GPUs.
pub(super) fn advised(gpus: &[GpuAnswer]) -> Vec<Advised<'_>> {
    let mut all: Vec<Advised<'_>> = Vec::new();
    for (gpu, advisory) in gpus.iter().flat_map(|gpu| gpu.advisories.iter().map(move |advisory| (gpu, advisory))) {
        let is_alike = |other: &&mut Advised<'_>| {
            let (first, told) = other.first;
            (&first.node, told.advice, &told.owner, &told.cause)
                == (&gpu.node, advisory.advice, &advisory.owner, &advisory.cause)
        };
        match all.iter_mut().find(is_alike) {
            Some(advised) => advised.gpus.push(gpu),
            None => all.push(Advised { first: (gpu, advisory), gpus: vec![gpu] }),
        }
    }
    all.iter_mut().for_each(|advised| in_order(&mut advised.gpus));
    all
}

/// By node and index, each once.
fn in_order(gpus: &mut Vec<&GpuAnswer>) {
    gpus.sort_by_key(|gpu| (&gpu.node, gpu.number(), &gpu.gpu));
    gpus.dedup_by_key(|gpu| &gpu.gpu);
}
