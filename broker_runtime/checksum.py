"""CRC-32C, the checksum of record batches and of our own files.

It is the function of the package crc32c, taken from that package's extension module: the package itself imports a
command line and importlib.metadata with all that they need, which is 2.4 MB of a broker's memory for a version number.
"""

from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from types import ModuleType
from typing import Protocol

_PACKAGE, _EXTENSION = "crc32c", "_crc32c"


class Crc32c(Protocol):
    """The checksum of `data`, going on from `value`, which is that of what came before."""

    def __call__(self, data: bytes | bytearray | memoryview, value: int = 0) -> int: ...


def _extension() -> ModuleType:
    """Raises ImportError when the package is not there, or is of a version that is made otherwise."""
    package = PathFinder.find_spec(_PACKAGE)
    spec = None if package is None else PathFinder.find_spec(_EXTENSION, package.submodule_search_locations)
    if spec is None or spec.loader is None:
        raise ImportError(f"{_PACKAGE}.{_EXTENSION} is not installed; constraints.txt has the version that is used")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


crc32c: Crc32c = _extension().crc32c
