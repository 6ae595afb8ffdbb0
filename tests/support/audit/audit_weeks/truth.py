"""The truth of a week, which every reader of its files has to find."""

from collections import Counter
from dataclasses import dataclass, field
from typing import NamedTuple


class StormTruth(NamedTuple):
    """An episode of one client that connected again and again, while its listener had one rate.

    Times are in microseconds, of the first and the last event. `limit` is the ConnectionQuota that held most.
    """

    cluster_id: str
    broker: int
    listener: str
    started_us: int
    ended_us: int
    client_ip: str
    principal: str
    client_id: str
    software: str
    listener_rate: int
    limit: str
    accepted: int
    limited: int
    refused: int


@dataclass(slots=True)
class Truth:
    """The true numbers of the files that are not set aside.

    Bytes are those of clients, without followers, by cluster and name; `replicated` are those of followers by cluster.
    """

    now_us: int
    requests: Counter[str] = field(default_factory=Counter)
    """Requests by cluster, of level full and rollup, including followers; without those whose time is impossible."""
    produced_by: Counter[tuple[str, str]] = field(default_factory=Counter)
    fetched_by: Counter[tuple[str, str]] = field(default_factory=Counter)
    produced_to: Counter[tuple[str, str]] = field(default_factory=Counter)
    fetched_from: Counter[tuple[str, str]] = field(default_factory=Counter)
    replicated: Counter[str] = field(default_factory=Counter)
    storms: list[StormTruth] = field(default_factory=list)
    never_used: dict[str, list[str]] = field(default_factory=dict)
    """Topics by cluster."""
    mirrored_records: Counter[tuple[str, int]] = field(default_factory=Counter)
    """Records of mirrored topics as produced at the source, by name and bucket (its beginning in microseconds).

    Each record
    counts in the bucket of its own time.
    """
    lost_records: Counter[tuple[str, int]] = field(default_factory=Counter)
    """Records that the mirror left out, although it continued."""
    lagging_records: Counter[tuple[str, int]] = field(default_factory=Counter)
    """Records that the mirror has not reached yet."""
    set_aside: set[tuple[str, str]] = field(default_factory=set)
    """Paths and reasons."""
    impossible_rows: Counter[str] = field(default_factory=Counter)
    """Rows with an impossible time by path, for files that are not set aside as a whole."""
    missing: Counter[tuple[str, int]] = field(default_factory=Counter)
    """Events that gaps report, by cluster and broker."""
    holes: Counter[tuple[str, int]] = field(default_factory=Counter)
    """Event numbers that no file or gap covers."""
    events: int = 0
    """Number of event numbers in all segments that were written."""
