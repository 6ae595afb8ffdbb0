"""CRC-32C, the checksum of record batches and of the broker's own files.

It is the function of the package crc32c, loaded from that package's extension module if it has one. The package itself
imports a command line and importlib.metadata with all dependencies, which costs a process 2.4 MB for a version number.
"""

from importlib import import_module
from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from types import ModuleType
from typing import Protocol

_PACKAGE, _EXTENSION = "crc32c", "_crc32c"


class Crc32c(Protocol):
    """Compute the checksum of `data`, continuing from `value`, the checksum of the preceding data."""

    def __call__(self, data: bytes | bytearray | memoryview, value: int = 0) -> int: ...


def _loaded() -> ModuleType:
    """Return the extension module, or the package if its version has another structure. Raises ImportError."""
    package = PathFinder.find_spec(_PACKAGE)
    spec = None if package is None else PathFinder.find_spec(_EXTENSION, package.submodule_search_locations)
    if spec is None or spec.loader is None:
        return import_module(_PACKAGE)
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


crc32c: Crc32c = _loaded().crc32c
