//! Rows of the `gpu` collector about XIDs: the driver's events and those in the kernel log.
//!
//! `class` and `action` are those of `docs/reference/xid.md`, `unknown` for a code that is not in it. They hang on the code alone, so
//! a series never changes its labels.

crate::metric_rows! {
    ERRORS = Counter None "goodput_gpu_xid_errors_total" ["gpu", "UUID", "xid", "class", "action"] + ["GPU_I_ID"] {
        "XID errors since the exporter started, by code; one that came by both channels is counted once.",
        from "nvmlEventSetWait_v2 and /dev/kmsg", by "gpu", series "1 per GPU, XID code and MIG instance seen, at most 64 per GPU and one for all others", since "0.1.0"
    }
    LAST = Gauge Seconds "goodput_gpu_xid_last_timestamp_seconds" ["gpu", "UUID", "xid"] {
        "When the code came last, since the Unix epoch; also from before the exporter's start, as far as the kernel log still tells.",
        from "own clock when the event came; time stamps of /dev/kmsg", by "gpu", series "1 per GPU and XID code seen, at most 64 per GPU", since "0.1.0",
        for "to see when an XID came, also one from before the exporter started"
    }
    LINK_ERRORS = Counter None "goodput_gpu_nvlink_xid_errors_total" ["gpu", "UUID", "xid", "unit", "severity"] {
        "XID errors of NVLink 5 since the exporter started, by sub-unit and severity (fatal or nonfatal), which the kernel log alone tells.",
        from "/dev/kmsg", by "gpu", series "1 per GPU and kind seen, at most 64 per GPU", since "0.1.0",
        for "to see which unit of NVLink 5 an XID names, for a case with NVIDIA"
    }
    CHANNEL_EVENTS = Counter None "goodput_gpu_xid_channel_events_total" ["pci_bus_id", "channel", "xid"] {
        "XID errors since the exporter started by the channel they came by, nvml or kmsg; also of a GPU that the driver does not list. A GPU without a PCI address has its UUID there.",
        from "nvmlEventSetWait_v2 and /dev/kmsg", by "gpu", series "1 per GPU, channel and XID code seen, at most 64 per GPU", since "0.1.0",
        for "to see whether XIDs come by NVML or by the kernel log alone"
    }
    CHANNEL_STATE = Gauge None "goodput_gpu_xid_channel_state" ["channel", "state"] {
        "1 for how listening for XIDs goes, 0 for the others: off, ok, stale (a driver call hangs), denied, unsupported, failing.",
        from "return codes and duration of the calls", by "gpu", series "12", since "0.1.0"
    }
    WATCHED = Gauge None "goodput_gpu_xid_watched" ["gpu", "UUID"] {
        "1 while the driver reports the GPU's XIDs, 0 while it refuses to or waiting for them fails.",
        from "nvmlDeviceRegisterEvents", by "gpu", series "1 per GPU", since "0.1.0"
    }
    KMSG_OVERRUNS = Counter None "goodput_gpu_xid_kmsg_overruns_total" [] {
        "Times that the kernel log overran its reader: XIDs may have been missed.",
        from "EPIPE of /dev/kmsg", by "gpu", series "1", since "0.1.0"
    }
    SWITCH_ERRORS = Counter None "goodput_nvswitch_sxid_errors_total" ["pci_bus_id", "sxid"] + ["severity"] {
        "SXid errors of NVSwitches since the exporter started; severity is fatal or nonfatal where the log says so.",
        from "/dev/kmsg", by "gpu", series "1 per switch and code seen, at most 64", since "0.1.0"
    }
}
