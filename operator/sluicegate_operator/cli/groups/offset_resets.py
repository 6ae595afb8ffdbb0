"""Computes the new offset of each partition when a group's offsets are reset. Pure.

The options are those of Apache Kafka's tool (KIP-122). An offset outside of a log becomes the log's nearest end.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum

from sluicegate_operator.kafka_admin.views import Partition


class ResetError(ValueError):
    """The wanted reset of a group's offsets is not possible. The message says what to write instead."""


class Way(StrEnum):
    """The options of the command that give the target of a reset."""

    EARLIEST = "--to-earliest"
    LATEST = "--to-latest"
    OFFSET = "--to-offset"
    SHIFT = "--shift-by"
    DURATION = "--by-duration"
    DATETIME = "--to-datetime"


@dataclass(frozen=True, slots=True)
class ResetTarget:
    """The place to which the offsets of a group are reset.

    `value` is an offset, a number of records, or a time in milliseconds since 1970.
    """

    way: Way
    value: int = 0

    @property
    def time_ms(self) -> int | None:
        return self.value if self.way in (Way.DURATION, Way.DATETIME) else None


@dataclass(frozen=True, slots=True)
class LogEnds:
    """The ends of a partition's log.

    `at_time` is the first offset at or after the target's time, None if no record is as young.
    """

    earliest: int
    latest: int
    at_time: int | None = None


@dataclass(frozen=True, slots=True)
class Reset:
    """The reset of a group's offset of one partition.

    `before` is None if nothing was committed; `lag` is the number of records to read from `after` on.
    """

    topic: str
    partition: int
    before: int | None
    after: int
    lag: int


DURATION = re.compile(r"P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?")


def parse_duration(text: str, now: datetime) -> int:
    """Return the time in milliseconds since 1970 that lies a duration before `now`."""
    found = DURATION.fullmatch(text)
    if found is None or not any(found.groups()):
        raise ResetError(f"--by-duration {text}: write PnDTnHnMnS, such as PT1H30M or P7D")
    days, hours, minutes, seconds = (float(part or 0) for part in found.groups())
    try:
        return max(0, in_ms(now - timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds)))
    except OverflowError:
        return 0


def parse_datetime(text: str) -> int:
    """Return the time in milliseconds since 1970. A time without a zone is UTC, as in Apache Kafka's tool."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise ResetError(
            f"--to-datetime {text}: write YYYY-MM-DDThh:mm:ss, and a time zone such as +02:00 if it is not UTC"
        ) from None
    return max(0, in_ms(found if found.tzinfo else found.replace(tzinfo=UTC)))


def in_ms(moment: datetime) -> int:
    return int(moment.timestamp() * 1000)


def parse_topic(text: str) -> tuple[str, tuple[int, ...] | None]:
    """Parse a topic: `orders` means all of its partitions, `orders:0,2` these."""
    name, colon, indexes = text.partition(":")
    if not name or (colon and not re.fullmatch(r"\d+(,\d+)*", indexes)):
        raise ResetError(f"--topic {text}: write TOPIC, or TOPIC:0,1 for some of its partitions")
    return name, tuple(sorted({int(index) for index in indexes.split(",")})) if colon else None


def parse_topics(texts: Iterable[str]) -> dict[str, tuple[int, ...] | None]:
    """Parse the topics whose offsets a user wants to reset.

    If a topic is named several times, its partitions are combined.
    """
    wanted: dict[str, tuple[int, ...] | None] = {}
    for text in texts:
        name, indexes = parse_topic(text)
        before = wanted.get(name, ())
        wanted[name] = None if before is None or indexes is None else tuple(sorted({*before, *indexes}))
    return wanted


def chosen_partitions(
    wanted: Mapping[str, tuple[int, ...] | None], existing: Mapping[str, tuple[int, ...]]
) -> list[Partition]:
    """Return the partitions whose offsets the user wants to reset.

    `existing` has the partitions of each existing topic.

    Raises ResetError for a topic or partition that does not exist.
    """
    chosen = []
    for topic, indexes in wanted.items():
        if topic not in existing:
            raise ResetError(f"--topic {topic}: the topic does not exist")
        if missing := sorted(set(indexes or ()) - set(existing[topic])):
            raise ResetError(
                f"--topic {topic}: the topic has {len(existing[topic])} partitions, and partition {missing[0]}"
                " does not exist"
            )
        chosen += [(topic, index) for index in indexes or existing[topic]]
    return sorted(chosen)


def plan_resets(
    target: ResetTarget, committed: Mapping[Partition, int], logs: Mapping[Partition, LogEnds]
) -> list[Reset]:
    """Return the reset of each partition of `logs`. Raises ResetError if a shift has no committed offset."""
    plan = []
    for (topic, index), ends in sorted(logs.items()):
        before = committed.get((topic, index))
        after = max(ends.earliest, min(ends.latest, _wanted(target, before, ends, f"{topic}-{index}")))
        plan.append(Reset(topic, index, before, after, ends.latest - after))
    return plan


def _wanted(target: ResetTarget, before: int | None, ends: LogEnds, name: str) -> int:
    match target.way:
        case Way.EARLIEST:
            return ends.earliest
        case Way.LATEST:
            return ends.latest
        case Way.OFFSET:
            return target.value
        case Way.DURATION | Way.DATETIME:
            return ends.latest if ends.at_time is None else ends.at_time
        case Way.SHIFT:
            if before is None:
                raise ResetError(
                    f"--shift-by {target.value}: the group has no committed offset for {name}; use another option"
                    " than --shift-by"
                )
            return before + target.value
