//! MIG: a GPU cut into GPU instances, and these into compute instances.

use crate::event::{InstanceSpec, Mig};
use crate::profile::{MigSizes, Profile};
use crate::work::Timeline;

/// Slices of every GPU that can be cut up, and the most MIG devices that it can have.
pub(crate) const SLICES: u32 = 7;
const MIB: u64 = 1 << 20;

/// Whether a GPU is cut up, and into what.
#[derive(Debug, Default)]
pub(crate) struct Layout {
    pub enabled: bool,
    /// The mode from the next reset on.
    pub pending: bool,
    /// In order of id.
    pub instances: Vec<Instance>,
}

/// One GPU instance.
#[derive(Debug)]
pub(crate) struct Instance {
    pub id: u32,
    /// Such as `3g.40gb`.
    pub profile: String,
    pub slices: u32,
    pub memory_bytes: u64,
    /// Its work, in shares of the instance.
    pub work: Timeline,
    pub compute: Vec<Compute>,
}

/// One compute instance, which with its GPU instance is a MIG device.
#[derive(Debug)]
pub(crate) struct Compute {
    pub id: u32,
    pub slices: u32,
    /// Never given out twice: a handle of what is gone is not the handle of what came in its place.
    pub serial: usize,
}

impl Layout {
    /// What the line makes of this layout. An instance that the line repeats as it is stays, with its work.
    pub(crate) fn change(&mut self, line: &Mig, profile: &Profile, next_serial: &mut usize) -> Result<(), String> {
        let sizes = profile.mig.as_ref().ok_or_else(|| format!("{} has no MIG", profile.name))?;
        if !line.enabled && !line.instances.is_empty() {
            return Err("there are no instances while MIG is disabled".to_owned());
        }
        let mut made =
            line.instances.iter().map(|spec| self.make(spec, sizes, next_serial)).collect::<Result<Vec<_>, _>>()?;
        made.sort_by_key(|instance| instance.id);
        if made.windows(2).any(|pair| pair[0].id == pair[1].id) {
            return Err("two GPU instances have the same id".to_owned());
        }
        let used: u32 = made.iter().map(|instance| instance.slices).sum();
        if used > SLICES {
            return Err(format!("the instances take {used} slices, the GPU has {SLICES}"));
        }
        *self = Layout { enabled: line.enabled, pending: line.pending.unwrap_or(line.enabled), instances: made };
        Ok(())
    }

    fn make(&mut self, spec: &InstanceSpec, sizes: &MigSizes, next_serial: &mut usize) -> Result<Instance, String> {
        let (slices, memory_mib) = size(&spec.profile, sizes)?;
        let compute = if spec.compute.is_empty() { vec![slices] } else { spec.compute.clone() };
        if compute.iter().sum::<u32>() > slices {
            return Err(format!("compute instances of {compute:?} slices do not fit into {}", spec.profile));
        }
        let same = |i: &Instance| {
            i.id == spec.id
                && i.profile == spec.profile
                && i.compute.iter().map(|c| c.slices).eq(compute.iter().copied())
        };
        if let Some(position) = self.instances.iter().position(same) {
            return Ok(self.instances.remove(position));
        }
        let compute = (0..).zip(compute).map(|(id, slices)| {
            *next_serial += 1;
            Compute { id, slices, serial: *next_serial }
        });
        Ok(Instance {
            id: spec.id,
            profile: spec.profile.clone(),
            slices,
            memory_bytes: memory_mib * MIB,
            work: Timeline::default(),
            compute: compute.collect(),
        })
    }

    /// The MIG devices, in the order of their index.
    pub(crate) fn devices(&self) -> impl Iterator<Item = (&Instance, &Compute)> {
        self.instances.iter().flat_map(|instance| instance.compute.iter().map(move |compute| (instance, compute)))
    }

    pub(crate) fn instance(&self, id: u32) -> Option<&Instance> {
        self.instances.iter().find(|instance| instance.id == id)
    }
}

impl Instance {
    /// What tells it from one that had its id before.
    pub(crate) fn serial(&self) -> Option<usize> {
        self.compute.first().map(|compute| compute.serial)
    }

    /// As the driver names the MIG device: a compute instance that does not fill its GPU instance says its own size too.
    pub(crate) fn device_profile(&self, compute: &Compute) -> String {
        if compute.slices == self.slices {
            self.profile.clone()
        } else {
            format!("{}c.{}", compute.slices, self.profile)
        }
    }
}

/// Slices and MiB of a profile.
fn size(profile: &str, sizes: &MigSizes) -> Result<(u32, u64), String> {
    let parse = || {
        let (slices, memory) = profile.split_once("g.")?;
        let slices: u32 = slices.parse().ok()?;
        let (_, mib) = sizes.memory.iter().find(|(gigabytes, _)| memory.strip_suffix("gb") == Some(*gigabytes))?;
        matches!(slices, 1 | 2 | 3 | 4 | SLICES).then_some((slices, *mib))
    };
    let known = || sizes.memory.iter().map(|(gigabytes, _)| format!("{gigabytes}gb")).collect::<Vec<_>>().join(", ");
    parse().ok_or_else(|| {
        format!("bad MIG profile {profile:?}, expected 1, 2, 3, 4 or 7 slices and one of {}, such as 1g.10gb", known())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile;

    fn change(layout: &mut Layout, line: &str) -> Result<(), String> {
        let h100 = profile::find("NVIDIA H100 80GB HBM3").unwrap();
        let mut serial = layout.devices().map(|(_, compute)| compute.serial).max().unwrap_or(0);
        layout.change(&serde_json::from_str(line).unwrap(), h100, &mut serial)
    }

    fn devices(layout: &Layout) -> Vec<(u32, u32, String, usize)> {
        layout.devices().map(|(i, c)| (i.id, c.id, i.device_profile(c), c.serial)).collect()
    }

    #[test]
    fn what_a_line_repeats_stays_and_the_rest_is_new() {
        let mut layout = Layout::default();
        let first =
            r#"{"gpu":0,"instances":[{"id":9,"profile":"1g.10gb"},{"id":2,"profile":"3g.40gb","compute":[1,2]}]}"#;
        change(&mut layout, first).unwrap();
        let device = |gi, ci, name: &str, serial| (gi, ci, name.to_owned(), serial);
        let before = [device(2, 0, "1c.3g.40gb", 2), device(2, 1, "2c.3g.40gb", 3), device(9, 0, "1g.10gb", 1)];
        assert_eq!(devices(&layout), before);
        let second = r#"{"gpu":0,"instances":[{"id":2,"profile":"3g.40gb"},{"id":9,"profile":"1g.10gb"}]}"#;
        change(&mut layout, second).unwrap();
        assert_eq!(devices(&layout), [device(2, 0, "3g.40gb", 4), device(9, 0, "1g.10gb", 1)]);
        assert!(layout.enabled && layout.pending);
        change(&mut layout, r#"{"gpu":0,"enabled":false,"pending":true}"#).unwrap();
        assert_eq!((layout.enabled, layout.pending, layout.instances.len()), (false, true, 0));
    }

    #[test]
    fn what_does_not_fit_is_refused_with_what_was_expected() {
        let refused = |line: &str| change(&mut Layout::default(), line).unwrap_err();
        let bad = r#"{"gpu":0,"instances":[{"id":1,"profile":"5g.40gb"}]}"#;
        let expected = "bad MIG profile \"5g.40gb\", expected 1, 2, 3, 4 or 7 slices and one of 10gb, 20gb, 40gb, 80gb, such as 1g.10gb";
        assert_eq!(refused(bad), expected);
        let many = r#"{"gpu":0,"instances":[{"id":1,"profile":"4g.40gb"},{"id":2,"profile":"4g.40gb"}]}"#;
        assert_eq!(refused(many), "the instances take 8 slices, the GPU has 7");
        let twice = r#"{"gpu":0,"instances":[{"id":1,"profile":"1g.10gb"},{"id":1,"profile":"1g.10gb"}]}"#;
        assert_eq!(refused(twice), "two GPU instances have the same id");
        let wide = r#"{"gpu":0,"instances":[{"id":1,"profile":"2g.20gb","compute":[1,2]}]}"#;
        assert_eq!(refused(wide), "compute instances of [1, 2] slices do not fit into 2g.20gb");
        let off = r#"{"gpu":0,"enabled":false,"instances":[{"id":1,"profile":"1g.10gb"}]}"#;
        assert_eq!(refused(off), "there are no instances while MIG is disabled");
        let l4 = profile::find("NVIDIA L4").unwrap();
        let line = serde_json::from_str(r#"{"gpu":0}"#).unwrap();
        assert_eq!(Layout::default().change(&line, l4, &mut 0).unwrap_err(), "NVIDIA L4 has no MIG");
    }
}
