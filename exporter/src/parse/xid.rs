//! What the NVIDIA driver says of errors in the kernel log: XIDs of GPUs and SXids of NVSwitches.
//!
//! | form | what it is |
//! |---|---|
//! | `NVRM: Xid (PCI:0000:9b:00): 119, pid=…, name=…, text` | an XID; old drivers leave `PCI:` out, MIG adds ` GPU-I:05` |
//! | `NVRM: Xid (PCI:0000:9b:00): 149, NETIR_LINK_EVT Fatal XC0 i0 Link 04 (0x…)` | an XID of NVLink 5 |
//! | `NVRM: GPU 0000:9b:00.0: GPU has fallen off the bus.` | XID 79 by another name |
//! | `NVRM: The NVIDIA GPU 0000:9b:00.0` and lines that end with `fallen off the bus …` | the same over several lines |
//! | `nvidia-nvswitch0: SXid (PCI:0000:c1:00.0): 28006, Non-fatal, Link 46 …` | an SXid |
//!
//! A line counts whichever program wrote it: only root may write into the kernel log, and administrators write lines by
//! hand to test alerts. Lines that other programs forward begin with the program's name, and do not count.

use std::collections::BTreeMap;

use super::bus_id::Address;

/// The XID of a GPU that has fallen off the bus.
const FALLEN_OFF: u64 = 79;

/// Lines of one code about one device within this long are one event, in microseconds: what the driver prints of one
/// error comes within milliseconds, while errors that repeat come seconds apart (XID 119 every 6 s, its timeout).
const ONE_EVENT_US: u64 = 1_000_000;

/// Events of the last second that are remembered.
const TOLD: usize = 1024;

/// How many lines behind `The NVIDIA GPU …` may tell what is with it.
const SENTENCE_LINES: u32 = 3;

/// One record of `/dev/kmsg`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// Microseconds since boot, as the kernel counts them.
    pub at_us: u64,
    /// What was said, on one line or several.
    pub text: &'a str,
}

impl<'a> Record<'a> {
    /// A line of `/dev/kmsg`, `PRIORITY,SEQUENCE,MICROSECONDS,FLAGS[,…];TEXT`; `None` for the lines that follow with keys
    /// and values, and for anything else.
    #[must_use]
    pub fn parse(line: &'a str) -> Option<Self> {
        let (head, text) = line.split_once(';')?;
        let mut fields = head.split(',');
        let _priority: u32 = fields.next()?.parse().ok()?;
        let _sequence: u64 = fields.next()?.parse().ok()?;
        Some(Self { at_us: fields.next()?.parse().ok()?, text })
    }
}

/// One error.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Event {
    /// Of a GPU.
    Gpu(Xid),
    /// Of an NVSwitch.
    Switch(SwitchXid),
}

/// An XID.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Xid {
    /// The GPU; the driver's lines leave its function out, which is 0.
    pub address: Address,
    /// The code.
    pub code: u64,
    /// The MIG GPU instance it is about.
    pub instance: Option<u32>,
    /// What NVLink 5 adds.
    pub link: Option<Link>,
}

/// Where in the link hardware an XID of NVLink 5 comes from, and how bad it is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Link {
    /// The sub-unit, such as `NETIR_LINK_EVT`.
    pub unit: String,
    /// As the line says.
    pub severity: Severity,
    /// The number of the link, if the line names one.
    pub number: Option<u32>,
}

/// An SXid.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SwitchXid {
    /// The switch.
    pub address: Address,
    /// The code.
    pub code: u64,
    /// As the line says; some say nothing.
    pub severity: Option<Severity>,
    /// The number of the link, if the line names one.
    pub link: Option<u32>,
}

goodput_catalog::named! {
    /// How bad an error of a link or switch is, in the driver's own words.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub enum Severity {
        /// What used the link or switch is lost.
        Fatal = "fatal",
        /// It went on.
        NonFatal = "nonfatal",
    }
}

impl Severity {
    fn parse(word: &str) -> Option<Self> {
        let letters: String = word.chars().filter(char::is_ascii_alphabetic).collect();
        match letters.to_ascii_lowercase().as_str() {
            "fatal" => Some(Severity::Fatal),
            "nonfatal" => Some(Severity::NonFatal),
            _ => None,
        }
    }
}

/// Makes events of records: knows which lines belong together.
#[derive(Debug, Default)]
pub struct Log {
    /// The device that a sentence over several lines is about, and how many more lines it may take.
    begun: Option<(Address, u32)>,
    /// When each event was last reported, while that is less than [`ONE_EVENT_US`] ago. Events that differ in severity,
    /// unit, link or instance are different ones: the second may be the worse.
    told: BTreeMap<Event, u64>,
}

impl Log {
    /// The events that this record brings.
    pub fn events(&mut self, record: Record<'_>) -> Vec<Event> {
        // The kernel writes a line break within a record so.
        let lines = record.text.split("\\x0a").map(str::trim);
        lines
            .filter_map(|line| self.line(line))
            .collect::<Vec<_>>()
            .into_iter()
            .filter(|e| self.news(e, record))
            .collect()
    }

    fn line(&mut self, line: &str) -> Option<Event> {
        if let Some((_, rest)) = line.split_once(": SXid (").filter(|(who, _)| who.starts_with("nvidia-nvswitch")) {
            return switch(rest).map(Event::Switch);
        }
        let said = line.strip_prefix("NVRM: ")?;
        let found = match said.strip_prefix("Xid (") {
            Some(rest) => gpu(rest),
            None => self.fallen_off(said).map(|address| Xid { address, code: FALLEN_OFF, instance: None, link: None }),
        };
        found.map(Event::Gpu)
    }

    fn fallen_off(&mut self, said: &str) -> Option<Address> {
        let begun = self.begun.take().filter(|(_, left)| *left > 0);
        if let Some(address) = said.strip_prefix("The NVIDIA GPU ").and_then(|rest| address(first_word(rest))) {
            self.begun = Some((address, SENTENCE_LINES));
        } else {
            self.begun = begun.map(|(address, left)| (address, left - 1));
        }
        if !said.contains("fallen off the bus") {
            return None;
        }
        let named = said.strip_prefix("GPU ").and_then(|rest| address(first_word(rest).trim_end_matches(':')));
        named.or(self.begun.take().map(|(address, _)| address))
    }

    /// Is this the first line of the event?
    fn news(&mut self, event: &Event, record: Record<'_>) -> bool {
        self.told.retain(|_, at| record.at_us.abs_diff(*at) < ONE_EVENT_US);
        if self.told.contains_key(event) {
            return false;
        }
        // In a storm of ever new ones what is beyond the bound may be told twice.
        if self.told.len() < TOLD {
            self.told.insert(event.clone(), record.at_us);
        }
        true
    }
}

/// What follows `Xid (`.
fn gpu(rest: &str) -> Option<Xid> {
    let (place, rest) = rest.split_once("): ")?;
    let instance = place.split_once("GPU-I:").and_then(|(_, id)| first_word(id).parse().ok());
    let (code, text) = code(rest)?;
    let link = matches!(code, 144..=150).then(|| link(text)).flatten();
    Some(Xid { address: address(first_word(place))?, code, instance, link })
}

/// What follows `SXid (`.
fn switch(rest: &str) -> Option<SwitchXid> {
    let (place, rest) = rest.split_once("): ")?;
    let (code, text) = code(rest)?;
    let severity = text.split(',').find_map(|part| Severity::parse(part.trim()));
    Some(SwitchXid { address: address(first_word(place))?, code, severity, link: link_number(text) })
}

/// The code, and what follows it.
fn code(text: &str) -> Option<(u64, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    Some((text[..end].parse().ok()?, text[end..].trim_start_matches(',').trim_start()))
}

/// Unit and severity of `pid=…, name=…, UNIT Fatal XC0 i0 Link 04 (0x…)`; the process may be left out.
fn link(text: &str) -> Option<Link> {
    let text = text.rsplit(", ").next()?;
    let severity = text.split_whitespace().find_map(Severity::parse)?;
    let unit = first_word(text);
    let plain = !unit.is_empty() && unit.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    plain.then(|| Link { unit: unit.to_owned(), severity, number: link_number(text) })
}

/// The number behind the word `Link`.
fn link_number(text: &str) -> Option<u32> {
    let mut words = text.split_whitespace().skip_while(|word| *word != "Link").skip(1);
    words.next()?.trim_end_matches(|c: char| !c.is_ascii_digit()).parse().ok()
}

fn first_word(text: &str) -> &str {
    text.split_whitespace().next().unwrap_or_default()
}

/// An address as the driver prints it: with `PCI:` in front or not, with its function or not.
fn address(text: &str) -> Option<Address> {
    let text = text.strip_prefix("PCI:").unwrap_or(text);
    Address::parse(text).or_else(|| Address::parse(&format!("{text}.0")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn events(records: &[(u64, &str)]) -> Vec<Event> {
        let mut log = Log::default();
        records.iter().flat_map(|(at_us, text)| log.events(Record { at_us: *at_us, text })).collect()
    }

    fn at(address: &str) -> Address {
        Address::parse(address).unwrap()
    }

    fn xid(address: &str, code: u64) -> Event {
        Event::Gpu(Xid { address: at(address), code, instance: None, link: None })
    }

    #[test]
    fn records_of_dev_kmsg() {
        let line = "4,1205,5140900,-;NVRM: Xid (PCI:0000:9b:00): 79, GPU has fallen off the bus.";
        assert_eq!(Record::parse(line).map(|r| r.at_us), Some(5_140_900));
        assert_eq!(Record::parse("6,1,2,c,caller=T1;text; more").map(|r| r.text), Some("text; more"));
        for other in ["", " SUBSYSTEM=pci", " DEVICE=+pci:0000:9b:00.0;x", "text", "a,b,c;text", "6;text"] {
            assert_eq!(Record::parse(other), None, "{other:?}");
        }
    }

    #[test]
    fn every_form_is_understood() {
        for text in [
            "NVRM: Xid (PCI:0000:9b:00): 31, pid=4711, name=python3, Ch 00000008, intr 00000000. MMU Fault",
            "NVRM: Xid (PCI:0000:9b:00): 31, pid='<unknown>', name=<unknown>, Ch 00000008",
            "NVRM: Xid (0000:9b:00): 31, Ch 00000008",
            "NVRM: Xid (PCI:0000:9B:00.0): 31",
        ] {
            assert_eq!(events(&[(0, text)]), [xid("0000:9b:00.0", 31)], "{text}");
        }
        for text in [
            "NVRM: GPU 0000:9b:00.0: GPU has fallen off the bus.",
            "NVRM: Xid (PCI:0000:9b:00): 79, pid=1, GPU has fallen off the bus.",
            r"NVRM: The NVIDIA GPU 0000:9b:00.0\x0aNVRM: (PCI ID: 10de:2330) installed in this system has\x0aNVRM: fallen off the bus and is not responding to commands.",
        ] {
            assert_eq!(events(&[(0, text)]), [xid("0000:9b:00.0", 79)], "{text}");
        }
        let mig = "NVRM: Xid (PCI:0000:87:00 GPU-I:05): 13, pid=2, name=a, Graphics SM Warp Exception";
        let of_instance = Xid { address: at("0000:87:00.0"), code: 13, instance: Some(5), link: None };
        assert_eq!(events(&[(0, mig)]), [Event::Gpu(of_instance)]);
    }

    #[test]
    fn links_and_switches_say_how_bad_it_is() {
        let of_link = |unit: &str, severity, number| {
            let link = Some(Link { unit: unit.to_owned(), severity, number: Some(number) });
            [Event::Gpu(Xid { address: at("0008:01:00.0"), code: 149, instance: None, link })]
        };
        for (text, unit, severity, number) in [
            ("NETIR_LINK_EVT  Fatal   XC0 i0 Link 04 (0x004505c6 0x0)", "NETIR_LINK_EVT", Severity::Fatal, 4),
            ("pid=1, name=a, NETIR_INT Nonfatal XC1 i2 Link 17 (0x0)", "NETIR_INT", Severity::NonFatal, 17),
            ("NETIR_BER_EVENT (Non-fatal) (XC0) i0 Link 00 (0x0)", "NETIR_BER_EVENT", Severity::NonFatal, 0),
        ] {
            let line = format!("NVRM: Xid (PCI:0008:01:00): 149, {text}");
            assert_eq!(events(&[(0, &line)]), of_link(unit, severity, number), "{text}");
        }
        assert_eq!(events(&[(0, "NVRM: Xid (PCI:0008:01:00): 149, odd")]), [xid("0008:01:00.0", 149)]);
        for (text, severity, link) in [
            ("28006, Non-fatal, Link 46 MC TS crumbstore", Some(Severity::NonFatal), Some(46)),
            ("28006, Fatal, Link 46 x", Some(Severity::Fatal), Some(46)),
            ("28006, Data {0x0}", None, None),
        ] {
            let line = format!("nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): {text}");
            let switch = SwitchXid { address: at("0000:c1:00.0"), code: 28006, severity, link };
            assert_eq!(events(&[(0, &line)]), [Event::Switch(switch)], "{text}");
        }
    }

    #[test]
    fn lines_of_one_event_are_one_and_repeats_are_not() {
        let warp = "NVRM: Xid (PCI:0000:9b:00): 13, Graphics SM Warp Exception on (GPC 0, TPC 0)";
        let other = "NVRM: Xid (PCI:0000:19:00): 13, Graphics Exception";
        let code = "NVRM: Xid (PCI:0000:9b:00): 43, Ch 8";
        let seen = events(&[(10, warp), (11, warp), (12, other), (13, code), (999_999, warp), (1_000_010, warp)]);
        let (first, second) = (xid("0000:9b:00.0", 13), xid("0000:19:00.0", 13));
        assert_eq!(seen, [first.clone(), second, xid("0000:9b:00.0", 43), first]);
    }

    #[test]
    fn the_worse_of_two_is_never_hidden() {
        let link = "NVRM: Xid (PCI:0000:9b:00): 149, NETIR_LINK_EVT";
        let switch = "nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 28006";
        for (first, second) in [
            (format!("{link} Nonfatal XC0 i0 Link 04 (0x0)"), format!("{link} Fatal XC0 i0 Link 04 (0x0)")),
            (format!("{link} Fatal XC0 i0 Link 04 (0x0)"), format!("{link} Fatal XC0 i0 Link 05 (0x0)")),
            (
                "NVRM: Xid (PCI:0000:9b:00): 149, NETIR_BER_EVENT Nonfatal XC0 i0 Link 00 (0x0)".to_owned(),
                format!("{link} Nonfatal XC0 i0 Link 00 (0x0)"),
            ),
            (
                "NVRM: Xid (PCI:0000:9b:00 GPU-I:05): 31, pid=1, name=a, x".to_owned(),
                "NVRM: Xid (PCI:0000:9b:00 GPU-I:06): 31, pid=2, name=b, x".to_owned(),
            ),
            (format!("{switch}, Non-fatal, Link 46 x"), format!("{switch}, Fatal, Link 46 x")),
            (format!("{switch}, Non-fatal, Link 46 x"), format!("{switch}, Non-fatal, Link 47 x")),
        ] {
            let told = events(&[(10, &first), (20, &second), (30, &first), (40, &second)]);
            assert_eq!(told.len(), 2, "{first} / {second}: {told:?}");
        }
    }

    #[test]
    fn a_gpu_that_fell_off_is_one_event_however_it_is_told() {
        let lines = [
            (0, "NVRM: Xid (PCI:0000:9b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."),
            (5, "NVRM: GPU 0000:9b:00.0: GPU has fallen off the bus."),
            (6, "NVRM: GPU 0000:9b:00.0: GPU serial number is 1650124014249."),
            (9, "NVRM: The NVIDIA GPU 0000:9b:00.0"),
            (9, "NVRM: (PCI ID: 10de:2330) installed in this system has"),
            (9, "NVRM: fallen off the bus and is not responding to commands."),
        ];
        assert_eq!(events(&lines), [xid("0000:9b:00.0", 79)]);
        assert_eq!(events(&lines[3..]), [xid("0000:9b:00.0", 79)]);
        assert_eq!(events(&lines[4..]), [], "of which GPU?");
    }

    #[test]
    fn a_recorded_log_of_gsp_timeouts() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../shared/fixtures/xid-119-gsp-timeout/dmesg.log");
        let text = std::fs::read_to_string(path).unwrap();
        // `dmesg -T` has a date where the kernel has microseconds: lines are put ten seconds apart.
        let lines: Vec<_> = text.lines().filter_map(|line| line.split_once("] ").map(|(_, said)| said)).collect();
        let records: Vec<_> = lines.iter().enumerate().map(|(i, said)| (i as u64 * 10_000_000, *said)).collect();
        assert_eq!(events(&records), vec![xid("0000:9b:00.0", 119); 5]);
    }

    #[test]
    fn what_others_say_about_xids_is_nothing() {
        for text in [
            "gpud[7]: NVRM: Xid (PCI:0000:9b:00): 79, copied",
            "NVRM: Xid (PCI:nonsense): 79, x",
            "NVRM: Xid (PCI:0000:9b:00): x",
            "NVRM: Xid (PCI:0000:9b:00",
            "NVRM: GPU at PCI:0000:9b:00: GPU-509665ad",
            "fallen off the bus",
        ] {
            assert_eq!(events(&[(0, text)]), [], "{text}");
        }
    }

    proptest! {
        #[test]
        fn never_panics(at_us: u64, text in "(NVRM: )?(Xid \\(PCI:)?(The NVIDIA GPU )?\\PC*", more in "\\PC*") {
            let mut log = Log::default();
            let _ = (log.events(Record { at_us, text: &text }), log.events(Record { at_us: 0, text: &more }));
            let _ = Record::parse(&text);
        }
    }
}
