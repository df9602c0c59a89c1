use std::time::{Duration, Instant};

use goodput_exporter::collect::{CollectError, Done};
use goodput_exporter::source::files::FileError;

use crate::support::{Machine, collector, shared};

const PAUSED: &str = "goodput_network_pause_seconds_total{device=\"eth0\",direction=\"receive\",priority=\"3\"}";

fn machine(text: &str) -> Machine {
    let machine = Machine::empty();
    machine.write("sys/class/net/eth0/device/vendor", "0x15b3\n");
    machine.prints("ethtool", "-S eth0", text);
    machine
}

fn of_micros(micros: u64) -> String {
    format!("rx_prio3_pause_duration: {micros}\n")
}

/// The second scrape does not wait for its own question; what it shows was asked for by the first.
#[test]
fn a_scrape_shows_what_the_one_before_asked_for() {
    let machine = machine(&of_micros(1_500_000));
    let (mut collector, begin) = (collector("ethtool"), Instant::now());
    let mut at = |seconds| machine.collect_at(collector.as_mut(), begin + Duration::from_secs(seconds)).ok();
    let age = "goodput_network_statistics_age_seconds{device=\"eth0\"}";
    let first = at(0);
    assert_eq!((first.value(PAUSED), first.value(age)), (1.5, 0.0));
    machine.prints("ethtool", "-S eth0", &of_micros(2_500_000));
    let second = at(15);
    assert_eq!((second.value(PAUSED), second.value(age)), (1.5, 15.0));
    // The answer to the second question comes when it comes.
    let later = (16..1_000_000).map(|_| at(30)).find(|scrape| scrape.value(PAUSED) != 1.5).unwrap();
    assert_eq!(later.value(PAUSED), 2.5);
}

#[test]
fn answers_that_are_old_are_dropped() {
    let machine = machine(&of_micros(1_500_000));
    let (mut collector, begin) = (collector("ethtool"), Instant::now());
    let mut at = |seconds| machine.collect_at(collector.as_mut(), begin + Duration::from_secs(seconds));
    assert_eq!(at(0).count("goodput_network_pause_seconds_total"), 1);
    machine.deny("output/ethtool -S eth0");
    assert_eq!(at(299).count("goodput_network_pause_seconds_total"), 1);
    let gone = (0..1_000_000).map(|_| at(300)).find(|scrape| scrape.result.is_err()).unwrap();
    assert_eq!(gone.families.samples(), 0);
}

#[test]
fn a_program_that_is_missing_or_forbidden_is_named() {
    let machine = machine("");
    let program = machine.path("usr/sbin/ethtool");
    std::fs::remove_file(&program).unwrap();
    let Err(CollectError::Other(said)) = machine.collect("ethtool").result else { panic!("it is not there") };
    assert!(said.contains("usr/sbin/ethtool: not there: install the package ethtool"), "{said}");
    std::fs::write(&program, "").unwrap();
    let denied = machine.collect("ethtool").result;
    assert!(matches!(denied, Err(CollectError::File(FileError::Denied { path })) if path == program));
}

#[test]
fn one_interface_that_fails_costs_itself() {
    let machine = machine(&of_micros(1_500_000));
    machine.write("sys/class/net/eth1/device/vendor", "0x15b3\n");
    let collected = machine.collect("ethtool").ok();
    assert_eq!(collected.value(PAUSED), 1.5);
    assert!(collected.left().contains("class/net/eth1: ethtool -S eth1: exit status: 1"), "{}", collected.left());
}

#[test]
fn only_plain_names_of_physical_interfaces_are_asked() {
    let machine = machine(&of_micros(1_500_000));
    machine.write("sys/class/net/-h/device/vendor", "0x15b3\n");
    machine.write("sys/class/net/br0/operstate", "up\n");
    let collected = machine.collect("ethtool").ok();
    assert_eq!((collected.left().as_str(), collected.count("goodput_network_statistics_age_seconds")), ("", 1));
    std::fs::remove_dir_all(machine.path("sys/class/net/eth0")).unwrap();
    assert!(matches!(machine.collect("ethtool").result, Ok(Done::NotApplicable(_))));
}

/// A card of AMD in a machine without a pause: 607 statistics, and no series but the age.
#[test]
fn a_recorded_card() {
    let text = std::fs::read_to_string(shared("net-rdma-pollara/ethtool_S_enp68s0.txt")).unwrap();
    let quiet = machine(&text).collect("ethtool").ok();
    assert_eq!((quiet.families.samples(), quiet.left().as_str()), (1, ""));
    let paused = text.replace("rx_pripause_3_1us_count: 0", "rx_pripause_3_1us_count: 2500000");
    assert_eq!(machine(&paused).collect("ethtool").ok().value(PAUSED), 2.5);
}
