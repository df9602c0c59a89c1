"""Prints as JSON what nvitop reads of every GPU, once the second one is seen to work."""

import json
import time

from nvitop import Device


def read(device):
    return {
        "name": device.name(),
        "bus_id": device.bus_id(),
        "gpu": device.gpu_utilization(),
        "memory": device.memory_utilization(),
        "used": device.memory_used(),
        "total": device.memory_total(),
        "power_mw": device.power_usage(),
        "temperature": device.temperature(),
        "sm_mhz": device.sm_clock(),
        "pcie_rx_kb_s": device.pcie_rx_throughput(),
        "nvlinks": device.nvlink_link_count(),
        "processes": {pid: [p.gpu_memory(), p.gpu_sm_utilization()] for pid, p in device.processes().items()},
    }


devices = Device.all()
deadline = time.monotonic() + 30
while devices[1].gpu_utilization() == 0 and time.monotonic() < deadline:
    time.sleep(0.05)
time.sleep(0.2)  # one more sample period: the first may have been busy for a part of it only
print(json.dumps([read(device) for device in Device.all()]))
