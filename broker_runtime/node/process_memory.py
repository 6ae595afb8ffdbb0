"""The memory of this process: how much is resident, and the return of what the allocator keeps. Shell."""

import os
import resource
import threading
from importlib import import_module
from pathlib import Path

_STATM = Path("/proc/self/statm")


def resident_bytes() -> int:
    """Return the resident memory of this process; its peak on a system without /proc."""
    try:
        fields = _STATM.read_text(encoding="utf-8").split()
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return int(fields[1]) * os.sysconf("SC_PAGE_SIZE")


def return_free_memory_soon() -> None:
    """Return free memory in a thread: it takes 25 ms for 350 MB."""
    threading.Thread(target=return_free_memory, name="malloc_trim", daemon=True).start()


def return_free_memory() -> None:
    """Return freed memory that the allocator keeps to the system. Only glibc has a function for it."""
    # Imported here, because it takes a megabyte.
    library = import_module("ctypes").CDLL(None)
    if hasattr(library, "malloc_trim"):
        library.malloc_trim(0)
