"""Which brokers a roll may try to restart together: one, or all of one rack that need it. Pure.

A rack is the one that the broker registered, so the controller placed replicas by it. `roll` decides whether a group
may restart. Brokers of a rack that may not restart as a whole are tried one by one after all racks.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

Strategy = Literal["Broker", "Rack"]
"""Values of spec.rollout.strategy."""


@dataclass(frozen=True, slots=True)
class BrokerGroup:
    """Brokers that restart together. `rack` is empty for a single broker."""

    brokers: frozenset[int]
    rack: str = ""

    @property
    def of_a_rack(self) -> bool:
        return bool(self.rack)

    def __str__(self) -> str:
        names = ", ".join(map(str, sorted(self.brokers)))
        return f"rack {self.rack} (brokers {names})" if self.rack else f"broker {names}"


def broker_groups(
    strategy: Strategy, pending: Collection[int], racks: Mapping[int, str | None]
) -> Sequence[BrokerGroup]:
    """Return the groups of brokers in the order in which they are tried.

    A broker that has no rack, or is the only one of its rack, is a group by itself.
    """
    alone = [BrokerGroup(frozenset({broker_id})) for broker_id in sorted(pending)]
    if strategy == "Broker":
        return alone
    by_rack: dict[str, set[int]] = {}
    for broker_id in sorted(pending):
        if rack := racks.get(broker_id):
            by_rack.setdefault(rack, set()).add(broker_id)
    whole = [BrokerGroup(frozenset(ids), rack) for rack, ids in sorted(by_rack.items()) if len(ids) > 1]
    return [*whole, *alone]
