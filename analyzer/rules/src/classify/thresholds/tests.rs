use super::*;

#[test]
fn defaults_are_in_range_and_have_sources() {
    let thresholds = Thresholds::default();
    assert_eq!(thresholds.problems(), [] as [String; 0]);
    assert!(thresholds.list().iter().all(|t| !t.source.is_empty() && !t.unit.is_empty()));
}

#[test]
fn every_value_out_of_range_is_named() {
    let bad = Thresholds { confidence_floor: 1.5, idle_window_seconds: f64::NAN, ..Thresholds::default() };
    assert_eq!(
        bad.problems(),
        [
            "thresholds.confidence_floor: 1.5 is not within 0 to 1 ratio",
            "thresholds.idle_window_seconds: NaN is not within 10 to 1800 seconds"
        ]
    );
}

#[test]
fn some_can_be_overridden_and_misspelt_ones_are_errors() {
    let one: Thresholds = serde_json::from_str(r#"{"confidence_floor": 0.7}"#).unwrap();
    assert_eq!(one, Thresholds { confidence_floor: 0.7, ..Thresholds::default() });
    let error = serde_json::from_str::<Thresholds>(r#"{"confidence_flor": 0.7}"#).unwrap_err();
    assert!(error.to_string().contains("unknown field `confidence_flor`"), "{error}");
}
