//! What collectors and checks of the audit may look at.

use std::sync::Arc;
use std::time::Duration;

use crate::attribute::Owners;
use crate::source::common::Common;
use crate::source::files::Roots;
use crate::source::nvml::Snapshot;
use goodput_catalog::dcgm::{Names, Selection};

/// What a collector may look at during one scrape.
#[derive(Clone)]
pub struct Context {
    /// Where the kernel's files are.
    pub roots: Arc<Roots>,
    /// What several collectors read there.
    pub common: Arc<Common>,
    /// The newest reading of every GPU.
    pub gpus: Arc<Snapshot>,
    /// Which container, pod, job or unit holds which GPU.
    pub owners: Arc<Owners>,
    /// Value of dcgm-exporter's host label.
    pub hostname: Arc<str>,
    /// Which of dcgm-exporter's series are written, and how.
    pub dcgm: Arc<Dcgm>,
    /// What is read of NCCL's Inspector.
    pub nccl: Arc<Nccl>,
}

/// What is read of NCCL's Inspector.
#[derive(Clone, Debug, Default)]
pub struct Nccl {
    /// Absolute paths of folders with its files; `*` stands for any characters of one folder's name. None is off.
    pub folders: Vec<String>,
    /// Are the names that programs give communicators shown?
    pub has_names: bool,
}

/// What dcgm-exporter can be told about its series.
#[derive(Clone, Debug)]
pub struct Dcgm {
    /// The spelling of their names.
    pub names: Names,
    /// The fields.
    pub fields: Selection,
    /// What `DCGM_EXP_XID_ERRORS_COUNT` counts over.
    pub xid_window: Duration,
    /// What `DCGM_EXP_CLOCK_EVENTS_COUNT` counts over.
    pub clock_events_window: Duration,
}

/// As dcgm-exporter does if it is told nothing, in its legacy spelling.
impl Default for Dcgm {
    fn default() -> Self {
        let window = Duration::from_secs(300);
        let (names, fields) = (Names::default(), Selection::default());
        Self { names, fields, xid_window: window, clock_events_window: window }
    }
}
