//! Columns of the truth that say who, what and why: culprits and causes.

use super::trace::{DAMAGE, OOM, split};
use goodput_verdict::{CauseKind, Class, Fault};

/// What can run out, and pods that can be evicted before it does.
const RUNS_OUT: [&str; 5] = ["gpu", "cgroup", "host", "disk", "eviction"];

/// What of the entity's own host has the cause, such as a mount, where no host is charged.
fn own(entity: &str, which: &str) -> Option<String> {
    let (host, _) = split(entity).filter(|_| !which.is_empty())?;
    Some(format!("{host}/{}", which.trim_start_matches('/')))
}

/// Who or what a row is charged to. A host alone stands for what it has the cause at.
pub(super) fn charged_to(class: &str, entity: &str, text: &str, which: &str) -> Result<Option<String>, String> {
    let expected = |what: &str| format!("charged_to: expected {what}, found {text:?}");
    match class {
        OOM | DAMAGE if text.is_empty() => return Ok(None),
        _ if text.is_empty() => return Ok(own(entity, which)),
        OOM if !RUNS_OUT.contains(&text) => return Err(expected(&format!("what ran out ({})", RUNS_OUT.join(", ")))),
        DAMAGE if !Fault::ALL.iter().any(|fault| fault.name() == text) => {
            let faults: Vec<&str> = Fault::ALL.iter().map(|fault| fault.name()).collect();
            return Err(expected(&format!("the fault ({})", faults.join(", "))));
        }
        OOM | DAMAGE => {}
        _ if text.split('/').any(|part| part.is_empty() || part.contains(char::is_whitespace)) => {
            return Err(expected("host, host/gpuN or host/device such as node1/gpu0 or node1/mlx5_4/1"));
        }
        _ if !which.is_empty() && !text.contains('/') => {
            return Ok(Some(format!("{text}/{}", which.trim_start_matches('/'))));
        }
        _ => {}
    }
    Ok(Some(text.to_owned()))
}

/// A cause of a slow network has one of our names; of other classes it is free.
pub(super) fn cause(class: &str, text: &str) -> Result<Option<String>, String> {
    let known = CauseKind::ALL.iter().filter(|kind| kind.class() == Class::NetworkSlow);
    let names: Vec<&str> = known.map(|kind| kind.name()).collect();
    if class == Class::NetworkSlow.name() && !text.is_empty() && !names.contains(&text) {
        return Err(format!("cause: expected one of {}, found {text:?}", names.join(", ")));
    }
    Ok(Some(text).filter(|text| !text.is_empty()).map(str::to_owned))
}
