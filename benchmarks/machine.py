"""Facts of the machine that a benchmark ran on: processor, versions, who else was using it, memory."""

from __future__ import annotations

import json
import os
import platform
import resource
import subprocess
import sys
import time
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import psutil

from mercer.diagnostics.environment import describe_environment

PEERS = ("scikit-learn", "xGPR", "matplotlib", "psutil")
# Above this many cores taken by other processes, on average over a run, its figures are not to be trusted.
BUSY_CORES = 0.1
BUSY_LOAD = 1.0


def facts() -> dict[str, Any]:
    """Return versions and processor; no name of a machine or user, and no path."""
    found = describe_environment().to_dict()
    del found["extras"]
    return found | {
        "processor": processor(),
        "memory_gb": round(psutil.virtual_memory().total / 1e9, 1),
        "peers": {name: version(name) for name in PEERS},
    }


def processor() -> str:
    """Return the model of the processor, as far as the system tells."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def version(distribution: str) -> str | None:
    """Return the version of an installed distribution, or None."""
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None


@dataclass(frozen=True)
class Clock:
    """Processor seconds spent so far, by the whole machine and by this process with its children."""

    wall: float
    machine: float
    own: float
    load: float

    @classmethod
    def read(cls) -> Clock:
        """Read all clocks at once."""
        spent = psutil.cpu_times()
        # Guest time is part of user time; stolen time is work of other machines on the same processor.
        fields = ("user", "nice", "system", "irq", "softirq", "steal")
        times = os.times()
        own = times.user + times.system + times.children_user + times.children_system
        machine = sum(getattr(spent, field, 0.0) for field in fields)
        return cls(time.perf_counter(), machine, own, psutil.getloadavg()[0])


@dataclass(frozen=True)
class Load:
    """How busy others kept the machine during a run.

    The load average at the end counts the benchmark itself; `others`, the cores that other processes took on average,
    does not, so it decides.
    """

    start: float
    end: float
    others: float

    @classmethod
    def between(cls, start: Clock, end: Clock) -> Load:
        """Return the load between two readings."""
        others = max(0.0, (end.machine - start.machine) - (end.own - start.own)) / max(end.wall - start.wall, 1e-9)
        return cls(start.load, end.load, others)

    @property
    def busy(self) -> bool:
        """Whether the figures are suspect."""
        return self.others > BUSY_CORES

    def __str__(self) -> str:
        return (
            f"load average {self.start:.2f} at the start, {self.end:.2f} at the end; "
            f"other processes took {self.others:.2f} cores on average"
        )


def resident_bytes() -> int:
    """Return the memory that this process has now."""
    return int(psutil.Process().memory_info().rss)


def peak_bytes() -> int:
    """Return the most memory that this process has had.

    On Linux from its own address space: `ru_maxrss` survives exec, so a child starts with the peak of its parent.
    """
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        lines = []
    for line in lines:
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def in_fresh_process(script: str, *arguments: str, python: str = sys.executable) -> dict[str, Any]:
    """Run a script and return the JSON object that it printed last."""
    done = subprocess.run([python, script, *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise RuntimeError(f"{Path(script).name} failed in its own process: {last}")
    return json.loads(done.stdout.strip().splitlines()[-1])
