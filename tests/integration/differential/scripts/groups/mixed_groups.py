"""Groups whose members use both protocols, and groups that change their protocol (KIP-848: online migration).

Members of KIP-848 request the assignor `range` and have IDs that sort last, so that the assignment is predictable.
"""

import struct
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from tests.integration.differential.play import Play
from tests.integration.differential.scripts.cast import WAITS, Cast, Member
from tests.integration.differential.scripts.groups.consumer_groups import PROPERTIES, Group, pass_by
from tests.support.processes.clients.wire_client import Plain

PROPERTIES_BY_POLICY: Mapping[str, Mapping[str, str]] = {
    policy: {
        **PROPERTIES,
        "group.consumer.max.size": "4",
        "group.initial.rebalance.delay.ms": "0",
        "group.min.session.timeout.ms": "800",
        "group.consumer.migration.policy": policy,
    }
    for policy in ("bidirectional", "upgrade", "disabled")
}
NEW, NEWER = "~new", "~newer"
"""IDs that no coordinator generates."""
PARTITIONS = 4


def subscription(topics: Sequence[str], owned: Mapping[str, Sequence[int]], version: int) -> bytes:
    parts = [struct.pack(">hi", version, len(topics)), *map(_text, topics), struct.pack(">i", -1)]
    if version >= 1:
        parts += [struct.pack(">i", len(owned)), *_partitions(owned)]
    if version >= 2:
        parts.append(struct.pack(">i", -1))
    if version >= 3:
        parts.append(struct.pack(">h", -1))
    return b"".join(parts)


def assignment(partitions: Mapping[str, Sequence[int]]) -> bytes:
    return b"".join((struct.pack(">hi", 0, len(partitions)), *_partitions(partitions), struct.pack(">i", -1)))


def _partitions(by_topic: Mapping[str, Sequence[int]]) -> Iterator[bytes]:
    for topic, partitions in by_topic.items():
        yield _text(topic) + struct.pack(f">i{len(partitions)}i", len(partitions), *partitions)


def _text(text: str) -> bytes:
    return struct.pack(">h", len(text)) + text.encode()


class Mixed:
    """One group, with its members of both protocols."""

    def __init__(self, on: Play, name: str) -> None:
        self.on = on
        self.new = Group(on, name)
        self.topic = self.new.topic(name, PARTITIONS)
        self.cast = Cast(on, name)
        self.cast.topic = self.topic

    def protocols(self, owned: Sequence[int] = (), version: int = 1, name: str = "range") -> dict[str, Plain]:
        """Return the protocols of a classic member."""
        had = {self.topic: owned} if owned else {}
        return {"protocols": [{"name": name, "metadata": subscription([self.topic], had, version)}]}

    def join(self, member: Member, step: str, owned: Sequence[int] = (), **more: Plain) -> Plain:
        return member.join(step, **{**self.protocols(owned), **more})

    def alone(self, member: Member, step: str = "", **more: Plain) -> None:
        """Let the first member of a classic group join, and wait for its answer."""
        answer = self.join(member, "", **more)
        if answer == WAITS:
            answer = member.hear()
        if step:
            self.on.note(step, self.cast.named(answer))

    def stable(self, *members: Member) -> None:
        """Make a stable classic group of the members, which share partitions in turn."""
        self.alone(members[0])
        for number, member in enumerate(members[1:], 1):
            waiting = [each for each in (member, *members[:number]) if self.join(each, "") == WAITS]
            for each in waiting:
                each.hear()
        leader, *others = members
        for member in others:
            member.sync()
        shares = [(each, range(PARTITIONS)[number :: len(members)]) for number, each in enumerate(members)]
        given = [{"member_id": each.id, "assignment": assignment({self.topic: parts})} for each, parts in shares]
        leader.sync(assignments=given)
        for member in others:
            member.hear()

    def enters(self, step: str, member: str = NEW, **more: Plain) -> Plain:
        return self.new.join(step, member, self.topic, **{"server_assignor": "range", **more})

    def follows(self, step: str, member: str, epoch: int, *owned: int, **more: Plain) -> Plain:
        """Send a heartbeat of a KIP-848 member that reports its partitions."""
        return self.new.say(step, member, epoch, topic_partitions={self.topic: owned} if owned else {}, **more)

    def described(self, step: str) -> None:
        """Record the descriptions of both APIs, and the list entry."""
        asked = {"group_ids": [self.new.id], "include_authorized_operations": False}
        answer = self.cast.named(self.on.quietly("consumer_group_describe", 1, **asked))
        self.on.note(f"{step}: as a group of KIP-848", self.new.named(answer))
        self.cast.described(f"{step}: as a classic group")
        listed = self.on.quietly("list_groups", 5, states_filter=[], types_filter=[])["groups"]
        self.on.note(f"{step}: listed", [each for each in listed if each["group_id"] == self.new.id])

    def commit(self, step: str, member: str, epoch: int, partitions: Sequence[int] = range(PARTITIONS)) -> None:
        """Commit offsets of these partitions with version 9."""
        parts = [
            {"partition_index": index, "committed_offset": 0, "committed_leader_epoch": -1, "committed_metadata": ""}
            for index in partitions
        ]
        fields = {
            "group_id": self.new.id,
            "generation_id_or_member_epoch": epoch,
            "member_id": member,
            "group_instance_id": None,
            "topics": [{"name": self.topic, "partitions": parts}],
        }
        self.on.note(step, self.on.quietly("offset_commit", 9, **fields)["topics"][0])

    def is_type(self, wanted: str) -> None:
        """Wait until the group has this type."""

        def seen() -> bool:
            listed = self.on.quietly("list_groups", 5, states_filter=[], types_filter=[wanted])["groups"]
            return any(each["group_id"] == self.new.id for each in listed)

        self.on.until(seen)


@contextmanager
def mixed(on: Play, name: str) -> Iterator[Mixed]:
    group = Mixed(on, name)
    try:
        yield group
    finally:
        group.cast.close()


def upgraded(on: Play) -> None:
    """A member of KIP-848 joins a classic group of one, which revokes the partitions that it loses."""
    with mixed(on, "upgraded") as group:
        old = group.cast.comes("old")
        group.stable(old)
        group.enters("the new one joins")
        group.described("both are there")
        old.commit("the old one commits before it knows")
        old.beat("the old one beats, another generation", generation_id=7)
        old.beat("the old one beats")
        old.sync("the old one syncs before it joins")
        group.join(old, "the old one joins, with all", range(PARTITIONS))
        group.described("the old one gives up")
        old.sync("the old one is assigned less")
        old.beat("the old one is to join again")
        group.follows("the new one waits", NEW, 2)
        group.join(old, "the old one joins, with its half", (0, 1))
        old.sync("the old one has its half")
        old.beat("the old one is done")
        group.follows("the new one has its half", NEW, 2)
        group.described("all is done")
        old.commit("the old one commits")
        group.commit("the new one commits", NEW, 2)
        group.commit("the old one commits as if it were new", old.id, old.generation)
        old.sync("the old one syncs, another protocol", protocol_name="roundrobin")
        old.sync("the old one syncs, another type", protocol_type="connect")
        old.sync("the old one syncs, without a protocol", protocol_name=None, protocol_type=None)
        old.sync("the old one syncs, another generation", generation_id=1)
        on.note("the old one as a new one", group.new.beat(old.id, old.generation)["error_code"])
        stranger = group.cast.comes("stranger")
        stranger.id, stranger.generation = NEW, 2
        stranger.beat("the new one as an old one")
        stranger.sync("the new one syncs")
        old.leave("the old one leaves")
        old.beat("the old one has left")
        group.described("without the old one")
        group.follows("the new one has all", NEW, 2, 2, 3)
        stranger.leave("the new one leaves as an old one")
        group.described("nobody is there")


def joined(on: Play) -> None:
    """Classic members join a group of KIP-848."""
    with mixed(on, "joined") as group:
        group.enters("the new one joins")
        old, other = group.cast.comes("old"), group.cast.comes("other")
        for version in (3, 9):
            refused: Mapping[str, Mapping[str, Plain]] = {
                "an id that nobody gave": {"member_id": "!first"},
                "another type": {"protocol_type": "connect"},
                "no type": {"protocol_type": ""},
                "no protocols": {"protocols": []},
                "no subscription": {"protocols": [{"name": "range", "metadata": b"x"}]},
                "a short session": {"session_timeout": 1},
                "no group": {"group_id": ""},
            }
            for step, wrong in refused.items():
                old.id = ""
                old.ask_to_join(f"join with {step}, version {version}", version, **{**group.protocols(), **wrong})
        old = group.cast.comes("old one")
        old.ask_to_join("an id is given", **group.protocols())
        group.described("who has an id only is no member")
        old.ask_to_join("the old one joins", **group.protocols())
        old.sync("the old one has nothing yet")
        old.beat("the old one beats")
        group.described("the old one waits")
        group.follows("the new one hears", NEW, 2, *range(PARTITIONS))
        old.beat("the old one beats, still nothing")
        group.follows("the new one gives up", NEW, 2, 2, 3)
        old.beat("the old one hears")
        group.join(old, "the old one joins again")
        old.sync("the old one has its half")
        old.beat("the old one is done")
        group.join(old, "the old one joins, as before", (0, 1))
        old.sync("the old one syncs again")
        other.ask_to_join("one of another protocol", 3, **group.protocols(name="sticky"))
        other.id = ""
        other.ask_to_join("another one", 3, **group.protocols((), 0))
        other.sync("another one has nothing yet", 3)
        other.leave("another one leaves")
        old.beat("the old one hears of it")


def going_back(on: Play) -> None:
    """The last member of KIP-848 leaves or is removed: the group becomes classic again."""
    with mixed(on, "back") as group:
        old = group.cast.comes("old")
        group.stable(old)
        for step in ("leaves", "falls silent"):
            entered = group.enters(f"the new one joins, then {step}")
            old.beat(f"the old one is to join, before the other {step}")
            group.join(old, f"the old one joins, before the other {step}", range(PARTITIONS))
            old.sync(f"the old one is assigned, before the other {step}")
            if step == "leaves":
                group.new.say("the new one leaves", NEW, -1)
            else:
                for _ in range(8):
                    pass_by(1.0)
                    old.beat()
            group.is_type("classic")
            group.described(f"a classic group, as the new one {step}")
            old.commit(f"the old one commits, as the new one {step}")
            old.beat(f"the old one is to join, as the new one {step}")
            group.new.say(f"who was there, as it {step}", NEW, entered["member_epoch"])
            group.alone(old, f"the old one joins, as the new one {step}", owned=(0, 1))
            given = [{"member_id": old.id, "assignment": assignment({group.topic: range(PARTITIONS)})}]
            old.sync(f"the old one assigns, as the new one {step}", assignments=given)
            group.described(f"all is as it was, as the new one {step}")


def static_members(on: Play) -> None:
    """Instances return with another protocol."""
    with mixed(on, "static") as group:
        one, two = group.cast.comes("one", "i1"), group.cast.comes("two", "i2")
        group.stable(one, two)
        group.enters("another instance, new", instance_id="i3")
        one.beat("one is to join")
        group.enters("two comes back, new", NEWER, instance_id="i2")
        group.described("two is new")
        two.beat("who was two beats")
        two.commit("who was two commits")
        group.join(two, "who was two joins", (1, 3))
        group.join(one, "one joins", (0, 2))
        one.sync("one is assigned")
        again = group.cast.comes("again", "i2")
        again.ask_to_join("two comes back, old, while it is new", **group.protocols())
        again.sync("who is two now syncs")
        on.note("the new two beats", group.new.beat(NEWER, 3, instance_id="i2")["error_code"])
        group.described("two is old")
        group.new.say("the other one goes for a while", NEW, -2, instance_id="i3")
        third = group.cast.comes("third", "i3")
        third.ask_to_join("the other one comes back, old", **group.protocols())
        group.is_type("classic")
        group.described("all are old")
        third.beat("the other one beats")
        one.beat("one beats")
        again.leave("two leaves")


def emptied(on: Play) -> None:
    """The first client to join a group without members determines its protocol; the offsets are kept."""
    with mixed(on, "emptied") as group:
        old = group.cast.comes("old")
        group.enters("the new one joins")
        group.commit("it commits", NEW, 2)
        group.new.say("it leaves", NEW, -1)
        old.id = "somebody"
        old.ask_to_join("somebody joins", **group.protocols())
        old.id = ""
        old.ask_to_join("an id is given", **group.protocols())
        # Kafka answers that an ID is required before the log records that the group is now classic.
        group.is_type("classic")
        group.described("an id was given")
        group.alone(old, "the old one joins")
        given = [{"member_id": old.id, "assignment": assignment({group.topic: range(PARTITIONS)})}]
        old.sync("the old one assigns", assignments=given)
        group.described("a classic group")
        asked = {"group_id": group.new.id, "member_id": None, "member_epoch": -1, "topics": None}
        on.ask("its offsets", "offset_fetch", 9, groups=[asked], require_stable=False)
        old.leave("the old one leaves")
        group.described("nobody is there")
        group.enters("the new one joins again")
        group.described("a group of KIP-848 again")
        on.ask("its offsets then", "offset_fetch", 9, groups=[asked], require_stable=False)


def while_rebalancing(on: Play) -> None:
    """A member of KIP-848 joins while classic members wait for each other."""
    with mixed(on, "gathering") as group:
        first, second = group.cast.comes("first"), group.cast.comes("second")
        group.stable(first)
        group.join(second, "gathering: the second waits")
        group.enters("gathering: the new one joins")
        second.hear("gathering: the second is told")
        group.new.describe_shares("gathering: three members")
        first.beat("gathering: the first is told")
        group.join(second, "gathering: the second joins")
        second.sync("gathering: the second syncs")
    with mixed(on, "assigning") as group:
        first, second = group.cast.comes("first", "i1"), group.cast.comes("second", "i2")
        group.stable(first)
        group.join(second, "")
        group.join(first, "")
        second.hear()
        second.sync("assigning: the second waits")
        group.enters("assigning: the new one joins", instance_id="i3")
        second.hear("assigning: the second is told")
        group.described("assigning: three members")
        first.sync("assigning: the first assigns too late", assignments=[])
        first.beat("assigning: the first beats")
    with mixed(on, "nonsense") as group:
        odd = group.cast.comes("odd")
        group.alone(odd)
        odd.sync(assignments=[{"member_id": odd.id, "assignment": b"\x00"}])
        group.enters("nonsense: an assignment that nobody understands")
        odd.leave()
        odd = group.cast.comes("odder")
        group.alone(odd, protocols=[{"name": "range", "metadata": b"x"}])
        odd.sync(assignments=[{"member_id": odd.id, "assignment": b""}])
        group.enters("nonsense: a subscription that nobody understands")
        odd.leave()
        odd = group.cast.comes("oddest")
        group.alone(odd, protocol_type="connect", protocols=[{"name": "range", "metadata": b"x"}])
        odd.sync(protocol_type="connect", assignments=[{"member_id": odd.id, "assignment": b""}])
        group.enters("nonsense: a group of another type")
        group.described("nonsense: it stays what it is")


def older_epochs(on: Play) -> None:
    """Commits of a member that does not know its next epoch yet (KIP-1251)."""
    with mixed(on, "older") as group:
        group.enters("the new one joins")
        group.enters("a newer one joins", NEWER)
        told = group.follows("the new one hears", NEW, 2, *range(PARTITIONS))
        kept = told["assignment"]["topic_partitions"][group.topic]
        group.commit("in its epoch, while it gives up", NEW, 2)
        group.commit("in the epoch before", NEW, 1)
        group.follows("the new one has given up", NEW, 2, *kept)
        group.commit("in the last epoch", NEW, 2)
        group.commit("in the last epoch, its own", NEW, 2, kept)
        group.commit("in this epoch", NEW, 3)
        group.commit("in the next epoch", NEW, 4)
        group.follows("the newer one has its share", NEWER, 3)
        group.commit("the newer one in the last epoch", NEWER, 2)
        group.commit("the newer one in this epoch", NEWER, 3)
        for epoch in (-2, -1, 0):
            group.commit(f"in epoch {epoch}", NEW, epoch)
        group.commit("what is no partition", NEW, 2, (0, 99))
        group.new.say("the new one leaves", NEW, -1)
        group.follows("the newer one hears", NEWER, 3, 2, 3)
        group.commit("the newer one in the epoch before", NEWER, 3)
        old = group.cast.comes("old")
        group.join(old, "an old one joins")
        group.follows("the newer one hears of it", NEWER, 4, *range(PARTITIONS))
        group.follows("the newer one gives up", NEWER, 4, 2, 3)
        old.beat("the old one hears")
        group.join(old, "the old one joins again")
        group.commit("the old one in its generation", old.id, old.generation)
        group.commit("the old one in the last generation", old.id, old.generation - 1)
        group.commit("the old one in the next generation", old.id, old.generation + 1)
    with mixed(on, "away") as group:
        group.enters("away: it joins", instance_id="i")
        group.new.say("away: it goes for a while", NEW, -2, instance_id="i")
        for epoch in (-2, -1, 0, 2):
            group.commit(f"away: in epoch {epoch}", NEW, epoch)
        group.enters("away: it comes back", NEWER, instance_id="i")
        for epoch in (0, 1, 2, 3):
            group.commit(f"away: in epoch {epoch}, when it is back", NEWER, epoch)


def limited(on: Play) -> None:
    """A group has at most its limit of members, of both protocols together."""
    with mixed(on, "full") as group:
        members = [group.cast.comes(f"member {number}") for number in range(PROPERTIES_SIZE)]
        group.stable(*members)
        group.enters("one too many")
        members[-1].leave("one leaves")
        group.described("a place is free")


def forbidden(on: Play) -> None:
    """Changes that the policy forbids."""
    with mixed(on, "forbidden") as group:
        old = group.cast.comes("old")
        group.stable(old)
        group.enters("a new one comes to a classic group")
        group.described("with the new one")
        old.beat("the old one beats")
        group.new.say("the new one leaves", NEW, -1)
        pass_by(0.5)
        group.described("without the new one")
        old.beat("the old one beats alone")
    with mixed(on, "entered") as group:
        group.enters("a new one makes a group")
        old = group.cast.comes("old")
        group.join(old, "an old one comes to it")
        group.new.say("it leaves", NEW, -1)
        pass_by(0.5)
        group.described("the old one is alone")
        old.beat("and beats")
        old.leave("and leaves")
        group.described("nobody is there")
        again = group.cast.comes("again")
        group.alone(again, "an old one comes to an empty group")
        group.described("an old one is there")


PROPERTIES_SIZE = int(PROPERTIES_BY_POLICY["bidirectional"]["group.consumer.max.size"])
OF_MIXED_GROUPS = {
    "mixed groups upgraded": upgraded,
    "mixed groups joined": joined,
    "mixed groups going back": going_back,
    "mixed groups and static members": static_members,
    "mixed groups emptied": emptied,
    "mixed groups while rebalancing": while_rebalancing,
    "mixed groups and older epochs": older_epochs,
    "mixed groups limited": limited,
}
WITH_POLICY = {f"mixed groups, policy {policy}": policy for policy in ("upgrade", "disabled")}
