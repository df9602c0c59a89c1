//! Resources of Kubernetes that decide where a pod fits.

/// What a pod asks for, or a node has.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Resource {
    /// Cores.
    Cpu,
    /// Bytes.
    Memory,
    /// GPUs, or instances of them.
    Gpu(Kind),
    /// Shares of GPUs of the device plugin's time-slicing. How many a GPU has is not told.
    Shared,
}

/// What of a GPU.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    /// All of it.
    Whole,
    /// An instance of this profile, in letters, digits and points: `1g.10gb`.
    Profile(String),
    /// What no instance has of a GPU that is cut up. No request is for that.
    Rest,
}

impl Kind {
    /// An instance of this profile.
    pub(super) fn profile(name: &str) -> Kind {
        let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '.' };
        Kind::Profile(name.chars().map(plain).collect())
    }

    /// Its name as a label's value.
    pub(super) fn name(&self) -> &str {
        match self {
            Kind::Whole | Kind::Rest => "any",
            Kind::Profile(name) => name,
        }
    }
}

impl Resource {
    /// How much of it a request counts for: any number of shares may be of one GPU.
    pub(super) fn counted(&self, value: f64) -> f64 {
        if *self == Resource::Shared { value.min(1.0) } else { value }
    }
}

/// The resource of this name, as the API spells it or as kube-state-metrics does. `None` where it decides nothing here.
pub(super) fn resource_of(name: &str) -> Option<Resource> {
    match name {
        "cpu" => return Some(Resource::Cpu),
        "memory" => return Some(Resource::Memory),
        _ => {}
    }
    let vendor = name.strip_prefix("nvidia.com/").or_else(|| name.strip_prefix("nvidia_com_"))?;
    if let Some(profile) = vendor.strip_prefix("mig-").or_else(|| vendor.strip_prefix("mig_")) {
        return Some(Resource::Gpu(Kind::profile(profile)));
    }
    match vendor {
        "gpu" => Some(Resource::Gpu(Kind::Whole)),
        "gpu.shared" | "gpu_shared" => Some(Resource::Shared),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_spellings_are_one_resource() {
        for (api, exported) in [
            ("nvidia.com/gpu", "nvidia_com_gpu"),
            ("nvidia.com/mig-1g.10gb", "nvidia_com_mig_1g_10gb"),
            ("nvidia.com/mig-1g.10gb.me", "nvidia_com_mig_1g_10gb_me"),
            ("nvidia.com/gpu.shared", "nvidia_com_gpu_shared"),
        ] {
            assert!(resource_of(api).is_some() && resource_of(api) == resource_of(exported), "{api}");
        }
        assert_eq!(resource_of("nvidia.com/mig-1g.10gb"), Some(Resource::Gpu(Kind::profile("1g.10gb"))));
        assert_eq!(Kind::profile("1g.10gb+me"), Kind::profile("1g_10gb_me"), "NVML's spelling");
        for other in ["ephemeral_storage", "amd_com_gpu", "nvidia_com_", "pods", ""] {
            assert_eq!(resource_of(other), None, "{other}");
        }
    }
}
