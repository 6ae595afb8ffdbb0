"""Connection groups: limits that ranges and changing sets of addresses have, as client quotas of the bundled brokers.

A group is the entity `{connection-group: NAME}` with its limits; a member is the entity `{connection-group: NAME, ip:
ADDRESS-OR-RANGE}` with the key `member`, whose number tells who has the address. What brokers make of them is said in
docs/reference/connection-groups.md. Each group belongs to one ConnectionQuota and has its name, so that each has
members, modes and figures of its own.
"""

from collections.abc import Mapping
from hashlib import blake2b
from ipaddress import ip_network

from sluicegate_operator.planning.limits import CONNECTION_CREATION_RATE, IP, QuotaKey

CONNECTION_GROUP = "connection-group"
ANYBODY = 1.0
"""The number of a member of which nobody says who has it: of a range, and of an address that a quota names."""
_NUMBER_BYTES = 5
MAX_CONNECTIONS, SHARED, OBSERVE, MEMBER = "max_connections", "shared", "observe", "member"


def group_name(namespace: str, quota: str) -> str:
    return f"{namespace}/{quota}"


def group_limits(
    group: str, rate: int | None, count: int | None, *, shared: bool, observe: bool
) -> dict[QuotaKey, float]:
    """Empty when there is neither a rate nor a count: there is no such group."""
    if rate is None and count is None:
        return {}
    flags = {SHARED: 1 if shared else None, OBSERVE: 1 if observe else None}
    values = {CONNECTION_CREATION_RATE: rate, MAX_CONNECTIONS: count, **flags}
    return {(((CONNECTION_GROUP, group),), key): float(value) for key, value in values.items() if value is not None}


def membership(group: str, members: Mapping[str, float]) -> dict[QuotaKey, float]:
    """`members` in canonical form, each with the number of who has it."""
    return {member_key(group, member): number for member, number in members.items()}


def number_of_pod(uid: str) -> float:
    """That brokers tell it by from the pod that has its address next: whole, kept by a double, and never ANYBODY."""
    return 2.0 + int.from_bytes(blake2b(uid.encode(), digest_size=_NUMBER_BYTES).digest())


def member_key(group: str, member: str) -> QuotaKey:
    return ((CONNECTION_GROUP, group), (IP, member)), MEMBER


def canonical_member(range_: str) -> str:
    """Of an address or a range; a range of one address is that address. Raises ValueError."""
    network = ip_network(range_)
    return str(network.network_address) if network.prefixlen == network.max_prefixlen else str(network)


def never_looser(wanted: Mapping[QuotaKey, float], seen: Mapping[QuotaKey, float]) -> dict[QuotaKey, float]:
    """`wanted` without orders to only observe of groups that brokers enforce, by what they have been `seen` to have."""
    enforced = {key[0] for key in seen} - {entity for entity, key in seen if key == OBSERVE}
    return {key: value for key, value in wanted.items() if key[1] != OBSERVE or key[0] not in enforced}
