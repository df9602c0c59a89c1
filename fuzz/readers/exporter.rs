//! What the exporter reads of others, by reader. Fuzz targets and the property tests of CI call the same functions.

use std::path::Path;

use goodput_exporter::parse::device_id::DeviceId;
use goodput_exporter::parse::inspector;
use goodput_exporter::parse::owner::Identity;
use goodput_exporter::parse::{
    ByLine, Outcome, bus_id, cgroup, choice, container_log, counters, cpu, cpus, dcb, devices, diskstats, environ,
    ethtool, gds, hexadecimal, interrupts, io_limits, irqbalance, job_map, keyed, kubelet, limits, lustre, maps,
    membership, meminfo, mountinfo, mounts, mountstats, net, number, nvidia, oom, pci_config, per_cpu, pressure,
    process, softnet, stat, status, swaps, xid,
};
use goodput_exporter::source::pod_resources::proto::ListResponse;
use goodput_exposition::{Format, Limits, Points, about};
use prost::Message as _;

/// Gives a group of parsers these bytes.
pub(crate) type Reader = fn(&[u8]);

/// Every reader by the name of its fuzz target.
pub(crate) const READERS: [(&str, Reader); 9] = [
    ("kernel_files", kernel_files),
    ("process_files", process_files),
    ("cgroup_files", cgroup_files),
    ("mount_files", mount_files),
    ("device_files", device_files),
    ("kernel_log", kernel_log),
    ("kubelet", kubelet_files),
    ("counters_files", counters_files),
    ("web_configuration", web_configuration),
];

/// `/proc` of the node.
pub(crate) fn kernel_files(bytes: &[u8]) {
    let text = &*String::from_utf8_lossy(bytes);
    _ = (read(meminfo::parse(text)), read(meminfo::each(text, |_, _| {})), read(stat::parse(text)));
    _ = (read(stat::per_cpu(text, |_, _| {})), read(diskstats::parse(text)), read(softnet::parse(text)));
    _ = (read(swaps::parse(text)), read(cpu::run_delays(text, |_, _| {})), read(cpu::loads(text)));
    _ = (read(cpu::clocks(text, |_, _| {})), read(cpu::numbers(text)), read(net::interfaces(text)));
    _ = (read(pressure::parse(text)), read(keyed::each(text, |_, _| {})), read(process::uptime(text)));
    _ = (by_line(interrupts::by_device(), text), by_line(interrupts::used(), text));
    _ = read(per_cpu::each(text, |_, _, _| {}));
}

/// `/proc/PID`.
pub(crate) fn process_files(bytes: &[u8]) {
    let text = &*String::from_utf8_lossy(bytes);
    _ = (
        read(process::stat(text)),
        read(process::thread(text)),
        read(process::run_delay(text)),
        read(process::pids(text)),
    );
    _ = read(status::innermost_pid(text));
    _ = (read(status::cpus_allowed(text)), read(status::mems_allowed(text)), read(status::swapped(text)));
    _ = (
        read(status::context_switches(text)),
        read(limits::max_locked_memory(text)),
        read(limits::max_open_files(text)),
    );
    _ = (read(maps::allocator(text)), read(membership::parse(text)));
    _ = (environ::slurm_account(bytes), environ::slurm_job(bytes));
    _ = (environ::slurm_job_gpus(bytes), environ::slurm_step_gpus(bytes));
    _ = (environ::mps_threads(bytes), environ::mps_memory(bytes));
}

/// Cgroups, and what they say of their owners.
pub(crate) fn cgroup_files(bytes: &[u8]) {
    let text = &*String::from_utf8_lossy(bytes);
    _ = (read(cgroup::limit(text)), read(cgroup::cpu_max(text)), read(cgroup::io_stat(text, |_| false)));
    _ = (read(cgroup::io_stat_of(text, "259:0")), read(cgroup::blkio(text)), read(cgroup::numa_stat(text)));
    _ = read(devices::gpus(text));
    _ = (read(io_limits::io_max(text)), read(io_limits::throttle(text, io_limits::Kind::WrittenBytes)));
    _ = (read(io_limits::io_weight(text)), read(io_limits::io_latency(text)));
    text.lines().for_each(|path| _ = Identity::of(path).id());
    _ = (job_map::file_name(text), job_map::jobs(text));
}

/// Mounts and file systems.
pub(crate) fn mount_files(bytes: &[u8]) {
    let text = &*String::from_utf8_lossy(bytes);
    _ = (
        read(mountinfo::parse(text)),
        read(mounts::parse(text)),
        read(mountstats::parse(text)),
        read(lustre::parse(text)),
    );
    _ = read(gds::parse(text));
    _ = (read(lustre::requests(text)), read(lustre::evictions(text)));
    _ = (mounts::tmpfs_size(text), lustre::names(text), lustre::target(text));
}

/// `/sys`, the driver's files, settings of daemons, and what programs say of NICs and NCCL's Inspector of collectives.
pub(crate) fn device_files(bytes: &[u8]) {
    let text = &*String::from_utf8_lossy(bytes);
    let ranges = read(cpus::ranges(text)).unwrap_or_default();
    _ = (cpus::count(&ranges), cpus::spell(&ranges), cpus::union(ranges));
    _ = (read(cpus::mask(text)), read(choice::active(text)), read(choice::switch(text)));
    _ = (read(number::<u64>(text)), read(hexadecimal(text)), read(net::known(text)), read(net::port_counter(text)));
    _ = (read(net::port_active(text)), read(net::port_rate(text)), read(nvidia::module(text)));
    _ = (read(nvidia::parameters(text, |_, _| {})), read(nvidia::information(text)), read(irqbalance::settings(text)));
    _ = (bus_id::Address::parse(text), bus_id::sysfs_name(text));
    _ = (read(ethtool::statistics(text)), read(dcb::pfc(text)), read(dcb::dscp_priorities(text)));
    let mut records = inspector::json::Records::default();
    bytes.split(|byte| *byte == b'\n').for_each(|line| _ = records.line(line));
    _ = read(inspector::text::means(bytes));
    _ = (read(dcb::traffic_class(text)), pci_config::AccessControl::of(bytes).redirects());
}

/// `/dev/kmsg`, record by record.
pub(crate) fn kernel_log(bytes: &[u8]) {
    let text = &*String::from_utf8_lossy(bytes);
    let mut log = xid::Log::default();
    text.lines().filter_map(xid::Record::parse).for_each(|record| {
        _ = (log.events(record), oom::Kill::parse(record.text).map(|kill| Identity::of(kill.cgroup).id()));
    });
}

/// The kubelet's answer, its files and its names of logs and devices.
pub(crate) fn kubelet_files(bytes: &[u8]) {
    _ = ListResponse::decode(bytes);
    let text = &*String::from_utf8_lossy(bytes);
    _ = (read(kubelet::configuration(text)), read(kubelet::cpu_manager(text)), read(kubelet::memory_manager(text)));
    for line in text.lines() {
        _ = (container_log::parse(line), container_log::target(line), container_log::pod_folder(line));
        _ = (DeviceId::of_plugin(line), DeviceId::of_dra(line), DeviceId::of_cdi(line));
    }
}

/// Counters files of dcgm-exporter in both forms, and the metrics that one serves.
pub(crate) fn counters_files(bytes: &[u8]) {
    let text = &*String::from_utf8_lossy(bytes);
    _ = (read(counters::csv(text)), counters::is_name(text));
    _ = counters::yaml(text);
    text.lines().for_each(|line| _ = about(line));
    _ = Points::new(bytes, Format::Text, Limits::NONE).count();
}

/// The web configuration of Prometheus's exporter-toolkit. The files that it names are not there.
pub(crate) fn web_configuration(bytes: &[u8]) {
    let text = &*String::from_utf8_lossy(bytes);
    _ = goodput_web::check(text, Path::new("/nonexistent"));
}

/// An error is as valid as a value, if it can be printed and names a line.
fn read<R: Outcome>(outcome: R) -> Option<R::Value> {
    let (value, error) = match outcome.split() {
        Ok((value, left_out)) => (Some(value), left_out.first),
        Err(error) => (None, Some(error)),
    };
    if let Some(error) = error {
        assert!(error.line > 0 && error.to_string().starts_with("line "), "{error:?}");
    }
    value
}

fn by_line<T: ByLine>(mut table: T, text: &str) {
    for (at, line) in text.lines().enumerate() {
        _ = table.line(at + 1, line);
    }
    _ = table.end();
}
