"""Validate connection groups, and limit their number. Pure."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv6Network, ip_network

from broker_runtime.config import BrokerConfig
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.metadata.areas.connection_groups import CLUSTER_KEY, SHARED_KEY, ConnectionGroupTable
from broker_runtime.metadata.areas.quotas import MEMBER_KEY, ClientQuotaRecord, group_and_member

_NAME = re.compile("[A-Za-z0-9._-]+(/[A-Za-z0-9._-]+)?")
_NAME_LENGTH_MAX = 320


def check_name(name: str | None) -> None:
    """Check a group's name, which is a metrics label and appears in the audit log. Raises KafkaError."""
    if name is None or len(name) > _NAME_LENGTH_MAX or _NAME.fullmatch(name) is None:
        raise _invalid(
            "The name of a connection-group is letters, digits, dots, dashes and underscores, with one slash at most "
            f"between them, up to {_NAME_LENGTH_MAX} characters, for example shop/ingest"
        )


def check_member(member: str | None) -> None:
    """Check that `member` is an address or a range in its canonical spelling. Raises KafkaError."""
    if member is None:
        raise _invalid("A member of a connection-group must be an address or a range; a default member does not exist")
    try:
        network = ip_network(member)
    except ValueError:
        raise _invalid(_not_a_member(member)) from None
    if isinstance(network, IPv6Network) and (
        network.network_address.ipv4_mapped is not None or network.network_address.scope_id is not None
    ):
        raise _invalid(
            f"{member}: the broker identifies clients with IPv4 addresses by those; write the member as IPv4, "
            "without a zone"
        )
    whole = network.prefixlen == network.max_prefixlen
    canonical = network.network_address.compressed if whole else network.compressed
    if member != canonical:
        raise _invalid(f"{member} must be written as {canonical}")


def _not_a_member(member: str) -> str:
    try:
        range_of_it = ip_network(member, strict=False).compressed
    except ValueError:
        return f"{member} is neither an IP address nor a range such as 10.0.0.0/8"
    return f"{member} has bits set beyond its prefix; the range that contains it is {range_of_it}"


def check_flag(key: str, value: float) -> None:
    """Check the value of `shared`, `observe` or `cluster`. Raises KafkaError."""
    if value not in (0, 1):
        raise _invalid(f"{key} must be 0 or 1")


def check_cluster_wide(values: Mapping[str, float | None]) -> None:
    """Check that a group whose rate is that of all brokers shares it among its members. Raises KafkaError.

    `values` are those of the group after a change; None is a removed value.
    """
    if values.get(CLUSTER_KEY) == 1 and values.get(SHARED_KEY) != 1:
        raise _invalid(
            f"{CLUSTER_KEY} 1 needs {SHARED_KEY} 1: the members share the one rate of all brokers; set {SHARED_KEY} to "
            f"1, or {CLUSTER_KEY} to 0"
        )


def check_member_number(value: float) -> None:
    """Check the number that identifies the holder of a member. Raises KafkaError."""
    if not (value >= 1 and value.is_integer()):
        raise _invalid(
            f"{MEMBER_KEY} must be a whole number of at least 1, which identifies the holder of the address; "
            "remove the value to remove the member from the group"
        )


@dataclass(frozen=True, slots=True)
class GroupLimits:
    """Maximum numbers of groups, of members of all groups, of members of one group, and of groups with `cluster`."""

    groups: int = BrokerConfig.sluicegate_connection_groups_max.default
    members: int = BrokerConfig.sluicegate_connection_groups_members_max.default
    members_of_one: int = BrokerConfig.sluicegate_connection_group_members_max.default
    cluster_wide: int = BrokerConfig.sluicegate_connection_groups_cluster_max.default


class GroupCapacity:
    """The numbers of groups and members that a request may still add. Entries of the request are counted one by one."""

    def __init__(self, groups: ConnectionGroupTable, limits: GroupLimits) -> None:
        self._groups = groups
        self._limits = limits
        self._new: set[str] = set()
        self._cluster_wide = 0
        """Change of the number of groups with `cluster` 1 by earlier entries."""
        self._members: Counter[str] = Counter()
        """Change of each group's number of members: those that earlier entries added, minus those that they removed."""

    def take(self, records: Sequence[ClientQuotaRecord]) -> None:
        """Count `records`: the changes that one entry of the request makes.

        Raises KafkaError if there is no room for new groups or members, and then counts nothing.
        """
        new, members = set(self._new), Counter[str]()
        cluster_wide = self._cluster_wide
        for record in records:
            about = group_and_member(record)
            if about is None:
                continue
            name, member = about
            if member is not None and record.value is None:
                members[name] -= 1
            elif member is not None and (name not in self._groups or member not in self._groups[name].members):
                members[name] += 1
            if record.value is not None and name not in self._groups:
                new.add(name)
            if member is None and record.key == CLUSTER_KEY:
                was = name in self._groups and self._groups[name].is_cluster_wide
                cluster_wide += (record.value == 1) - was
        self._check(new, members)
        if self._cluster_wide < cluster_wide > self._limits.cluster_wide - self._groups.cluster_wide_total:
            what = f"{self._limits.cluster_wide} connection-groups with {CLUSTER_KEY} 1"
            raise _invalid(_full(what, BrokerConfig.sluicegate_connection_groups_cluster_max.name))
        self._new, self._cluster_wide = new, cluster_wide
        self._members.update(members)

    def _check(self, new: set[str], members: Mapping[str, int]) -> None:
        limits = self._limits
        if len(new) > len(self._new) and len(self._groups) + len(new) > limits.groups:
            raise _invalid(
                _full(f"{limits.groups} connection-groups", BrokerConfig.sluicegate_connection_groups_max.name)
            )
        total = self._groups.members_total + self._members.total()
        for name, more in members.items():
            total += more
            known = len(self._groups[name].members) if name in self._groups else 0
            if more > 0 and known + self._members[name] + more > limits.members_of_one:
                what = f"{limits.members_of_one} members of one connection-group"
                raise _invalid(_full(what, BrokerConfig.sluicegate_connection_group_members_max.name))
            if more > 0 and total > limits.members:
                what = f"{limits.members} members of all connection-groups"
                raise _invalid(_full(what, BrokerConfig.sluicegate_connection_groups_members_max.name))


def _full(what: str, key: str) -> str:
    return f"There are already {what}, the maximum that {key} allows"


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, message)
