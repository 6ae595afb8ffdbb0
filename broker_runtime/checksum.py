"""CRC-32C, the checksum of record batches and of this broker's own files.

It is the function of the package crc32c, loaded from that package's extension module. The package itself imports a
command line and importlib.metadata with all dependencies, which costs a broker 2.4 MB of memory for a version number.
"""

from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from types import ModuleType
from typing import Protocol

_PACKAGE, _EXTENSION = "crc32c", "_crc32c"


class Crc32c(Protocol):
    """Compute the checksum of `data`, continuing from `value`, the checksum of the preceding data."""

    def __call__(self, data: bytes | bytearray | memoryview, value: int = 0) -> int: ...


def _extension() -> ModuleType:
    """Load the extension module. Raises ImportError if the package is missing, or its version has another structure."""
    package = PathFinder.find_spec(_PACKAGE)
    spec = None if package is None else PathFinder.find_spec(_EXTENSION, package.submodule_search_locations)
    if spec is None or spec.loader is None:
        raise ImportError(f"{_PACKAGE}.{_EXTENSION} is not installed; constraints.txt has the version that is used")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


crc32c: Crc32c = _extension().crc32c
