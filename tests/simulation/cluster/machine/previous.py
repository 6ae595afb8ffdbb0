"""The previous release's broker in the process of this one, under other names of packages.

Both releases share the virtual loop, the network and the disks. The previous release brings its own replacements for
the operating system, those of its own simulation.
"""

import importlib
import sys
from collections.abc import Mapping
from contextlib import AbstractContextManager
from functools import cache
from types import SimpleNamespace
from typing import Any

from broker_runtime.clock import Clock
from tests.simulation.cluster.machine import loop, network
from tests.simulation.cluster.machine.process import Surroundings
from tests.simulation.cluster.machine.release import Created, Release
from tests.support.obtain.previous_release import RENAMED, renamed_packages

_SIMULATION = f"{RENAMED}tests.simulation.cluster"
_LATER_KEYS = ("transaction.",)
"""Beginnings of the keys that only this release has."""


class _Parts:
    """The parts of a previous release's node, under the names of this release."""

    def __init__(self, node: Any) -> None:
        self._node = node

    def __getattr__(self, name: str) -> Any:
        return getattr(self._node, name)

    @property
    def membership(self) -> Any:
        member = self._node.membership
        return None if member is None else SimpleNamespace(status=member)


@cache
def previous() -> Release:
    """Return the previous release. Imports its modules at the first call."""
    machine, composition = _machine(), _module("broker_runtime.broker")

    def create(properties: Mapping[str, str], clock: Clock) -> Created:
        known = {key: value for key, value in properties.items() if not key.startswith(_LATER_KEYS)}
        node = composition.Broker(machine.broker_settings(known), clock)
        parts: Any = _Parts(node)
        return node.run_until, parts

    return Release("the previous release", create, composition.StartError, machine._OF_A_DISK)


def replaced(around: Surroundings, cluster_id: str, seed: int) -> AbstractContextManager[None]:
    """Replace the operating system of the previous release's nodes, too."""
    found: AbstractContextManager[None] = _machine().replaced_operating_system(around, cluster_id, seed)
    return found


@cache
def _machine() -> Any:
    sys.path.append(str(renamed_packages()))
    # A callback's owner and a connection must be known to both releases.
    sys.modules[f"{_SIMULATION}.loop"] = loop
    sys.modules[f"{_SIMULATION}.network"] = network
    return _module("tests.simulation.cluster.process")


def _module(name: str) -> Any:
    return importlib.import_module(f"{RENAMED}{name}")
