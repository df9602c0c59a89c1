//! The job mapping folder of dcgm-exporter.

use std::path::Path;

use super::files::{self, FileError};
use crate::parse::job_map;

/// The jobs of a GPU, or of a MIG instance of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Jobs {
    /// NVML index.
    pub gpu: u32,
    /// MIG GPU instance; `None` for the whole GPU.
    pub instance: Option<u32>,
    /// Job ids, each once.
    pub jobs: Vec<String>,
}

/// Reads every file of the folder that is named after a GPU. One that is gone by then, or cannot be read, has no jobs.
pub fn read(folder: &Path) -> Result<Vec<Jobs>, FileError> {
    let Some(files) = files::list(folder)? else { return Err(FileError::Missing { path: folder.to_owned() }) };
    let mut all = Vec::new();
    for file in files {
        let Some((gpu, instance)) = job_map::file_name(&file) else { continue };
        let jobs =
            files::get(&folder.join(&file), |text| Ok(job_map::jobs(text).into_iter().map(str::to_owned).collect()));
        all.push(Jobs { gpu, instance, jobs: jobs.unwrap_or_default() });
    }
    Ok(all)
}
