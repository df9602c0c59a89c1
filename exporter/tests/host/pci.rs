use goodput_exporter::collect::Done;

use crate::support::{Machine, collector};

const NVIDIA: &str = "0x10de";

fn device(machine: &Machine, address: &str, class: &str, vendor: &str, driver: Option<&str>) {
    let folder = format!("sys/bus/pci/devices/0000:{address}");
    machine.write(&format!("{folder}/class"), &format!("{class}\n"));
    machine.write(&format!("{folder}/vendor"), &format!("{vendor}\n"));
    if let Some(driver) = driver {
        std::os::unix::fs::symlink(format!("../../drivers/{driver}"), machine.path(&format!("{folder}/driver")))
            .unwrap();
    }
}

#[test]
fn gpus_are_counted_by_who_drives_them() {
    let machine = Machine::empty();
    for (address, driver) in [("19:00.0", Some("nvidia")), ("3b:00.0", Some("nvidia")), ("4c:00.0", None)] {
        device(&machine, address, "0x030200", NVIDIA, driver);
    }
    device(&machine, "5d:00.0", "0x030000", NVIDIA, Some("vfio-pci"));
    device(&machine, "03:00.0", "0x030000", "0x1a03", Some("ast"));
    device(&machine, "19:00.1", "0x040300", NVIDIA, Some("snd_hda_intel"));
    let mut pci = collector("pci");
    let counts = |driver: &str, collected: &crate::support::Collected| {
        collected.samples().get(&format!("goodput_gpu_pci_devices{{driver=\"{driver}\"}}")).copied()
    };
    let first = machine.collect_with(pci.as_mut()).ok();
    assert_eq!(["nvidia", "vfio-pci", "", "ast"].map(|d| counts(d, &first)), [Some(2.0), Some(1.0), Some(1.0), None]);

    std::fs::remove_dir_all(machine.path("sys/bus/pci/devices/0000:3b:00.0")).unwrap();
    std::fs::remove_file(machine.path("sys/bus/pci/devices/0000:5d:00.0/driver")).unwrap();
    let then = machine.collect_with(pci.as_mut()).ok();
    assert_eq!(["nvidia", "vfio-pci", ""].map(|d| counts(d, &then)), [Some(1.0), None, Some(2.0)]);
}

#[test]
fn a_machine_without_gpus_or_without_a_bus_says_so() {
    let machine = Machine::empty();
    let reason = |machine: &Machine| match machine.collect("pci").result {
        Ok(Done::NotApplicable(reason)) => reason,
        other => panic!("{other:?}"),
    };
    assert_eq!(reason(&machine), "no /sys/bus/pci: a machine without PCI");
    device(&machine, "00:1f.0", "0x060100", "0x8086", None);
    assert_eq!(reason(&machine), "no NVIDIA GPU on the PCI bus");
}
