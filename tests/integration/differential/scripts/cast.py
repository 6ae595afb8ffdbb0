"""Scripted members of classic groups, each with a separate connection, under names that both nodes share."""

import struct
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from tests.integration.differential.play import Play
from tests.support.processes.clients.wire_client import CLOSED, Plain, read_answer, trimmed

WAITS = "(waits)"
"""Recorded if an answer has not arrived yet."""
PATIENCE_S = 30.0
SILENT_AFTER_S = 0.4
MAY_WAIT = ("join_group", "sync_group")
SESSION_MS, REBALANCE_MS = 10_000, 20_000
SAME = [("range", ["t"])]
CHANGED = [("range", ["t", "u"])]
JOIN, SYNC, BEAT, LEAVE = 9, 5, 4, 5
"""Newest versions, for sequences that test other things."""


def subscription(topics: list[str]) -> bytes:
    names = b"".join(struct.pack(">h", len(topic)) + topic.encode() for topic in topics)
    return struct.pack(">hi", 0, len(topics)) + names + struct.pack(">i", -1)


class Member:
    """One client; `id` is the member ID from the coordinator."""

    def __init__(self, cast: "Cast", name: str, instance: str | None) -> None:
        self.cast, self.name, self.instance = cast, name, instance
        self.id = ""
        self.generation = -1
        self.session_ms, self.rebalance_ms = SESSION_MS, REBALANCE_MS
        self.protocols = SAME
        self.protocol_type = "consumer"
        self._client = cast.on.open()
        self._asked: tuple[str, int] = ("", 0)

    def close(self) -> None:
        self._client.close()

    def join(self, step: str = "", version: int = JOIN, **changes: Plain) -> Plain:
        """Join, a second time if the coordinator requires an ID. Returns the answer, or WAITS."""
        answer = self._joins(step, version, changes)
        if isinstance(answer, Mapping) and answer["error_code"] == "member_id_required":
            answer = self._joins(step and f"{step}, with its id", version, changes)
        return answer

    def ask_to_join(self, step: str = "", version: int = JOIN, **changes: Plain) -> Plain:
        """Send one JoinGroup."""
        return self._joins(step, version, changes)

    def _joins(self, step: str, version: int, changes: Mapping[str, Plain]) -> Plain:
        fields: Plain = {
            "group_id": self.cast.group,
            "session_timeout": self.session_ms,
            "rebalance_timeout": self.rebalance_ms,
            "member_id": self.id,
            "group_instance_id": self.instance,
            "protocol_type": self.protocol_type,
            "protocols": [{"name": name, "metadata": subscription(topics)} for name, topics in self.protocols],
            "reason": None,
        }
        return self._ask(step, "join_group", version, fields | changes)

    def sync(
        self, step: str = "", version: int = SYNC, parts: Mapping["Member", str] | None = None, **changes: Plain
    ) -> Plain:
        fields: Plain = {
            "group_id": self.cast.group,
            "generation_id": self.generation,
            "member_id": self.id,
            "group_instance_id": self.instance,
            "protocol_type": "consumer",
            "protocol_name": "range",
            "assignments": [
                {"member_id": member.id, "assignment": part.encode()} for member, part in (parts or {}).items()
            ],
        }
        return self._ask(step, "sync_group", version, fields | changes)

    def beat(self, step: str = "", version: int = BEAT, **changes: Plain) -> Plain:
        fields: Plain = {
            "group_id": self.cast.group,
            "generation_id": self.generation,
            "member_id": self.id,
            "group_instance_id": self.instance,
        }
        return self._ask(step, "heartbeat", version, fields | changes)

    def leave(self, step: str = "", version: int = LEAVE) -> Plain:
        member = {"member_id": self.id, "group_instance_id": self.instance, "reason": None}
        fields = {"group_id": self.cast.group, "member_id": self.id, "members": [member]}
        return self._ask(step, "leave_group", version, fields)

    def commit(self, step: str, version: int = 9, **changes: Plain) -> Plain:
        part = {"partition_index": 0, "committed_offset": 5, "committed_leader_epoch": -1, "committed_metadata": ""}
        fields: Plain = {
            "group_id": self.cast.group,
            "generation_id_or_member_epoch": self.generation,
            "member_id": self.id,
            "group_instance_id": self.instance,
            "retention_time": -1,
            "topics": [{"name": self.cast.topic, "partitions": [part]}],
        }
        return self._ask(step, "offset_commit", version, fields | changes)

    def hear(self, step: str = "") -> Plain:
        """Wait for the pending answer, and return it."""
        return self._note(step, self._receive(PATIENCE_S))

    def still_waits(self, step: str) -> None:
        self.cast.on.note(step, self._receive(SILENT_AFTER_S))

    def _ask(self, step: str, api: str, version: int, fields: Mapping[str, Plain]) -> Plain:
        self._asked = api, version
        self._client.tell(api, version, **trimmed(api, version, fields))
        return self._note(step, self._receive(SILENT_AFTER_S if api in MAY_WAIT else PATIENCE_S))

    def _receive(self, timeout_s: float) -> Plain:
        try:
            frame = self._client.receive(timeout_s)
        except TimeoutError:
            return WAITS
        return CLOSED if frame is None else read_answer(*self._asked, frame)

    def _note(self, step: str, answer: Plain) -> Plain:
        if isinstance(answer, Mapping) and self._asked[0] == "join_group":
            self._has_joined(answer)
        if step:
            self.cast.on.note(step, self.cast.named(answer))
        return answer

    def _has_joined(self, answer: Mapping[str, Plain]) -> None:
        known, told = self.cast.names, answer["member_id"]
        if answer["error_code"] in ("none", "member_id_required", "fenced_instance_id") and told not in known:
            known[told] = self.cast.name_of(self, told)
        if answer["error_code"] in ("none", "member_id_required"):
            self.id = told
        if answer["error_code"] == "none":
            self.generation = answer["generation_id"]


class Cast:
    """The members of one group in a play."""

    def __init__(self, on: Play, group: str) -> None:
        self.on = on
        self.group = f"{group}-{on.number}"
        self.topic = "committed"
        self.names: dict[str, str] = {"": ""}
        """Names of member IDs."""
        self._members: list[Member] = []

    def comes(self, name: str, instance: str | None = None) -> Member:
        member = Member(self, name, instance)
        self._members.append(member)
        return member

    def name_of(self, member: Member, member_id: str) -> str:
        """Return a name for the ID. It contains the ID's prefix, so that this is compared too."""
        begins = member_id.removesuffix(member_id[-36:])
        number = sum(name.startswith(f"{member.name}, id ") for name in self.names.values()) + 1
        return f"{member.name}, id {number}: {begins}*"

    def named(self, value: Plain) -> Plain:
        """Replace IDs by names, and sort members, whose order is not defined, by their names."""
        if isinstance(value, Mapping):
            return {name: self.named(item) for name, item in value.items()}
        if isinstance(value, list):
            found = [self.named(item) for item in value]
            return sorted(found, key=lambda item: item.get("member_id", "")) if _are_members(found) else found
        if isinstance(value, bytes):
            return value.hex()
        return self.names.get(value, value) if isinstance(value, str) else value

    def stable(self, *members: Member, version: int = JOIN) -> None:
        """Let members join one after another. The first one leads, and each is assigned its own name."""
        for member in members:
            member.join(version=version)
        for member in members:
            if member.generation == -1:
                member.hear()
        leader, *others = members
        for member in others:
            member.sync()
        leader.sync(parts={member: member.name for member in members})
        for member in others:
            member.hear()

    def look(self) -> Plain:
        """Describe the group, as administrators do."""
        asked = {"groups": [self.group], "include_authorized_operations": False}
        return self.on.quietly("describe_groups", 5, **asked)["groups"][0]

    def described(self, step: str) -> None:
        group = self.look()
        kept = {name: group[name] for name in ("error_code", "group_state", "protocol_type", "protocol_data")}
        self.on.note(step, kept | {"members": self.named([_described(each) for each in group["members"]])})

    def close(self) -> None:
        for member in self._members:
            member.close()


def _described(member: Mapping[str, Plain]) -> dict[str, Plain]:
    return {name: member[name] for name in ("member_id", "group_instance_id", "client_id", "client_host")} | {
        "metadata": member["member_metadata"],
        "assignment": member["member_assignment"],
    }


def _are_members(found: list[Plain]) -> bool:
    return all(isinstance(item, Mapping) and "member_id" in item for item in found)


@contextmanager
def group(on: Play, name: str) -> Iterator[Cast]:
    cast = Cast(on, name)
    try:
        yield cast
    finally:
        cast.close()


def elapsed_s(began_s: float) -> float:
    return time.monotonic() - began_s
