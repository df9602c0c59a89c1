//! The rows of single NVLinks.
//!
//! Errors are those of the first twelve links: NVML has a field for each of them, and none for the links that Hopper and
//! later have beyond; such GPUs tell the total of all links.

use super::entry::{current, fields, how, metric, now, said};
use super::{Field, Kind, Read, Row, Scope, Unit};

fields! {
    400 NVLINK_CRC_FLIT_L0 = Counter None "DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_L0" => None "DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_L0_TOTAL"
        { opt, field 32 in None, "Total number of NVLink flow-control CRC errors of link 0" }
    401 NVLINK_CRC_FLIT_L1 = Counter None "DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_L1" => None "DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_L1_TOTAL"
        { opt, field 33 in None, "Total number of NVLink flow-control CRC errors of link 1" }
    402 NVLINK_CRC_FLIT_L2 = Counter None "DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_L2" => None "DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_L2_TOTAL"
        { opt, field 34 in None, "Total number of NVLink flow-control CRC errors of link 2" }
    403 NVLINK_CRC_FLIT_L3 = Counter None "DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_L3" => None "DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_L3_TOTAL"
        { opt, field 35 in None, "Total number of NVLink flow-control CRC errors of link 3" }
    404 NVLINK_CRC_FLIT_L4 = Counter None "DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_L4" => None "DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_L4_TOTAL"
        { opt, field 36 in None, "Total number of NVLink flow-control CRC errors of link 4" }
    405 NVLINK_CRC_FLIT_L5 = Counter None "DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_L5" => None "DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_L5_TOTAL"
        { opt, field 37 in None, "Total number of NVLink flow-control CRC errors of link 5" }
    451 NVLINK_CRC_FLIT_L6 = Counter None "DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_L6" => None "DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_L6_TOTAL"
        { opt, field 96 in None, "Total number of NVLink flow-control CRC errors of link 6" }
    452 NVLINK_CRC_FLIT_L7 = Counter None "DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_L7" => None "DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_L7_TOTAL"
        { opt, field 97 in None, "Total number of NVLink flow-control CRC errors of link 7" }
    453 NVLINK_CRC_FLIT_L8 = Counter None "DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_L8" => None "DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_L8_TOTAL"
        { opt, field 98 in None, "Total number of NVLink flow-control CRC errors of link 8" }
    454 NVLINK_CRC_FLIT_L9 = Counter None "DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_L9" => None "DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_L9_TOTAL"
        { opt, field 99 in None, "Total number of NVLink flow-control CRC errors of link 9" }
    455 NVLINK_CRC_FLIT_L10 = Counter None "DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_L10" => None "DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_L10_TOTAL"
        { opt, field 100 in None, "Total number of NVLink flow-control CRC errors of link 10" }
    456 NVLINK_CRC_FLIT_L11 = Counter None "DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_L11" => None "DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_L11_TOTAL"
        { opt, field 101 in None, "Total number of NVLink flow-control CRC errors of link 11" }
    410 NVLINK_CRC_DATA_L0 = Counter None "DCGM_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_L0" => None "DCGM_FI_DEV_NVLINK_CRC_DATA_ERROR_L0_TOTAL"
        { opt, field 39 in None, "Total number of NVLink data CRC errors of link 0" }
    411 NVLINK_CRC_DATA_L1 = Counter None "DCGM_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_L1" => None "DCGM_FI_DEV_NVLINK_CRC_DATA_ERROR_L1_TOTAL"
        { opt, field 40 in None, "Total number of NVLink data CRC errors of link 1" }
    412 NVLINK_CRC_DATA_L2 = Counter None "DCGM_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_L2" => None "DCGM_FI_DEV_NVLINK_CRC_DATA_ERROR_L2_TOTAL"
        { opt, field 41 in None, "Total number of NVLink data CRC errors of link 2" }
    413 NVLINK_CRC_DATA_L3 = Counter None "DCGM_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_L3" => None "DCGM_FI_DEV_NVLINK_CRC_DATA_ERROR_L3_TOTAL"
        { opt, field 42 in None, "Total number of NVLink data CRC errors of link 3" }
    414 NVLINK_CRC_DATA_L4 = Counter None "DCGM_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_L4" => None "DCGM_FI_DEV_NVLINK_CRC_DATA_ERROR_L4_TOTAL"
        { opt, field 43 in None, "Total number of NVLink data CRC errors of link 4" }
    415 NVLINK_CRC_DATA_L5 = Counter None "DCGM_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_L5" => None "DCGM_FI_DEV_NVLINK_CRC_DATA_ERROR_L5_TOTAL"
        { opt, field 44 in None, "Total number of NVLink data CRC errors of link 5" }
    457 NVLINK_CRC_DATA_L6 = Counter None "DCGM_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_L6" => None "DCGM_FI_DEV_NVLINK_CRC_DATA_ERROR_L6_TOTAL"
        { opt, field 102 in None, "Total number of NVLink data CRC errors of link 6" }
    458 NVLINK_CRC_DATA_L7 = Counter None "DCGM_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_L7" => None "DCGM_FI_DEV_NVLINK_CRC_DATA_ERROR_L7_TOTAL"
        { opt, field 103 in None, "Total number of NVLink data CRC errors of link 7" }
    459 NVLINK_CRC_DATA_L8 = Counter None "DCGM_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_L8" => None "DCGM_FI_DEV_NVLINK_CRC_DATA_ERROR_L8_TOTAL"
        { opt, field 104 in None, "Total number of NVLink data CRC errors of link 8" }
    460 NVLINK_CRC_DATA_L9 = Counter None "DCGM_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_L9" => None "DCGM_FI_DEV_NVLINK_CRC_DATA_ERROR_L9_TOTAL"
        { opt, field 105 in None, "Total number of NVLink data CRC errors of link 9" }
    461 NVLINK_CRC_DATA_L10 = Counter None "DCGM_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_L10" => None "DCGM_FI_DEV_NVLINK_CRC_DATA_ERROR_L10_TOTAL"
        { opt, field 106 in None, "Total number of NVLink data CRC errors of link 10" }
    462 NVLINK_CRC_DATA_L11 = Counter None "DCGM_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_L11" => None "DCGM_FI_DEV_NVLINK_CRC_DATA_ERROR_L11_TOTAL"
        { opt, field 107 in None, "Total number of NVLink data CRC errors of link 11" }
    420 NVLINK_REPLAY_L0 = Counter None "DCGM_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_L0" => None "DCGM_FI_DEV_NVLINK_REPLAY_ERROR_L0_TOTAL"
        { opt, field 46 in None, "Total number of NVLink retries of link 0" }
    421 NVLINK_REPLAY_L1 = Counter None "DCGM_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_L1" => None "DCGM_FI_DEV_NVLINK_REPLAY_ERROR_L1_TOTAL"
        { opt, field 47 in None, "Total number of NVLink retries of link 1" }
    422 NVLINK_REPLAY_L2 = Counter None "DCGM_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_L2" => None "DCGM_FI_DEV_NVLINK_REPLAY_ERROR_L2_TOTAL"
        { opt, field 48 in None, "Total number of NVLink retries of link 2" }
    423 NVLINK_REPLAY_L3 = Counter None "DCGM_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_L3" => None "DCGM_FI_DEV_NVLINK_REPLAY_ERROR_L3_TOTAL"
        { opt, field 49 in None, "Total number of NVLink retries of link 3" }
    424 NVLINK_REPLAY_L4 = Counter None "DCGM_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_L4" => None "DCGM_FI_DEV_NVLINK_REPLAY_ERROR_L4_TOTAL"
        { opt, field 50 in None, "Total number of NVLink retries of link 4" }
    425 NVLINK_REPLAY_L5 = Counter None "DCGM_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_L5" => None "DCGM_FI_DEV_NVLINK_REPLAY_ERROR_L5_TOTAL"
        { opt, field 51 in None, "Total number of NVLink retries of link 5" }
    463 NVLINK_REPLAY_L6 = Counter None "DCGM_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_L6" => None "DCGM_FI_DEV_NVLINK_REPLAY_ERROR_L6_TOTAL"
        { opt, field 108 in None, "Total number of NVLink retries of link 6" }
    464 NVLINK_REPLAY_L7 = Counter None "DCGM_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_L7" => None "DCGM_FI_DEV_NVLINK_REPLAY_ERROR_L7_TOTAL"
        { opt, field 109 in None, "Total number of NVLink retries of link 7" }
    465 NVLINK_REPLAY_L8 = Counter None "DCGM_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_L8" => None "DCGM_FI_DEV_NVLINK_REPLAY_ERROR_L8_TOTAL"
        { opt, field 110 in None, "Total number of NVLink retries of link 8" }
    466 NVLINK_REPLAY_L9 = Counter None "DCGM_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_L9" => None "DCGM_FI_DEV_NVLINK_REPLAY_ERROR_L9_TOTAL"
        { opt, field 111 in None, "Total number of NVLink retries of link 9" }
    467 NVLINK_REPLAY_L10 = Counter None "DCGM_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_L10" => None "DCGM_FI_DEV_NVLINK_REPLAY_ERROR_L10_TOTAL"
        { opt, field 112 in None, "Total number of NVLink retries of link 10" }
    468 NVLINK_REPLAY_L11 = Counter None "DCGM_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_L11" => None "DCGM_FI_DEV_NVLINK_REPLAY_ERROR_L11_TOTAL"
        { opt, field 113 in None, "Total number of NVLink retries of link 11" }
    430 NVLINK_RECOVERY_L0 = Counter None "DCGM_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_L0" => None "DCGM_FI_DEV_NVLINK_RECOVERY_ERROR_L0_TOTAL"
        { opt, field 53 in None, "Total number of NVLink recovery errors of link 0" }
    431 NVLINK_RECOVERY_L1 = Counter None "DCGM_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_L1" => None "DCGM_FI_DEV_NVLINK_RECOVERY_ERROR_L1_TOTAL"
        { opt, field 54 in None, "Total number of NVLink recovery errors of link 1" }
    432 NVLINK_RECOVERY_L2 = Counter None "DCGM_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_L2" => None "DCGM_FI_DEV_NVLINK_RECOVERY_ERROR_L2_TOTAL"
        { opt, field 55 in None, "Total number of NVLink recovery errors of link 2" }
    433 NVLINK_RECOVERY_L3 = Counter None "DCGM_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_L3" => None "DCGM_FI_DEV_NVLINK_RECOVERY_ERROR_L3_TOTAL"
        { opt, field 56 in None, "Total number of NVLink recovery errors of link 3" }
    434 NVLINK_RECOVERY_L4 = Counter None "DCGM_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_L4" => None "DCGM_FI_DEV_NVLINK_RECOVERY_ERROR_L4_TOTAL"
        { opt, field 57 in None, "Total number of NVLink recovery errors of link 4" }
    435 NVLINK_RECOVERY_L5 = Counter None "DCGM_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_L5" => None "DCGM_FI_DEV_NVLINK_RECOVERY_ERROR_L5_TOTAL"
        { opt, field 58 in None, "Total number of NVLink recovery errors of link 5" }
    469 NVLINK_RECOVERY_L6 = Counter None "DCGM_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_L6" => None "DCGM_FI_DEV_NVLINK_RECOVERY_ERROR_L6_TOTAL"
        { opt, field 114 in None, "Total number of NVLink recovery errors of link 6" }
    470 NVLINK_RECOVERY_L7 = Counter None "DCGM_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_L7" => None "DCGM_FI_DEV_NVLINK_RECOVERY_ERROR_L7_TOTAL"
        { opt, field 115 in None, "Total number of NVLink recovery errors of link 7" }
    471 NVLINK_RECOVERY_L8 = Counter None "DCGM_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_L8" => None "DCGM_FI_DEV_NVLINK_RECOVERY_ERROR_L8_TOTAL"
        { opt, field 116 in None, "Total number of NVLink recovery errors of link 8" }
    472 NVLINK_RECOVERY_L9 = Counter None "DCGM_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_L9" => None "DCGM_FI_DEV_NVLINK_RECOVERY_ERROR_L9_TOTAL"
        { opt, field 117 in None, "Total number of NVLink recovery errors of link 9" }
    473 NVLINK_RECOVERY_L10 = Counter None "DCGM_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_L10" => None "DCGM_FI_DEV_NVLINK_RECOVERY_ERROR_L10_TOTAL"
        { opt, field 118 in None, "Total number of NVLink recovery errors of link 10" }
    474 NVLINK_RECOVERY_L11 = Counter None "DCGM_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_L11" => None "DCGM_FI_DEV_NVLINK_RECOVERY_ERROR_L11_TOTAL"
        { opt, field 119 in None, "Total number of NVLink recovery errors of link 11" }

    440 NVLINK_BANDWIDTH_L0 = Gauge MegabytesPerSecond "DCGM_FI_DEV_NVLINK_BANDWIDTH_L0" => BytesPerSecond "DCGM_FI_DEV_NVLINK_THROUGHPUT_L0_BYTES_PER_SECOND"
        { opt, rate Link(0) in BytesPerSecond, "NVLink payload of link 0, both directions" }
    441 NVLINK_BANDWIDTH_L1 = Gauge MegabytesPerSecond "DCGM_FI_DEV_NVLINK_BANDWIDTH_L1" => BytesPerSecond "DCGM_FI_DEV_NVLINK_THROUGHPUT_L1_BYTES_PER_SECOND"
        { opt, rate Link(1) in BytesPerSecond, "NVLink payload of link 1, both directions" }
    442 NVLINK_BANDWIDTH_L2 = Gauge MegabytesPerSecond "DCGM_FI_DEV_NVLINK_BANDWIDTH_L2" => BytesPerSecond "DCGM_FI_DEV_NVLINK_THROUGHPUT_L2_BYTES_PER_SECOND"
        { opt, rate Link(2) in BytesPerSecond, "NVLink payload of link 2, both directions" }
    443 NVLINK_BANDWIDTH_L3 = Gauge MegabytesPerSecond "DCGM_FI_DEV_NVLINK_BANDWIDTH_L3" => BytesPerSecond "DCGM_FI_DEV_NVLINK_THROUGHPUT_L3_BYTES_PER_SECOND"
        { opt, rate Link(3) in BytesPerSecond, "NVLink payload of link 3, both directions" }
    444 NVLINK_BANDWIDTH_L4 = Gauge MegabytesPerSecond "DCGM_FI_DEV_NVLINK_BANDWIDTH_L4" => BytesPerSecond "DCGM_FI_DEV_NVLINK_THROUGHPUT_L4_BYTES_PER_SECOND"
        { opt, rate Link(4) in BytesPerSecond, "NVLink payload of link 4, both directions" }
    445 NVLINK_BANDWIDTH_L5 = Gauge MegabytesPerSecond "DCGM_FI_DEV_NVLINK_BANDWIDTH_L5" => BytesPerSecond "DCGM_FI_DEV_NVLINK_THROUGHPUT_L5_BYTES_PER_SECOND"
        { opt, rate Link(5) in BytesPerSecond, "NVLink payload of link 5, both directions" }
    475 NVLINK_BANDWIDTH_L6 = Gauge MegabytesPerSecond "DCGM_FI_DEV_NVLINK_BANDWIDTH_L6" => BytesPerSecond "DCGM_FI_DEV_NVLINK_THROUGHPUT_L6_BYTES_PER_SECOND"
        { opt, rate Link(6) in BytesPerSecond, "NVLink payload of link 6, both directions" }
    476 NVLINK_BANDWIDTH_L7 = Gauge MegabytesPerSecond "DCGM_FI_DEV_NVLINK_BANDWIDTH_L7" => BytesPerSecond "DCGM_FI_DEV_NVLINK_THROUGHPUT_L7_BYTES_PER_SECOND"
        { opt, rate Link(7) in BytesPerSecond, "NVLink payload of link 7, both directions" }
    477 NVLINK_BANDWIDTH_L8 = Gauge MegabytesPerSecond "DCGM_FI_DEV_NVLINK_BANDWIDTH_L8" => BytesPerSecond "DCGM_FI_DEV_NVLINK_THROUGHPUT_L8_BYTES_PER_SECOND"
        { opt, rate Link(8) in BytesPerSecond, "NVLink payload of link 8, both directions" }
    478 NVLINK_BANDWIDTH_L9 = Gauge MegabytesPerSecond "DCGM_FI_DEV_NVLINK_BANDWIDTH_L9" => BytesPerSecond "DCGM_FI_DEV_NVLINK_THROUGHPUT_L9_BYTES_PER_SECOND"
        { opt, rate Link(9) in BytesPerSecond, "NVLink payload of link 9, both directions" }
    479 NVLINK_BANDWIDTH_L10 = Gauge MegabytesPerSecond "DCGM_FI_DEV_NVLINK_BANDWIDTH_L10" => BytesPerSecond "DCGM_FI_DEV_NVLINK_THROUGHPUT_L10_BYTES_PER_SECOND"
        { opt, rate Link(10) in BytesPerSecond, "NVLink payload of link 10, both directions" }
    480 NVLINK_BANDWIDTH_L11 = Gauge MegabytesPerSecond "DCGM_FI_DEV_NVLINK_BANDWIDTH_L11" => BytesPerSecond "DCGM_FI_DEV_NVLINK_THROUGHPUT_L11_BYTES_PER_SECOND"
        { opt, rate Link(11) in BytesPerSecond, "NVLink payload of link 11, both directions" }
    446 NVLINK_BANDWIDTH_L12 = Gauge MegabytesPerSecond "DCGM_FI_DEV_NVLINK_BANDWIDTH_L12" => BytesPerSecond "DCGM_FI_DEV_NVLINK_THROUGHPUT_L12_BYTES_PER_SECOND"
        { opt, rate Link(12) in BytesPerSecond, "NVLink payload of link 12, both directions" }
    447 NVLINK_BANDWIDTH_L13 = Gauge MegabytesPerSecond "DCGM_FI_DEV_NVLINK_BANDWIDTH_L13" => BytesPerSecond "DCGM_FI_DEV_NVLINK_THROUGHPUT_L13_BYTES_PER_SECOND"
        { opt, rate Link(13) in BytesPerSecond, "NVLink payload of link 13, both directions" }
    448 NVLINK_BANDWIDTH_L14 = Gauge MegabytesPerSecond "DCGM_FI_DEV_NVLINK_BANDWIDTH_L14" => BytesPerSecond "DCGM_FI_DEV_NVLINK_THROUGHPUT_L14_BYTES_PER_SECOND"
        { opt, rate Link(14) in BytesPerSecond, "NVLink payload of link 14, both directions" }
    494 NVLINK_BANDWIDTH_L15 = Gauge MegabytesPerSecond "DCGM_FI_DEV_NVLINK_BANDWIDTH_L15" => BytesPerSecond "DCGM_FI_DEV_NVLINK_THROUGHPUT_L15_BYTES_PER_SECOND"
        { opt, rate Link(15) in BytesPerSecond, "NVLink payload of link 15, both directions" }
    495 NVLINK_BANDWIDTH_L16 = Gauge MegabytesPerSecond "DCGM_FI_DEV_NVLINK_BANDWIDTH_L16" => BytesPerSecond "DCGM_FI_DEV_NVLINK_THROUGHPUT_L16_BYTES_PER_SECOND"
        { opt, rate Link(16) in BytesPerSecond, "NVLink payload of link 16, both directions" }
    496 NVLINK_BANDWIDTH_L17 = Gauge MegabytesPerSecond "DCGM_FI_DEV_NVLINK_BANDWIDTH_L17" => BytesPerSecond "DCGM_FI_DEV_NVLINK_THROUGHPUT_L17_BYTES_PER_SECOND"
        { opt, rate Link(17) in BytesPerSecond, "NVLink payload of link 17, both directions" }
}

/// The rows, for the catalog's list.
pub(super) const LINKS: &[&Row] = FIELDS;
