"""Uniform assignment of a group whose members subscribe to different topics. Pure.

Members keep their partitions. A free partition goes to the subscriber with the fewest partitions. Topics with the most
partitions per subscriber come first, because they leave the least choice. Then partitions move from members with many
partitions to other subscribers, until no single move makes two members more equal. Apache Kafka calls that balanced;
the best possible balance may need several moves at once.
"""

from collections.abc import Mapping, Sequence
from heapq import heapify, heappop, heapreplace
from uuid import UUID

from broker_runtime.groups.assignors.description import MemberSubscription, TopicDescription
from broker_runtime.groups.assignors.free_partitions import FreePartitions
from broker_runtime.groups.assignors.subscribers import subscribers_by_topic
from broker_runtime.groups.records import Assignment

_NOBODY = -1


def assign_by_load(
    members: Mapping[str, MemberSubscription], topics: Mapping[UUID, TopicDescription]
) -> dict[str, Assignment]:
    """Assign every partition to a member that subscribes to its topic, as evenly as possible by load."""
    ordered = sorted(members)
    balancing = _Balancing(
        [members[member_id] for member_id in ordered], subscribers_by_topic(ordered, members, topics), topics
    )
    balancing.hand_out()
    balancing.balance()
    by_place = balancing.assignments()
    found = dict(zip(ordered, by_place, strict=True))
    return {
        member_id: member.current if member.current == found[member_id] else found[member_id]
        for member_id, member in members.items()
    }


class _Balancing:
    """The owner of each partition and the number of partitions of each member.

    Owners are indexes of members in the order of their ids.
    """

    def __init__(
        self,
        members: Sequence[MemberSubscription],
        subscribers: Mapping[UUID, list[int]],
        topics: Mapping[UUID, TopicDescription],
    ) -> None:
        self._members = members
        self._subscribers = subscribers
        self._topics = topics
        self._order = sorted(subscribers, key=self._choice)
        self._owners = {topic_id: [_NOBODY] * topics[topic_id].partitions for topic_id in subscribers}
        self._loads = [0] * len(members)
        for place, member in enumerate(members):
            for topic_id, partitions in member.current.items():
                owners = self._owners[topic_id] if topic_id in self._owners and topic_id in member.topics else ()
                for partition in partitions:
                    if partition < len(owners) and owners[partition] == _NOBODY:
                        self._owners[topic_id][partition] = place
                        self._loads[place] += 1
        self._had = {topic_id: list(owners) for topic_id, owners in self._owners.items()}

    def hand_out(self) -> None:
        """Assign each free partition to the subscriber with the fewest.

        Of one topic, a member first gets partitions in its rack.
        """
        for topic_id in self._order:
            owners, loads = self._owners[topic_id], self._loads
            partitions = [(topic_id, number) for number, owner in enumerate(owners) if owner == _NOBODY]
            if not partitions:
                continue
            places = self._subscribers[topic_id]
            free = FreePartitions(partitions, self._topics, {self._members[place].rack_id for place in places})
            least = [(loads[place], place) for place in places]
            heapify(least)
            for _ in partitions:
                load, place = least[0]
                taken = free.take_near(self._members[place].rack_id) or free.take()
                owners[taken[1]] = place
                loads[place] = load + 1
                heapreplace(least, (load + 1, place))

    def _choice(self, topic_id: UUID) -> tuple[float, int, UUID]:
        subscribers = len(self._subscribers[topic_id])
        return -self._topics[topic_id].partitions / subscribers, subscribers, topic_id

    def balance(self) -> None:
        """Move partitions until the members are balanced.

        Each move reduces the sum of the squares of all loads, so the moves come to an end.
        """
        moved = True
        while moved and max(self._loads) - min(self._loads) > 1:
            moved = False
            for topic_id in self._order:
                moved |= self._balance_topic(topic_id)

    def _balance_topic(self, topic_id: UUID) -> bool:
        loads, owners, places = self._loads, self._owners[topic_id], self._subscribers[topic_id]
        fewest = min(loads[place] for place in places)
        if not owners or max(loads[owner] for owner in owners) - fewest <= 1:
            return False
        held: dict[int, list[int]] = {}
        for partition, owner in enumerate(owners):
            held.setdefault(owner, []).append(partition)
        most = [(-loads[owner], owner) for owner in held]
        least = [(loads[place], place) for place in places]
        heapify(most)
        heapify(least)
        # The taker never has more partitions than the givers, so neither heap needs to be updated with the moves of the
        # other.
        while most and -most[0][0] - least[0][0] > 1:
            (negative, giver), (load, taker) = most[0], least[0]
            partition = min(held[giver], key=lambda one: self._reluctance(topic_id, one, giver, taker))
            held[giver].remove(partition)
            owners[partition] = taker
            loads[giver] -= 1
            loads[taker] += 1
            heapreplace(least, (load + 1, taker))
            if held[giver]:
                heapreplace(most, (negative + 1, giver))
            else:
                heappop(most)
        return True

    def _reluctance(self, topic_id: UUID, partition: int, giver: int, taker: int) -> tuple[bool, bool, int, int]:
        """Return the sort key of a move: the smallest is moved first.

        The order: partitions that the taker had, then those that are new to the giver, then those that get nearer to
        their owner.
        """
        had = self._had[topic_id][partition]
        near = 0
        if self._topics[topic_id].racks:
            racks = self._topics[topic_id].racks[partition]
            near = (self._members[giver].rack_id in racks) - (self._members[taker].rack_id in racks)
        return had != taker, had == giver, near, -partition

    def assignments(self) -> list[Assignment]:
        """Return the assignments in the order of the members."""
        found: list[dict[UUID, list[int]]] = [{} for _ in self._members]
        for topic_id, owners in self._owners.items():
            for partition, owner in enumerate(owners):
                found[owner].setdefault(topic_id, []).append(partition)
        return [{topic_id: tuple(numbers) for topic_id, numbers in of_member.items()} for of_member in found]
