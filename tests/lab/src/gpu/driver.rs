//! The library of an older driver: a copy of the fake without the functions that this driver lacks.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};

use super::FakeNvml;

/// Which functions newer drivers have brought.
const SYMBOLS: &str = include_str!("../../../fake-nvml/drivers/symbols.csv");

/// Drivers that lack the `_v3` process calls, though their branch has them: 535.98 (nvitop #88).
const WITHOUT_V3: std::ops::Range<(u32, u32)> = (535, 98)..(535, 104);

impl FakeNvml {
    /// A copy in the folder that lacks what the driver of this version lacks. The node names the version, too.
    ///
    /// # Errors
    /// When the library cannot be read or the copy not written, or when it has no function of such a name.
    pub fn of_driver(&self, folder: &Path, version: &str) -> Result<PathBuf> {
        let mut library = std::fs::read(self.path())?;
        for symbol in missing(version) {
            hide(&mut library, symbol)?;
        }
        let path = folder.join(format!("libnvidia-ml.so.{version}"));
        std::fs::write(&path, library).with_context(|| format!("cannot write {}", path.display()))?;
        Ok(path)
    }
}

/// What a driver of this version lacks.
fn missing(version: &str) -> Vec<&'static str> {
    let mut parts = version.split('.').map(|part| part.parse::<u32>().unwrap_or(0));
    let driver = (parts.next().unwrap_or(0), parts.next().unwrap_or(0));
    let rows = SYMBOLS.lines().filter_map(|line| line.split_once(','));
    let rows = rows.filter_map(|(symbol, branch)| Some((symbol, branch.parse::<u32>().ok()?)));
    let lacks = |symbol: &str, branch| {
        driver.0 < branch || WITHOUT_V3.contains(&driver) && symbol.ends_with("RunningProcesses_v3")
    };
    rows.filter(|(symbol, branch)| lacks(symbol, *branch)).map(|(symbol, _)| symbol).collect()
}

/// Spells the name differently wherever it stands: the loader finds a symbol by the hash of its name, then compares the name.
fn hide(library: &mut [u8], symbol: &str) -> Result<()> {
    let name = [b"\0", symbol.as_bytes(), b"\0"].concat();
    let found = places(library, &name);
    ensure!(!found.is_empty(), "the fake library has no function {symbol}");
    found.into_iter().for_each(|at| library[at + 1] = b'x');
    Ok(())
}

/// Where the bytes stand.
fn places(library: &[u8], name: &[u8]) -> Vec<usize> {
    library.windows(name.len()).enumerate().filter(|(_, window)| *window == name).map(|(at, _)| at).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drivers_lack_what_came_after_them() {
        let lacks = |version: &str, symbol: &str| missing(version).contains(&symbol);
        assert!(
            lacks("470.256.02", "nvmlDeviceGetMemoryInfo_v2") && !lacks("510.108.03", "nvmlDeviceGetMemoryInfo_v2")
        );
        assert!(lacks("535.98", "nvmlDeviceGetComputeRunningProcesses_v3"));
        assert!(!lacks("535.54.03", "nvmlDeviceGetComputeRunningProcesses_v3"));
        assert!(missing("590.48.01").is_empty());
    }

    #[test]
    fn only_whole_names_are_hidden() {
        let mut library = b"\0nvmlA\0nvmlA_v2\0".to_vec();
        hide(&mut library, "nvmlA").unwrap();
        assert_eq!(library, b"\0xvmlA\0nvmlA_v2\0");
        assert!(hide(&mut library, "nvmlA").is_err());
    }
}
