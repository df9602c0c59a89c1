//! `/proc/interrupts` by PCI device, line by line: with 256 CPUs it is megabytes.

use std::collections::BTreeMap;

use super::bus_id::Address;
use super::per_cpu::{Row, columns};
use super::{ByLine, ParseError};

/// Interrupts of every PCI device that has any rows.
#[derive(Debug, PartialEq, Eq)]
pub struct Found<T> {
    /// The CPU of each column.
    pub cpus: Vec<u32>,
    /// What was asked for of each device.
    pub devices: BTreeMap<Address, T>,
}

/// Reads the numbered rows of PCI devices. Rows of no device, or of one that the row does not tell, are left out:
/// timers, interrupts between CPUs, legacy lines that several devices share.
pub struct Table<T> {
    found: Found<T>,
    row: Vec<u64>,
    take: Take<T>,
}

/// Takes a row of a device: the interrupt's number, its counts, and what stands behind them.
type Take<T> = fn(&mut T, u32, &[u64], &str);

impl<T> Table<T> {
    fn of(take: Take<T>) -> Self {
        Self { found: Found { cpus: Vec::new(), devices: BTreeMap::new() }, row: Vec::new(), take }
    }
}

/// The rows of one device.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Rows {
    /// Sums, one per column.
    pub sums: Vec<u64>,
    /// What the first row says besides counts.
    pub place: Option<Place>,
}

/// An interrupt of a device.
#[derive(Debug, PartialEq, Eq)]
pub struct Place {
    /// Its number.
    pub interrupt: u32,
    /// What its driver calls it, such as `mlx5_comp0@pci:0000:06:00.0`; empty where it does not.
    pub action: String,
}

/// Adds up the rows of each device.
#[must_use]
pub fn by_device() -> Table<Rows> {
    Table::of(|rows: &mut Rows, interrupt, row, description| {
        rows.sums.resize(row.len(), 0);
        for (sum, count) in rows.sums.iter_mut().zip(row) {
            *sum = sum.wrapping_add(*count);
        }
        if rows.place.is_none() {
            let action = description.rsplit([' ', ',']).next().unwrap_or_default().to_owned();
            rows.place = Some(Place { interrupt, action });
        }
    })
}

/// The numbers of each device's interrupts that have occurred at all.
#[must_use]
pub fn used() -> Table<Vec<u32>> {
    Table::of(|used: &mut Vec<u32>, number, row, _| {
        if row.iter().any(|count| *count > 0) {
            used.push(number);
        }
    })
}

impl<T: Default> ByLine for Table<T> {
    type Whole = Found<T>;

    fn line(&mut self, number: usize, line: &str) -> Result<(), ParseError> {
        if number == 1 {
            self.found.cpus = columns(line)?;
            return Ok(());
        }
        let Some(row) = Row::parse(number, line)? else { return Ok(()) };
        let Ok(interrupt) = row.name.parse() else { return Ok(()) };
        let description = row.counts(self.found.cpus.len(), &mut self.row)?.trim();
        if let Some(device) = device(description) {
            (self.take)(self.found.devices.entry(device).or_default(), interrupt, &self.row, description);
        }
        Ok(())
    }

    fn end(self) -> Result<Found<T>, ParseError> {
        // A file without a header has none.
        if self.found.cpus.is_empty() { columns("").map(|_| self.found) } else { Ok(self.found) }
    }
}

/// The device that the text behind a row's counts is about.
///
/// On newer kernels (x86 since 6.2) the chip's name ends in the address (`IR-PCI-MSIX-0000:2e:00.0 0-edge`). On older ones the number within it
/// holds it (`IR-PCI-MSI 13631488-edge`, `ITS-MSI 524288 Edge`). Some drivers write it into the action
/// (`mlx4-comp-0@pci:0000:06:00.0`), which tells on kernels that print no number (`PCI-MSI-edge`).
fn device(description: &str) -> Option<Address> {
    let (chip, number) = chip(description)?;
    let named = chip.split_once("PCI-MSIX-").or_else(|| chip.split_once("PCI-MSI-"));
    named
        .and_then(|(_, address)| Address::parse(address))
        .or_else(|| of_action(description))
        .or_else(|| of_number(chip, number))
}

/// The chip and the word behind it. Hyper-V's chip has three words, and numbers its interrupts as PCI-MSI does.
fn chip(description: &str) -> Option<(&str, &str)> {
    let mut words = description.split_ascii_whitespace();
    let first = words.next()?;
    if let Some((_, behind)) = description.split_once("PCIe MSI").filter(|_| first == "Hyper-V") {
        let is_number = |word: &&str| word.starts_with(|c: char| c.is_ascii_digit());
        return Some(("PCI-MSI", behind.split_ascii_whitespace().find(is_number)?));
    }
    Some((first, words.next().unwrap_or_default()))
}

fn of_action(description: &str) -> Option<Address> {
    let (_, behind) = description.split_once("@pci:")?;
    Address::parse(behind.split([' ', ',']).next()?)
}

/// Other chips with MSI in their name, such as `DMAR-MSI` and `HPET-MSI`, number something else.
fn of_number(chip: &str, number: &str) -> Option<Address> {
    let is_pci = chip.ends_with("PCI-MSI") || chip.ends_with("PCI-MSIX") || chip == "ITS-MSI";
    let digits = number.split('-').next().filter(|_| is_pci)?;
    Address::of_msi(digits.parse().ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read<T: Default>(mut table: Table<T>, text: &str) -> Result<Found<T>, ParseError> {
        text.lines().enumerate().try_for_each(|(i, line)| table.line(i + 1, line))?;
        table.end()
    }

    #[test]
    fn every_way_to_name_a_device() {
        for (description, address) in [
            ("  IR-PCI-MSI 13631488-edge      nvidia", Some("0000:1a:00.0")),
            ("  IR-PCI-MSIX-0000:2e:00.0    0-edge      nvidia", Some("0000:2e:00.0")),
            ("  PCI-MSI-0000:00:1c.0   0-edge      PCIe PME, pciehp", Some("0000:00:1c.0")),
            ("  ITS-MSI 81921 Edge      eth0-Tx-Rx-0", Some("0000:00:05.0")),
            ("  ITS-PCI-MSIX-0009:01:00.0   0 Edge      nvidia", Some("0009:01:00.0")),
            ("  PCI-MSI-edge      mlx4-comp-0@pci:0000:06:00.0", Some("0000:06:00.0")),
            ("  PCI-MSI-edge      a@pci:0000:06:00.0, b", Some("0000:06:00.0")),
            ("  PCI-MSI-edge      eth0-1", None),
            ("  Hyper-V PCIe MSI 4138200989697-edge      mlx5_comp0@pci:7870:00:00.0", Some("7870:00:00.0")),
            ("  Hyper-V PCIe MSI 134217728-edge      nvidia", Some("0001:00:00.0")),
            ("  Hyper-V PCIe MSI-X 134217729-edge      nvidia", Some("0001:00:00.0")),
            ("  Hyper-V PCIe MSI", None),
            ("  DMAR-MSI    0-edge      dmar0", None),
            ("  IR-IO-APIC   16-fasteoi   i801_smbus", None),
            ("  PCI-MSIX-0000:00:01.0", Some("0000:00:01.0")),
            ("", None),
        ] {
            assert_eq!(device(description).map(|a| a.to_string()).as_deref(), address, "{description}");
        }
    }

    #[test]
    fn rows_of_a_device_add_up() {
        let text = "  CPU0 CPU3\n 24: 1 2 PCI-MSI 65536-edge a\n 25: 10 20 PCI-MSI 65537-edge b\n\
                    9: 7 7 IO-APIC 9-fasteoi acpi\nLOC: 5 5 Local timer interrupts\nERR: 0\n";
        let found = read(by_device(), text).unwrap();
        assert_eq!(found.cpus, [0, 3]);
        let counts: Vec<_> = found.devices.iter().map(|(a, rows)| (a.to_string(), rows.sums.clone())).collect();
        let place = Place { interrupt: 24, action: "a".to_owned() };
        assert!(found.devices.values().all(|rows| rows.place.as_ref() == Some(&place)));
        assert_eq!(counts, [("0000:00:04.0".to_owned(), vec![11, 22])]);
        let used: Vec<_> = read(used(), text).unwrap().devices.into_values().collect();
        assert_eq!(used, [[24, 25]]);
    }

    #[test]
    fn an_interrupt_that_never_came_is_not_used() {
        let found = read(used(), "CPU0 CPU1\n 24: 0 0 PCI-MSI 65536-edge a\n").unwrap();
        assert!(found.devices.values().all(Vec::is_empty));
    }

    #[test]
    fn a_short_row_is_named() {
        assert_eq!(read(by_device(), "CPU0 CPU1\nERR: 0\n24: 1 PCI-MSI 1-edge\n").unwrap_err().line, 3);
        assert_eq!(read(by_device(), "").unwrap_err().line, 1);
    }

    proptest! {
        #[test]
        fn never_panics(text in "CPU0\n(2: [0-9]{1,20} (PCI-MSI|PCI-MSIX|-|@pci:|[0-9]{1,21}|:|\\.| |\\PC)*\n)*") {
            let _ = read(by_device(), &text);
        }
    }
}
