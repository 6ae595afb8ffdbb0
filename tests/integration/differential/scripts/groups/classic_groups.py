"""Groups of the classic protocol: the answers that scripted members receive, and when."""

import time
from collections.abc import Mapping

from tests.integration.differential.comparing import Near
from tests.integration.differential.play import Play
from tests.integration.differential.scripts.cast import CHANGED, SAME, elapsed_s, group
from tests.support.processes.clients.wire_client import Plain, trimmed

DELAY_MS = 1_000
SIZE_MAX = 3
PROPERTIES = {
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "1",
    "group.initial.rebalance.delay.ms": str(DELAY_MS),
    "group.min.session.timeout.ms": "800",
    "group.max.session.timeout.ms": "60000",
    "group.max.size": str(SIZE_MAX),
}
WITHIN_S = 0.5
"""Tolerance of times, for two brokers on a loaded machine."""
NOT_READY = ("coordinator_load_in_progress", "coordinator_not_available", "not_coordinator")


def ready(on: Play) -> None:
    """Wait for the coordinator, and create the topic for which members commit offsets."""
    topic = {"name": "committed", "num_partitions": 1, "replication_factor": 1, "assignments": [], "configs": []}
    on.quietly("create_topics", 7, topics=[topic], timeout=30_000, validate_only=False)
    on.until(lambda: on.quietly("find_coordinator", 2, key="any", key_type=0)["error_code"] == "none")

    def coordinates() -> bool:
        asked = {"group_id": "any", "generation_id": 1, "member_id": "nobody", "group_instance_id": None}
        return on.quietly("heartbeat", 4, **asked)["error_code"] not in (*NOT_READY, "none")

    on.until(coordinates)


def versions(on: Play) -> None:
    """One member uses every version of each API."""
    for version in range(10):
        sync, beat = min(version, 5), min(version, 4)
        with group(on, f"version-{version}") as cast:
            member = cast.comes("member")
            member.join(f"join, version {version}", version)
            member.hear(f"join, version {version}: the answer")
            member.join(f"join while the assignment is waited for, version {version}", version)
            member.sync(f"sync, versions {version} and {sync}", sync, parts={member: "all"})
            member.sync(f"sync of an old generation, versions {version} and {sync}", sync, generation_id=0)
            member.beat(f"heartbeat, versions {version} and {beat}", beat)
            member.beat(f"heartbeat of a later generation, versions {version} and {beat}", beat, generation_id=7)
            member.ask_to_join(f"the leader joins again, version {version}", version)
            member.leave(f"leave, versions {version} and {sync}", sync)
            member.leave(f"leave again, versions {version} and {sync}", sync)


def refusals(on: Play) -> None:
    """Requests that every group refuses."""
    with group(on, "refusals") as cast:
        member = cast.comes("member")
        wrongs: Mapping[str, Plain] = {
            "no group id": {"group_id": ""},
            "a short session": {"session_timeout": 799},
            "a long session": {"session_timeout": 60_001},
            "an id that nobody gave": {"member_id": "somebody"},
            "no protocol": {"protocols": []},
            "no protocol type": {"protocol_type": ""},
        }
        for step, wrong in wrongs.items():
            for version in (0, 3, 6, 9):
                member.id = ""
                member.ask_to_join(f"join with {step}, version {version}", version, **wrong)
        nobody = cast.comes("nobody")
        for step, where in {"no group id": "", "no such group": f"none-{on.number}"}.items():
            nobody.id, nobody.generation = "somebody", 1
            nobody.sync(f"sync, {step}", group_id=where)
            nobody.beat(f"heartbeat, {step}", group_id=where)
            nobody.commit(f"commit, {step}", group_id=where)
            nobody.commit(f"commit, {step}, version 8", 8, group_id=where)
            leaving = [{"member_id": "somebody", "group_instance_id": None, "reason": None}]
            for version in (2, 5):
                asked = {"group_id": where, "member_id": "somebody", "members": leaving}
                on.ask(f"leave, {step}, {version}", "leave_group", version, **trimmed("leave_group", version, asked))
        cast.stable(member)
        stranger = cast.comes("stranger")
        stranger.protocol_type = "connect"
        stranger.ask_to_join("join with another protocol type")
        stranger.protocol_type, stranger.protocols = "consumer", [("other", ["t"])]
        stranger.ask_to_join("join with a protocol that nobody speaks")
        member.sync("sync of another protocol type", protocol_type="connect")
        member.sync("sync of another protocol", protocol_name="other")
        member.sync("sync without a protocol", protocol_type=None, protocol_name=None)
        member.protocols = [("other", ["t"])]
        member.join("a member alone comes with another protocol")
        cast.described("afterwards")


def late_joins(on: Play) -> None:
    """A member joins a stable group."""
    with group(on, "late") as cast:
        first, second = cast.comes("first"), cast.comes("second")
        cast.stable(first)
        cast.described("one member")
        second.join("the second joins")
        cast.described("while the first is waited for")
        first.beat("the first beats")
        first.sync("the first syncs")
        first.commit("the first commits")
        first.join("the first joins again")
        second.hear("the second has joined")
        cast.described("while the assignment is waited for")
        first.beat("the first beats before it syncs")
        first.commit("the first commits before it syncs")
        second.beat("the second beats before it syncs")
        second.sync("the second syncs")
        second.still_waits("the second waits")
        first.sync("the leader syncs", parts={first: "one", second: "two"})
        second.hear("the second is assigned")
        cast.described("two members")
        first.commit("the first commits again")
        first.leave("the leader leaves")
        second.beat("the second beats")
        second.join("the second joins again")
        second.sync("the second is alone", parts={second: "all"})
        second.leave("the second leaves")
        cast.described("nobody")
        second.beat("a beat to an empty group")
        second.sync("a sync to an empty group")
        second.join("a join of a former member")


def rejoins(on: Play) -> None:
    """Members join again, with the same metadata and with other metadata."""
    with group(on, "rejoins") as cast:
        leader, follower = cast.comes("leader"), cast.comes("follower")
        cast.stable(leader, follower)
        follower.join("the follower, as before")
        follower.sync("the follower syncs again")
        follower.protocols = CHANGED
        follower.join("the follower, changed")
        leader.beat("the leader beats")
        leader.join("the leader joins too")
        follower.hear("the follower has joined")
        follower.join("the follower while the assignment is waited for")
        leader.join("the leader while the assignment is waited for")
        follower.sync("the follower syncs")
        leader.protocols = CHANGED
        leader.join("the leader, changed, while the assignment is waited for")
        follower.hear("the follower is told")
        follower.join("the follower again")
        leader.hear("the leader has joined")
        leader.sync("the leader syncs", parts={leader: "one"})
        follower.sync("the follower, who was forgotten")
        leader.join("the leader, as before")
        leader.join("the leader, impatient")
        follower.join("the follower joins")
        leader.hear("the leader hears the last one")


def partings(on: Play) -> None:
    """The session of the leader ends; then those of all members."""
    with group(on, "partings") as cast:
        leader, follower = cast.comes("leader"), cast.comes("follower")
        leader.session_ms = 1_200
        cast.stable(leader, follower)
        follower.beat("all is well")
        began_s = time.monotonic()
        on.until(lambda: follower.beat()["error_code"] != "none")
        on.note("the session ends after s", Near(elapsed_s(began_s), WITHIN_S))
        follower.join("the follower joins")
        leader.beat("the dead beats")
        leader.sync("the dead syncs")
        leader.commit("the dead commits")
        leader.join("the dead joins")
        follower.sync("the follower leads", parts={follower: "all"})
        follower.session_ms = 1_000
        follower.join("the follower joins with a short session")
        follower.sync(parts={follower: "all"})
        on.until(lambda: cast.look()["group_state"] == "Empty")
        cast.described("nobody is left")
        follower.join("one who was missed")


def static_members(on: Play) -> None:
    """Members with an instance ID restart (KIP-345, KIP-814)."""
    with group(on, "static") as cast:
        now = {"leader": cast.comes("one", "i1"), "follower": cast.comes("two", "i2")}
        cast.stable(*now.values())
        cast.described("two static members")
        for role, version in (("follower", 9), ("leader", 9), ("follower", 5), ("leader", 8)):
            name, before = f"{role}, version {version}", now[role]
            now[role] = again = cast.comes(before.name, before.instance)
            again.join(f"{name} starts again", version)
            again.sync(f"{name} syncs")
            again.beat(f"{name} beats")
            before.beat(f"{name}: who was before beats")
            before.sync(f"{name}: who was before syncs")
            before.commit(f"{name}: who was before commits")
            before.join(f"{name}: who was before joins")
            before.leave(f"{name}: who was before leaves")
            before.beat(f"{name}: who was before beats without its instance", group_instance_id=None)
        one, two = now.values()
        stranger = cast.comes("stranger", "i3")
        stranger.id, stranger.generation = one.id, one.generation
        stranger.beat("another instance with a member's id")
        two.protocols = [("range", ["t"]), ("other", ["t"])]
        two.join("the follower changes its protocols")
        one.join("the leader joins")
        two.hear("the follower has joined")
        again = cast.comes("two", "i2")
        again.join("started again while the assignment is waited for")
        joined = one.join()
        again.hear("the one who was started again has joined")
        on.note("the leader joins once more", cast.named(joined))
        again.sync()
        one.sync("the leader assigns", parts={one: "one", again: "two"})
        again.hear("the follower is assigned")
        gone: Mapping[str, Plain] = {
            "an administrator has one go": [{"member_id": "", "group_instance_id": "i2"}],
            "and others": [
                {"member_id": "", "group_instance_id": "i7"},
                {"member_id": "nobody", "group_instance_id": "i1"},
                {"member_id": "", "group_instance_id": None},
            ],
        }
        for name, members in gone.items():
            leaving = [member | {"reason": None} for member in members]
            on.ask(name, "leave_group", 5, group_id=cast.group, members=leaving)
        one.beat("the leader beats")
        cast.described("at the end")


def waiting_static_members(on: Play) -> None:
    """Static members restart while they wait, and miss the end of a rebalance without losing their membership."""
    with group(on, "waiting") as cast:
        one, again = cast.comes("one", "i1"), cast.comes("one", "i1")
        one.join("it joins")
        again.join("it is started again")
        one.hear("who was before")
        again.hear("who is now")
        again.sync(parts={again: "all"})
        other = cast.comes("other")
        again.rebalance_ms = other.rebalance_ms = 1_500
        again.join()
        again.sync(parts={again: "all"})
        began_s = time.monotonic()
        other.join("another joins")
        other.hear("another has joined")
        on.note("after s", Near(elapsed_s(began_s), WITHIN_S))
        again.beat("the static member is still one", generation_id=other.generation)


def pending_ids(on: Play) -> None:
    """IDs that were given but not used block a rebalance until they expire or leave."""
    with group(on, "pending") as cast:
        first, late = cast.comes("first"), cast.comes("late")
        cast.stable(first)
        late.session_ms = 1_500
        late.ask_to_join("an id is given")
        cast.described("it is no member")
        late.beat("its id beats")
        late.sync("its id syncs")
        began_s = time.monotonic()
        first.join("the first joins")
        first.hear("the first has joined")
        on.note("the id expires after s", Near(elapsed_s(began_s), WITHIN_S))
        late.ask_to_join("the id joins too late")
        first.sync(parts={first: "all"})
        late.id = ""
        late.ask_to_join("another id")
        first.join("the first joins again")
        late.leave("the id leaves")
        first.hear("the first need not wait")
        late.leave("the id leaves again")


def generations(on: Play) -> None:
    """Wrong generations, and commits of members and of other clients."""
    with group(on, "generations") as cast:
        first, second = cast.comes("first"), cast.comes("second")
        simple = cast.comes("simple")
        simple.commit("nobody commits to a group that is not there")
        simple.commit("and again")
        cast.described("a group of offsets only")
        cast.stable(first, second)
        simple.commit("nobody commits to a group with members")
        for step, generation in {"earlier": 0, "later": 9, "none": -1}.items():
            first.beat(f"beat, {step}", generation_id=generation)
            first.sync(f"sync, {step}", generation_id=generation)
            first.commit(f"commit, {step}", generation_id_or_member_epoch=generation)
        first.commit("commit with no id", member_id="")
        first.commit("commit with another id", member_id="somebody")
        first.commit("commit, version 2", 2)
        first.commit("commit")


def deadlines(on: Play) -> None:
    """Time limits for newcomers, joins and syncs."""
    with group(on, "newcomers") as cast:
        first, second = cast.comes("first"), cast.comes("second")
        began_s = time.monotonic()
        first.join()
        second.join()
        first.hear("the first of two")
        on.note("newcomers: after s", Near(elapsed_s(began_s), WITHIN_S))
        second.hear("the second of two")
    with group(on, "joins") as cast:
        first, second = cast.comes("first"), cast.comes("second")
        first.rebalance_ms = second.rebalance_ms = 1_500
        cast.stable(first, second)
        began_s = time.monotonic()
        first.join("one of two joins")
        first.hear("the other is missed")
        on.note("joins: after s", Near(elapsed_s(began_s), WITHIN_S))
        second.beat("who was missed")
    with group(on, "syncs") as cast:
        first, second = cast.comes("first"), cast.comes("second")
        first.rebalance_ms = second.rebalance_ms = 1_500
        first.join()
        second.join()
        first.hear()
        second.hear()
        began_s = time.monotonic()
        second.sync("one of two syncs")
        second.hear("the leader is missed")
        on.note("syncs: after s", Near(elapsed_s(began_s), WITHIN_S))
        first.beat("the leader beats")
        second.join("the other joins")


def full(on: Play) -> None:
    """More members join than a group may have."""
    with group(on, "full") as cast:
        members = [cast.comes(f"member {number}") for number in range(SIZE_MAX)]
        cast.stable(*members)
        late = cast.comes("late")
        late.ask_to_join("one too many")
        late.ask_to_join("one too many, version 3", 3)
        late.instance = "i"
        late.ask_to_join("one too many, static")
        members[1].protocols = CHANGED
        members[1].join("a member")
        late.instance = None
        late.join("while joins are gathered")
        members[0].join("another member")
        members[2].join("the last member")
        cast.described("afterwards")


def protocols(on: Play) -> None:
    """The choice of a protocol that all members support, by their preferences."""
    with group(on, "votes") as cast:
        members = [cast.comes(name) for name in ("a", "b", "c")]
        for member, spoken in zip(members, (["x", "y", "z"], ["y", "z"], ["z", "y"]), strict=True):
            member.protocols = [(name, [name]) for name in spoken]
            member.join()
        for member in members:
            member.hear(f"{member.name} has joined")
        members[2].protocols = [("x", ["x"])]
        members[2].join("one of them speaks something else")
        members[2].protocols = [("z", ["z"])]
        members[2].join("one of them speaks less")
        members[0].protocols = SAME
        members[0].join("the leader speaks something else")
        cast.described("while joins are gathered")


SEQUENCES = {
    "classic groups: versions": versions,
    "classic groups: refusals": refusals,
    "classic groups: late joins": late_joins,
    "classic groups: rejoins": rejoins,
    "classic groups: partings": partings,
    "classic groups: static members": static_members,
    "classic groups: static members who wait": waiting_static_members,
    "classic groups: pending ids": pending_ids,
    "classic groups: generations": generations,
    "classic groups: deadlines": deadlines,
    "classic groups: full": full,
    "classic groups: protocols": protocols,
}
