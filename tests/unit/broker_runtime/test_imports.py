"""The modules that a broker does not import at start: each of them would cost megabytes in every process."""

import subprocess
import sys

import pytest

from broker_runtime import observers
from tests.support.oracles.imports_on_demand import LIGHT_PARTS_OF_GROUPS, ON_DEMAND, UNWANTED

MODULES_MAX = 471
"""Limit of this project's modules. Import a feature on demand, if not every broker uses it, instead of raising this."""
PACKAGES = ("broker_runtime", "connection_limits", "kafka_bytes")
# kio imports hypothesis if it is installed, which it never is in a broker's image; other packages of developers may
# have imported something when Python started.
SCRIPT = """
import sys
sys.modules['hypothesis'] = None
before = set(sys.modules)
from broker_runtime.event_loop_import import import_event_loop
import_event_loop()
import broker_runtime.node.node_process
print(*set(sys.modules) - before)
"""


def test_a_broker_imports_only_what_it_needs_when_idle() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True, timeout=300)
    found = set(done.stdout.split())
    assert sorted(found & {*ON_DEMAND, *UNWANTED}) == []
    assert {name for name in found if name.startswith("broker_runtime.groups")} == LIGHT_PARTS_OF_GROUPS
    assert len([name for name in found if name.startswith(PACKAGES)]) <= MODULES_MAX


def test_what_observers_import_is_found_by_name() -> None:
    for name in observers.__all__:
        assert getattr(observers, name).__name__ == name
    with pytest.raises(AttributeError, match=r"'broker_runtime\.observers' has no attribute 'Nothing'"):
        _ = observers.Nothing
