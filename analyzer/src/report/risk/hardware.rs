//! GPUs that may fail: what it means and what to do.

use goodput_verdict::{Fault, Remedy};

use super::network;

const DEBUG: &str = "NVIDIA GPU Debug Guidelines";
const MEMORY: &str = "NVIDIA GPU Memory Error Management";

pub(super) fn meaning(fault: Fault) -> &'static str {
    match fault {
        Fault::RecoveryAction => "The driver cannot go on with the GPU until what it asks for is done.",
        Fault::RemapPending => {
            "A row of memory failed and is replaced at the next reset; until then its page is not given out, and another \
             fault in the same place is possible."
        }
        Fault::RemapFailed => {
            "A row of memory failed and there was no other to replace it: the GPU is to be exchanged."
        }
        Fault::RemappedRows => {
            "Rows of memory failed and were replaced. That is what spare rows are for; more may follow."
        }
        Fault::SpentBanks => "A bank of memory has no spare rows: the next row of it that fails cannot be replaced.",
        Fault::EccUncorrected => {
            "Data in the GPU's memory was lost; the program that used it ended or reckoned with wrong data."
        }
        Fault::EccCorrected => {
            "Errors were corrected, more often than a sound board has them; uncorrectable ones may follow."
        }
        Fault::RetiredPending => {
            "Pages of memory failed and are retired when the driver is next loaded; until then they are in use."
        }
        Fault::RetiredPages => "Too many pages of memory have failed: the board needs to be replaced.",
        Fault::Xid => "The driver reported errors caused by the hardware. docs/reference/xid.md lists each of them.",
        Fault::PcieReplays => {
            "Packets are sent again: the link loses more than a sound one, copies get slower, and it may fail."
        }
        Fault::Nvlink => "NVLinks lose data and send it again: collectives get slower, and links may fail.",
        Fault::NvlinkDown
        | Fault::NvswitchSxid
        | Fault::RdmaPortDown
        | Fault::RdmaPortSlow
        | Fault::RdmaLinkUnstable
        | Fault::RdmaLinkErrors
        | Fault::RdmaTransport => network::meaning(fault),
    }
}

pub(super) fn remedies(fault: Fault) -> &'static [Remedy] {
    match fault {
        Fault::RecoveryAction | Fault::RemapPending | Fault::RetiredPending => RESET,
        Fault::RemapFailed | Fault::RetiredPages => EXCHANGE,
        Fault::RemappedRows | Fault::SpentBanks | Fault::EccCorrected => WATCH,
        Fault::EccUncorrected => UNCORRECTED,
        Fault::Xid => XID,
        Fault::PcieReplays => PCIE,
        Fault::Nvlink => NVLINK,
        Fault::NvlinkDown
        | Fault::NvswitchSxid
        | Fault::RdmaPortDown
        | Fault::RdmaPortSlow
        | Fault::RdmaLinkUnstable
        | Fault::RdmaLinkErrors
        | Fault::RdmaTransport => network::remedies(fault),
    }
}

const LOOK: Remedy = Remedy {
    action: "See what the board says of its memory.",
    command: Some("nvidia-smi -q -d ECC,ROW_REMAPPER,PAGE_RETIREMENT -i GPU"),
    who: "any user on the node",
    source: MEMORY,
    ..Remedy::LIVE
};

const RETURN: Remedy = Remedy {
    action: "Ask the vendor for another; the report is what they want to see.",
    command: Some("nvidia-bug-report.sh"),
    restarts: "the machine, when the board is exchanged",
    source: DEBUG,
    ..Remedy::LIVE
};

const RESET: &[Remedy] = &[Remedy::DRAIN, Remedy::RESET_GPU, LOOK];
const EXCHANGE: &[Remedy] = &[Remedy::DRAIN, LOOK, RETURN];
const WATCH: &[Remedy] = &[LOOK, Remedy::DIAGNOSE];
const UNCORRECTED: &[Remedy] = &[Remedy::DRAIN, LOOK, Remedy::RESET_GPU, Remedy::DIAGNOSE];

const XID: &[Remedy] = &[
    Remedy {
        action: "Look the code up, and what else the driver logged around it.",
        command: Some("journalctl -k | grep -i xid"),
        source: "NVIDIA XID Errors, catalog",
        ..Remedy::LIVE
    },
    Remedy::DRAIN,
    Remedy::DIAGNOSE,
];

const PCIE: &[Remedy] = &[
    Remedy {
        action: "See the link's state and its errors, of the GPU and of the port above it.",
        command: Some(
            "lspci -vvv -s $(nvidia-smi --id=GPU --query-gpu=pci.bus_id --format=csv,noheader | cut -c5-) | grep -E 'LnkSta|CESta'",
        ),
        source: "lspci(8)",
        ..Remedy::LIVE
    },
    Remedy {
        action: "Reseat the board, riser or cable. A fault that moves with the board is the board's; otherwise it is the slot's.",
        command: None,
        restarts: "the machine",
        who: "a technician with access to the machine",
        risk: "the node is out of use meanwhile",
        source: DEBUG,
    },
];

const NVLINK: &[Remedy] = &[
    Remedy {
        action: "See which link it is: errors of one link at both ends are its connection's.",
        command: Some("nvidia-smi nvlink -e -i GPU; nvidia-smi nvlink -s -i GPU"),
        who: "any user on the node",
        source: "nvidia-smi documentation, nvlink",
        ..Remedy::LIVE
    },
    Remedy::DRAIN,
    Remedy::DIAGNOSE,
];
