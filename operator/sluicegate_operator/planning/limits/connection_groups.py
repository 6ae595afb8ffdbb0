"""Connection groups: limits for ranges and changing sets of addresses, as client quotas of the bundled brokers.

A group is the entity `{connection-group: NAME}` with its limits. A member is the entity `{connection-group: NAME, ip:
ADDRESS-OR-RANGE}` with the key `member`, whose number identifies the owner of the address. How brokers use them is
described in docs/reference/connection-groups.md. Each group belongs to one ConnectionQuota and has its name, so that
each quota has its own members, modes and figures.
"""

from collections.abc import Mapping
from hashlib import blake2b
from ipaddress import ip_network

from sluicegate_operator.planning.limits.limits import CONNECTION_CREATION_RATE, IP, QuotaKey

CONNECTION_GROUP = "connection-group"
ANYBODY = 1.0
"""Number of a member without a known owner: a range, or an address that a quota names."""
_NUMBER_BYTES = 5
MAX_CONNECTIONS, SHARED, OBSERVE, CLUSTER, MEMBER = "max_connections", "shared", "observe", "cluster", "member"


def group_name(namespace: str, quota: str) -> str:
    return f"{namespace}/{quota}"


def group_limits(
    group: str, rate: int | None, count: int | None, *, shared: bool, observe: bool, of_cluster: bool = False
) -> dict[QuotaKey, float]:
    """Return the limits of a connection group; empty without a rate and a count: then the group does not exist.

    `of_cluster`: the rate, if there is one, is that of all brokers together. `count` is always that of each broker.
    """
    if rate is None and count is None:
        return {}
    of_cluster = of_cluster and rate is not None
    flags = {SHARED: 1 if shared else None, OBSERVE: 1 if observe else None, CLUSTER: 1 if of_cluster else None}
    values = {CONNECTION_CREATION_RATE: rate, MAX_CONNECTIONS: count, **flags}
    return {(((CONNECTION_GROUP, group),), key): float(value) for key, value in values.items() if value is not None}


def membership(group: str, members: Mapping[str, float]) -> dict[QuotaKey, float]:
    """Return the members of a connection group as client quotas.

    `members`: canonical addresses or ranges, each with its owner's number.
    """
    return {member_key(group, member): number for member, number in members.items()}


def number_of_pod(uid: str) -> float:
    """Return the number by which brokers distinguish a pod from the next pod with its address.

    The number is whole, exact as a double, and never ANYBODY.
    """
    return 2.0 + int.from_bytes(blake2b(uid.encode(), digest_size=_NUMBER_BYTES).digest())


def member_key(group: str, member: str) -> QuotaKey:
    return ((CONNECTION_GROUP, group), (IP, member)), MEMBER


def canonical_member(range_: str) -> str:
    """Return an address or a range in canonical form. A range of one address becomes that address.

    Raises ValueError for other text.
    """
    network = ip_network(range_)
    return str(network.network_address) if network.prefixlen == network.max_prefixlen else str(network)


def never_looser(wanted: Mapping[QuotaKey, float], seen: Mapping[QuotaKey, float]) -> dict[QuotaKey, float]:
    """Return `wanted` without observe-only modes of groups whose limits brokers enforce, according to `seen`."""
    enforced = {key[0] for key in seen} - {entity for entity, key in seen if key == OBSERVE}
    return {key: value for key, value in wanted.items() if key[1] != OBSERVE or key[0] not in enforced}
