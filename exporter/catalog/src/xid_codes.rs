//! NVIDIA's XID codes: what each is called, whose fault it usually is, and what to do about it.
//!
//! Names and actions are facts of NVIDIA's XID catalogue (release of October 2025, 172 codes); the words and the classes are
//! ours. A code that is not here is unknown, and nothing is guessed of it: of those left out, NVIDIA calls 1-7, 9, 10, 12,
//! 14-24, 26-30, 33-36, 42, 47, 49-53, 55-59, 61, 65, 73, 81, 87, 90, 91, 108, 111-118, 122-125 and 138 unused or reserved.

use std::fmt::Write as _;

crate::named! {
    /// Whose fault an XID usually is.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Class {
        /// The program.
        App = "app",
        /// The program; the hardware, if it repeats on one GPU with other programs.
        AppHw = "app_hw",
        /// Driver or firmware.
        Drv = "drv",
        /// GPU memory.
        Mem = "mem",
        /// The board, its power or its PCIe link.
        Bus = "bus",
        /// NVLink or the link between CPU and GPU.
        Link = "link",
        /// No part is at fault: the code only informs.
        Info = "info",
        /// Confidential computing.
        Cc = "cc",
    }
}

crate::named! {
    /// What NVIDIA says to do.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Action {
        /// Nothing.
        None = "none",
        /// Start the program again.
        RestartApp = "restart_app",
        /// Start the virtual machine again.
        RestartVm = "restart_vm",
        /// Reset the GPU.
        ResetGpu = "reset_gpu",
        /// Switch the machine off and on.
        RestartNode = "restart_node",
        /// Check power cables and seating.
        CheckPower = "check_power",
        /// Check the program.
        CheckApp = "check_app",
        /// Check the software: driver, firmware, libraries.
        CheckSoftware = "check_software",
        /// Check the link's signal: cables, connectors, modules.
        CheckLink = "check_link",
        /// Update driver or firmware.
        Update = "update",
        /// Look at the other XIDs around it.
        SeeOthers = "see_others",
        /// It depends on what the event itself says.
        Depends = "depends",
        /// Ask the vendor.
        ContactSupport = "contact_support",
        /// NVIDIA does not say.
        Unstated = "unstated",
    }
}

/// One code.
#[derive(Debug)]
pub struct Code {
    /// The number.
    pub code: u64,
    /// NVIDIA's name.
    pub name: &'static str,
    /// Whose fault it usually is.
    pub class: Class,
    /// What to do at once.
    pub action: Action,
    /// What to do afterwards, or when it repeats.
    pub follow_up: Action,
    /// What has happened.
    pub meaning: &'static str,
}

/// What the labels say of a code that is not known.
pub const UNKNOWN: &str = "unknown";

/// What is known of a code.
#[must_use]
pub fn find(code: u64) -> Option<&'static Code> {
    CODES.iter().find(|known| known.code == code)
}

/// The table of `docs/reference/xid.md`.
#[must_use]
pub fn markdown() -> String {
    let mut out =
        String::from("| XID | Name | What has happened | Class | At once | Afterwards |\n|---|---|---|---|---|---|\n");
    for Code { code, name, class, action, follow_up, meaning } in CODES {
        let (class, action, follow_up) = (class.name(), action.name(), follow_up.name());
        let _ = writeln!(out, "| {code} | `{name}` | {meaning} | {class} | {action} | {follow_up} |");
    }
    out
}

macro_rules! codes {
    ($($code:literal $name:literal $class:ident $action:ident $follow_up:ident $meaning:literal;)*) => {
        /// Every known code, in order.
        pub static CODES: &[Code] = &[$(Code {
            code: $code,
            name: $name,
            class: Class::$class,
            action: Action::$action,
            follow_up: Action::$follow_up,
            meaning: $meaning,
        }),*];
    };
}

codes! {
    8 "FIFO_ERROR_IDLE_TIMEOUT" App RestartApp ContactSupport "The GPU did not become idle in time";
    11 "GR_ERROR_MISSING_HW" AppHw RestartApp CheckApp "A command stream asks for hardware that is not there";
    13 "GR_EXCEPTION" AppHw RestartApp Depends "A kernel raised an exception, often an illegal address or instruction";
    25 "GR_ILLEGAL_NOTIFY" AppHw RestartApp CheckApp "A command stream is illegal";
    31 "FIFO_ERROR_MMU_ERR_FLT" AppHw RestartApp Depends "A page fault: a program used an address that is not mapped";
    32 "PBDMA_ERROR" AppHw RestartApp CheckApp "A command stream arrived broken";
    37 "FECS_ERR_UNIMP_FIRMWARE_METHOD" Drv None CheckApp "The context-switching firmware was asked for what it does not know";
    38 "FECS_ERR_WATCHDOG_TIMEOUT" Drv None ContactSupport "The context-switching firmware took too long";
    39 "CE0_ERROR" AppHw RestartApp ContactSupport "Copy engine 0 raised an exception";
    40 "CE1_ERROR" AppHw RestartApp ContactSupport "Copy engine 1 raised an exception";
    41 "CE2_ERROR" AppHw RestartApp ContactSupport "Copy engine 2 raised an exception";
    43 "RESETCHANNEL_VERIF_ERROR" App None ContactSupport "A channel was stopped after a fault of its program";
    44 "GR_FAULT_DURING_CTXSW" Drv None ContactSupport "A fault while the GPU switched contexts";
    45 "PREEMPTIVE_REMOVAL" App SeeOthers Depends "A program was taken off the GPU, mostly after another error; alone, restart the fabric manager";
    46 "GPU_TIMEOUT_ERROR" Bus ResetGpu ContactSupport "The GPU stopped processing";
    48 "GPU_ECC_DBE" Mem Depends Depends "A double-bit ECC error; look for 63, 64, 94 or 95 next to it, drain and reset";
    54 "SILENT_RUNNING_PWR_REDUCED_CLOCKING" Bus CheckPower ContactSupport "Auxiliary power is not connected to the board";
    60 "SEC2_ERROR" AppHw RestartApp CheckSoftware "The security processor raised an exception";
    62 "PMU_HALT_ERROR" Bus ResetGpu ContactSupport "The power-management micro-controller halted";
    63 "INFOROM_DRAM_RETIREMENT_EVENT" Mem None None "Bad memory was noted for replacement, which happens at the next reset";
    64 "INFOROM_DRAM_RETIREMENT_FAILURE" Mem ResetGpu ContactSupport "Bad memory could not be noted for replacement";
    66 "FECS_ERR_REG_ACCESS_VIOLATION" Drv None CheckSoftware "The driver accessed a register that it may not";
    67 "FECS_ERR_VERIF_VIOLATION" Drv None ContactSupport "The driver broke a rule of the context-switching firmware";
    68 "NVDEC0_ERROR" AppHw RestartApp ContactSupport "Video decoder 0 raised an exception";
    69 "GR_CLASS_ERROR" AppHw RestartApp CheckApp "A command does not fit its class of objects";
    70 "CE3_ERROR" AppHw RestartApp ContactSupport "Copy engine 3 raised an exception";
    71 "CE4_ERROR" AppHw RestartApp ContactSupport "Copy engine 4 raised an exception";
    72 "CE5_ERROR" AppHw RestartApp ContactSupport "Copy engine 5 raised an exception";
    74 "NVLINK_ERROR" Link Depends ContactSupport "An NVLink failed; the log line names the link and its error registers";
    75 "CE6_ERROR" AppHw RestartApp ContactSupport "Copy engine 6 raised an exception";
    76 "CE7_ERROR" AppHw RestartApp ContactSupport "Copy engine 7 raised an exception";
    77 "CE8_ERROR" AppHw RestartApp ContactSupport "Copy engine 8 raised an exception";
    78 "VGPU_START_ERROR" Drv Update Update "A virtual GPU did not start";
    79 "GPU_HAS_FALLEN_OFF_THE_BUS" Bus RestartNode ContactSupport "The GPU does not answer on PCIe any more";
    80 "PBDMA_PUSHBUFFER_CRC_MISMATCH" AppHw RestartApp CheckApp "Commands arrived at the GPU other than they were sent";
    82 "NVJPG0_ERROR" AppHw RestartApp ContactSupport "JPEG engine 0 raised an exception";
    83 "NVDEC1_ERROR" AppHw RestartApp ContactSupport "Video decoder 1 raised an exception";
    84 "NVDEC2_ERROR" AppHw RestartApp ContactSupport "Video decoder 2 raised an exception";
    85 "CE9_ERROR" AppHw RestartApp ContactSupport "Copy engine 9 raised an exception";
    86 "OFA0_ERROR" AppHw RestartApp ContactSupport "Optical-flow engine 0 raised an exception";
    88 "NVDEC3_ERROR" AppHw RestartApp ContactSupport "Video decoder 3 raised an exception";
    89 "NVDEC4_ERROR" AppHw RestartApp ContactSupport "Video decoder 4 raised an exception";
    92 "EXCESSIVE_SBE_INTERRUPTS" Mem None ContactSupport "Corrected single-bit memory errors come often";
    93 "INFOROM_ERASE_LIMIT_EXCEEDED" Info None ContactSupport "The InfoROM was written more often than planned";
    94 "CONTAINED_ERROR" Mem RestartApp None "A memory error that hit one program alone";
    95 "UNCONTAINED_ERROR" Mem ResetGpu None "A memory error that may have hit every program on the GPU";
    96 "NVDEC5_ERROR" AppHw RestartApp ContactSupport "Video decoder 5 raised an exception";
    97 "NVDEC6_ERROR" AppHw RestartApp ContactSupport "Video decoder 6 raised an exception";
    98 "NVDEC7_ERROR" AppHw RestartApp ContactSupport "Video decoder 7 raised an exception";
    99 "NVJPG1_ERROR" AppHw RestartApp ContactSupport "JPEG engine 1 raised an exception";
    100 "NVJPG2_ERROR" AppHw RestartApp ContactSupport "JPEG engine 2 raised an exception";
    101 "NVJPG3_ERROR" AppHw RestartApp ContactSupport "JPEG engine 3 raised an exception";
    102 "NVJPG4_ERROR" AppHw RestartApp ContactSupport "JPEG engine 4 raised an exception";
    103 "NVJPG5_ERROR" AppHw RestartApp ContactSupport "JPEG engine 5 raised an exception";
    104 "NVJPG6_ERROR" AppHw RestartApp ContactSupport "JPEG engine 6 raised an exception";
    105 "NVJPG7_ERROR" AppHw RestartApp ContactSupport "JPEG engine 7 raised an exception";
    106 "SMBPBI_TEST_MESSAGE" Info None None "A test message of the management bus";
    107 "SMBPBI_TEST_MESSAGE_SILENT" Info None None "A silent test message of the management bus";
    109 "CTXSW_TIMEOUT_ERROR" Drv ResetGpu ContactSupport "The GPU did not switch contexts in time, often after another error";
    110 "SEC_FAULT_ERROR" Drv ResetGpu CheckSoftware "A fault of the security hardware";
    119 "GSP_RPC_TIMEOUT" Drv ResetGpu CheckSoftware "The GPU system processor does not answer the driver; other driver calls may hang";
    120 "GSP_ERROR" Drv ResetGpu CheckSoftware "The GPU system processor failed";
    121 "C2C_ERROR" Link None ContactSupport "A corrected error of the link between CPU and GPU";
    126 "CE10_ERROR" AppHw RestartApp ContactSupport "Copy engine 10 raised an exception";
    127 "CE11_ERROR" AppHw RestartApp ContactSupport "Copy engine 11 raised an exception";
    128 "CE12_ERROR" AppHw RestartApp ContactSupport "Copy engine 12 raised an exception";
    129 "CE13_ERROR" AppHw RestartApp ContactSupport "Copy engine 13 raised an exception";
    130 "CE14_ERROR" AppHw RestartApp ContactSupport "Copy engine 14 raised an exception";
    131 "CE15_ERROR" AppHw RestartApp ContactSupport "Copy engine 15 raised an exception";
    132 "CE16_ERROR" AppHw RestartApp ContactSupport "Copy engine 16 raised an exception";
    133 "CE17_ERROR" AppHw RestartApp ContactSupport "Copy engine 17 raised an exception";
    134 "CE18_ERROR" AppHw RestartApp ContactSupport "Copy engine 18 raised an exception";
    135 "CE19_ERROR" AppHw RestartApp ContactSupport "Copy engine 19 raised an exception";
    136 "ALI_TRAINING_FAIL" Link ResetGpu CheckLink "An NVLink did not come up";
    137 "NVLINK_PRIV_ERR" Link None Depends "A fault over NVLink that a program on a peer GPU caused";
    139 "OFA1_ERROR" AppHw RestartApp ContactSupport "Optical-flow engine 1 raised an exception";
    140 "UNRECOVERABLE_ECC_ERROR_ESCAPE" Mem ResetGpu ContactSupport "An ECC error that could not be recovered";
    141 "FAST_PATH_ERROR" Drv None ContactSupport "An error of the fast path of CUDA";
    142 "NVENC3_ERROR" AppHw ContactSupport Unstated "Video encoder 3 raised an exception";
    143 "GPU_INIT_ERROR" Bus ResetGpu ContactSupport "The GPU could not be initialised";
    144 "NVLINK_SAW_ERROR" Link Depends Depends "An error in the SAW unit of NVLink 5; the log line says whether it was fatal";
    145 "NVLINK_RLW_ERROR" Link Depends Depends "An error in the RLW unit of NVLink 5; the log line says whether it was fatal";
    146 "NVLINK_TLW_ERROR" Link Depends Depends "An error in the TLW unit of NVLink 5; the log line says whether it was fatal";
    147 "NVLINK_TREX_ERROR" Link Depends Depends "An error in the TREX unit of NVLink 5; the log line says whether it was fatal";
    148 "NVLINK_NVLPW_CTRL_ERROR" Link Depends Depends "An error in the NVLPW_CTRL unit of NVLink 5; the log line says whether it was fatal";
    149 "NVLINK_NETIR_ERROR" Link Depends Depends "An error in the NETIR unit of NVLink 5; the log line says whether it was fatal";
    150 "NVLINK_MSE_ERROR" Link Depends Depends "An error in the MSE unit of NVLink 5; the log line says whether it was fatal";
    151 "KEY_ROTATION_ERROR" Cc RestartVm ContactSupport "Keys of confidential computing could not be changed";
    152 "DLA_SMMU_ERROR" Drv None ContactSupport "A memory fault of the deep-learning accelerator";
    153 "DLA_TIMEOUT" Drv None ContactSupport "The deep-learning accelerator took too long";
    154 "GPU_RECOVERY_ACTION_CHANGED" Info Depends None "What the driver wants done to the GPU has changed; see goodput_gpu_recovery_action";
    155 "NVLINK_SW_DEFINED_ERROR" Link ResetGpu CheckSoftware "An NVLink failed in a way that software defines";
    156 "RESOURCE_RETIREMENT_EVENT" Mem ResetGpu None "A part of the GPU was noted for retirement";
    157 "RESOURCE_RETIREMENT_FAILURE" Mem None ContactSupport "A part of the GPU could not be noted for retirement";
    158 "GPU_FATAL_TIMEOUT" Bus ResetGpu ContactSupport "The GPU ran into a fatal timeout";
    159 "CHI_NON_DATA_ERROR" Drv CheckSoftware SeeOthers "An error on the coherent bus that carried no data; check unified memory";
    160 "CHANNEL_RETIREMENT_EVENT" Info None CheckSoftware "A memory channel was noted for retirement";
    161 "CHANNEL_RETIREMENT_FAILURE" Info None CheckSoftware "A memory channel could not be noted for retirement";
    162 "PSHC_REENGAGED" Info Unstated Unstated "The hardware that smooths power is in use again";
    163 "PSHC_DISENGAGED" Info Unstated Unstated "The hardware that smooths power is out of use";
    164 "PSHC_LOW_LIFETIME" Info Unstated Unstated "The hardware that smooths power nears the end of its life";
    165 "PSHC_ZERO_LIFETIME" Info Unstated Unstated "The hardware that smooths power is at the end of its life";
    166 "NVLINK_SECURE_CRYPTO_ERR" Cc Unstated Unstated "Traffic came before the link was set up for encryption";
    167 "PCIE_FATAL_TIMEOUT" Bus Unstated Unstated "A fatal timeout on PCIe";
    168 "REDUCED_GPU_MEMORY_CAPACITY" Mem Unstated Unstated "Errors in the protected region of memory; there is less of it";
    169 "SEC2_HALT_ERROR" Bus Unstated Unstated "The security micro-controller halted";
    170 "NVLINK_SECURE_OTHER" Cc Unstated Unstated "An unexpected interrupt under confidential computing";
    171 "UNCORRECTABLE_DRAM_ERROR" Mem Unstated Unstated "Where 48 came from: device memory";
    172 "UNCORRECTABLE_SRAM_ERROR" Mem Unstated Unstated "Where 48 came from: memory on the chip";
    173 "C2C_FATAL_LINK_FAILURE" Link Unstated Unstated "The link between CPU and GPU failed; known from newer lists alone";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_in_order_and_few_enough_to_read() {
        assert!(CODES.is_sorted_by(|a, b| a.code < b.code));
        assert_eq!(CODES.len(), 110);
        for code in CODES {
            let plain = code.name.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_');
            assert!(plain && !code.meaning.contains(['|', '.']), "{code:?}");
        }
    }

    #[test]
    fn what_is_unused_or_new_is_unknown() {
        for code in [0, 1, 42, 57, 138, 174, 999, u64::MAX] {
            assert!(find(code).is_none(), "{code}");
        }
        let fell_off = find(79).unwrap();
        assert_eq!((fell_off.class, fell_off.action), (Class::Bus, Action::RestartNode));
    }

    /// `UPDATE_GOLDEN=1 cargo test -p goodput-exporter xid` rewrites the table.
    #[test]
    fn docs_xid_md_is_current() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/xid.md");
        let page = std::fs::read_to_string(path).unwrap();
        let begin = page.find("| XID |").unwrap();
        let now = format!("{}{}", &page[..begin], markdown());
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            std::fs::write(path, &now).unwrap();
            return;
        }
        assert!(page == now, "{path} differs from the table; run this test with UPDATE_GOLDEN=1");
    }
}
