//! Progress that was kept.

use super::{ClassInfo, FALLS, Group};

pub(super) const PRODUCTIVE: ClassInfo = ClassInfo {
    name: "productive",
    title: "Working",
    group: Group::Productive,
    version: 4,
    meaning: "The GPU was busy.",
    light: "#055d40",
    dark: "#27d199",
    key: "P",
    check: FALLS,
    gain: None,
    remedies: &[],
};
