"""Choose the broker for one more replica of a partition. Pure."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass


@dataclass(slots=True)
class ReplicaTargets:
    """The brokers that may take replicas: the number of replicas of each, and the rack of every broker.

    `load` grows with each replica that is placed, so that one plan spreads its replicas.
    """

    load: dict[int, int]
    racks: Mapping[int, str | None]

    @classmethod
    def of(
        cls, brokers: Iterable[int], racks: Mapping[int, str | None], placed: Iterable[Collection[int]]
    ) -> "ReplicaTargets":
        """Count the replicas that brokers have. `placed` has the replicas of each partition."""
        load = dict.fromkeys(sorted(brokers), 0)
        for replicas in placed:
            for replica in replicas:
                if replica in load:
                    load[replica] += 1
        return cls(load, racks)

    def choose(self, beside: Collection[int]) -> int | None:
        """Return the broker for one more replica beside those on `beside`; None if every broker has a replica.

        A rack without a replica of the partition comes first, then the broker with the fewest replicas.
        """
        used = self.racks_of(beside)
        free = [broker for broker in self.load if broker not in beside]
        if not free:
            return None
        best = min(free, key=lambda broker: (self.racks.get(broker) in used, self.load[broker], broker))
        self.load[best] += 1
        return best

    def release(self, broker: int) -> None:
        """Count one replica less on the broker."""
        if broker in self.load:
            self.load[broker] -= 1

    def racks_of(self, brokers: Collection[int]) -> set[str]:
        """Return the known racks of these brokers."""
        return {rack for broker in brokers if (rack := self.racks.get(broker)) is not None}
