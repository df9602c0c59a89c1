//! Rows of the `gpu` collector that dcgm-exporter derives from events, under its names.

/// Rows with the labels of a dcgm-exporter GPU series.
macro_rules! event_rows {
    ($($id:ident = $kind:ident $name:literal [$($label:literal),*] { $help:literal, from $source:literal, series $series:literal })*) => {
        $crate::metric_rows! {
            $($id = $kind None $name
                ["gpu", "UUID", "pci_bus_id", "device", "modelName", "Hostname", "DCGM_FI_DRIVER_VERSION" $(, $label)*]
                + ["container", "namespace", "pod", "hpc_job"] {
                $help,
                from $source, by "gpu", series $series, since "0.1.0"
            })*
        }
    };
}

event_rows! {
    XID_ERRORS_COUNT = Gauge "DCGM_EXP_XID_ERRORS_COUNT" ["xid", "window_size_in_ms"] {
        "Count of XID errors within the window, the last 5 minutes, by code.",
        from "nvmlEventSetWait_v2 and /dev/kmsg", series "1 per GPU and XID code seen, at most 64"
    }
    CLOCK_EVENTS_COUNT = Gauge "DCGM_EXP_CLOCK_EVENTS_COUNT" ["clock_event", "window_size_in_ms"] {
        "Count of samples within the window, the last 5 minutes, that had the clock event; one sample is taken every 5 s.",
        from "nvmlDeviceGetCurrentClocksEventReasons", series "9 per GPU"
    }
    CLOCK_EVENTS_TOTAL = Counter "DCGM_EXP_CLOCK_EVENTS_TOTAL" ["clock_event"] {
        "Total number of times that a sample had the clock event and the one before had not, since the exporter started.",
        from "nvmlDeviceGetCurrentClocksEventReasons", series "9 per GPU"
    }
}
