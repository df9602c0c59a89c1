//! The control thread: finds the library, has every GPU read, and starts over when the driver goes.

use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use nvml_wrapper::Nvml;
use nvml_wrapper::error::NvmlError;

use super::Driver;
use super::absent::Absent;
use super::events;
use super::library::Library;
use super::readers::Readers;
use super::retry::Retry;
use super::search::{Search, file};
use super::shared::{Generation, Hold, Shared};

/// How often the set of GPUs and the readers are looked after.
const TEND: Duration = Duration::from_secs(5);

/// First and longest pause before the library is loaded again: a driver that comes and goes is not hammered, and one that
/// is not there costs a few file look-ups a minute.
const RELOAD: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));

/// More GPUs than a node has, vGPUs included.
const MOST_GPUS: u32 = 1024;

/// How long readers of an ended generation may take to release the library. A healthy one takes one cycle.
const LET_GO: Duration = Duration::from_secs(2);

/// Loads, tends, starts over; until told to stop.
pub(super) fn run(shared: &Arc<Shared>, search: &Search) {
    let mut retry = Retry::new(RELOAD.0, RELOAD.1);
    while let Some((generation, hold)) = shared.wait_wanted() {
        let began = shared.time.now();
        match load(shared, search, hold) {
            Ok((library, version)) => {
                // A driver that is reloaded time and again is there each time.
                retry.succeeded();
                live(shared, library, &version, generation);
            }
            Err(reason) => shared.set_driver(Driver::Absent { reason }),
        }
        let now = shared.time.now();
        shared.pause(generation + 1, now + retry.pause(now.duration_since(began)));
    }
}

/// One generation, from its first reader to the end of the library.
fn live(shared: &Arc<Shared>, library: Library, version: &str, generation: Generation) {
    let library = Arc::new(library);
    let readers = Readers::new(shared, &library, generation);
    tend(shared, &library, &readers, version, generation);
    shared.end(generation);
    readers.end(LET_GO);
    drop(readers);
    // Here, where a driver that does not come back is noticed, and by a thread that others do not wait for. A reader
    // that is stuck still has its share.
    shared.call(&shared.control, || drop(library));
}

/// Loads the library and reads the driver's version, or says in one sentence why not.
fn load(shared: &Shared, search: &Search, hold: Hold) -> Result<(Library, String), String> {
    let mut failed = Vec::new();
    for path in search.candidates() {
        let explain = |error| explain(&path, &error);
        let nvml = match shared.call(&shared.control, || Nvml::builder().lib_path(path.as_os_str()).init()) {
            Err(NvmlError::LibloadingError(error)) => {
                failed.push(loader_message(&error));
                continue;
            }
            loaded => loaded.map_err(explain)?,
        };
        let version = shared.call(&shared.control, || nvml.sys_driver_version()).map_err(explain)?;
        tracing::info!(library = %file(&path).display(), driver = version, "loaded the nvidia management library");
        return Ok((Library { nvml, _hold: hold }, version));
    }
    Err(search.nothing_loaded(&failed))
}

/// What is wrong with a library that was loaded.
fn explain(library: &Path, error: &NvmlError) -> String {
    let tried = library.display();
    match error {
        NvmlError::FailedToLoadSymbol(_) => {
            format!("{tried} is not the nvidia management library: it lacks nvmlInit_v2")
        }
        NvmlError::DriverNotLoaded => {
            format!("{tried} is there, but the nvidia kernel driver is not loaded; load it with modprobe nvidia")
        }
        NvmlError::LibRmVersionMismatch => format!(
            "{tried} and the loaded nvidia kernel driver differ in version; reload the driver or reboot to finish the \
             update"
        ),
        NvmlError::NoPermission => {
            format!("{tried} may not talk to the nvidia driver; allow this user to open /dev/nvidiactl")
        }
        error => format!("{tried} could not be initialised: {error}"),
    }
}

/// The loader's own words; the error's text is only the name of the call that failed.
fn loader_message(error: &dyn std::error::Error) -> String {
    error.source().map_or_else(|| error.to_string(), ToString::to_string)
}

/// Keeps every GPU read until the driver goes or the number of GPUs changes.
fn tend(shared: &Arc<Shared>, library: &Arc<Library>, readers: &Arc<Readers>, version: &str, generation: Generation) {
    let mut known = None;
    while shared.alive(generation) {
        match shared.call(&shared.control, || library.nvml.device_count()).map_err(Absent::from) {
            // An absurd count is no answer.
            Ok(count) if count > MOST_GPUS => tracing::warn!(count, "the driver counts more gpus than a node can have"),
            Ok(count) if *known.get_or_insert(count) == count => {
                readers.join(start_listening(shared, library, generation));
                readers.take_up(0..count);
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
fn start_listening(shared: &Arc<Shared>, library: &Arc<Library>, generation: Generation) -> Option<JoinHandle<()>> {
    let claim = shared.listen()?;
    let (shared, library) = (Arc::clone(shared), Arc::clone(library));
    let spawned = std::thread::Builder::new().name("nvml-events".to_owned()).spawn(move || {
        events::run(&shared, &library.nvml, generation);
        // The library is dropped before the claim: the thread that waits for the claim may then load it again.
        drop(library);
        drop(claim);
    });
    spawned.inspect_err(|error| tracing::warn!(%error, "cannot start the thread that waits for events")).ok()
}
