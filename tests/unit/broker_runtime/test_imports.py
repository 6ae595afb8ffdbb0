"""What an idle broker has not imported: each of these and what it brings along would be megabytes of every process."""

import subprocess
import sys

import pytest
from crc32c import crc32c as crc32c_of_the_package

from broker_runtime import observers
from broker_runtime.checksum import crc32c

UNWANTED = {
    "broker_runtime.observers.in_force": "half a megabyte, for those who observe something",
    "cramjam": "2 MB, for batches that are compressed and whose records are looked at",
    "crc32c": "imports importlib.metadata and with it email, csv and zipfile",
    "email": "of HTTP libraries",
    "http.server": "of prometheus_client",
    "importlib.metadata": "reads packages' versions",
    "prometheus_client": "imports an HTTP server and client",
    "unittest": "of tests",
    "urllib.request": "an HTTP client",
    "urllib3": "the Kubernetes journal's HTTP client, 14 MB",
}


def test_a_broker_imports_only_what_it_needs_when_idle() -> None:
    # kio imports hypothesis where it is installed, which no broker's image has; other packages of developers may have
    # imported something when Python started.
    script = (
        "import sys; sys.modules['hypothesis'] = None; before = set(sys.modules);"
        "import broker_runtime.node_process; print(*set(sys.modules) - before)"
    )
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=300)
    assert sorted(UNWANTED.keys() & set(found.stdout.split())) == []


def test_the_checksum_is_the_packages() -> None:
    for data in (b"", b"123456789", bytes(1000)):
        assert crc32c(data) == crc32c_of_the_package(data)
    assert crc32c(b"123456789") == 0xE3069283
    assert crc32c(memoryview(b"56789"), crc32c(bytearray(b"1234"))) == 0xE3069283


def test_what_observers_import_is_found_by_name() -> None:
    for name in observers.__all__:
        assert getattr(observers, name).__name__ == name
    with pytest.raises(AttributeError, match=r"'broker_runtime\.observers' has no attribute 'Nothing'"):
        _ = observers.Nothing
