"""What happened to the consumers whose coordinator was killed, and what is expected. Pure."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from demo.checks import Expectations

READING_AGAIN_MAX_S = 15.0
"""In seconds: a broker's session and a consumer's session, in case every faster detection fails."""


@dataclass(frozen=True, slots=True)
class Takeover:
    """Measurements of the takeover.

    - `reading_again_s`: time from the kill until every partition had a record read for the first time, by consumers
      that the next coordinator started.
    - `silence_s`: the longest time without such a first read in a partition, although messages arrived all the time.

    Each is None if that never happened.
    """

    killed: int
    next: int
    consumers: int
    started_again: int
    """Number of consumers that were started after the kill."""
    partitions: int
    reading_again_s: float | None
    silence_s: float | None
    acknowledged: int
    missing: int
    repeated: int
    failures: tuple[str, ...]


def taken_over(measured: Mapping[str, Any], brokers: tuple[int, int], partitions: int, killed_s: float) -> Takeover:
    """Compute the takeover.

    `brokers` are the coordinators before and after; `killed_s` and the times in `measured` are wall clock times.
    """
    starts = [(at_s, name) for at_s, name, _ in measured["starts"]]
    again = [at_s for at_s, _ in starts if at_s > killed_s]
    times: dict[str, list[float]] = defaultdict(list)
    for at_s, place in measured["reads"]:
        times[place].append(at_s)
    firsts = [next((at_s for at_s in read if again and at_s > again[0]), None) for read in times.values()]
    known = [at_s for at_s in firsts if at_s is not None]
    gaps = [later - earlier for read in times.values() for earlier, later in pairwise(read) if later > killed_s]
    return Takeover(
        killed=brokers[0],
        next=brokers[1],
        consumers=len({name for _, name in starts}),
        started_again=len({name for at_s, name in starts if at_s > killed_s}),
        partitions=partitions,
        reading_again_s=max(known) - killed_s if len(known) == partitions else None,
        silence_s=max(gaps, default=None),
        acknowledged=measured["acknowledged"],
        missing=measured["missing"],
        repeated=measured["repeated"],
        failures=tuple(measured["failures"]),
    )


def expect_survived(found: Takeover, consumers: int, expectations: Expectations) -> None:
    expectations.expect(
        (found.consumers, found.started_again) == (consumers, consumers),
        f"{found.consumers} of {consumers} consumers were started before their coordinator was killed, and "
        f"{found.started_again} after it",
    )
    expectations.expect(
        found.reading_again_s is not None and found.reading_again_s <= READING_AGAIN_MAX_S,
        f"not all {found.partitions} partitions were read again within {READING_AGAIN_MAX_S:g} s after the coordinator "
        "was killed",
    )
    expectations.expect(
        not found.missing, f"{found.missing} messages were acknowledged and not read after the coordinator was killed"
    )
    expectations.expect(not found.failures, f"the producer of parcels failed: {found.failures[:3]}")


def sentences(found: Takeover) -> list[str]:
    """Return the sentences of the summary about a takeover."""
    again, silence = (_seconds(each) for each in (found.reading_again_s, found.silence_s))
    return [
        f"the coordinator, broker {found.killed}, was killed: broker {found.next} started {found.started_again} "
        f"consumers again. They had new messages of all {found.partitions} partitions {again} after the kill; the "
        f"longest time without a message of one partition was {silence}",
        f"{found.acknowledged} parcels acknowledged, {found.missing} not read, {found.repeated} read again",
    ]


def _seconds(value: float | None) -> str:
    return "never" if value is None else f"{value:.2f} s"
