"""Connections of one segment: of clients that stay a while, and of one that connects again and again."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa

from tests.support.audit.audit_weeks.cast import RETRYING, STORMY, STRANGER, Rows
from tests.support.audit.audit_weeks.requests import SECOND_US, Requests, Span, asked_for_versions, concatenated

Numbers = np.ndarray[Any, Any]

EVENTS: Final = ("accepted", "limited", "refused", "closed")
ACCEPTED, LIMITED, REFUSED, CLOSED = range(4)
REASONS: Final = (
    "max.connection.creation.rate.per.ip",
    "max.connections.per.ip",
    "listener.name.plaintext.max.connections",
    "closed by the client",
)
RATE, PER_IP, SLOTS, BY_CLIENT = range(4)
LIMITS: Final[Mapping[str, tuple[tuple[str | int | None, ...], pa.DataType]]] = {
    "limit_quota": (("shop/runaway", None, None, None), pa.string()),
    "limit_key": (("connection_creation_rate", "max.connections.per.ip", REASONS[SLOTS], None), pa.string()),
    "limit_entity": (("connection-group=shop/runaway", None, None, None), pa.string()),
    "limit_value": ((20, 5, 900, None), pa.int64()),
}
"""The columns of a limit, by reason."""
NO_RATE, RATE_BEFORE, RATE_AFTER = -1, 500, 100
"""Rates of the listener: the second one until the middle of a storm, the third one from then on."""
_BIN_US: Final = 10 * SECOND_US
_IDS_A_SECOND: Final = 10_000
_OPEN_US: Final = 400_000


def rows(
    at_us: Numbers, client: Numbers, connection: Numbers, event: int, reason: int, rate: Numbers | None = None
) -> Rows:
    count = len(at_us)
    return {
        "ts": at_us,
        "client": client,
        "connection": connection,
        "event": np.full(count, event),
        "reason": np.full(count, reason),
        "listener_rate": np.full(count, NO_RATE) if rate is None else rate,
    }


def usual(span: Span, number: int, *, is_first: bool, is_last: bool) -> Rows:
    """Connections of usual clients: one in each segment, but every third client keeps its one while the broker runs."""
    client = np.array([place for place in range(len(span.cast.clients)) if place not in (STRANGER, STORMY, RETRYING)])
    connection = connection_ids(client, number)
    begins = (client % 3 != 0) | is_first
    ends = (client % 3 != 0) | is_last
    opened_us, closed_us = span.first_us - SECOND_US + client * 1_000, span.last_us + client * 1_000
    return concatenated(
        [
            # A connection has no identity yet when it is accepted.
            rows(opened_us[begins], client[begins], connection[begins], ACCEPTED, -1),
            rows(closed_us[ends], client[ends], connection[ends], CLOSED, BY_CLIENT),
        ]
    )


def connection_ids(client: Numbers, number: int) -> Numbers:
    return np.where(client % 3 == 0, client + 1, (number + 1) * 1_000 + client)


@dataclass(frozen=True, slots=True)
class Storm:
    """A storm of connections at one broker.

    Each of `bins` bins of ten seconds has so many `accepted`, `limited` and `refused` connections.
    """

    cluster: int
    broker: int
    started_us: int
    bins: int
    accepted: int
    limited: int
    refused: int

    @property
    def ended_us(self) -> int:
        return self.started_us + self.bins * _BIN_US

    @property
    def changed_us(self) -> int:
        """When the rate of the listener changes: within a second, and within connections."""
        return self.started_us + self.bins // 2 * _BIN_US + SECOND_US // 2

    def rates(self, at_us: Numbers) -> Numbers:
        return np.where(at_us < self.changed_us, RATE_BEFORE, RATE_AFTER)

    def episodes(self) -> Iterator[tuple[int, Numbers, Numbers, Numbers]]:
        """The rate of each episode, and the times of its accepted, limited and refused connections."""
        bins = self.started_us + np.arange(self.bins) * _BIN_US
        times = [self._times(bins, self.accepted, 0), self._limited(bins), self._times(bins, self.refused, 13_003)]
        for rate in (RATE_BEFORE, RATE_AFTER):
            accepted, limited, refused = (each[self.rates(each) == rate] for each in times)
            yield rate, accepted, limited, refused

    def _limited(self, bins: Numbers) -> Numbers:
        """Including the one client that only retries."""
        return np.concatenate([self._times(bins, self.limited, 7_001), self._times(bins, 1, 5_000_000)])

    def within(self, span: Span) -> tuple[Rows, Requests]:
        """Connections and requests of the storm within the span.

        The end of most connections identifies the client. For some, only their first request does; for a few, nothing
        does.
        """
        bins = self.started_us + np.arange(self.bins) * _BIN_US
        accepted = self._times(bins, self.accepted, 0)
        # Connection ids differ between the storms of a boot.
        ids = self.started_us // SECOND_US * _IDS_A_SECOND + np.arange(len(accepted))
        limited, refused = self._times(bins, self.limited, 7_001), self._times(bins, self.refused, 13_003)
        ended, asked = ids % 10 < 7, ids % 10 < 9
        stranger, stormy = np.full(len(ids), STRANGER), np.full(len(ids), STORMY)
        retries = self._times(bins, 1, 5_000_000)
        none = np.full(len(bins) * max(self.limited, self.refused, 1), -1)
        found = concatenated(
            [
                rows(accepted, stranger, ids, ACCEPTED, -1, self.rates(accepted)),
                rows((accepted + _OPEN_US)[ended], stormy[ended], ids[ended], CLOSED, BY_CLIENT),
                rows(
                    limited, np.full(len(limited), STRANGER), none[: len(limited)], LIMITED, RATE, self.rates(limited)
                ),
                rows(
                    refused, np.full(len(refused), STRANGER), none[: len(refused)], REFUSED, PER_IP, self.rates(refused)
                ),
                rows(
                    retries, np.full(len(retries), RETRYING), none[: len(retries)], LIMITED, SLOTS, self.rates(retries)
                ),
            ]
        )
        # A refused connection has no request. If a connection ends, its end and its request name the same client.
        requests = asked_for_versions((accepted + 50_000)[asked], stormy[asked], ids[asked])
        inside = _is_within(found["ts"], span)
        requested = _is_within(requests.requests["ts"], span)
        return (
            {name: values[inside] for name, values in found.items()},
            Requests({name: values[requested] for name, values in requests.requests.items()}, requests.partitions),
        )

    @staticmethod
    def _times(bins: Numbers, each: int, shift_us: int) -> Numbers:
        """Times of so many events in each bin, evenly spread."""
        inside = np.arange(each) * ((_BIN_US - _OPEN_US) // max(each, 1)) + shift_us
        return (bins[:, None] + inside[None, :]).reshape(-1)


def _is_within(at_us: Numbers, span: Span) -> Numbers:
    return (at_us >= span.first_us) & (at_us < span.last_us)
