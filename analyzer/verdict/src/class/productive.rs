//! Progress that was kept.

use super::{ClassInfo, FALLS, Group};

pub(super) const PRODUCTIVE: ClassInfo = ClassInfo {
    name: "productive",
    title: "Working",
    group: Group::Productive,
    version: 4,
    meaning: "The GPU was busy.",
    light: "#2f9e74",
    dark: "#3fb488",
    check: FALLS,
    gain: None,
    remedies: &[],
};
