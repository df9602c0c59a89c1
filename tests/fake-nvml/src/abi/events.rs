//! Event sets.

use super::{Ptr, gpu_calls, node_calls, number};
use crate::code::{Code, Done};
use crate::events::{EventSet, SUPPORTED};
use crate::handle;
use crate::library::{Call, Library, current};
use crate::tail::News;
use nvml_wrapper_sys::bindings::*;
use std::os::raw::{c_uint, c_ulonglong};
use std::sync::Arc;
use std::time::{Duration, Instant};

node_calls! {
    nvmlEventSetCreate(set: Ptr<nvmlEventSet_t>) |_node| set.set(current()?.events.issue(EventSet::default()));
    nvmlEventSetFree(set: nvmlEventSet_t) |_node| current()?.events.free(set);
}

gpu_calls! {
    nvmlDeviceGetSupportedEventTypes(types: Ptr<c_ulonglong>) |_view| types.set(SUPPORTED);
    nvmlDeviceRegisterEvents(types: c_ulonglong, set: nvmlEventSet_t) |view|
        current()?.events.with(set, |set| set.register(view.gpu.index, types, view.node.xids.len()))?;
}

#[unsafe(no_mangle)]
extern "C" fn nvmlEventSetWait(set: nvmlEventSet_t, data: Ptr<nvmlEventData_t>, timeout_ms: c_uint) -> nvmlReturn_t {
    static CALL: Call = Call::new("nvmlEventSetWait");
    number(CALL.run(|_| Ok(())).and_then(|()| wait(set, &data, timeout_ms)))
}

#[unsafe(no_mangle)]
extern "C" fn nvmlEventSetWait_v2(set: nvmlEventSet_t, data: Ptr<nvmlEventData_t>, timeout_ms: c_uint) -> nvmlReturn_t {
    static CALL: Call = Call::new("nvmlEventSetWait_v2");
    number(CALL.run(|_| Ok(())).and_then(|()| wait(set, &data, timeout_ms)))
}

/// The set's own: watching the log again for every wait would cost the caller what no driver does.
fn log(library: &Library, set: nvmlEventSet_t) -> Result<Option<Arc<News>>, Code> {
    if let Some(log) = library.events.with(set, |set| set.log.clone())? {
        return Ok(Some(log));
    }
    let log = library.news()?.map(Arc::new);
    library.events.with(set, |set| set.log.clone_from(&log))?;
    Ok(log)
}

/// Blocks until an XID or the timeout, holding nothing while it does.
fn wait(set: nvmlEventSet_t, data: &Ptr<nvmlEventData_t>, timeout_ms: c_uint) -> Done {
    let deadline = Instant::now() + Duration::from_millis(timeout_ms.into());
    let library = current()?;
    // Before the first look, so that nothing is written unnoticed between the two. A call that only looks needs none.
    let log = if timeout_ms == 0 { None } else { log(&library, set)? };
    loop {
        library.refresh()?;
        let news = {
            let node = library.node();
            library.events.with(set, |set| set.take(&node.xids))?
        };
        if let Some(xid) = news {
            return data.set(nvmlEventData_t {
                device: handle::of_gpu(xid.gpu),
                eventType: nvmlEventTypeXidCriticalError as c_ulonglong,
                eventData: xid.code,
                gpuInstanceId: xid.instance.unwrap_or(c_uint::MAX),
                computeInstanceId: c_uint::MAX,
            });
        }
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(Code::TIMEOUT);
        }
        match &log {
            Some(log) => log.wait(left),
            None => std::thread::sleep(left),
        }
    }
}
