//! What a coarse grid cannot show: classes that are told by several cells within a time that holds fewer.

use super::{Class, Thresholds};

/// The classes that cells of this length are too long for.
#[must_use]
pub fn too_coarse(cell_ms: i64, t: &Thresholds) -> Vec<Class> {
    let whole = |seconds: f64| (seconds * 1000.0 / cell_ms as f64).floor();
    // Those before and after a cell, and itself.
    let around = |seconds: f64| 2.0 * whole(seconds) + 1.0;
    let needs = [
        (Class::KeepAlive, around(t.idle_window_seconds), t.keep_alive_bursts),
        (Class::LaunchBound, around(t.derate_around_seconds), t.deep_cells),
        // The cell in which the GPU is taken, and one in which it does not work yet.
        (Class::ColdStart, whole(t.cold_start_seconds), 2.0),
        (Class::GangWait, whole(t.cold_start_seconds), 2.0),
    ];
    needs.into_iter().filter(|(_, there, needed)| there < needed).map(|(class, ..)| class).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn longer_cells_tell_fewer_classes() {
        let off = |minutes: i64| too_coarse(minutes * 60_000, &Thresholds::default());
        assert_eq!(off(1), []);
        assert_eq!(off(2), []);
        assert_eq!(off(6), [Class::KeepAlive]);
        assert_eq!(off(60), [Class::KeepAlive, Class::LaunchBound, Class::ColdStart, Class::GangWait]);
    }
}
