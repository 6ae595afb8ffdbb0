"""What is true of a week: what whoever reads its files has to find."""

from collections import Counter
from dataclasses import dataclass, field
from typing import NamedTuple


class StormTruth(NamedTuple):
    """One client that connected over and over. Times in microseconds; `ended` is the end of its last ten seconds."""

    cluster_id: str
    broker: int
    listener: str
    started_us: int
    ended_us: int
    client_ip: str
    principal: str
    client_id: str
    software: str
    limit: str
    accepted: int
    limited: int
    refused: int


@dataclass(slots=True)
class Truth:
    """Of files that are not set aside.

    Bytes are of clients, without followers, by cluster and name; `replicated` are those of followers by cluster.
    """

    now_us: int
    requests: Counter[str] = field(default_factory=Counter)
    """By cluster, of level full and rollup, followers too; without those whose time is impossible."""
    produced_by: Counter[tuple[str, str]] = field(default_factory=Counter)
    fetched_by: Counter[tuple[str, str]] = field(default_factory=Counter)
    produced_to: Counter[tuple[str, str]] = field(default_factory=Counter)
    fetched_from: Counter[tuple[str, str]] = field(default_factory=Counter)
    replicated: Counter[str] = field(default_factory=Counter)
    storms: list[StormTruth] = field(default_factory=list)
    never_used: dict[str, list[str]] = field(default_factory=dict)
    """Topics by cluster."""
    mirrored_records: Counter[tuple[str, int]] = field(default_factory=Counter)
    """Records of topics that are mirrored, as they were produced at the source, by name and bucket (its beginning in
    microseconds): each record where its own time is."""
    lost_records: Counter[tuple[str, int]] = field(default_factory=Counter)
    """Those that the mirror left out, though it went on."""
    lagging_records: Counter[tuple[str, int]] = field(default_factory=Counter)
    """Those that it did not come to any more."""
    set_aside: set[tuple[str, str]] = field(default_factory=set)
    """Paths and reasons."""
    impossible_rows: Counter[str] = field(default_factory=Counter)
    """By path, of files that are not set aside as a whole."""
    missing: Counter[tuple[str, int]] = field(default_factory=Counter)
    """Events that gaps tell of, by cluster and broker."""
    holes: Counter[tuple[str, int]] = field(default_factory=Counter)
    """Numbers that nothing tells of."""
    events: int = 0
    """Numbers of all segments that were written."""
