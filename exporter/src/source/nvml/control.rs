//! The control thread: finds the library, keeps one reader per GPU, and starts over when the driver goes.

use std::ffi::OsStr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use nvml_wrapper::Nvml;
use nvml_wrapper::error::NvmlError;

use super::Driver;
use super::absent::Absent;
use super::events;
use super::reader;
use super::shared::{Generation, Shared};

/// What the dynamic loader is asked for when no path is given.
const LIBRARY: &str = "libnvidia-ml.so.1";

/// How often a machine without driver is looked at again: a failed load costs a few file look-ups.
const LOOK_AGAIN: Duration = Duration::from_secs(5);

/// How often the set of GPUs and the readers are looked after.
const TEND: Duration = Duration::from_secs(5);

/// Pause after a generation ended, so that a driver that comes and goes is not hammered.
const AFTER_END: Duration = Duration::from_secs(1);

/// How long readers of an ended generation may take to let go of the library. A healthy one takes one cycle.
const LET_GO: Duration = Duration::from_secs(2);

/// Loads, tends, starts over; until told to stop.
pub(super) fn run(shared: &Arc<Shared>, library: Option<&Path>) {
    let mut generation = 0;
    while !shared.stopping() {
        generation += 1;
        let pause = match load(shared, library) {
            Ok((nvml, version)) => {
                tend(shared, &Arc::new(nvml), &version, generation);
                AFTER_END
            }
            Err(reason) => {
                shared.set_driver(Driver::Absent { reason });
                LOOK_AGAIN
            }
        };
        shared.end(generation);
        shared.wait_readers(LET_GO);
        shared.pause(generation + 1, shared.time.now() + pause);
    }
}

/// Loads the library and reads the driver's version, or says in one sentence why not.
fn load(shared: &Shared, library: Option<&Path>) -> Result<(Nvml, String), String> {
    let path = library.map_or(OsStr::new(LIBRARY), Path::as_os_str);
    let explain = |error| explain(library, &error);
    let nvml = shared.call(&shared.control, || Nvml::builder().lib_path(path).init()).map_err(explain)?;
    let version = shared.call(&shared.control, || nvml.sys_driver_version()).map_err(explain)?;
    Ok((nvml, version))
}

fn explain(library: Option<&Path>, error: &NvmlError) -> String {
    let tried = library.map_or_else(|| LIBRARY.to_owned(), |path| path.display().to_string());
    match (error, library) {
        (NvmlError::LibloadingError(error), Some(_)) => format!(
            "cannot load {tried}, given as --nvml.library: {}; correct the path, or leave the flag out to search for \
             {LIBRARY}",
            loader_message(error)
        ),
        (NvmlError::LibloadingError(error), None) => format!(
            "no nvidia driver: the dynamic loader found no usable {tried} ({}); install the driver, or name the \
             library with --nvml.library",
            loader_message(error)
        ),
        (NvmlError::FailedToLoadSymbol(_), _) => {
            format!("{tried} is not the nvidia management library: it lacks nvmlInit_v2")
        }
        (NvmlError::DriverNotLoaded, _) => {
            format!("{tried} is there, but the nvidia kernel driver is not loaded; load it with modprobe nvidia")
        }
        (NvmlError::LibRmVersionMismatch, _) => format!(
            "{tried} and the loaded nvidia kernel driver differ in version; reload the driver or reboot to finish the \
             update"
        ),
        (NvmlError::NoPermission, _) => {
            format!("{tried} may not talk to the nvidia driver; allow this user to open /dev/nvidiactl")
        }
        (error, _) => format!("{tried} could not be initialised: {error}"),
    }
}

/// The loader's own words; the error's text is only the name of the call that failed.
fn loader_message(error: &dyn std::error::Error) -> String {
    error.source().map_or_else(|| error.to_string(), ToString::to_string)
}

/// Keeps a reader on every GPU until the driver goes or the number of GPUs changes.
fn tend(shared: &Arc<Shared>, nvml: &Arc<Nvml>, version: &str, generation: Generation) {
    let mut known = None;
    while shared.alive(generation) {
        match shared.call(&shared.control, || nvml.device_count()).map_err(Absent::from) {
            Ok(count) if *known.get_or_insert(count) == count => {
                start_listening(shared, nvml, generation);
                start_readers(shared, nvml, count, generation);
            }
            Ok(count) => return tracing::info!(count, "the number of gpus changed; starting over"),
            Err(why) if why.is_driver_gone() => return,
            Err(_) => {}
        }
        shared.set_driver(Driver::Loaded { version: version.to_owned() });
        shared.pause(generation, shared.time.now() + TEND);
    }
}

/// Starts the thread that waits for events, unless one runs, of whatever generation.
fn start_listening(shared: &Arc<Shared>, nvml: &Arc<Nvml>, generation: Generation) {
    let Some(claim) = shared.listen() else { return };
    let (shared, nvml) = (Arc::clone(shared), Arc::clone(nvml));
    let spawned = std::thread::Builder::new().name("nvml-events".to_owned()).spawn(move || {
        events::run(&shared, &nvml, generation);
        // The library goes before the claim: whoever waits for the claim may then load it anew.
        drop(nvml);
        drop(claim);
    });
    if let Err(error) = spawned {
        tracing::warn!(%error, "cannot start the thread that waits for events");
    }
}

/// Starts the readers that do not run. One that is stuck, of whatever generation, is left alone: its GPU gets no
/// second thread to get stuck in.
fn start_readers(shared: &Arc<Shared>, nvml: &Arc<Nvml>, count: u32, generation: Generation) {
    for index in 0..count {
        let Some(claim) = shared.claim(index, generation) else { continue };
        let (shared, nvml) = (Arc::clone(shared), Arc::clone(nvml));
        let thread = std::thread::Builder::new().name(format!("nvml-gpu{index}"));
        let spawned = thread.spawn(move || {
            reader::run(&shared, &nvml, &claim.slot, generation);
            // The library goes before the claim: whoever waits for the claim may then load it anew.
            drop(nvml);
            drop(claim);
        });
        if let Err(error) = spawned {
            tracing::warn!(index, %error, "cannot start a reader thread");
        }
    }
}
