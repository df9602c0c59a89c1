//! The names that device plugins and DRA drivers give GPUs and MIG instances.

/// A GPU or a MIG instance, as its allocation names it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DeviceId {
    /// By UUID: `GPU-…`.
    Uuid(String),
    /// A MIG device by its UUID: `MIG-…`. Which GPU it is part of is known to the driver alone.
    Mig(String),
    /// A part of the GPU with this UUID, named as drivers before 470 do: `MIG-GPU-…/INSTANCE/COMPUTE`.
    MigOf(String, u32),
    /// By NVML's index.
    Index(u32),
    /// By N of `/dev/nvidiaN`.
    Minor(u32, Part),
}

/// How much of a GPU is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// The whole GPU, alone or shared.
    Whole,
    /// The MIG GPU instance with this id.
    Instance(u32),
    /// A MIG instance whose id the name does not tell.
    SomeInstance,
}

impl DeviceId {
    /// Reads a device id of the kubelet: of NVIDIA's device plugin, with the `::N` of a time-slicing replica, or of
    /// GKE's (`nvidia0`, `nvidia0/gi3`, either with a `/vgpuN` behind).
    #[must_use]
    pub fn of_plugin(id: &str) -> Option<Self> {
        let id = id.split("::").next().unwrap_or(id);
        if let Some(device) = id.strip_prefix("nvidia") {
            return Self::of_gke(device);
        }
        Self::of_uuid(id).or_else(|| number(id).map(Self::Index))
    }

    /// Reads a device of the DRA driver `gpu.nvidia.com`: `gpu-0` by minor number, `gpu-0-mig-…` for an instance of it.
    #[must_use]
    pub fn of_dra(name: &str) -> Option<Self> {
        let rest = name.strip_prefix("gpu-")?;
        match rest.split_once("-mig-") {
            Some((minor, _)) => Some(Self::Minor(number(minor)?, Part::SomeInstance)),
            None => Some(Self::Minor(number(rest)?, Part::Whole)),
        }
    }

    /// Reads a CDI device, which older kubelets tell in place of the driver's name of it: `VENDOR/CLASS=NAME` with a
    /// UUID, or a name as in [`DeviceId::of_dra`], perhaps behind the UID of the claim.
    #[must_use]
    pub fn of_cdi(device: &str) -> Option<Self> {
        let (kind, name) = device.split_once('=')?;
        if !kind.contains("nvidia.com/") {
            return None;
        }
        Self::of_uuid(name).or_else(|| Self::of_dra(&name[name.find("gpu-")?..]))
    }

    fn of_uuid(id: &str) -> Option<Self> {
        if let Some(old) = id.strip_prefix("MIG-").filter(|rest| rest.starts_with("GPU-")) {
            let (gpu, instances) = old.split_once('/')?;
            let instance = number(instances.split('/').next()?)?;
            return Some(Self::MigOf(gpu.to_owned(), instance));
        }
        let id = without_share(id);
        let of_kind = |prefix: &str| id.strip_prefix(prefix).is_some_and(|rest| !rest.is_empty());
        match () {
            () if of_kind("GPU-") => Some(Self::Uuid(id.to_owned())),
            () if of_kind("MIG-") => Some(Self::Mig(id.to_owned())),
            () => None,
        }
    }

    fn of_gke(device: &str) -> Option<Self> {
        let mut parts = device.split('/');
        let minor = number(parts.next()?)?;
        let mut part = Part::Whole;
        for more in parts {
            match (more.strip_prefix("gi").and_then(number), more.strip_prefix("vgpu").and_then(number)) {
                (Some(instance), _) if part == Part::Whole => part = Part::Instance(instance),
                (_, Some(_)) => {}
                _ => return None,
            }
        }
        Some(Self::Minor(minor, part))
    }
}

/// Bytes of `GPU-` or `MIG-` and a UUID.
const UUID_BYTES: usize = 40;

/// The device behind a share of it: HAMi's and Volcano's plugins, and others of their kind, put a number behind its UUID, as in
/// `GPU-…-3`.
fn without_share(id: &str) -> &str {
    let (Some(uuid), Some(rest)) = (id.get(..UUID_BYTES), id.get(UUID_BYTES..)) else { return id };
    let share = rest.strip_prefix(['-', '_', '/']).filter(|share| !share.is_empty());
    let is_uuid = uuid.bytes().skip(4).all(|b| b.is_ascii_hexdigit() || b == b'-');
    if is_uuid && share.is_some_and(|share| number(share).is_some()) { uuid } else { id }
}

/// Digits only: `parse` would take a sign.
fn number(text: &str) -> Option<u32> {
    text.bytes().all(|b| b.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const UUID: &str = "GPU-c4529c8d-69c4-b61d-e0bc-7b2460096005";
    const MIG: &str = "MIG-5a4a4a4a-69c4-b61d-e0bc-7b2460096005";

    #[test]
    fn ids_of_device_plugins() {
        for (id, device) in [
            (UUID.to_owned(), Some(DeviceId::Uuid(UUID.into()))),
            (format!("{UUID}::3"), Some(DeviceId::Uuid(UUID.into()))),
            (MIG.to_owned(), Some(DeviceId::Mig(MIG.into()))),
            (format!("{MIG}::0"), Some(DeviceId::Mig(MIG.into()))),
            (format!("MIG-{UUID}/7/0"), Some(DeviceId::MigOf(UUID.into(), 7))),
            (format!("{UUID}-3"), Some(DeviceId::Uuid(UUID.into()))),
            (format!("{UUID}-12"), Some(DeviceId::Uuid(UUID.into()))),
            (format!("{MIG}-0"), Some(DeviceId::Mig(MIG.into()))),
            (format!("{UUID}-x"), Some(DeviceId::Uuid(format!("{UUID}-x")))),
            ("0".into(), Some(DeviceId::Index(0))),
            ("12::1".into(), Some(DeviceId::Index(12))),
            ("nvidia3".into(), Some(DeviceId::Minor(3, Part::Whole))),
            ("nvidia3/vgpu2".into(), Some(DeviceId::Minor(3, Part::Whole))),
            ("nvidia0/gi11".into(), Some(DeviceId::Minor(0, Part::Instance(11)))),
            ("nvidia0/gi11/vgpu0".into(), Some(DeviceId::Minor(0, Part::Instance(11)))),
            ("nvidia0/gi1/gi2".into(), None),
            ("nvidia0/x".into(), None),
            ("nvidia".into(), None),
            ("GPU-".into(), None),
            ("MIG-GPU-x".into(), None),
            ("+1".into(), None),
            (String::new(), None),
            ("0000:3b:00.0".into(), None),
        ] {
            assert_eq!(DeviceId::of_plugin(&id), device, "{id}");
        }
    }

    #[test]
    fn devices_of_dra() {
        for (name, device) in [
            ("gpu-0", Some(DeviceId::Minor(0, Part::Whole))),
            ("gpu-11", Some(DeviceId::Minor(11, Part::Whole))),
            ("gpu-0-mig-19-4-1", Some(DeviceId::Minor(0, Part::SomeInstance))),
            ("gpu-0-mig-1g.10gb-19-4", Some(DeviceId::Minor(0, Part::SomeInstance))),
            ("gpu-vfio-0", None),
            ("gpu-", None),
            ("nic-0", None),
        ] {
            assert_eq!(DeviceId::of_dra(name), device, "{name}");
        }
        for (name, device) in [
            ("k8s.gpu.nvidia.com/device=gpu-2".to_owned(), Some(DeviceId::Minor(2, Part::Whole))),
            (format!("k8s.gpu.nvidia.com/device={UUID}"), Some(DeviceId::Uuid(UUID.into()))),
            (
                "k8s.gpu.nvidia.com/claim=0f4e9a57-5f1b-4c5e-8d0a-0c3c1f0f9a11-gpu-1".into(),
                Some(DeviceId::Minor(1, Part::Whole)),
            ),
            ("nvidia.com/gpu=0".into(), None),
            ("vendor.com/gpu=gpu-1".into(), None),
            ("k8s.gpu.nvidia.com/device".into(), None),
        ] {
            assert_eq!(DeviceId::of_cdi(&name), device, "{name}");
        }
    }

    proptest! {
        #[test]
        fn never_panics(id in "(GPU-|MIG-|gpu-|nvidia|/|gi|::|=|-mig-|[0-9]{0,12}|\\PC)*") {
            let _ = (DeviceId::of_plugin(&id), DeviceId::of_dra(&id), DeviceId::of_cdi(&id));
        }
    }
}
