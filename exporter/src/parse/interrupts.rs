//! `/proc/interrupts` by PCI device.

use std::collections::BTreeMap;

use super::ParseError;
use super::bus_id::Address;
use super::per_cpu::Table;

/// Interrupts of every PCI device that has any rows.
#[derive(Debug, PartialEq, Eq)]
pub struct ByDevice {
    /// The CPU of each column.
    pub cpus: Vec<u32>,
    /// Sums over a device's rows, one per column.
    pub counts: BTreeMap<Address, Vec<u64>>,
}

/// Adds up the numbered rows of each PCI device. Rows of no device, or of one that the row does not tell, are left out:
/// timers, interrupts between CPUs, legacy lines that several devices share.
pub fn by_device(text: &str) -> Result<ByDevice, ParseError> {
    let table = Table::parse(text)?;
    let mut counts: BTreeMap<Address, Vec<u64>> = BTreeMap::new();
    each_row(&table, |_, device, row| {
        let sums = counts.entry(device).or_insert_with(|| vec![0; row.len()]);
        for (sum, count) in sums.iter_mut().zip(row) {
            *sum = sum.wrapping_add(*count);
        }
    })?;
    Ok(ByDevice { cpus: table.cpus, counts })
}

/// The numbers of each PCI device's interrupts that have occurred at all.
pub fn used(text: &str) -> Result<BTreeMap<Address, Vec<u32>>, ParseError> {
    let mut used: BTreeMap<Address, Vec<u32>> = BTreeMap::new();
    each_row(&Table::parse(text)?, |number, device, row| {
        if row.iter().any(|count| *count > 0) {
            used.entry(device).or_default().push(number);
        }
    })?;
    Ok(used)
}

/// Calls `each` with the number, the device and the counts of every row that tells its device.
fn each_row(table: &Table<'_>, mut each: impl FnMut(u32, Address, &[u64])) -> Result<(), ParseError> {
    let mut counts = Vec::with_capacity(table.cpus.len());
    for row in table.rows() {
        let row = row?;
        let Ok(number) = row.name.parse() else { continue };
        if let Some(device) = device(row.counts(table.cpus.len(), &mut counts)?) {
            each(number, device, &counts);
        }
    }
    Ok(())
}

/// The device that the text behind a row's counts is about.
///
/// On newer kernels (x86 since 6.2) the chip's name ends in the address (`IR-PCI-MSIX-0000:2e:00.0 0-edge`). On older ones the number within it
/// holds it (`IR-PCI-MSI 13631488-edge`, `ITS-MSI 524288 Edge`). Some drivers write it into the action
/// (`mlx4-comp-0@pci:0000:06:00.0`), which tells on kernels that print no number (`PCI-MSI-edge`).
fn device(description: &str) -> Option<Address> {
    let mut words = description.split_ascii_whitespace();
    let (chip, number) = (words.next()?, words.next().unwrap_or_default());
    let named = chip.split_once("PCI-MSIX-").or_else(|| chip.split_once("PCI-MSI-"));
    named
        .and_then(|(_, address)| Address::parse(address))
        .or_else(|| of_action(description))
        .or_else(|| of_number(chip, number))
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
        let found = by_device(text).unwrap();
        assert_eq!(found.cpus, [0, 3]);
        let counts: Vec<_> = found.counts.iter().map(|(a, c)| (a.to_string(), c.clone())).collect();
        assert_eq!(counts, [("0000:00:04.0".to_owned(), vec![11, 22])]);
        let used: Vec<_> = used(text).unwrap().into_values().collect();
        assert_eq!(used, [[24, 25]]);
    }

    #[test]
    fn an_interrupt_that_never_came_is_not_used() {
        assert!(used("CPU0 CPU1\n 24: 0 0 PCI-MSI 65536-edge a\n").unwrap().is_empty());
    }

    #[test]
    fn a_short_row_is_named() {
        assert_eq!(by_device("CPU0 CPU1\nERR: 0\n24: 1 PCI-MSI 1-edge\n").unwrap_err().line, 3);
    }

    proptest! {
        #[test]
        fn never_panics(text in "CPU0\n(2: [0-9]{1,20} (PCI-MSI|PCI-MSIX|-|@pci:|[0-9]{1,21}|:|\\.| |\\PC)*\n)*") {
            let _ = by_device(&text);
        }
    }
}
