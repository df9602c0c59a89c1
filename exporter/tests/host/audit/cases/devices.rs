//! Disks, network file systems, NICs and RDMA ports.

use goodput_exporter::audit::Status;

use super::{Case, Odd, case};

/// The configuration space of a bridge, with this control register of Access Control Services.
const fn config(control: u8) -> [u8; 0x108] {
    let mut config = [0; 0x108];
    (config[0x100], config[0x102], config[0x104], config[0x106]) = (0x0d, 1, 0x5f, control);
    config
}

/// Bytes below 128 are text.
const fn text(config: &'static [u8]) -> &'static str {
    match std::str::from_utf8(config) {
        Ok(text) => text,
        Err(_) => panic!("bytes that are no text"),
    }
}

const DIRECT: &str = text(&config(0x11));
pub(in super::super) const REDIRECTED: &str = text(&config(0x1d));

/// What a plain user is shown of it.
const SHOWN: &str = text(&[0; 64]);

/// What the kernel reaches of a PCI Express bridge on a machine without ECAM.
const NO_ECAM: &str = text(&express());

const fn express() -> [u8; 0x100] {
    let mut config = [0; 0x100];
    (config[0x34], config[0x40]) = (0x40, 0x10);
    config
}

const PFC_ON_3: &str =
    r#"{"pfc_cap":8,"macsec_bypass":false,"delay":0,"prio_pfc":[false,false,false,true,false,false,false,false]}"#;
const PFC_ON_4: &str =
    r#"{"pfc_cap":8,"macsec_bypass":false,"delay":0,"prio_pfc":[false,false,false,false,true,false,false,false]}"#;
const PFC_OFF: &str =
    r#"{"pfc_cap":8,"macsec_bypass":false,"delay":0,"prio_pfc":[false,false,false,false,false,false,false,false]}"#;

/// Two NICs of one model; the second does RDMA over Ethernet.
pub(super) const TUNED: &[(&str, &str)] = &[
    ("sys/block/nvme0n1/queue/scheduler", "[none] mq-deadline kyber bfq\n"),
    ("sys/block/nvme0n1/queue/read_ahead_kb", "4096\n"),
    ("sys/block/md0/queue/read_ahead_kb", "8192\n"),
    ("sys/block/md0/md/degraded", "0\n"),
    (
        "proc/1/mounts",
        "/dev/md0 / ext4 rw 0 0\nnas:/data /data nfs4 rw,rsize=1048576,wsize=1048576,hard,proto=tcp 0 0\n",
    ),
    (
        "proc/1/mountstats",
        "device nas:/data mounted on /data with fstype nfs4\nopts: rw,vers=4.2,hard,proto=tcp,nconnect=8,timeo=600\n\
         per-op statistics\nREAD: 5000 5000 0 1 1 6 100 900\n",
    ),
    ("proc/sys/net/ipv4/tcp_rmem", "4096\t131072\t16777216\n"),
    ("proc/sys/net/ipv4/tcp_wmem", "4096\t16384\t16777216\n"),
    ("sys/class/net/lo/operstate", "unknown\n"),
    ("sys/class/net/lo/mtu", "65536\n"),
    ("sys/class/net/eth0/operstate", "up\n"),
    ("sys/class/net/eth0/mtu", "9000\n"),
    ("sys/class/net/eth0/speed", "100000\n"),
    ("sys/class/net/eth0/device/vendor", "0x15b3\n"),
    ("sys/class/net/eth0/device/device", "0x1021\n"),
    ("sys/class/net/eth0/device/numa_node", "0\n"),
    ("sys/class/net/eth0/device/current_link_width", "16\n"),
    ("sys/class/net/eth0/device/max_link_width", "16\n"),
    ("sys/class/net/eth1/operstate", "up\n"),
    ("sys/class/net/eth1/mtu", "9000\n"),
    ("sys/class/net/eth1/phys_port_name", "p0\n"),
    ("sys/class/net/eth1/statistics/rx_packets", "12000000\n"),
    ("sys/class/net/eth1/speed", "100000\n"),
    ("sys/class/net/eth1/device/vendor", "0x15b3\n"),
    ("sys/class/net/eth1/device/device", "0x1021\n"),
    ("sys/class/net/eth1/device/numa_node", "1\n"),
    ("sys/class/net/eth1/device/current_link_width", "16\n"),
    ("sys/class/net/eth1/device/max_link_width", "16\n"),
    ("sys/class/infiniband/mlx5_0/device/numa_node", "0\n"),
    ("sys/class/infiniband/mlx5_1/device/numa_node", "1\n"),
    ("sys/class/infiniband/mlx5_0/ports/1/state", "4: ACTIVE\n"),
    ("sys/class/infiniband/mlx5_0/ports/1/rate", "400 Gb/sec (4X NDR)\n"),
    ("sys/class/infiniband/mlx5_0/ports/1/link_layer", "InfiniBand\n"),
    ("sys/class/infiniband/mlx5_0/ports/1/counters/symbol_error", "65534\n"),
    ("sys/class/infiniband/mlx5_0/ports/1/counters/port_xmit_wait", "4294967295\n"),
    ("sys/class/infiniband/mlx5_1/node_type", "1: CA\n"),
    ("sys/class/infiniband/mlx5_1/ports/1/link_layer", "Ethernet\n"),
    ("sys/class/infiniband/mlx5_1/device/net/eth1/mtu", "9000\n"),
    ("sys/class/infiniband/mlx5_1/tc/1/traffic_class", "Global tclass=106\n"),
    ("output/dcb -j pfc show dev eth1", PFC_ON_3),
    ("output/dcb -j app show dev eth1", r#"{"dscp_prio":[[0,0],[26,3],[48,6]]}"#),
    ("output/ethtool -S eth0", "NIC statistics:\n     rx_oversize_pkts_phy: 0\n"),
    ("output/ethtool -S eth1", "NIC statistics:\n     rx_oversize_pkts_phy: 11\n"),
    ("sys/bus/pci/devices/0000:19:00.0/config", DIRECT),
    ("sys/bus/pci/devices/0000:19:01.0/config", DIRECT),
    ("proc/cpuinfo", "processor : 0\nflags : fpu vme\n\n"),
];

pub(super) const WRONG: &[Case] = &[
    case(
        "io_scheduler",
        "sys/block/nvme0n1/queue/scheduler",
        "none mq-deadline kyber [bfq]\n",
        Status::Warn,
        "bfq on nvme0n1",
        "echo none > /sys/block/nvme0n1/queue/scheduler",
    ),
    case(
        "read_ahead",
        "sys/block/nvme0n1/queue/read_ahead_kb",
        "128\n",
        Status::Warn,
        "128 KiB on nvme0n1",
        "echo 4096 > /sys/block/nvme0n1/queue/read_ahead_kb",
    ),
    case(
        "nfs_transfer_size",
        "proc/1/mounts",
        "nas:/data /data nfs rw,rsize=65536,wsize=65536,hard 0 0\n",
        Status::Warn,
        "64 KiB at /data",
        "remove rsize=",
    ),
    case(
        "nfs_nconnect",
        "proc/1/mountstats",
        "device nas:/data mounted on /data with fstype nfs4\nopts: rw,vers=4.2,hard,proto=tcp,timeo=600\n\
         per-op statistics\nREAD: 5000 5000 0 1 1 6 100 900\n",
        Status::Warn,
        "/data: one connection, reads wait at the node for 89 % of their time",
        "nconnect=8",
    ),
    case("raid_degraded", "sys/block/md0/md/degraded", "1\n", Status::Fail, "md0 lacks 1 disk", "mdadm"),
    case("nic_mtu", "sys/class/net/eth0/mtu", "1500\n", Status::Warn, "1500 on eth0", "ip link set dev eth0 mtu 9000"),
    case("rail_mtu", "sys/class/net/eth1/mtu", "9216\n", Status::Warn, "9000 on eth0, 9216 on eth1", "ip link set dev"),
    case(
        "rail_mtu",
        "output/ethtool -S eth1",
        "     rx_oversize_pkts_phy: 12\n",
        Status::Warn,
        "eth1 dropped 12 packets longer than its frames since the driver was loaded",
        "ip link set dev",
    ),
    case(
        "pfc_priority",
        "output/dcb -j pfc show dev eth1",
        PFC_ON_4,
        Status::Warn,
        "eth1 has it for priority 4, RDMA has priority 3",
        "dcb pfc set dev eth1 prio-pfc 3:on",
    ),
    case(
        "acs",
        "sys/bus/pci/devices/0000:19:01.0/config",
        REDIRECTED,
        Status::Warn,
        "0000:19:01.0 redirects requests and completions",
        "setpci -s 0000:19:01.0 ECAP_ACS+6.w=0:c",
    ),
    case(
        "tcp_buffers",
        "proc/sys/net/ipv4/tcp_rmem",
        "4096\t131072\t6291456\n",
        Status::Warn,
        "tcp_rmem at most 6 MiB of 12 MiB at 100000 Mbit/s",
        "net.ipv4.tcp_rmem='4096 131072 12500000'",
    ),
    case(
        "nic_speed",
        "sys/class/net/eth1/speed",
        "40000\n",
        Status::Warn,
        "eth1 40000 Mbit/s, another of its model 100000",
        "ethtool",
    ),
    case("nic_numa_node", "sys/class/net/eth1/device/numa_node", "-1\n", Status::Warn, "unknown for eth1", "firmware"),
    case(
        "nic_pcie_link",
        "sys/class/net/eth0/device/current_link_width",
        "8\n",
        Status::Warn,
        "eth0 x8 of x16",
        "slot",
    ),
    case(
        "gpu_nic_affinity",
        "sys/class/infiniband/mlx5_1/device/numa_node",
        "0\n",
        Status::Warn,
        "GPU 1 has none on its NUMA node",
        "nvidia-smi topo -m",
    ),
    case(
        "rdma_ports",
        "sys/class/infiniband/mlx5_0/ports/1/state",
        "1: DOWN\n",
        Status::Warn,
        "mlx5_0 port 1 is 1: DOWN",
        "ibstat",
    ),
    case(
        "rdma_counters_full",
        "sys/class/infiniband/mlx5_0/ports/1/counters/symbol_error",
        "65535\n",
        Status::Warn,
        "mlx5_0 port 1: symbol_error",
        "perfquery -C mlx5_0 -P 1 -R",
    ),
];

pub(super) const ODD: &[Odd] = &[
    ("io_scheduler", "sys/block", None, Status::NotApplicable),
    ("io_scheduler", "sys/block/nvme0n1/queue/scheduler", Some("none\n"), Status::Error),
    ("read_ahead", "sys/block", None, Status::NotApplicable),
    ("read_ahead", "sys/block/md0/queue/read_ahead_kb", Some("far\n"), Status::Error),
    ("nfs_transfer_size", "proc/1", None, Status::NotApplicable),
    ("nfs_transfer_size", "proc/1/mounts", Some("/dev/md0 / ext4 rw 0 0\n"), Status::NotApplicable),
    ("nfs_transfer_size", "proc/1/mounts", Some("/dev/md0\n"), Status::Error),
    ("nfs_nconnect", "proc/1/mountstats", None, Status::NotApplicable),
    (
        "nfs_nconnect",
        "proc/1/mountstats",
        Some("device nas:/a mounted on /a with fstype nfs\nopts: nconnect=many\n"),
        Status::Error,
    ),
    ("nfs_nconnect", "sys/class/net/eth0/speed", Some("10000\n"), Status::Pass),
    ("nfs_nconnect", "sys/class/net", None, Status::NotApplicable),
    ("raid_degraded", "sys/block/md0/md", None, Status::NotApplicable),
    ("raid_degraded", "sys/block/md0/md/degraded", Some("yes\n"), Status::Error),
    ("nic_mtu", "sys/class/net", None, Status::NotApplicable),
    ("nic_mtu", "sys/class/net/eth0/mtu", Some("large\n"), Status::Error),
    ("nic_speed", "sys/class/net/eth1/operstate", Some("down\n"), Status::Pass),
    ("nic_speed", "sys/class/net/eth1/speed", Some("fast\n"), Status::Error),
    ("nic_speed", "sys/class/net/eth1/speed", Some("-1\n"), Status::Pass),
    ("nic_mtu", "sys/class/net/eth1/speed", Some("\n"), Status::Pass),
    ("nic_numa_node", "sys/class/net/eth0/device/numa_node", None, Status::Warn),
    ("nic_numa_node", "sys/devices/system/node/node1/cpulist", None, Status::NotApplicable),
    ("nic_pcie_link", "sys/class/net/eth0/device/max_link_width", None, Status::Pass),
    ("nic_pcie_link", "sys/class/net/eth0/device/max_link_width", Some("wide\n"), Status::Error),
    ("gpu_nic_affinity", "sys/class/infiniband/mlx5_1/device/numa_node", Some("-1\n"), Status::NotApplicable),
    ("gpu_nic_affinity", "sys/class/infiniband/mlx5_1/device/numa_node", Some("none\n"), Status::Error),
    ("gpu_nic_affinity", "sys/class/infiniband/mlx5_0/device/numa_node", Some("1\n"), Status::Pass),
    ("gpu_nic_affinity", "sys/devices/system/node/node1/cpulist", None, Status::NotApplicable),
    ("tcp_buffers", "proc/sys/net/ipv4/tcp_wmem", None, Status::NotApplicable),
    ("tcp_buffers", "proc/sys/net/ipv4/tcp_wmem", Some("4096 16384\n"), Status::Error),
    ("tcp_buffers", "proc/1/mounts", Some("/dev/md0 / ext4 rw 0 0\n"), Status::NotApplicable),
    ("tcp_buffers", "sys/class/infiniband", None, Status::Pass),
    ("tcp_buffers", "sys/class/net", None, Status::NotApplicable),
    ("rail_mtu", "sys/class/net/eth0", None, Status::NotApplicable),
    ("rail_mtu", "sys/class/net/eth0/speed", Some("200000\n"), Status::NotApplicable),
    ("rail_mtu", "sys/class/net/eth0/mtu", Some("large\n"), Status::Error),
    ("rail_mtu", "usr/sbin/ethtool", None, Status::Pass),
    ("rail_mtu", "sys/class/net/eth1/statistics/rx_packets", Some("1000000\n"), Status::Warn),
    ("rail_mtu", "sys/class/net/eth1/statistics/rx_packets", None, Status::Warn),
    ("pfc_priority", "sys/class/infiniband", None, Status::NotApplicable),
    ("pfc_priority", "sys/class/infiniband/mlx5_1/ports/1/link_layer", Some("InfiniBand\n"), Status::NotApplicable),
    ("pfc_priority", "sys/class/infiniband/mlx5_1/node_type", Some("4: RNIC\n"), Status::NotApplicable),
    ("pfc_priority", "sys/class/net/eth1/operstate", Some("down\n"), Status::NotApplicable),
    ("pfc_priority", "sys/class/net/eth1/phys_port_name", Some("pf0vf1\n"), Status::NotApplicable),
    ("pfc_priority", "sys/class/net/eth1/phys_port_name", None, Status::Pass),
    ("pfc_priority", "usr/sbin/dcb", None, Status::NotApplicable),
    // The kernel's answer for a driver without it: the program ends with an error.
    ("pfc_priority", "output/dcb -j pfc show dev eth1", None, Status::NotApplicable),
    ("pfc_priority", "output/dcb -j pfc show dev eth1", Some("pfc-cap 8\n"), Status::Error),
    ("pfc_priority", "output/dcb -j pfc show dev eth1", Some(PFC_OFF), Status::Pass),
    ("pfc_priority", "output/dcb -j app show dev eth1", Some("{ }"), Status::NotApplicable),
    ("pfc_priority", "sys/class/infiniband/mlx5_1/tc/1/traffic_class", None, Status::NotApplicable),
    ("pfc_priority", "sys/class/infiniband/mlx5_1/tc/1/traffic_class", Some("Global tclass=192\n"), Status::Warn),
    ("pfc_priority", "sys/class/infiniband/mlx5_1/tc/1/traffic_class", Some("Global tclass=x\n"), Status::Error),
    ("acs", "sys/class/infiniband", None, Status::NotApplicable),
    ("acs", "sys/bus/pci/devices/0000:19:00.0/config", None, Status::NotApplicable),
    ("acs", "sys/bus/pci/devices/0000:19:00.0/config", Some(SHOWN), Status::NoPermission),
    ("acs", "sys/bus/pci/devices/0000:19:00.0/config", Some(NO_ECAM), Status::NotApplicable),
    ("acs", "proc/cpuinfo", Some("flags : fpu hypervisor\n"), Status::NotApplicable),
    ("rdma_counters_full", "sys/class/infiniband/mlx5_0/ports/1/counters", None, Status::NotApplicable),
    ("rdma_counters_full", "sys/class/infiniband/mlx5_0/ports/1/link_layer", Some("Ethernet\n"), Status::Warn),
    ("rdma_counters_full", "sys/class/infiniband/mlx5_0/ports/1/counters/symbol_error", Some("many\n"), Status::Error),
    ("rdma_ports", "sys/class/infiniband", None, Status::NotApplicable),
    ("rdma_ports", "sys/class/infiniband/mlx5_0/ports/1/rate", None, Status::NotApplicable),
];
