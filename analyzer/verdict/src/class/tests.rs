//! What holds of every row.

use std::collections::BTreeSet;

use serde::de::IntoDeserializer as _;
use serde::de::value::{Error, StrDeserializer};

use super::*;

#[test]
fn names_are_those_that_are_stored_and_each_is_there_once() {
    for class in Class::ALL {
        let name: StrDeserializer<'_, Error> = class.name().into_deserializer();
        assert_eq!(Class::deserialize(name).as_ref(), Ok(class), "{}", class.name());
    }
    let names: BTreeSet<&str> = Class::ALL.iter().map(|class| class.name()).collect();
    assert_eq!(names.len(), Class::ALL.len());
}

#[test]
fn classes_of_a_group_stand_together() {
    let groups: Vec<Group> = Class::ALL.iter().map(|class| class.group()).collect();
    assert!(groups.is_sorted(), "{groups:?}");
}

#[test]
fn a_colour_is_three_bytes() {
    for ClassInfo { name, light, dark, .. } in Class::ALL.iter().map(|class| class.info()) {
        for colour in [light, dark] {
            let digits = colour.strip_prefix('#').unwrap();
            assert!(digits.len() == 6 && u32::from_str_radix(digits, 16).is_ok(), "{name}: {colour}");
        }
    }
}

#[test]
fn every_loss_has_a_remedy_and_none_that_is_known_to_be_wrong() {
    for class in Class::ALL.iter().filter(|class| **class != Class::Productive) {
        assert!(!class.info().remedies.is_empty(), "{}", class.name());
        for remedy in class.info().remedies {
            let text = format!("{remedy:?}").to_lowercase();
            for wrong in ["device:mem_limit", "noop", "-ac ", "reboot", "nccl_", "single-numa-node", "memlock"] {
                assert!(!text.contains(wrong), "{}: {wrong}", class.name());
            }
        }
    }
}

#[test]
fn every_gain_is_a_range_with_a_source() {
    for gain in Class::ALL.iter().filter_map(|class| class.info().gain) {
        let is_range = 0.0 <= gain.low && gain.low <= gain.high && gain.high > 0.0;
        assert!(is_range && !gain.source.is_empty(), "{gain:?}");
        assert!(gain.basis != Basis::Loss || gain.high <= 1.0, "{gain:?}");
    }
}

#[test]
fn ranges_are_read_with_their_unit() {
    let range = |class: Class| class.info().gain.map(Gain::range);
    let read = [Class::DataloaderCpu, Class::CrossNuma, Class::ColdStart, Class::Down].map(range);
    let expected = ["50 to 83 % of the loss", "5 to 10 % more throughput", "1 to 3 s per start and GPU"];
    assert_eq!(read.each_ref().map(Option::as_deref), [Some(expected[0]), Some(expected[1]), Some(expected[2]), None]);
}
