"""Producing, fetching and looking up records, right and wrong."""

import gzip
import struct
import time
from collections.abc import Sequence
from uuid import UUID

from tests.integration.differential.play import Play
from tests.integration.differential.scripts.batches import Batch
from tests.integration.differential.scripts.topics import NOBODY, STRANGER, TIMEOUT_MS, new
from tests.integration.differential.settling import settle
from tests.support.logs.packed_batches import packed, timed
from tests.support.processes.clients.wire_client import CLOSED, Plain, read_answer, request_frame, trimmed

PRODUCE_VERSIONS = range(3, 14)
PRODUCED_BY_ID_SINCE = 13
FETCH_VERSIONS = range(4, 19)
FETCHED_BY_ID_SINCE = 13
LIST_OFFSETS_VERSIONS = range(1, 12)
SILENT_AFTER_S = 3.0
NOW_MS = int(time.time() * 1000)
"""The same for both nodes, and close to the time when they receive it."""
DAY_MS = 86_400_000
GZIP, ZSTD, UNKNOWN_CODEC, LOG_APPEND_TIME, TRANSACTIONAL, CONTROL = 1, 4, 5, 8, 16, 32


def topic(on: Play, name: str, partitions: int = 1, **configs: str) -> None:
    named = [(key.replace("_", "."), value) for key, value in configs.items()]
    wanted = new(name, partitions, configs=named)
    on.quietly("create_topics", 7, topics=[wanted], timeout=TIMEOUT_MS, validate_only=False)
    settle(on)
    on.until(lambda: _is_led(on, name, partitions))


def _is_led(on: Play, name: str, partitions: int) -> bool:
    """Return whether the node serves all partitions.

    Both nodes create a partition's files only after they announced that they lead it.
    """
    latest = [(index, -1) for index in range(partitions)]
    answer = on.quietly("list_offsets", 7, **trimmed("list_offsets", 7, _offsets_fields(name, latest)))
    return all(part["error_code"] == "none" for part in answer["topics"][0]["partitions"])


def produce_fields(name: str, records: bytes | None, acks: int = -1, partition: int = 0) -> dict[str, Plain]:
    parts = [{"index": partition, "records": records}]
    return {
        "transactional_id": None,
        "acks": acks,
        "timeout": TIMEOUT_MS,
        "topic_data": [{"name": name, "partition_data": parts}],
    }


def produce(
    on: Play, step: str, name: str, records: bytes | None, acks: int = -1, partition: int = 0, version: int = 9
) -> None:
    fields = produce_fields(name, records, acks, partition)
    if version >= PRODUCED_BY_ID_SINCE:
        fields["topic_data"] = [_by_id(on, each, "name") for each in fields["topic_data"]]
    answer = on.quietly("produce", version, **fields)
    on.note(step, answer if answer == CLOSED else answer | {"responses": _times_made_alike(answer["responses"])})


def _by_id(on: Play, topic: Plain, named: str) -> Plain:
    """Return the topic with its ID in place of its name; an unused ID for an unknown name."""
    return {"topic_id": _id_of(on, topic[named])} | {key: value for key, value in topic.items() if key != named}


def _id_of(on: Play, name: str) -> UUID:
    asked = {"topics": [{"topic_id": NOBODY, "name": name}], "allow_auto_topic_creation": False}
    (found,) = on.quietly("metadata", 12, **asked, include_topic_authorized_operations=False)["topics"]
    return STRANGER if found["topic_id"] is None or found["error_code"] != "none" else UUID(found["topic_id"])


def _times_made_alike(responses: list[Plain]) -> list[Plain]:
    for one in responses:
        for part in one["partition_responses"]:
            if part["log_append_time"] is not None:
                part["log_append_time"] = "(now)"
    return responses


WRONG: dict[str, bytes] = {
    "no records": b"",
    "one byte": b"\x00",
    "sixty bytes": Batch(NOW_MS).encode()[:60],
    "header only": Batch(NOW_MS, count=0, last_offset_delta=0).encode(),
    "bad checksum": Batch(NOW_MS, crc=12345).encode(),
    "format 0": Batch(NOW_MS, magic=0).encode(),
    "format 1": Batch(NOW_MS, magic=1).encode(),
    "format 3": Batch(NOW_MS, magic=3).encode(),
    "negative format": Batch(NOW_MS, magic=-1).encode(),
    "two batches": Batch(NOW_MS).encode() * 2,
    "one batch and a half": Batch(NOW_MS).encode() + Batch(NOW_MS).encode()[:40],
    "length too small": Batch(NOW_MS, claimed_length=10).encode(),
    "length of zero": Batch(NOW_MS, claimed_length=0).encode(),
    "negative length": Batch(NOW_MS, claimed_length=-5).encode(),
    "length too large": Batch(NOW_MS, claimed_length=5000).encode(),
    "base offset of five": Batch(NOW_MS, base_offset=5).encode(),
    "fewer offsets than records": Batch(NOW_MS, count=3, last_offset_delta=1).encode(),
    "more offsets than records": Batch(NOW_MS, count=3, last_offset_delta=5).encode(),
    "negative offset span": Batch(NOW_MS, count=3, last_offset_delta=-1).encode(),
    "count and span of more than there are": Batch(NOW_MS, count=3, last_offset_delta=4, claimed_count=5).encode(),
    "two records in no bytes": Batch(NOW_MS, count=2, body=b"").encode(),
    "two records of no bytes": Batch(NOW_MS, count=2, body=bytes(14)).encode(),
    "two records packed in no bytes": Batch(NOW_MS, count=2, attributes=GZIP, body=gzip.compress(b"")).encode(),
    "two records of no bytes, packed": Batch(NOW_MS, count=2, attributes=GZIP, body=gzip.compress(bytes(14))).encode(),
    "count of zero": Batch(NOW_MS, claimed_count=0, last_offset_delta=-1).encode(),
    "control batch": Batch(NOW_MS, attributes=CONTROL).encode(),
    "control batch of a producer": Batch(NOW_MS, 1, b"v", b"k", 0, 2, None, CONTROL, None, None, 77, 0, 0).encode(),
    "transactional batch": Batch(NOW_MS, 1, b"v", b"k", 0, 2, None, TRANSACTIONAL, None, None, 77, 0, 0).encode(),
    "broker's timestamps": Batch(NOW_MS, attributes=LOG_APPEND_TIME).encode(),
    "unknown compression": Batch(NOW_MS, attributes=UNKNOWN_CODEC).encode(),
    "compression that is none": Batch(NOW_MS, attributes=GZIP).encode(),
    "timestamp of tomorrow": Batch(NOW_MS + DAY_MS).encode(),
    "largest timestamp of tomorrow": Batch(NOW_MS, max_timestamp_ms=NOW_MS + DAY_MS).encode(),
    "timestamp of the past": Batch(NOW_MS - 900 * DAY_MS).encode(),
    "timestamp zero": Batch(0).encode(),
    "no timestamp": Batch(-1).encode(),
    "negative timestamp": Batch(-5000).encode(),
    "producer without an epoch": Batch.by(77, -1, 0, NOW_MS).encode(),
    "producer without a sequence": Batch.by(77, 0, -1, NOW_MS).encode(),
    "sequence without a producer": Batch.by(-1, 0, 5, NOW_MS).encode(),
    "too large": Batch(NOW_MS, value=b"x" * 1_100_000).encode(),
    "largest": Batch(NOW_MS, value=b"x" * (1_048_588 - 61 - 12)).encode(),
    "one byte too large": Batch(NOW_MS, value=b"x" * (1_048_588 - 61 - 11)).encode(),
}


def produced(on: Play) -> None:
    topic(on, "taken", 2)
    for acks in (-1, 1, 2, -2):
        produce(on, f"acks {acks}", "taken", Batch(NOW_MS).encode(), acks)
    for version in PRODUCE_VERSIONS:
        produce(on, f"three records, version {version}", "taken", Batch(NOW_MS, 3).encode(), version=version)
        produce(on, f"bad checksum, version {version}", "taken", Batch(NOW_MS, crc=1).encode(), version=version)
        produce(on, f"unknown topic, version {version}", "not-there", Batch(NOW_MS).encode(), version=version)
    produce(on, "unknown partition", "taken", Batch(NOW_MS).encode(), partition=2)
    produce(on, "negative partition", "taken", Batch(NOW_MS).encode(), partition=-1)
    produce(on, "impossible topic", "not there", Batch(NOW_MS).encode())
    produce(on, "empty topic name", "", Batch(NOW_MS).encode())
    topic(on, "wrong", len(WRONG))
    for partition, (step, records) in enumerate(WRONG.items()):
        produce(on, step, "wrong", records, partition=partition)
    with on.open() as client:
        client.send(request_frame("produce", 9, 1, produce_fields("taken", None)))
        on.note("null records", client.outcome(SILENT_AFTER_S))
    fields = produce_fields("taken", Batch(NOW_MS).encode())
    second = {"name": "not-there", "partition_data": [{"index": 0, "records": Batch(NOW_MS).encode()}]}
    on.ask("good and bad topics", "produce", 9, **fields | {"topic_data": [*fields["topic_data"], second]})
    on.ask("no topics", "produce", 9, **fields | {"topic_data": []})
    on.ask("a transactional id", "produce", 9, **fields | {"transactional_id": "t"})
    offsets(on, "afterwards", "taken", [(0, -1), (1, -1)])


def unanswered(on: Play) -> None:
    """acks=0: no answer to valid requests, the end of the connection for others."""
    topic(on, "unanswered")
    ways: dict[str, dict[str, Plain]] = {
        "fine": produce_fields("unanswered", Batch(NOW_MS).encode(), 0),
        "unknown topic": produce_fields("not-there", Batch(NOW_MS).encode(), 0),
        "bad checksum": produce_fields("unanswered", Batch(NOW_MS, crc=1).encode(), 0),
        "no records": produce_fields("unanswered", b"", 0),
        "too large": produce_fields("unanswered", Batch(NOW_MS, value=b"x" * 1_100_000).encode(), 0),
        "fine again": produce_fields("unanswered", Batch(NOW_MS).encode(), 0),
    }
    for step, fields in ways.items():
        with on.open() as client:
            client.send(request_frame("produce", 9, 1, fields))
            client.send(request_frame("api_versions", 0, 2, {}))
            frame = client.receive()
            on.note(step, CLOSED if frame is None else struct.unpack_from(">i", frame)[0])
    offsets(on, "afterwards", "unanswered", [(0, -1)])


def idempotent(on: Play) -> None:
    """Sequences and epochs of one producer after another, each with a separate partition."""
    topic(on, "sequenced", 5)
    told: Sequence[tuple[str, int, int, int, int, int]] = [
        ("first", 0, 1000, 0, 0, 2),
        ("the same again", 0, 1000, 0, 0, 2),
        ("next", 0, 1000, 0, 2, 3),
        ("the first again", 0, 1000, 0, 0, 2),
        ("overlapping", 0, 1000, 0, 4, 2),
        ("part of the last", 0, 1000, 0, 2, 1),
        ("with a gap", 0, 1000, 0, 9, 1),
        ("next again", 0, 1000, 0, 5, 1),
        *((f"number {number}", 0, 1000, 0, number, 1) for number in range(6, 12)),
        ("one of long ago", 0, 1000, 0, 0, 2),
        ("sixth last", 0, 1000, 0, 6, 1),
        ("fifth last", 0, 1000, 0, 7, 1),
        ("newer epoch, not from zero", 0, 1000, 1, 5, 1),
        ("newer epoch", 0, 1000, 1, 0, 1),
        ("older epoch", 0, 1000, 0, 12, 1),
        ("much newer epoch", 0, 1000, 30, 0, 1),
        ("another producer in the middle", 1, 1001, 0, 50, 1),
        ("another producer goes on", 1, 1001, 0, 51, 1),
        ("another producer, gap", 1, 1001, 0, 60, 1),
        ("another producer, back at zero", 1, 1001, 0, 0, 1),
        ("before the turn", 2, 1002, 0, 2**31 - 2, 2),
        ("after the turn", 2, 1002, 0, 0, 1),
        ("after the turn again", 2, 1002, 0, 0, 1),
        ("over the turn", 3, 1003, 0, 2**31 - 1, 3),
        ("past the turn", 3, 1003, 0, 2, 1),
    ]
    for step, partition, producer_id, epoch, sequence, count in told:
        batch = Batch.by(producer_id, epoch, sequence, NOW_MS, count)
        produce(on, step, "sequenced", batch.encode(), partition=partition)
    offsets(on, "afterwards", "sequenced", [(partition, -1) for partition in range(5)])


def configured(on: Play) -> None:
    """Requirements of a topic's configuration on its records."""
    topic(on, "compacted", cleanup_policy="compact")
    produce(on, "compacted, with a key", "compacted", Batch(NOW_MS).encode())
    produce(on, "compacted, without a key", "compacted", Batch(NOW_MS, key=None).encode())
    topic(on, "stamped", message_timestamp_type="LogAppendTime")
    produce(on, "stamped by the broker", "stamped", Batch(NOW_MS - 5000, 3).encode())
    produce(on, "stamped, from tomorrow", "stamped", Batch(NOW_MS + DAY_MS).encode())
    topic(on, "short", max_message_bytes="200")
    produce(on, "short enough", "short", Batch(NOW_MS, value=b"x" * 100).encode())
    produce(on, "not short enough", "short", Batch(NOW_MS, value=b"x" * 300).encode())
    topic(on, "timely", message_timestamp_before_max_ms=str(DAY_MS), message_timestamp_after_max_ms=str(DAY_MS))
    for step, at_ms in (("late", -2 * DAY_MS), ("in time", 0), ("early", 2 * DAY_MS)):
        produce(on, step, "timely", Batch(NOW_MS + at_ms).encode())
    topic(on, "packed")
    for version in (3, 6, 7):
        batch = packed(ZSTD, Batch(NOW_MS, 2).encode())
        produce(on, f"zstd, version {version}", "packed", batch, version=version)
    topic(on, "safe", min_insync_replicas="2")
    for acks in (1, -1):
        produce(on, f"safe, acks {acks}", "safe", Batch(NOW_MS).encode(), acks)


def fetch_fields(name: str, parts: Sequence[tuple[int, int]], **more: Plain) -> dict[str, Plain]:
    """Return the fields of a fetch. `parts` are (partition, offset)."""
    limits = {"max_wait": 0, "min_bytes": 0, "max_bytes": 1 << 20, "partition_max_bytes": 1 << 20, **more}
    wanted = [
        {
            "partition": index,
            "fetch_offset": offset,
            "partition_max_bytes": limits["partition_max_bytes"],
            "current_leader_epoch": limits.get("epoch", -1),
        }
        for index, offset in parts
    ]
    return {
        "max_wait": limits["max_wait"],
        "min_bytes": limits["min_bytes"],
        "max_bytes": limits["max_bytes"],
        "session_id": limits.get("session_id", 0),
        "session_epoch": limits.get("session_epoch", -1),
        "isolation_level": limits.get("isolation_level", 0),
        "topics": [{"topic": name, "partitions": wanted}],
        "forgotten_topics_data": [],
    }


def fetch(on: Play, step: str, name: str, parts: Sequence[tuple[int, int]], version: int = 12, **more: Plain) -> None:
    fields = _fetch_fields_of(on, version, fetch_fields(name, parts, **more))
    answer = on.quietly("fetch", version, **fields)
    on.note(step, _records_in_short(answer))


def _fetch_fields_of(on: Play, version: int, fields: dict[str, Plain]) -> dict[str, Plain]:
    if version >= FETCHED_BY_ID_SINCE:
        for key in ("topics", "forgotten_topics_data"):
            fields[key] = [_by_id(on, topic, "topic") for topic in fields[key]]
    return trimmed("fetch", version, fields)


def _records_in_short(answer: Plain) -> Plain:
    """Shorten the answer: of records, all but the leader's epoch must be equal; session IDs differ between nodes."""
    if answer == CLOSED:
        return answer
    if any("topic_id" in one for one in answer["responses"]):
        # Order topics independently of their IDs, which differ between nodes.
        answer["responses"].sort(key=lambda one: [part["partition_index"] for part in one["partitions"]])
    for one in answer["responses"]:
        for part in one["partitions"]:
            part["records"] = _readable(part["records"])
            if part["error_code"] != "none":
                # Null or empty, depending on the error; clients use it only with records.
                del part["aborted_transactions"]
    if answer.get("session_id"):
        answer["session_id"] = "(some)"
    return answer


def _readable(records: bytes | None) -> Plain:
    """Return the complete batches, and the number of bytes after them."""
    if not records:
        return "(none)"
    batches, at = [], 0
    while len(records) - at >= 12:
        base, length = struct.unpack_from(">qi", records, at)
        end = at + 12 + length
        if end > len(records):
            break
        batches.append(f"{base}: {length} bytes, {hash(records[at + 16 : end]):x}")
        at = end
    return {"batches": batches, "rest": len(records) - at}


def fetched(on: Play) -> None:
    topic(on, "read", 3)
    for number in range(5):
        batch = Batch(NOW_MS, 3, value=b"%d" % number * 1000)
        on.quietly("produce", 9, **produce_fields("read", batch.encode()))
    packed = gzip.compress(b"not what the header says, but nobody looks", mtime=0)
    on.quietly("produce", 9, **produce_fields("read", Batch(NOW_MS, value=packed).encode(), partition=1))
    everything = [(0, 0), (1, 0), (2, 0)]
    for version in FETCH_VERSIONS:
        fetch(on, f"everything, version {version}", "read", everything, version)
        fetch(on, f"from the middle, version {version}", "read", [(0, 4)], version)
        fetch(on, f"at the end, version {version}", "read", [(0, 15)], version)
        fetch(on, f"past the end, version {version}", "read", [(0, 16)], version)
        fetch(on, f"before the start, version {version}", "read", [(0, -1)], version)
        fetch(on, f"unknown topic, version {version}", "not-there", [(0, 0)], version)
        fetch(on, f"unknown partition, version {version}", "read", [(3, 0), (0, 14)], version)
        fetch(on, f"read committed, version {version}", "read", [(0, 12)], version, isolation_level=1)
        fetch(on, f"read committed, past the end, version {version}", "read", [(0, 16)], version, isolation_level=1)
    for limit in (0, 1, 100, 3500, 6500, 10_000):
        fetch(on, f"at most {limit}", "read", everything, max_bytes=limit)
        fetch(on, f"at most {limit} of a partition", "read", everything, partition_max_bytes=limit)
    fetch(on, "at most minus one", "read", everything, max_bytes=-1)
    fetch(on, "more than there is", "read", everything, max_wait=300, min_bytes=1 << 20)
    fetch(on, "nothing for a while", "read", [(2, 0)], max_wait=300, min_bytes=1)
    fetch(on, "an error does not wait", "read", [(2, 5)], max_wait=20_000, min_bytes=1)
    fetch(on, "an unknown topic does not wait", "not-there", [(0, 0)], max_wait=20_000, min_bytes=1)
    fetch(on, "negative wait", "read", [(2, 0)], max_wait=-1, min_bytes=1)
    fetch(on, "a session that is not there", "read", [(0, 14)], session_id=77, session_epoch=3)
    fetch(on, "a session's end", "read", [(0, 14)], session_id=0, session_epoch=-1)
    fetch(on, "an epoch without a session", "read", [(0, 14)], session_id=0, session_epoch=3)
    _sessions(on)
    fetch(on, "leader's epoch", "read", [(0, 14)], epoch=0)
    fetch(on, "newer leader's epoch", "read", [(0, 14)], epoch=9)
    fetch(on, "impossible topic", "not there", [(0, 0)])
    fetch(on, "a partition twice", "read", [(0, 12), (0, 14)])
    _long_poll(on)


def _sessions(on: Play) -> None:
    """Fetch sessions: partitions that are reported once or repeatedly, and reasons for the end of a session."""
    for version in (12, 18):
        _session(on, version)
    topic(on, "in-turns", 1)
    turns = FetchSession(on, "in-turns", 12)
    turns.begin("by name", [(0, 0)])
    turns.version = 16
    turns.go_on("by id in a session by name", [(0, 0)])
    turns.begin("by id", [(0, 0)])
    turns.version = 12
    turns.go_on("by name in a session by id", [(0, 0)])
    topic(on, "made-again", 1)
    again = FetchSession(on, "made-again", 17)
    again.begin("a topic that goes", [(0, 0)])
    on.quietly("delete_topics", 6, topics=[{"name": "made-again", "topic_id": NOBODY}], timeout=TIMEOUT_MS)
    settle(on)
    again.go_on("it has gone", [])
    again.go_on("it has gone, and that is told again", [])
    topic(on, "made-again", 1)
    again.go_on("its name is another's", [])
    again.go_on("both", [(0, 0)])


def _session(on: Play, version: int) -> None:
    name = f"in-session-{version}"
    topic(on, name, 3)
    by_name = FetchSession(on, name, version)
    by_name.begin("its begin", [(0, 0), (1, 0), (2, 0)])
    by_name.go_on("nothing has changed", [])
    on.quietly("produce", 9, **produce_fields(name, Batch(NOW_MS).encode(), partition=1))
    by_name.go_on("a record has come", [])
    by_name.go_on("it comes again", [])
    by_name.go_on("it was read", [(1, 1)])
    by_name.go_on("nothing more", [])
    by_name.go_on("past the end", [(2, 9)])
    by_name.go_on("still past the end", [])
    by_name.go_on("within again", [(2, 0)])
    by_name.go_on("one that is forgotten", [], forget=[1])
    on.quietly("produce", 9, **produce_fields(name, Batch(NOW_MS).encode(), partition=1))
    by_name.go_on("it is told no more", [])
    by_name.go_on("one that is there no more", [(7, 0)])
    by_name.go_on("another topic", [(0, 0)], topic_name="not-there")
    by_name.ask("an epoch too far", [], session_epoch=by_name.epoch + 1)
    by_name.ask("an epoch that was", [], session_epoch=by_name.epoch - 1)
    by_name.ask("a session's end that has an id", [(0, 0)], session_epoch=-1)
    by_name.ask("after its end", [])
    by_name.begin("another begins", [(0, 0)])
    by_name.go_on("the last is forgotten", [], forget=[0])
    by_name.ask("after the last was forgotten", [])


class FetchSession:
    """The session of one client, which counts the epochs."""

    def __init__(self, on: Play, name: str, version: int) -> None:
        self._on = on
        self._name = name
        self.version = version
        self.id = self.epoch = 0

    def begin(self, step: str, parts: Sequence[tuple[int, int]]) -> None:
        answer = self.ask(step, parts, session_epoch=0, session_id=0)
        self.id, self.epoch = answer["session_id"], 1

    def go_on(self, step: str, parts: Sequence[tuple[int, int]], **more: Plain) -> None:
        self.ask(step, parts, **more)
        self.epoch += 1

    def ask(
        self,
        step: str,
        parts: Sequence[tuple[int, int]],
        *,
        forget: Sequence[int] = (),
        topic_name: str | None = None,
        **more: Plain,
    ) -> Plain:
        fields = fetch_fields(
            topic_name or self._name, parts, **{"session_id": self.id, "session_epoch": self.epoch, **more}
        )
        if not parts:
            fields["topics"] = []
        if forget:
            fields["forgotten_topics_data"] = [{"topic": self._name, "partitions": list(forget)}]
        answer = self._on.quietly("fetch", self.version, **_fetch_fields_of(self._on, self.version, fields))
        told = dict(answer) if answer != CLOSED else answer
        self._on.note(f"in a session of {self._name}: {step}", _records_in_short(answer))
        return told


def _long_poll(on: Play) -> None:
    """A waiting fetch is answered when a record arrives."""
    fields = fetch_fields("read", [(2, 0)], max_wait=15_000, min_bytes=1)
    with on.open() as waiting:
        waiting.send(request_frame("fetch", 12, 1, fields))
        on.quietly("produce", 9, **produce_fields("read", Batch(NOW_MS).encode(), partition=2))
        frame = waiting.receive()
    assert frame is not None
    on.note("a record comes while one waits", _records_in_short(read_answer("fetch", 12, frame)))


def offsets(
    on: Play, step: str, name: str, wanted: Sequence[tuple[int, int]], version: int = 7, epoch: int = -1
) -> None:
    """Look up offsets. `wanted` are (partition, timestamp)."""
    on.ask(step, "list_offsets", version, **trimmed("list_offsets", version, _offsets_fields(name, wanted, epoch)))


def _offsets_fields(name: str, wanted: Sequence[tuple[int, int]], epoch: int = -1) -> dict[str, Plain]:
    parts = [
        {"partition_index": index, "timestamp": at, "current_leader_epoch": epoch, "max_num_offsets": 1}
        for index, at in wanted
    ]
    return {
        "replica_id": -1,
        "isolation_level": 0,
        "topics": [{"name": name, "partitions": parts}],
        "timeout": TIMEOUT_MS,
    }


def looked_up(on: Play) -> None:
    topic(on, "times", 2)
    for at_ms in (1000, 3000, 2000, 5000, 4000):
        on.quietly("produce", 9, **produce_fields("times", Batch(NOW_MS + at_ms, 2).encode()))
    for version in LIST_OFFSETS_VERSIONS:
        for at in (-1, -2):
            offsets(on, f"{at}, version {version}", "times", [(0, at), (1, at)], version)
        for after_ms in (0, 1000, 1001, 2500, 3001, 5000, 5001):
            offsets(on, f"after {after_ms}, version {version}", "times", [(0, NOW_MS + after_ms)], version)
        for at in (-3, -4, -5, -6, -99):
            offsets(on, f"{at}, version {version}", "times", [(0, at), (1, at)], version)
        offsets(on, f"unknown topic, version {version}", "not-there", [(0, -1)], version)
        offsets(on, f"unknown partition, version {version}", "times", [(2, -1), (0, -1)], version)
        offsets(on, f"time in an empty one, version {version}", "times", [(1, NOW_MS)], version)
    offsets(on, "a partition twice", "times", [(0, -1), (0, -2)])
    offsets(on, "leader's epoch", "times", [(0, -1)], epoch=0)
    offsets(on, "newer leader's epoch", "times", [(0, -1)], epoch=9)


CODECS = {0: "not packed", 1: "gzip", 2: "snappy", 3: "lz4", 4: "zstd"}


def looked_up_inside(on: Play) -> None:
    """Look up times of records inside batches, which both nodes have to unpack."""
    for codec, packing in CODECS.items():
        name = f"inside-{codec}"
        topic(on, name, 2)
        topic(on, f"{name}-broker", message_timestamp_type="LogAppendTime")
        for times in ((0, 500, 200), (1000, 8000, 1500, 8000), (2000,), (2100, 100, 2200)):
            batch = timed([NOW_MS + at_ms for at_ms in times], codec=codec)
            on.quietly("produce", 9, **produce_fields(name, batch))
        # One batch, because several need not arrive within one millisecond.
        on.quietly("produce", 9, **produce_fields(f"{name}-broker", timed([NOW_MS, NOW_MS + 1], codec=codec)))
        for after_ms in (-1, 0, 1, 201, 501, 1001, 1501, 2001, 8000, 8001):
            offsets(on, f"{packing}, after {after_ms}", name, [(0, NOW_MS + after_ms)], 8)
        offsets(on, f"{packing}, largest", name, [(0, -3), (1, -3)], 8)
        for at in (NOW_MS - DAY_MS, NOW_MS + DAY_MS, -3):
            kind = "largest" if at < 0 else "long ago" if at < NOW_MS else "tomorrow"
            answer = on.quietly(
                "list_offsets", 8, **trimmed("list_offsets", 8, _offsets_fields(f"{name}-broker", [(0, at)]))
            )
            part = answer["topics"][0]["partitions"][0]
            on.note(f"{packing}, broker's times, {kind}", {key: part[key] for key in ("error_code", "offset")})
        wanted = [{"name": name, "partitions": [{"partition_index": 0, "offset": 2}]}]
        on.quietly("delete_records", 2, topics=wanted, timeout=TIMEOUT_MS)
        for after_ms in (0, 201, 501):
            offsets(on, f"{packing}, shortened, after {after_ms}", name, [(0, NOW_MS + after_ms)], 8)
        offsets(on, f"{packing}, shortened, largest", name, [(0, -3)], 8)


def deleted(on: Play) -> None:
    topic(on, "shortened", 2)
    topic(on, "kept", cleanup_policy="compact")
    for _ in range(5):
        on.quietly("produce", 9, **produce_fields("shortened", Batch(NOW_MS, 2).encode()))
    ways: dict[str, tuple[str, int, int]] = {
        "three": ("shortened", 0, 3),
        "three again": ("shortened", 0, 3),
        "back to one": ("shortened", 0, 1),
        "too many": ("shortened", 0, 11),
        "minus two": ("shortened", 0, -2),
        "of an empty one": ("shortened", 1, 0),
        "all of an empty one": ("shortened", 1, -1),
        "unknown partition": ("shortened", 7, 0),
        "unknown topic": ("not-there", 0, 0),
        "compacted topic": ("kept", 0, 0),
    }
    for step, (name, index, offset) in ways.items():
        wanted = [{"name": name, "partitions": [{"partition_index": index, "offset": offset}]}]
        on.ask(step, "delete_records", 2, topics=wanted, timeout=TIMEOUT_MS)
    fetch(on, "below the start", "shortened", [(0, 2)])
    fetch(on, "in the middle of a batch", "shortened", [(0, 3)])
    offsets(on, "ends", "shortened", [(0, -1)])
    offsets(on, "starts", "shortened", [(0, -2), (1, -2)])
    for version in range(3):
        wanted = [{"name": "shortened", "partitions": [{"partition_index": 0, "offset": 4 + version}]}]
        on.ask(f"version {version}", "delete_records", version, topics=wanted, timeout=TIMEOUT_MS)
    wanted = [{"name": "shortened", "partitions": [{"partition_index": 0, "offset": -1}]}]
    on.ask("all", "delete_records", 2, topics=wanted, timeout=TIMEOUT_MS)
    offsets(on, "afterwards", "shortened", [(0, -2)])
