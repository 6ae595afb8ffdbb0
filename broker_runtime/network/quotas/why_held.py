"""Explain which limits apply to an address on this broker, and what connection groups have counted. Pure.

For GET /connection-quotas; docs/reference/connection-groups.md documents the response.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from heapq import nsmallest
from typing import TYPE_CHECKING

from broker_runtime.network.quotas.limits_held import LimitsHeld, shown
from connection_limits.address_ranges import WHOLE
from connection_limits.groups.connection_group import AddressGroup, GroupEntry
from connection_limits.quotas import ConnectionQuotas
from connection_limits.settings import UNLIMITED

if TYPE_CHECKING:
    from connection_limits.cluster_rates import ClusterRates

GROUPS_PER_ANSWER = 500

Content = dict[str, object]


class WhyHeld:
    """Descriptions of limits on addresses and groups, from the quotas as of `now_ms`.

    `wall_ms` is the same time by the wall clock.
    """

    def __init__(
        self, quotas: ConnectionQuotas, now_ms: int, wall_ms: int, cluster_rates: "ClusterRates | None" = None
    ) -> None:
        """`cluster_rates` has the shares of rates of the cluster; None if the broker has none."""
        self._addresses = quotas.addresses
        self._now_ms = now_ms
        self._wall_ms = wall_ms
        self._limits = LimitsHeld(quotas, now_ms, cluster_rates)

    def address(self, ip: str) -> Content:
        """Describe the limits of `ip`, which is in its canonical spelling."""
        found, rates = self._addresses.groups.holders(ip), self._addresses.rates
        holders = [self._member(one, ip) for one in found.enforcing]
        if rates.has_own(ip):
            holders.insert(0, self._of_itself("ip", ip, ip, _bits(ip)))
        elif not holders and rates.limit(ip) < UNLIMITED:
            holders.append(self._of_itself("default", None, ip, 0))
        return {
            **self._limits.of_all_clients(),
            "address": ip,
            "connections": self._addresses.counts.count(ip),
            "max_connections_per_ip": shown(self._addresses.counts.limit(ip)),
            "holders": holders,
            "observers": [self._member(one, ip) for one in found.observing],
        }

    def _of_itself(self, kind: str, entity: str | None, ip: str, prefix: int) -> Content:
        rates = self._addresses.rates
        since_ms = rates.since_ms(entity)
        return {
            "kind": kind,
            "prefix": prefix,
            "mode": "Enforce",
            "shared": False,
            "connection_creation_rate": shown(rates.limit(ip)),
            "max_connections": None,
            "cluster": None,
            "rate": rates.rate(ip, self._now_ms),
            "connections": self._addresses.counts.count(ip),
            "since": None if since_ms is None else self._time(since_ms),
            "held": {"rate": rates.held[entity]},
        }

    def _member(self, one: GroupEntry, ip: str) -> Content:
        group = one.group
        shared = group.limits.shared
        tally = group.tally if shared else self._addresses.groups.rates.meters.get((one, group.life, ip))
        return {
            "kind": "connection-group",
            "group": group.name,
            "member": one.member,
            "prefix": int(one.member.partition("/")[2] or _bits(ip)),
            **_limits(group),
            "cluster": self._cluster(group),
            "rate": 0.0 if tally is None else tally.measure(self._now_ms),
            "connections": group.connections if shared else self._addresses.groups.open_counts.of_member(one, ip),
            "since": self._time(max(one.since_ms, group.since_ms)),
            **_counts(group),
        }

    def _cluster(self, group: AddressGroup) -> Content | None:
        return self._limits.cluster(f"group:{group.name}", group.share)

    def group(self, name: str) -> Content | None:
        """Describe a connection group; None for a group that is not in force."""
        group = self._addresses.groups.by_name.get(name)
        if group is None or not group.in_force:
            return None
        return {
            **_limits(group),
            "cluster": self._cluster(group),
            "members": len(group.members),
            "connections": group.connections,
            "since": self._time(group.since_ms),
            **_counts(group),
        }

    def groups(self, after: str) -> Content:
        """Describe one page of connection groups, by name: those whose names follow `after`.

        The field `next` of the result is the value of `after` for the next page; None on the last page.
        """
        names = (name for name, group in self._addresses.groups.by_name.items() if group.in_force and name > after)
        found = nsmallest(GROUPS_PER_ANSWER + 1, names)
        shown = found[:GROUPS_PER_ANSWER]
        return {
            "groups": {name: self.group(name) for name in shown},
            "next": shown[-1] if len(found) > len(shown) else None,
        }

    def _time(self, at_ms: int) -> str:
        shown = datetime.fromtimestamp((self._wall_ms - self._now_ms + at_ms) / 1000, UTC)
        return shown.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _limits(group: AddressGroup) -> Content:
    limits = group.limits
    return {
        "mode": "Observe" if limits.observe else "Enforce",
        "shared": limits.shared,
        "connection_creation_rate": shown(limits.rate),
        "max_connections": shown(limits.max_connections),
    }


def _counts(group: AddressGroup) -> Content:
    counts: Mapping[str, Content] = {"held": dict(group.held), "would_hold": dict(group.would_hold)}
    return dict(counts)


def _bits(ip: str) -> int:
    return WHOLE[6 if ":" in ip else 4]
