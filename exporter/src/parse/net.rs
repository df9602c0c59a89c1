//! `/proc/net/{dev,snmp,netstat}` and the files of an RDMA port (stable/sysfs-class-infiniband).

use super::{LeftOut, ParseError, Parsed, each_line, lines, trim};

/// Totals of one network interface since it was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interface<'a> {
    /// Such as `eth0`.
    pub name: &'a str,
    /// What it received.
    pub received: Direction,
    /// What it sent.
    pub sent: Direction,
}

/// One direction of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Direction {
    /// Bytes, as the driver counts them.
    pub bytes: u64,
    /// Packets that were bad.
    pub errors: u64,
    /// Packets that were good and thrown away.
    pub dropped: u64,
}

/// Parses `/proc/net/dev`.
pub fn interfaces(text: &str) -> Parsed<Vec<Interface<'_>>> {
    let mut interfaces = Vec::new();
    let parsed = each_line(text, |number, line| {
        // Two lines of headings, which have bars.
        if !line.contains('|') {
            let expected = || ParseError::new(number, "an interface, a colon and 16 unsigned numbers", line);
            interfaces.push(interface(line).ok_or_else(expected)?);
        }
        Ok(())
    });
    parsed.map(|()| interfaces)
}

fn interface(line: &str) -> Option<Interface<'_>> {
    // A name may hold a colon itself.
    let (name, rest) = line.rsplit_once(':')?;
    let numbers: Vec<u64> = rest.split_ascii_whitespace().map(|word| word.parse().ok()).collect::<Option<_>>()?;
    let [bytes, _, errors, dropped, _, _, _, _, sent_bytes, _, sent_errors, sent_dropped, ..] = numbers[..] else {
        return None;
    };
    Some(Interface {
        name: name.trim(),
        received: Direction { bytes, errors, dropped },
        sent: Direction { bytes: sent_bytes, errors: sent_errors, dropped: sent_dropped },
    })
}

/// Values of a protocol in `/proc/net/snmp` or `/proc/net/netstat`: a line of names, then a line of numbers, both behind
/// the protocol's name. What the kernel does not name is `None`.
pub fn protocol<const N: usize>(text: &str, protocol: &str, wanted: [&str; N]) -> Parsed<[Option<u64>; N]> {
    let behind = |line| Some(str::strip_prefix(line, protocol)?.strip_prefix(':')?.split_ascii_whitespace());
    let mut found = lines(text).filter_map(|(number, line)| Some((number, line, behind(line)?)));
    let (mut values, mut left_out) = ([None; N], LeftOut::default());
    let Some((first, names_line, names)) = found.next() else { return left_out.with(values) };
    let Some((number, line, numbers)) = found.next() else {
        left_out.add(ParseError::new(first, "a second line, of numbers", names_line));
        return left_out.with(values);
    };
    for (name, text) in names.zip(numbers) {
        if let Some(at) = wanted.iter().position(|wanted| *wanted == name) {
            values[at] = left_out.keep(text.parse().map_err(|_| ParseError::new(number, "unsigned numbers", line)));
        }
    }
    left_out.with(values)
}

/// The fastest line rate that is believed, in Mbit/s: 100 Tbit/s. Beyond it a driver does not know the rate.
const FASTEST: u64 = 100_000_000;

/// A line rate in Mbit/s. Drivers that do not know it leave it empty, give 0 or -1, or the latter in 16, 32 or 64 bits.
pub fn known(text: &str) -> Result<Option<u64>, ParseError> {
    match trim(text) {
        "" | "-1" | "0" | "65535" => Ok(None),
        text => {
            let rate = text.parse::<u64>().map_err(|_| ParseError::new(1, "an unsigned number, or -1", text))?;
            Ok((rate <= FASTEST).then_some(rate))
        }
    }
}

/// An RDMA port's counter; a device without a performance management agent says `N/A (no PMA)`.
pub fn port_counter(text: &str) -> Result<Option<u64>, ParseError> {
    match trim(text) {
        text if text.starts_with("N/A") => Ok(None),
        text => text.parse().map(Some).map_err(|_| ParseError::new(1, "an unsigned number, or N/A (no PMA)", text)),
    }
}

/// Is an RDMA port's logical state active? The file says `4: ACTIVE`.
pub fn port_active(text: &str) -> Result<bool, ParseError> {
    let number = trim(text).split_once(':').and_then(|(number, _)| number.parse::<u32>().ok());
    number.map(|number| number == 4).ok_or_else(|| ParseError::new(1, "a state such as 4: ACTIVE", trim(text)))
}

/// Bytes per second of an RDMA port's line rate, such as `400 Gb/sec (4X NDR)`. A rate of 0, or beyond any, is unknown.
pub fn port_rate(text: &str) -> Result<Option<f64>, ParseError> {
    let gigabits = trim(text).split_once(" Gb/sec").and_then(|(number, _)| number.parse::<f64>().ok());
    let gigabits = gigabits.ok_or_else(|| ParseError::new(1, "a rate in Gb/sec", trim(text)))?;
    let is_known = gigabits > 0.0 && gigabits <= FASTEST as f64 / 1e3;
    Ok(is_known.then_some(gigabits * 1e9 / 8.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn both_directions() {
        let text = "Inter-|   Receive |  Transmit\n face |bytes packets|bytes packets\n\
                    eth0:1: 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16\n";
        let expected = Interface {
            name: "eth0:1",
            received: Direction { bytes: 1, errors: 3, dropped: 4 },
            sent: Direction { bytes: 9, errors: 11, dropped: 12 },
        };
        assert_eq!(interfaces(text).value, [expected]);
        assert_eq!(interfaces("a | b\n eth0: 1 2 3\n").left_out.first.unwrap().line, 2);
    }

    #[test]
    fn values_by_name() {
        let text = "Tcp: RtoMin MaxConn OutSegs RetransSegs\nTcp: 200 -1 30 4\nTcpExt: A\nTcpExt: 1\n";
        assert_eq!(protocol(text, "Tcp", ["RetransSegs", "OutSegs", "New"]).value, [Some(4), Some(30), None]);
        assert_eq!(protocol(text, "Udp", ["OutSegs"]).value, [None]);
        let read = protocol(text, "Tcp", ["MaxConn", "OutSegs"]);
        assert_eq!((read.value, read.left_out.first.unwrap().line), ([None, Some(30)], 2));
        let short = protocol("Tcp: A\n", "Tcp", ["A"]).left_out.first.unwrap();
        assert_eq!(short.expected, "a second line, of numbers");
    }

    #[test]
    fn unknown_is_not_zero() {
        assert_eq!(
            (known("100000\n"), known("-1\n"), known("\n"), known("0")),
            (Ok(Some(100_000)), Ok(None), Ok(None), Ok(None))
        );
        for rate in ["65535", "4294967295\n", "18446744073709551615"] {
            assert_eq!(known(rate), Ok(None), "{rate}");
        }
        assert!(known("fast").is_err());
        assert_eq!((port_counter("N/A (no PMA)\n"), port_counter("7\n")), (Ok(None), Ok(Some(7))));
        assert!(port_counter("many").is_err());
    }

    #[test]
    fn states_and_rates() {
        assert_eq!((port_active("4: ACTIVE\n"), port_active("1: DOWN\n")), (Ok(true), Ok(false)));
        assert!(port_active("ACTIVE").is_err());
        assert_eq!(port_rate("400 Gb/sec (4X NDR)\n"), Ok(Some(5e10)));
        assert_eq!(port_rate("2.5 Gb/sec (1X SDR)\n"), Ok(Some(312_500_000.0)));
        for rate in ["0 Gb/sec", "4294967295 Gb/sec", "-2.5 Gb/sec (1X SDR)", "NaN Gb/sec", "inf Gb/sec"] {
            assert_eq!(port_rate(rate), Ok(None), "{rate}");
        }
        assert!(port_rate("fast").is_err());
    }

    proptest! {
        #[test]
        fn never_panics(text in "(Tcp: |eth0:|[0-9]{1,21}| |\n|\\||: | Gb/sec|\\PC)*") {
            let _ = (interfaces(&text).value.len(), protocol(&text, "Tcp", ["0", "1"]));
            let _ = (known(&text), port_counter(&text), port_active(&text), port_rate(&text));
        }
    }
}
