"""Consuming in a group with librdkafka: all records of a topic, by members that share its partitions."""

import time
from contextlib import ExitStack, closing

from confluent_kafka import Consumer, TopicPartition

MEMBERS = 2
ASSIGNED_MAX_S = 60.0
_MESSAGES_A_CALL = 10_000


def consume_in_group(bootstrap: str, topic: str, *, records: int, group: str, protocol: str) -> dict[str, float]:
    """Consume `records` records with members that use default settings: offsets are committed every five seconds.

    The time starts when every member owns partitions. All partitions are paused until then.
    """
    settings = {
        "bootstrap.servers": bootstrap,
        "group.id": group,
        "group.protocol": protocol,
        "auto.offset.reset": "earliest",
    }
    take = _take_paused if protocol == "classic" else _take_more_paused
    with ExitStack() as open_ones:
        members = [open_ones.enter_context(closing(Consumer(settings))) for _ in range(MEMBERS)]
        for member in members:
            member.subscribe([topic], on_assign=take)
        _until_all_own(members, topic)
        began = time.perf_counter()
        for member in members:
            member.resume(member.assignment())
        count = size = 0
        while count < records:
            for member in members:
                for message in member.consume(_MESSAGES_A_CALL, timeout=0.01):
                    if message.error() is not None:
                        raise RuntimeError(f"consuming failed: {message.error()}")
                    count += 1
                    size += len(message.value())
        took = time.perf_counter() - began
    return {"messages_per_s": count / took, "mb_per_s": size / took / 1e6}


def _take_paused(consumer: Consumer, partitions: list[TopicPartition]) -> None:
    consumer.assign(partitions)
    consumer.pause(partitions)


def _take_more_paused(consumer: Consumer, partitions: list[TopicPartition]) -> None:
    consumer.incremental_assign(partitions)
    consumer.pause(partitions)


def _until_all_own(members: list[Consumer], topic: str) -> None:
    """Poll until the members own all partitions. Raises RuntimeError on timeout, or if a record arrives."""
    partitions = len(members[0].list_topics(topic, timeout=10).topics[topic].partitions)
    deadline_s = time.monotonic() + ASSIGNED_MAX_S
    while not _own(members, partitions):
        if time.monotonic() > deadline_s:
            raise RuntimeError(f"the members do not own all partitions after {ASSIGNED_MAX_S:g} s")
        for member in members:
            if member.consume(1, timeout=0.05):
                raise RuntimeError("a record came although all partitions are paused")


def _own(members: list[Consumer], partitions: int) -> bool:
    owned = [len(member.assignment()) for member in members]
    return all(owned) and sum(owned) == partitions
