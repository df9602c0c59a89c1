//! Rows of the `gpu` collector that integrate what no scrape sees: power and GPM's profiling counters over time.
//!
//! Every integral comes with the time that it covers: divide by that and not by the scrape interval.

crate::metric_rows! {
    POWER_JOULES = Counter Joules "goodput_gpu_power_sampled_joules_total" ["gpu", "UUID"] {
        "Integral of power over the time observed; for energy as such read the energy counter, which misses none.",
        from "nvmlDeviceGetSamples TOTAL_POWER, every sample; NVML field 185 or 186 each second on idle GPUs and where the driver has no samples", by "gpu", series "1 per GPU", since "0.1.0",
        for "mean power over the time observed, with every swing in it"
    }
    POWER_SQUARED = Counter None "goodput_gpu_power_squared_watts_seconds_total" ["gpu", "UUID"] {
        "Integral of the square of power over the time observed, in watts squared times seconds: with the joules and the seconds it gives the standard deviation of power.",
        from "as goodput_gpu_power_sampled_joules_total", by "gpu", series "1 per GPU", since "0.1.0",
        for "the standard deviation of power: how much a job swings"
    }
    POWER_OBSERVED = Counter Seconds "goodput_gpu_power_observed_seconds_total" ["gpu", "UUID"] {
        "Time covered by the power samples that the joules are integrated from.",
        from "as goodput_gpu_power_sampled_joules_total", by "gpu", series "1 per GPU", since "0.1.0",
        for "the time that the integrals of power cover, to divide by"
    }
    POWER_OVERRUNS = Counter None "goodput_gpu_power_sample_overruns_total" ["gpu", "UUID"] {
        "Times that the driver's buffer of power samples wrapped before it was drained.",
        from "nvmlDeviceGetSamples TOTAL_POWER, timestamps", by "gpu", series "1 per GPU", since "0.1.0"
    }
    GPM_ACTIVE = Counter Seconds "goodput_gpu_gpm_active_seconds_total" ["gpu", "UUID", "unit"] {
        "Integral over time of the share that each unit of the GPU was active; unit is graphics, sm, tensor, dram, fp64, fp32 or fp16.",
        from "nvmlGpmMetricsGet 1, 2, 5, 10-13 of pairs that follow each other without a gap", by "gpu", series "7 per GPU (Hopper and later)", since "0.1.0",
        for "shares of time of the SMs and pipes over any interval, without the gaps of scrapes"
    }
    GPM_OBSERVED = Counter Seconds "goodput_gpu_gpm_observed_seconds_total" ["gpu", "UUID"] {
        "Time covered by the pairs of samples that goodput_gpu_gpm_active_seconds_total is integrated from.",
        from "own clock between nvmlGpmSampleGet calls", by "gpu", series "1 per GPU (Hopper and later)", since "0.1.0",
        for "the time that goodput_gpu_gpm_active_seconds_total covers, to divide by"
    }
    SM_ELAPSED_CYCLES = Counter None "goodput_gpu_sm_elapsed_cycles_total" ["gpu", "UUID"] {
        "Clock cycles of the streaming multiprocessors since the exporter started; cycles are no seconds, they follow the clock.",
        from "nvmlGpmMetricsGet 248, where the driver has it", by "gpu", series "1 per GPU", since "0.1.0",
        for "the cycles that the counters of SMs and pipes cover, to divide by"
    }
    SM_ACTIVE_CYCLES = Counter None "goodput_gpu_sm_active_cycles_total" ["gpu", "UUID"] {
        "Clock cycles of the streaming multiprocessors in which a multiprocessor had work.",
        from "nvmlGpmMetricsGet 249, where the driver has it", by "gpu", series "1 per GPU", since "0.1.0",
        for "the exact share of active SMs, where the driver has its counters"
    }
    PIPE_ACTIVE_CYCLES = Counter None "goodput_gpu_pipe_active_cycles_total" ["gpu", "UUID", "pipe"] {
        "Clock cycles of the streaming multiprocessors in which a pipe was active: tensor, tensor_dmma, tensor_hmma, tensor_imma, tensor_dfma, integer, fp64, fp32, fp16.",
        from "nvmlGpmMetricsGet 250-254 and 257-260, where the driver has them", by "gpu", series "9 per GPU", since "0.1.0",
        for "exact shares of the tensor and other pipes, where the driver has its counters"
    }
    PCIE_BYTES = Counter Bytes "goodput_gpu_pcie_bytes_total" ["gpu", "UUID", "direction"] {
        "Traffic of the GPU over PCIe since the exporter started; direction is rx or tx, as the GPU sees it.",
        from "nvmlGpmMetricsGet 256 and 255, where the driver has them", by "gpu", series "2 per GPU", since "0.1.0",
        for "PCIe traffic over any interval, where DCGM has only the rate of a moment"
    }
}
