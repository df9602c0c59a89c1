//! What holds of every row.

use std::collections::{BTreeMap, BTreeSet};

use serde::de::IntoDeserializer as _;
use serde::de::value::{Error, StrDeserializer};

use super::colour::{ink, linear, luminance};
use super::*;
use crate::CauseKind;

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
fn a_colour_is_three_bytes_and_a_key_one_sign_of_its_own() {
    for ClassInfo { name, light, dark, .. } in Class::ALL.iter().map(|class| class.info()) {
        for colour in [light, dark] {
            let digits = colour.strip_prefix('#').unwrap();
            assert!(digits.len() == 6 && u32::from_str_radix(digits, 16).is_ok(), "{name}: {colour}");
        }
    }
    let keys: BTreeSet<&str> = Class::ALL.iter().map(|class| class.info().key).collect();
    assert!(keys.len() == Class::ALL.len() && keys.iter().all(|key| key.len() == 1), "{keys:?}");
}

/// The cards that colours are drawn on (`analyzer/templates/colours.css`), and the colours.
fn themes() -> [(&'static str, Vec<(&'static ClassInfo, &'static str)>); 2] {
    let all = |colour: fn(&ClassInfo) -> &'static str| {
        Class::ALL.iter().map(|class| (class.info(), colour(class.info()))).collect()
    };
    [("#ffffff", all(|info| info.light)), ("#1a212b", all(|info| info.dark))]
}

/// Lightness, a and b of OKLab (B. Ottosson, 2020; CSS Color 4, 10.9).
fn oklab(colour: &str) -> [f64; 3] {
    let [r, g, b] = linear(colour);
    let l = (0.412_221_470_8 * r + 0.536_332_536_3 * g + 0.051_445_992_9 * b).cbrt();
    let m = (0.211_903_498_2 * r + 0.680_699_545_1 * g + 0.107_396_956_6 * b).cbrt();
    let s = (0.088_302_461_9 * r + 0.281_718_837_6 * g + 0.629_978_700_5 * b).cbrt();
    [
        0.210_454_255_3 * l + 0.793_617_785_0 * m - 0.004_072_046_8 * s,
        1.977_998_495_1 * l - 2.428_592_205_0 * m + 0.450_593_709_9 * s,
        0.025_904_037_1 * l + 0.782_771_766_2 * m - 0.808_675_766_0 * s,
    ]
}

/// CSS Color 4 calls a difference of two colours in OKLab noticeable from here on (13.2, deltaEOK).
const NOTICEABLE: f64 = 0.02;

#[test]
fn colours_of_a_bar_differ_and_most_where_classes_follow_each_other() {
    for (card, colours) in themes() {
        for (n, (one, colour)) in colours.iter().enumerate() {
            for (m, (other, another)) in colours.iter().enumerate().skip(n + 1) {
                let apart: f64 = oklab(colour).iter().zip(oklab(another)).map(|(a, b)| (a - b).powi(2)).sum();
                // Any two may be neighbours where the classes between them have no time.
                let least = NOTICEABLE * if m == n + 1 { 5.0 } else { 2.5 };
                let names = (one.name, other.name);
                assert!(
                    apart.sqrt() >= least,
                    "{names:?} on {card}: {colour} and {another} are {:.3} apart",
                    apart.sqrt()
                );
            }
        }
    }
}

#[test]
fn a_group_has_a_hue_of_its_own() {
    for (card, colours) in themes() {
        let mut hues: BTreeMap<Group, Vec<f64>> = BTreeMap::new();
        for (info, colour) in colours {
            let [_, a, b] = oklab(colour);
            // Time without an owner, or not explained, is grey.
            let is_grey = matches!(info.group, Group::Capacity | Group::Unexplained);
            assert_eq!(a.hypot(b) < 0.04, is_grey, "{} on {card}: {colour}", info.name);
            if !is_grey {
                hues.entry(info.group).or_default().push(b.atan2(a).to_degrees().rem_euclid(360.0));
            }
        }
        let mut ranges: Vec<(f64, f64, Group)> = hues
            .into_iter()
            .map(|(group, hues)| {
                let ends = (hues.iter().copied().fold(f64::MAX, f64::min), hues.iter().copied().fold(0.0, f64::max));
                (ends.0, ends.1, group)
            })
            .collect();
        ranges.sort_by(|a, b| a.0.total_cmp(&b.0));
        for pair in ranges.windows(2) {
            assert!(pair[0].1 + 15.0 < pair[1].0, "degrees of hue on {card}: {pair:?}");
        }
    }
}

#[test]
fn a_colour_stands_out_from_its_page_and_its_key_from_the_colour() {
    let contrast = |one: &str, other: &str| {
        let (one, other) = (luminance(one) + 0.05, luminance(other) + 0.05);
        one.max(other) / one.min(other)
    };
    for (card, colours) in themes() {
        for (ClassInfo { name, .. }, colour) in colours {
            // WCAG 2.2, 1.4.11 and 1.4.3.
            assert!(contrast(colour, card) >= 3.0, "{name}: {colour} on {card}");
            assert!(contrast(colour, ink(colour)) >= 4.5, "{name}: {} on {colour}", ink(colour));
        }
    }
}

#[test]
fn every_loss_has_a_remedy_and_none_that_is_known_to_be_wrong() {
    let of_class = Class::ALL.iter().map(|class| (*class, class.name(), class.info().remedies));
    let of_cause = CauseKind::ALL.iter().map(|cause| (cause.class(), cause.name(), cause.remedies()));
    for (class, name, remedies) in of_class.filter(|(class, ..)| *class != Class::Productive).chain(of_cause) {
        assert!(!remedies.is_empty(), "{name}");
        for remedy in remedies {
            let text = format!("{remedy:?}").to_lowercase();
            for wrong in ["device:mem_limit", "noop", "-ac ", "reboot", "single-numa-node"] {
                assert!(!text.contains(wrong), "{name}: {wrong}");
            }
            // These settings repair the exchange between GPUs, and no other loss; a hang is no slow exchange.
            for of_network in ["nccl_", "memlock"].iter().filter(|_| class != Class::NetworkSlow) {
                assert!(!text.contains(of_network), "{name}: {of_network}");
            }
        }
    }
}

#[test]
fn a_cause_has_remedies_of_its_own_and_a_class_has_those_of_no_cause() {
    for cause in CauseKind::ALL {
        let (class, own) = (cause.class(), cause.remedies());
        assert_eq!((class.remedies(Some(*cause)), class.remedies(None)), (own, class.info().remedies));
        // A limit is the only cause of its class.
        assert_eq!(own == class.info().remedies, class == Class::IoLimited, "{}", cause.name());
        let others = CauseKind::ALL.iter().filter(|other| *other != cause);
        assert!(others.clone().all(|other| other.remedies() != own), "{} has those of another", cause.name());
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
