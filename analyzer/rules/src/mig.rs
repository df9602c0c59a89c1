//! MIG: what GPUs can be cut into.
//!
//! A GPU instance takes compute slices and memory slices, and the latter at few places only. The figures are those of
//! NVIDIA's MIG User Guide, "Supported MIG Profiles", and of `nvidia-smi mig -lgipp` (possible placements) there.

/// What an instance takes, and where.
#[derive(Debug)]
struct Profile {
    slices: u32,
    memory_slices: u32,
    /// The memory slices that it may begin at.
    starts: &'static [u32],
}

/// How a GPU can be cut up.
#[derive(Debug)]
struct Kind {
    slices: u32,
    /// By their slices, the smallest first.
    profiles: &'static [Profile],
    /// One slice with the memory of two.
    wide: Option<Profile>,
}

const fn profile(slices: u32, memory_slices: u32, starts: &'static [u32]) -> Profile {
    Profile { slices, memory_slices, starts }
}

/// A100, H100, H200, B200: seven slices, eight memory slices.
static SEVEN: Kind = Kind {
    slices: 7,
    profiles: &[
        profile(1, 1, &[0, 1, 2, 3, 4, 5, 6]),
        profile(2, 2, &[0, 2, 4]),
        profile(3, 4, &[0, 4]),
        profile(4, 4, &[0]),
        profile(7, 8, &[0]),
    ],
    wide: Some(profile(1, 2, &[0, 2, 4, 6])),
};

/// A30: four of each.
static FOUR: Kind = Kind {
    slices: 4,
    profiles: &[profile(1, 1, &[0, 1, 2, 3]), profile(2, 2, &[0, 2]), profile(4, 4, &[0])],
    wide: None,
};

/// How the driver's names begin, how such a GPU can be cut up, and its profile of one slice with the memory of two. The
/// first that fits holds.
static MODELS: &[(&str, &Kind, &str)] = &[
    ("A30", &FOUR, ""),
    ("A100-SXM4-40GB", &SEVEN, "1g.10gb"),
    ("A100-PCIE-40GB", &SEVEN, "1g.10gb"),
    ("A100", &SEVEN, "1g.20gb"),
    ("H100 NVL", &SEVEN, "1g.24gb"),
    ("H100", &SEVEN, "1g.20gb"),
    ("H200", &SEVEN, "1g.35gb"),
    ("B200", &SEVEN, "1g.45gb"),
];

fn kind(model: Option<&str>) -> Option<(&'static Kind, &'static str)> {
    let name = model?;
    let name = name.strip_prefix("NVIDIA ").unwrap_or(name);
    MODELS.iter().find(|(begin, ..)| name.starts_with(begin)).map(|(_, kind, wide)| (*kind, *wide))
}

/// Slices that a GPU can be cut into, where the model is one of the table; for all others the exporter has to tell.
#[must_use]
pub fn slices_of_gpu(model: Option<&str>) -> Option<u32> {
    kind(model).map(|(kind, _)| kind.slices)
}

/// Slices of an instance, as its profile begins: `3g.40gb` has three.
#[must_use]
pub fn slices_of_profile(profile: &str) -> Option<u32> {
    profile.split_once("g.")?.0.parse().ok().filter(|slices| *slices > 0)
}

/// Is there a way to place these instances so that another one still fits? Where each of them lies is not exported, so
/// that only what no placement leaves room for is said to have none. `None` where the model or a profile is not known,
/// or they do not fit themselves.
#[must_use]
pub fn has_room(model: Option<&str>, profiles: &[&str]) -> Option<bool> {
    let (kind, wide) = kind(model)?;
    let mut taken: Vec<&Profile> = profiles.iter().map(|name| kind.profile(name, wide)).collect::<Option<_>>()?;
    taken.sort_unstable_by_key(|profile| std::cmp::Reverse(profile.memory_slices));
    if !kind.holds(&taken) {
        return None;
    }
    taken.push(kind.profiles.first()?);
    Some(kind.holds(&taken))
}

impl Kind {
    /// Variants such as `1g.10gb+me` take what the plain one takes.
    fn profile(&self, name: &str, wide: &str) -> Option<&Profile> {
        let plain = name.split_once('+').map_or(name, |(plain, _)| plain);
        let slices = slices_of_profile(plain)?;
        self.wide
            .as_ref()
            .filter(|_| plain == wide)
            .or_else(|| self.profiles.iter().find(|profile| profile.slices == slices))
    }

    fn holds(&self, profiles: &[&Profile]) -> bool {
        profiles.iter().map(|profile| profile.slices).sum::<u32>() <= self.slices && place(profiles, 0)
    }
}

/// Can all of them lie in the memory slices that are not taken yet? A bit each.
fn place(profiles: &[&Profile], taken: u32) -> bool {
    let Some((first, rest)) = profiles.split_first() else { return true };
    first.starts.iter().any(|start| {
        let here = ((1 << first.memory_slices) - 1) << start;
        taken & here == 0 && place(rest, taken | here)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const H100: Option<&str> = Some("NVIDIA H100 80GB HBM3");
    const A100: Option<&str> = Some("NVIDIA A100-SXM4-40GB");

    #[test]
    fn room_is_what_some_placement_leaves() {
        for (model, profiles, room) in [
            (H100, &[][..], Some(true)),
            (H100, &["3g.40gb", "3g.40gb"], Some(false)),
            (H100, &["4g.40gb", "3g.40gb"], Some(false)),
            (H100, &["4g.40gb", "2g.20gb"], Some(true)),
            (H100, &["2g.20gb", "2g.20gb", "2g.20gb"], Some(true)),
            (H100, &["3g.40gb", "1g.10gb", "1g.10gb", "1g.10gb+me"], Some(true)),
            (H100, &["1g.20gb", "1g.20gb", "1g.20gb", "1g.20gb"], Some(false)),
            (H100, &["1g.20gb", "1g.20gb", "1g.20gb", "1g.10gb"], Some(true)),
            (H100, &["1g.20gb", "1g.20gb", "1g.20gb", "1g.10gb", "1g.10gb"], Some(false)),
            (H100, &["1g.10gb"; 6], Some(true)),
            (H100, &["1g.10gb"; 7], Some(false)),
            (H100, &["7g.80gb"], Some(false)),
            (A100, &["3g.20gb", "1g.10gb", "1g.10gb"], Some(false)),
            (Some("NVIDIA A100-SXM4-80GB"), &["3g.40gb", "1g.10gb", "1g.10gb"], Some(true)),
            (Some("NVIDIA A30"), &["2g.12gb", "1g.6gb"], Some(true)),
            (Some("NVIDIA A30"), &["2g.12gb", "2g.12gb"], Some(false)),
            (Some("NVIDIA A30"), &["3g.18gb"], None),
            (H100, &["4g.40gb", "4g.40gb"], None),
            (H100, &["big"], None),
            (Some("NVIDIA L4"), &["1g.10gb"], None),
            (None, &["1g.10gb"], None),
        ] {
            assert_eq!(has_room(model, profiles), room, "{model:?} {profiles:?}");
        }
    }

    #[test]
    fn slices_are_those_of_the_model_and_the_profile() {
        assert_eq!(
            [A100, Some("NVIDIA A30"), Some("NVIDIA T4"), None].map(slices_of_gpu),
            [Some(7), Some(4), None, None]
        );
        assert_eq!(
            ["1g.10gb", "7g.141gb", "g.5gb", "0g.1gb", "1c.2g.20gb", ""].map(slices_of_profile),
            [Some(1), Some(7), None, None, None, None]
        );
    }
}
