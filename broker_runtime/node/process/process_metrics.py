"""Memory, descriptors, processor time and start of this process, named as by all Prometheus clients. Shell.

`return_free_memory` returns what the allocator keeps.

Read from Linux' /proc; a system without it has none of them.
"""

import os
import resource
import threading
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

from broker_runtime.exposition import MetricFamily, counter, gauge

_SELF = Path("/proc/self")


def process_families() -> Iterator[MetricFamily]:
    try:
        # The fields after the name in brackets, which may contain blanks; man proc counts them from 3.
        fields = (_SELF / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        boot_s = _boot_time_s()
        open_files = len(os.listdir(_SELF / "fd"))
    except OSError:
        return
    ticks_a_second = os.sysconf("SC_CLK_TCK")
    user, system, started, virtual_bytes, resident_pages = (int(fields[at - 3]) for at in (14, 15, 22, 23, 24))
    page_bytes = os.sysconf("SC_PAGE_SIZE")
    yield gauge("process_virtual_memory_bytes", "Virtual memory size in bytes.", virtual_bytes)
    yield gauge("process_resident_memory_bytes", "Resident memory size in bytes.", resident_pages * page_bytes)
    started_s = boot_s + started / ticks_a_second
    yield gauge("process_start_time_seconds", "Start time of the process since unix epoch in seconds.", started_s)
    used_s = (user + system) / ticks_a_second
    yield counter("process_cpu_seconds_total", "Total user and system CPU time spent in seconds.", used_s)
    yield gauge("process_open_fds", "Number of open file descriptors.", open_files)
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    yield gauge("process_max_fds", "Maximum number of open file descriptors.", soft)


def _boot_time_s() -> int:
    lines = Path("/proc/stat").read_text(encoding="utf-8").splitlines()
    return next((int(line.split()[1]) for line in lines if line.startswith("btime ")), 0)


def resident_bytes() -> int:
    """Return the bytes of resident memory of this process; the peak on a system without /proc."""
    try:
        fields = (_SELF / "statm").read_text(encoding="utf-8").split()
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return int(fields[1]) * os.sysconf("SC_PAGE_SIZE")


def return_free_memory_soon() -> None:
    """Return free memory to the system, in a thread: it takes 25 ms for 350 MB."""
    threading.Thread(target=return_free_memory, name="malloc_trim", daemon=True).start()


def return_free_memory() -> None:
    """Return to the system the freed memory that the allocator keeps. Only glibc has a function for that."""
    # Imported here, because it takes a megabyte.
    library = import_module("ctypes").CDLL(None)
    if hasattr(library, "malloc_trim"):
        library.malloc_trim(0)
