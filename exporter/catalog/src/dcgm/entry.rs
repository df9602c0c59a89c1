//! How rows are written: one entry each, from which both generations' metrics are made.

use super::{HOST_LABEL, Kind, Metric, Unit};

/// Labels of every series of a GPU. The name of the host label is chosen here and nowhere else.
macro_rules! labels {
    ($($label:literal),*) => { &["gpu", "UUID", "pci_bus_id", "device", "modelName", HOST_LABEL $(, $label)*] };
}

/// The texts among the rows, in their order and in each generation's spelling, the owner of the GPU, and the MIG instance.
pub(super) const LEGACY_OPTIONAL: &[&str] = &[
    "DCGM_FI_DRIVER_VERSION",
    "DCGM_FI_NVML_VERSION",
    "DCGM_FI_DEV_BRAND",
    "DCGM_FI_DEV_SERIAL",
    "DCGM_FI_DEV_OEM_INFOROM_VER",
    "DCGM_FI_DEV_ECC_INFOROM_VER",
    "DCGM_FI_DEV_POWER_INFOROM_VER",
    "DCGM_FI_DEV_INFOROM_IMAGE_VER",
    "DCGM_FI_DEV_VBIOS_VERSION",
    "container",
    "namespace",
    "pod",
    "hpc_job",
    "GPU_I_PROFILE",
    "GPU_I_ID",
];
pub(super) const CURRENT_OPTIONAL: &[&str] = &[
    "DCGM_FI_SYSTEM_DRIVER_VERSION",
    "DCGM_FI_SYSTEM_NVML_VERSION",
    "DCGM_FI_DEV_GPU_BRAND",
    "DCGM_FI_DEV_BOARD_SERIAL",
    "DCGM_FI_DEV_INFOROM_OEM_VERSION",
    "DCGM_FI_DEV_INFOROM_ECC_VERSION",
    "DCGM_FI_DEV_INFOROM_POWER_VERSION",
    "DCGM_FI_DEV_INFOROM_IMAGE_VERSION",
    "DCGM_FI_DEV_VBIOS_VERSION",
    "container",
    "namespace",
    "pod",
    "hpc_job",
    "GPU_I_PROFILE",
    "GPU_I_ID",
];

/// What all metrics of the rows have in common.
pub(super) const fn metric(
    name: &'static str,
    kind: Kind,
    unit: Unit,
    help: &'static str,
    source: &'static str,
) -> Metric {
    let labels = labels![];
    let (collector, series, since) = ("gpu", "1 per GPU", "0.1.0");
    Metric { name, kind, unit, labels, optional: LEGACY_OPTIONAL, help, source, collector, series, since, purpose: "" }
}

/// The metric in the current generation: its labels are respelled even where its name is not.
pub(super) const fn current(metric: Metric) -> Metric {
    Metric { optional: CURRENT_OPTIONAL, ..metric }
}

/// How a unit is told in a help text.
macro_rules! said {
    (None) => {
        ""
    };
    (Ratio) => {
        " (0 to 1)"
    };
    (Percent) => {
        " (in %)"
    };
    (Megahertz) => {
        " (in MHz)"
    };
    (Hertz) => {
        " (in Hz)"
    };
    (Celsius) => {
        " (in C)"
    };
    (Watts) => {
        " (in W)"
    };
    (Millijoules) => {
        " (in mJ)"
    };
    (Joules) => {
        " (in J)"
    };
    (Mebibytes) => {
        " (in MiB)"
    };
    (Bytes) => {
        " (in bytes)"
    };
    (Nanoseconds) => {
        " (in ns)"
    };
    (Seconds) => {
        " (in s)"
    };
    (BytesPerSecond) => {
        " (in bytes per second)"
    };
    (MegabytesPerSecond) => {
        " (in MB/s)"
    };
}

/// How a field is read, and what is said of that.
macro_rules! how {
    (field $id:literal) => {
        (Read::Field(Field { id: $id, scope: Scope::Gpu }), concat!("NVML field ", $id))
    };
    (field $id:literal of EachLink) => {
        (Read::Field(Field { id: $id, scope: Scope::EachLink }), concat!("NVML field ", $id, ", summed over the links"))
    };
    (gpm $id:literal) => {
        (Read::Gpm($id), concat!("GPM metric ", $id, ", over 5 s, 30 s on an idle GPU"))
    };
    (total $id:literal) => {
        (Read::Gpm($id), concat!("GPM metric ", $id))
    };
    (call $call:ident) => {
        (Read::Call(Call::$call), Call::$call.source())
    };
    (rate AllLinks) => {
        (Read::NvlinkRate(Scope::AllLinks), "NVML fields 138 and 139, difference over 5 s")
    };
    (rate Link($link:literal)) => {
        (
            Read::NvlinkRate(Scope::Link($link)),
            concat!("NVML fields 138 and 139 of link ", $link, ", difference over 5 s"),
        )
    };
    (event $event:ident) => {
        (Read::Event(Event::$event), "nvmlEventSetWait_v2 and /dev/kmsg")
    };
}

/// The current spelling: the one given, else the legacy one.
macro_rules! now {
    ($kind:ident [$unit:ident $name:literal] [] $help:literal $source:expr) => {
        current(metric($name, Kind::$kind, Unit::$unit, concat!($help, said!($unit), "."), $source))
    };
    ($kind:ident [$($legacy:tt)*] [$unit:ident $name:literal] $help:literal $source:expr) => {
        now!($kind [$unit $name] [] $help $source)
    };
}

/// Fields: `id NAME = kind legacy unit and name => current unit and name`, then whether they are on or optional, how
/// they are read and in which unit, and what they say.
macro_rules! fields {
    ($($id:literal $row:ident = $kind:ident $unit:ident $name:literal $(=> $new_unit:ident $new_name:literal)?
       { $on:ident, $how:ident $what:tt $(($link:literal))? $(of $scope:ident)? in $raw:ident, $help:literal })*) => {
        $(
            #[doc = concat!($help, ".")]
            pub static $row: Row = Row {
                id: $id,
                legacy: metric(
                    $name,
                    Kind::$kind,
                    Unit::$unit,
                    concat!($help, said!($unit), "."),
                    how!($how $what $(($link))? $(of $scope)?).1,
                ),
                current: now!(
                    $kind [$unit $name] [$($new_unit $new_name)?] $help how!($how $what $(($link))? $(of $scope)?).1
                ),
                read: how!($how $what $(($link))? $(of $scope)?).0,
                unit: Unit::$raw,
                default: matches!(stringify!($on).as_bytes(), b"on"),
            };
        )*
        const FIELDS: &[&Row] = &[$(&$row),*];
    };
}

/// Texts: labels of all other fields.
macro_rules! texts {
    ($($id:literal $row:ident = $name:literal => $new_name:literal { $on:ident, $text:ident, $help:literal })*) => {
        $(
            #[doc = concat!($help, ".")]
            pub static $row: Row = Row {
                id: $id,
                legacy: metric($name, Kind::Info, Unit::None, concat!($help, "."), Text::$text.source()),
                current: current(metric($new_name, Kind::Info, Unit::None, concat!($help, "."), Text::$text.source())),
                read: Read::Text(Text::$text),
                unit: Unit::None,
                default: matches!(stringify!($on).as_bytes(), b"on"),
            };
        )*
        /// The texts, in the order of the labels that they become.
        pub const TEXTS: &[&Row] = &[$(&$row),*];
    };
}

/// Metrics that dcgm-exporter makes itself, with labels of their own.
macro_rules! made {
    ($($id:literal $row:ident = $kind:ident $name:literal [$($label:literal),*]
       { $on:ident, $event:ident, $help:literal, from $source:literal, series $series:literal })*) => {
        $(
            #[doc = concat!($help, ".")]
            pub static $row: Row = Row {
                id: $id,
                legacy: Metric {
                    labels: labels![$($label),*],
                    series: $series,
                    ..metric($name, Kind::$kind, Unit::None, concat!($help, "."), $source)
                },
                current: current(Metric {
                    labels: labels![$($label),*],
                    series: $series,
                    ..metric($name, Kind::$kind, Unit::None, concat!($help, "."), $source)
                }),
                read: Read::Event(Event::$event),
                unit: Unit::None,
                default: matches!(stringify!($on).as_bytes(), b"on"),
            };
        )*
        const MADE: &[&Row] = &[$(&$row),*];
    };
}

pub(super) use {fields, how, labels, made, now, said, texts};
