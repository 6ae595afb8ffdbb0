"""Offsets that groups commit: accepted, read, deleted, refused, by members and by others, in every version."""

from collections.abc import Sequence
from functools import partial
from struct import pack
from uuid import UUID

from tests.integration.differential.play import Play
from tests.integration.differential.scripts.topics import TIMEOUT_MS, new
from tests.integration.differential.settling import settle
from tests.support.processes.clients.wire_client import Plain, trimmed

TOPIC = "kept"
READ, UNREAD = "read", "unread"
"""A topic that members of groups read here, and one that they do not."""
COMMITS, FETCHES, DELETES = range(2, 10), range(1, 10), range(3)
FIRST_OF_SEVERAL_GROUPS = 8
NOT_READY = ("coordinator_not_available", "not_coordinator", "coordinator_load_in_progress")
SUBSCRIBED = pack(f">hih{len(READ)}si", 0, 1, len(READ), READ.encode(), -1)
NO_TOPIC = UUID(int=0)
NOBODY: dict[str, Plain] = {"generation_id_or_member_epoch": -1, "member_id": "", "group_instance_id": None}

Offsets = Sequence[tuple[str, Sequence[tuple[int, int, str | None]]]]
"""Topics with partitions: offsets, and their metadata."""


def prepared(on: Play) -> None:
    """Create topics, and wait until every partition of groups has a coordinator."""
    topics = [new(name, 3) for name in (TOPIC, READ, UNREAD)]
    on.quietly("create_topics", 7, topics=topics, timeout=TIMEOUT_MS, validate_only=False)
    settle(on)
    for number in range(20):
        on.until(partial(_is_coordinated, on, f"group-{number}"))


def _is_coordinated(on: Play, group: str) -> bool:
    found = on.quietly("find_coordinator", 3, key=group, key_type=0)
    if found["error_code"] in NOT_READY:
        return False
    return on.quietly("offset_fetch", 7, group_id=group, topics=[])["error_code"] not in NOT_READY


def coordinators_found(on: Play) -> None:
    prepared(on)
    for version in range(7):
        several = {"key": "a-group", "key_type": 0, "coordinator_keys": ["a-group", "b-group", "a-group"]}
        on.ask(f"version {version}", "find_coordinator", version, **trimmed("find_coordinator", version, several))
        empty = {"key": "", "key_type": 0, "coordinator_keys": [""]}
        on.ask(
            f"empty id, version {version}", "find_coordinator", version, **trimmed("find_coordinator", version, empty)
        )
    on.ask("no keys", "find_coordinator", 4, key_type=0, coordinator_keys=[])


def _commit(on: Play, step: str, version: int, group: str, offsets: Offsets, **who: Plain) -> None:
    fields = {
        "group_id": group,
        **NOBODY,
        **who,
        "topics": [
            {
                "name": name,
                "partitions": [
                    {
                        "partition_index": partition,
                        "committed_offset": offset,
                        "committed_leader_epoch": -1,
                        "committed_metadata": metadata,
                    }
                    for partition, offset, metadata in partitions
                ],
            }
            for name, partitions in offsets
        ],
    }
    on.ask(step, "offset_commit", version, **trimmed("offset_commit", version, fields))


def _fetch(
    on: Play, step: str, version: int, group: str, partitions: dict[str, list[int]] | None, **more: Plain
) -> None:
    topics = None
    if partitions is not None:
        topics = [{"name": name, "partition_indexes": numbers} for name, numbers in partitions.items()]
    member = {"member_id": more.pop("member_id", None), "member_epoch": more.pop("member_epoch", -1)}
    asked = {"group_id": group, "topics": topics, **member}
    fields = {**asked, "groups": [asked], "require_stable": False, **more}
    on.ask(step, "offset_fetch", version, **trimmed("offset_fetch", version, fields))


def committed_by_nobody(on: Play) -> None:
    prepared(on)
    for version in COMMITS:
        group = f"simple-{version}"
        _commit(on, f"version {version}", version, group, [(TOPIC, [(0, 42, "half"), (1, 0, None)])])
        _commit(on, f"again, version {version}", version, group, [(TOPIC, [(0, 41, "")])])
        _commit(on, f"no topics, version {version}", version, group, [])
        _commit(on, f"no partitions, version {version}", version, group, [(TOPIC, [])])
        _commit(on, f"nothing is kept of it, version {version}", version, f"none-{version}", [])
    for version in FETCHES:
        group = f"simple-{max(version, 2)}"
        _fetch(on, f"named, version {version}", version, group, {TOPIC: [1, 0, 2], UNREAD: [0]})
        _fetch(on, f"nothing named, version {version}", version, group, {})
        _fetch(on, f"unknown partition, version {version}", version, group, {TOPIC: [7, -1], "not-there": [0]})
        _fetch(on, f"unknown group, version {version}", version, "nobody-knows", {TOPIC: [0]})
        _fetch(on, f"empty group id, version {version}", version, "", {TOPIC: [0]})
        if version > 1:
            _fetch(on, f"all, version {version}", version, group, None)
            _fetch(on, f"all of an unknown group, version {version}", version, "nobody-knows", None)
        _fetch(on, f"stable ones, version {version}", version, group, {TOPIC: [0]}, require_stable=True)
    _fetch(on, "nothing was kept", 7, "none-5", None)
    several = [{"group_id": f"simple-{n}", "topics": None} for n in (3, 3, 4)] + [{"group_id": "x", "topics": None}]
    for version in range(FIRST_OF_SEVERAL_GROUPS, FETCHES.stop):
        on.ask(f"several, version {version}", "offset_fetch", version, groups=several, require_stable=False)
        on.ask(f"none, version {version}", "offset_fetch", version, groups=[], require_stable=False)


def refused_to_nobody(on: Play) -> None:
    prepared(on)
    longest = "m" * 4096
    for version in COMMITS:
        one = [(TOPIC, [(0, 1, None)])]
        _commit(on, f"empty group id, version {version}", version, "", one)
        _commit(on, f"unknown topic, version {version}", version, "refused", [("not-there", [(0, 1, None)])])
        _commit(on, f"impossible topic, version {version}", version, "refused", [("not there", [(0, 1, None)])])
        unknown = [(TOPIC, [(7, 1, None), (0, 2, None), (-1, 1, None)])]
        _commit(on, f"unknown partitions, version {version}", version, "refused", unknown)
        texts = [(TOPIC, [(0, 1, longest), (1, 1, f"{longest}m"), (2, 1, "\U0001f600" * 2048)])]
        _commit(on, f"long texts, version {version}", version, f"texts-{version}", texts)
        longer = [(TOPIC, [(0, 1, "\U0001f600" * 2049)])]
        _commit(on, f"a text longer than it looks, version {version}", version, f"texts-{version}", longer)
        _fetch(on, f"what is left, version {version}", 7, f"texts-{version}", None)
        _commit(on, f"a generation, version {version}", version, "gone", one, generation_id_or_member_epoch=0)
        _commit(
            on, f"odd generation, version {version}", version, f"odd-{version}", one, generation_id_or_member_epoch=-7
        )
        _commit(on, f"negative offset, version {version}", version, f"odd-{version}", [(TOPIC, [(0, -1, None)])])
        member = {"generation_id_or_member_epoch": 3, "member_id": "m"}
        _commit(on, f"who was a member, version {version}", version, "gone", one, **member)
        _commit(on, f"who says it is one, version {version}", version, f"odd-{version}", one, member_id="m")
        _commit(on, f"a member of an empty group, version {version}", version, f"odd-{version}", one, **member)
        instance = {"group_instance_id": "till-1"}
        _commit(on, f"an instance without an id, version {version}", version, f"odd-{version}", one, **instance)
    for version in (8, 9):
        _fetch(on, f"as a member, version {version}", version, "odd-9", {TOPIC: [0]}, member_id="m", member_epoch=3)


def committed_by_members(on: Play) -> None:
    prepared(on)
    for version in COMMITS:
        group = f"members-{version}"
        member, generation = joined(on, group, instance="till-1" if version >= 7 else None)
        who = {"member_id": member, "generation_id_or_member_epoch": generation}
        one = [(READ, [(0, 5, "mine")])]
        _commit(on, f"before the assignment, version {version}", version, group, one, **who)
        synced(on, group, member, generation)
        _commit(on, f"by the member, version {version}", version, group, one, **who)
        _commit(on, f"of what it does not read, version {version}", version, group, [(UNREAD, [(1, 1, None)])], **who)
        of_old = {**who, "generation_id_or_member_epoch": generation - 1}
        _commit(on, f"of an old generation, version {version}", version, group, one, **of_old)
        of_new = {**who, "generation_id_or_member_epoch": generation + 1}
        _commit(on, f"of a coming generation, version {version}", version, group, one, **of_new)
        _commit(on, f"by a stranger, version {version}", version, group, one, **{**who, "member_id": "stranger"})
        _commit(on, f"by nobody, version {version}", version, group, one)
        no_generation = {"member_id": member}
        _commit(on, f"without a generation, version {version}", version, group, one, **no_generation)
        for name, instance in {"unknown": "till-9", "right": "till-1"}.items():
            _commit(on, f"{name} instance, version {version}", version, group, one, **who, group_instance_id=instance)
        other = {**who, "member_id": "stranger", "group_instance_id": "till-1"}
        _commit(on, f"another of the instance, version {version}", version, group, one, **other)
        _fetch(on, f"what is kept, version {version}", 7, group, None)
    for version in (8, 9):
        _fetch(on, f"read by a stranger, version {version}", version, "members-9", None, member_id="x", member_epoch=7)


def deleted(on: Play) -> None:
    prepared(on)
    everything = {READ: [0, 1, 7], UNREAD: [0], "not-there": [0]}
    _delete(on, "unknown group", "nobody-knows", everything)
    _delete(on, "empty group id", "", everything)
    _commit(on, "committed by nobody", 8, "plain", [(READ, [(0, 1, None)]), (UNREAD, [(0, 1, None), (1, 1, None)])])
    _delete(on, "nothing", "plain", {})
    _delete(on, "of nobody", "plain", everything)
    _fetch(on, "left of nobody's", 7, "plain", None)
    _delete(on, "the last", "plain", {UNREAD: [1, 1]})
    _fetch(on, "left of nobody's then", 7, "plain", None)
    _delete(on, "of a group without offsets", "plain", everything)
    for kind in ("consumer", "connect"):
        member, generation = joined(on, kind, kind=kind)
        synced(on, kind, member, generation)
        who = {"member_id": member, "generation_id_or_member_epoch": generation}
        offsets = [(READ, [(0, 1, None)]), (UNREAD, [(0, 1, None)])]
        _commit(on, f"committed in a {kind} group", 8, kind, offsets, **who)
        _delete(on, f"of a {kind} group", kind, everything)
        _fetch(on, f"left of a {kind} group's", 7, kind, None)
        _delete_groups(on, f"a {kind} group with members", [kind])
        on.quietly("leave_group", 3, group_id=kind, members=[{"member_id": member, "group_instance_id": None}])
        _delete(on, f"of a {kind} group without members", kind, everything)
        _fetch(on, f"left of a {kind} group's without members", 7, kind, None)
    for version in DELETES:
        names = [f"deleted-{version}", f"deleted-{version}-too"]
        for name in names:
            _commit(on, f"committed for {name}", 8, name, [(TOPIC, [(0, 1, None), (1, 1, None)])])
        _delete_groups(on, f"two, version {version}", names, version)
        _delete_groups(on, f"again, version {version}", names[:1], version)
        _fetch(on, f"left of deleted groups, version {version}", 7, names[0], None)
        _delete_groups(on, f"good and bad, version {version}", ["", "nobody-knows"], version)
        _delete_groups(on, f"none, version {version}", [], version)
        _commit(on, f"committed twice for {names[0]}", 8, names[0], [(TOPIC, [(2, 1, None)])])
        _delete_groups(on, f"one twice, version {version}", [names[0], names[0]], version)


def _delete(on: Play, step: str, group: str, partitions: dict[str, list[int]]) -> None:
    topics = [
        {"name": name, "partitions": [{"partition_index": number} for number in numbers]}
        for name, numbers in partitions.items()
    ]
    on.ask(f"offsets {step}", "offset_delete", 0, group_id=group, topics=topics)


def _delete_groups(on: Play, step: str, groups: list[str], version: int = 2) -> None:
    on.ask(f"groups deleted: {step}", "delete_groups", version, groups_names=groups)


def gone_with_their_topic(on: Play) -> None:
    prepared(on)
    on.quietly("create_topics", 7, topics=[new("short-lived", 2)], timeout=TIMEOUT_MS, validate_only=False)
    settle(on)
    both = [("short-lived", [(0, 1, None), (1, 1, None)]), (TOPIC, [(0, 1, None)])]
    _commit(on, "committed", 8, "outlives", both)
    on.quietly("delete_topics", 5, topic_names=["short-lived"], timeout=TIMEOUT_MS)
    settle(on)
    asked = {"group_id": "outlives", "topics": None}
    on.until(lambda: len(on.quietly("offset_fetch", 7, **asked)["topics"]) == 1)
    _fetch(on, "left", 7, "outlives", None)


def by_topic_ids(on: Play) -> None:
    """OffsetCommit and OffsetFetch 10, which identify topics by ID, and a topic that is created again by name."""
    prepared(on)
    first = _made(on, "again")
    _commit_by_id(on, "committed", first, [0, 1, 7])
    _commit_by_id(on, "of an unknown topic", UUID(int=9), [0])
    _commit_by_id(on, "of no topic", NO_TOPIC, [0])
    _fetch_by_id(on, "read", [(first, [1, 0, 7])])
    _fetch_by_id(on, "read of an unknown topic", [(first, [0]), (UUID(int=9), [0])])
    _fetch_by_id(on, "all", None)
    _fetch(on, "by name", 9, "ids", {"again": [0, 1]})
    _commit(on, "committed by name", 9, "ids", [("again", [(0, 77, "named")])])
    _fetch_by_id(on, "read what was committed by name", [(first, [0])])
    on.quietly("delete_topics", 5, topic_names=["again"], timeout=TIMEOUT_MS)
    settle(on)
    on.until(lambda: not on.quietly("offset_fetch", 7, group_id="ids", topics=None)["topics"])
    second = _made(on, "again")
    _fetch_by_id(on, "read of the second", [(second, [0, 1])])
    _fetch_by_id(on, "read of the first", [(first, [0, 1])])
    _commit_by_id(on, "committed for the first", first, [0])
    _commit_by_id(on, "committed for the second", second, [0])
    _fetch_by_id(on, "all then", None)


def _made(on: Play, name: str) -> UUID:
    """Create a topic of that name, and wait until the node knows it."""
    made = on.quietly("create_topics", 7, topics=[new(name, 2)], timeout=TIMEOUT_MS, validate_only=False)
    settle(on)
    return UUID(made["topics"][0]["topic_id"])


def _commit_by_id(on: Play, step: str, topic_id: UUID, partitions: list[int]) -> None:
    offsets = [{"partition_index": number, "committed_offset": 40 + number} for number in partitions]
    topics = [
        {
            "topic_id": topic_id,
            "partitions": [{**each, "committed_leader_epoch": -1, "committed_metadata": None} for each in offsets],
        }
    ]
    on.ask(step, "offset_commit", 10, group_id="ids", **NOBODY, topics=topics)


def _fetch_by_id(on: Play, step: str, partitions: list[tuple[UUID, list[int]]] | None) -> None:
    topics = None
    if partitions is not None:
        topics = [{"topic_id": topic_id, "partition_indexes": numbers} for topic_id, numbers in partitions]
    on.ask(step, "offset_fetch", 10, groups=[{"group_id": "ids", "topics": topics}], require_stable=False)


def joined(on: Play, group: str, instance: str | None = None, kind: str = "consumer") -> tuple[str, int]:
    """Join one member, which leads the group, and return its ID and generation."""
    fields = {
        "group_id": group,
        "session_timeout": 30_000,
        "rebalance_timeout": 30_000,
        "member_id": "",
        "protocol_type": kind,
        "protocols": [{"name": "range", "metadata": SUBSCRIBED}],
    }
    # Version 3 is the last that needs no ID for the first join; instances exist from version 5 on.
    version = 3 if instance is None else 5
    more = {} if instance is None else {"group_instance_id": instance}
    answer = on.quietly("join_group", version, **fields, **more)
    assert answer["error_code"] == "none", answer
    return answer["member_id"], answer["generation_id"]


def synced(on: Play, group: str, member: str, generation: int) -> None:
    assignments = [{"member_id": member, "assignment": b"whatever it is"}]
    fields = {"group_id": group, "generation_id": generation, "member_id": member, "assignments": assignments}
    answer = on.quietly("sync_group", 2, **fields)
    assert answer["error_code"] == "none", answer
