//! Event sets: each XID reaches each set once.

use crate::code::{Code, Done};
use crate::event::Xid;
use crate::handle::Issued;
use crate::tail::News;
use nvml_wrapper_sys::bindings::*;
use std::sync::Arc;

/// What a GPU can be watched for. Only XIDs are ever raised.
pub(crate) const SUPPORTED: u64 =
    (nvmlEventTypeXidCriticalError | nvmlEventTypeSingleBitEccError | nvmlEventTypeDoubleBitEccError) as u64;

/// All sets of the library.
pub(crate) type EventSets = Issued<EventSet>;

/// The GPUs a set watches.
#[derive(Debug, Default)]
pub(crate) struct EventSet {
    watches: Vec<Watch>,
    /// Wakes the call that waits, from the first wait on.
    pub(crate) log: Option<Arc<News>>,
}

#[derive(Debug)]
struct Watch {
    gpu: usize,
    /// Position in the log of XIDs from which on they are news to this set.
    next: usize,
}

impl EventSet {
    /// Watches the GPU for what happens after `seen` XIDs of the node.
    pub(crate) fn register(&mut self, gpu: usize, types: u64, seen: usize) -> Done {
        if types & !SUPPORTED != 0 {
            return Err(Code::NOT_SUPPORTED);
        }
        if types & nvmlEventTypeXidCriticalError as u64 != 0 && self.watches.iter().all(|w| w.gpu != gpu) {
            self.watches.push(Watch { gpu, next: seen });
        }
        Ok(())
    }

    /// The next XID that this set has not had.
    pub(crate) fn take(&mut self, xids: &[Xid]) -> Option<Xid> {
        let news = |w: &Watch| (w.next..xids.len()).find(|i| xids[*i].gpu == w.gpu);
        let (i, watch) = self.watches.iter_mut().filter_map(|w| Some((news(w)?, w))).min_by_key(|(i, _)| *i)?;
        watch.next = i + 1;
        Some(xids[i])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_xid_of_a_watched_gpu_comes_once_in_order() {
        let mut set = EventSet::default();
        let xid = |gpu, code| Xid { gpu, code, instance: None };
        let xids = [xid(0, 13), xid(1, 79), xid(0, 48), xid(2, 31)];
        set.register(0, 8, 1).unwrap();
        set.register(1, 8, 0).unwrap();
        set.register(1, 8, 0).unwrap();
        set.register(2, 1, 0).unwrap();
        assert_eq!(set.take(&xids), Some(xids[1]));
        assert_eq!(set.take(&xids), Some(xids[2]));
        assert_eq!(set.take(&xids), None);
        assert_eq!(set.register(0, 1 << 40, 0), Err(Code::NOT_SUPPORTED));
    }
}
