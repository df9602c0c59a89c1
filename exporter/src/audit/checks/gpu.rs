//! What NVML says of the GPUs' state.

use super::*;
use crate::source::nvml::{Gpu, Reading, Values};
use goodput_catalog::dcgm::Call;

pub(super) static PERSISTENCE: Check = Check {
    id: "persistence_mode",
    title: "GPU persistence",
    reads: "nvmlDeviceGetPersistenceMode",
    families: &[],
    expected: Expected::always("on for every GPU"),
    why: "Without it the driver takes a GPU down when its last user ends, and the next job waits while it is \
          initialised; limits and clocks that were set are lost as well. An exporter that runs all the time keeps the \
          GPUs up too, until it is restarted.",
    fixes: &[
        Fix {
            command: "systemctl enable --now nvidia-persistenced",
            risk: "some watts per idle GPU, and the kernel module cannot be unloaded while it runs",
            gain: Some("1-3 s per GPU at the start of a job (vendor)"),
            ..Fix::USUAL
        },
        Fix {
            command: "nvidia-smi -pm 1",
            lasting: Some("no: until the next reboot, and NVIDIA calls it the legacy way"),
            risk: "as above",
            gain: Some("as above"),
            ..Fix::USUAL
        },
    ],
    sources: &[vendor("NVIDIA, Driver Persistence", "https://docs.nvidia.com/deploy/driver-persistence/")],
    run: |context, _| {
        let modes = jobs::gpus(context)?.iter().map(|gpu| value(gpu, "persistence mode", |v| v.persistence_mode));
        Ok(judge_persistence(&modes.collect::<Result<Vec<_>, _>>()?))
    },
};

/// What NVML says of one GPU.
pub(super) fn value<T>(gpu: &Gpu, what: &str, read: impl FnOnce(&Values) -> Reading<T>) -> Result<(u32, T), Unread> {
    let value = read(&gpu.values).map_err(|why| Unread::nvml(&format!("{what} of GPU {}", gpu.index), why))?;
    Ok((gpu.index, value))
}

fn judge_persistence(modes: &[(u32, bool)]) -> Verdict {
    let off: Vec<String> = modes.iter().filter(|(_, on)| !on).map(|(index, _)| index.to_string()).collect();
    match off.is_empty() {
        true => Verdict::new(Status::Pass, format!("on for {}", count(modes.len(), "GPU"))),
        false => Verdict::new(Status::Fail, format!("off for GPU {}", list(&off))),
    }
}

pub(super) static PCIE_LINK: Check = Check {
    id: "pcie_link",
    title: "PCIe link of each GPU",
    reads: "nvmlDeviceGet{Curr,Max}PcieLink{Generation,Width}, nvmlDeviceGetUtilizationRates, \
            nvmlDeviceGetVirtualizationMode",
    families: &[&catalog::health::PCIE_DEGRADED],
    expected: Expected::always("the width that GPU and slot can do; the generation as well while the GPU works"),
    why: "A link that came up with half its lanes, or a generation below, halves every copy between host and GPU. An \
          idle GPU lowers the generation on purpose, so that it is only judged while the GPU works.",
    fixes: &[Fix {
        command: "reseat the card or its riser, try another slot, check the firmware's link settings and slot bifurcation",
        restarts: "the node",
        who: Who::Hardware,
        risk: "downtime",
        ..Fix::USUAL
    }],
    sources: &[
        vendor("NVML, device queries", "https://docs.nvidia.com/deploy/nvml-api/group__nvmlDeviceQueries.html"),
        NOT_OF_A_VGPU,
        own("a generation below the maximum at work is a warning: the GPU may have been idle a moment before"),
    ],
    run: |context, _| {
        let links = jobs::boards(context, "PCIe link")?.into_iter().map(link);
        Ok(judge_links(&links.collect::<Result<Vec<_>, _>>()?))
    },
};

/// One GPU's link, as it is and as it could be.
struct Link {
    gpu: u32,
    width: f64,
    width_max: f64,
    generation: f64,
    generation_max: f64,
    busy: bool,
}

fn link(gpu: &Gpu) -> Result<Link, Unread> {
    let (index, width) = value(gpu, "PCIe width", |v| v.call(Call::PcieWidth))?;
    Ok(Link {
        gpu: index,
        width,
        width_max: value(gpu, "PCIe width", |v| v.call(Call::PcieWidthMax))?.1,
        generation: value(gpu, "PCIe generation", |v| v.call(Call::PcieGeneration))?.1,
        generation_max: value(gpu, "PCIe generation", |v| v.call(Call::PcieGenerationMax))?.1,
        // In MIG mode there is no utilisation: then only the width is judged.
        busy: gpu.values.call(Call::GpuUtilization).is_ok_and(|percent| percent > 0.0),
    })
}

fn judge_links(links: &[Link]) -> Verdict {
    let narrow: Vec<&Link> = links.iter().filter(|link| link.width < link.width_max).collect();
    let slow: Vec<&Link> = links.iter().filter(|link| link.busy && link.generation < link.generation_max).collect();
    let spell = |link: &&Link| {
        let Link { gpu, width, width_max, generation, generation_max, .. } = link;
        format!("GPU {gpu} x{width} of x{width_max}, generation {generation} of {generation_max}")
    };
    let (status, shown) = match (narrow.is_empty(), slow.is_empty()) {
        (true, true) => return Verdict::new(Status::Pass, format!("full width on {}", count(links.len(), "GPU"))),
        (true, false) => (Status::Warn, slow),
        (false, _) => (Status::Fail, narrow),
    };
    Verdict::new(status, list(&shown.iter().map(spell).collect::<Vec<_>>()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use Status::{Fail, Pass, Warn};

    #[test]
    fn persistence() {
        assert_eq!(judge_persistence(&[(0, true), (1, true)]).read, "on for 2 GPUs");
        let verdict = judge_persistence(&[(0, true), (1, false)]);
        assert_eq!((verdict.status, verdict.read.as_str()), (Fail, "off for GPU 1"));
    }

    #[test]
    fn links() {
        for (width, generation, busy, status) in
            [(16.0, 5.0, true, Pass), (16.0, 1.0, false, Pass), (16.0, 4.0, true, Warn), (8.0, 5.0, false, Fail)]
        {
            let link = Link { gpu: 3, width, width_max: 16.0, generation, generation_max: 5.0, busy };
            assert_eq!(judge_links(&[link]).status, status, "{width} {generation} {busy}");
        }
        let link = Link { gpu: 3, width: 8.0, width_max: 16.0, generation: 1.0, generation_max: 5.0, busy: false };
        assert_eq!(judge_links(&[link]).read, "GPU 3 x8 of x16, generation 1 of 5");
    }
}
