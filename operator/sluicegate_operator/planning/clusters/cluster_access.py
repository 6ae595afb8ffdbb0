"""How clients reach a cluster and which release it runs, for the status of a BrokerCluster. Pure."""

import re
from collections.abc import Iterable, Sequence

from sluicegate_operator.api.models.broker_listener import BrokerListener
from sluicegate_operator.api.models.parts.broker_cluster_status import ListenerAddresses
from sluicegate_operator.planning.layout.cluster_layout import Role
from sluicegate_operator.planning.status.conditions import STALLED
from sluicegate_operator.resources.labels import selector

METADATA_VERSIONS = {
    7: "3.3-IV3",
    8: "3.4-IV0",
    9: "3.5-IV0",
    10: "3.5-IV1",
    11: "3.5-IV2",
    12: "3.6-IV0",
    13: "3.6-IV1",
    14: "3.6-IV2",
    15: "3.7-IV0",
    16: "3.7-IV1",
    17: "3.7-IV2",
    18: "3.7-IV3",
    19: "3.7-IV4",
    20: "3.8-IV0",
    21: "3.9-IV0",
    22: "4.0-IV0",
    23: "4.0-IV1",
    24: "4.0-IV2",
    25: "4.0-IV3",
    26: "4.1-IV0",
    27: "4.1-IV1",
    28: "4.2-IV0",
    29: "4.2-IV1",
    30: "4.3-IV0",
}
"""Kafka's names of the levels of the feature metadata.version (KIP-584), as of Apache Kafka 4.3."""


def client_listeners(
    listeners: Sequence[BrokerListener], before: Iterable[ListenerAddresses]
) -> tuple[ListenerAddresses, ...]:
    """Return the listeners that are open to clients, by name.

    A listener that is briefly not open on all brokers, as during a roll, keeps its address from `before`. A
    BrokerListener that clashes with another one of its name has no address, and does not hide the other's address.
    """
    known = {one.name: one.bootstrap_servers for one in before}
    found: dict[str, str] = {}
    for one in listeners:
        name = one.spec.name
        address = one.status.bootstrap or (known.get(name, "") if _is_interrupted(one) else "")
        if address:
            found.setdefault(name, address)
    return tuple(ListenerAddresses(name=name, bootstrap_servers=address) for name, address in sorted(found.items()))


def _is_interrupted(listener: BrokerListener) -> bool:
    """Return whether it was open with this spec before, and opens again without a user's action."""
    stalled = listener.status.condition(STALLED)
    opened_before = listener.status.observed_generation == listener.metadata.generation
    return opened_before and (stalled is None or stalled.status != "True")


def version_range(versions: Iterable[str | None]) -> str | None:
    """Return the release of all brokers, or the lowest and the highest release.

    None if no broker reports its release.
    """
    found = sorted({version for version in versions if version}, key=_numbers_first)
    if len(found) < 2:
        return found[0] if found else None
    return f"{found[0]} to {found[-1]}"


def metadata_version(level: int | None) -> str | None:
    """Return Kafka's name of a level of metadata.version.

    `level N` if a later release added the level; None without a level.
    """
    if level is None:
        return None
    return METADATA_VERSIONS.get(level, f"level {level}")


def broker_selector(cluster: str) -> str:
    """Return the label selector of the broker pods, as kubectl writes it."""
    return ",".join(f"{key}={value}" for key, value in sorted(selector(cluster, Role.BROKER).items()))


def _numbers_first(version: str) -> tuple[tuple[int, int | str], ...]:
    """Return a sort key by which 0.10.0 follows 0.9.0."""
    return tuple((0, int(part)) if part.isdecimal() else (1, part) for part in re.split(r"(\d+)", version) if part)
