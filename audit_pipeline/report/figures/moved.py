"""Who moved how much on which topic over time: the data that the page's filter, heat map and stacked chart use.

It is bounded: the largest clusters, clients and topics have names, all others are together, and steps get longer.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple

from audit_pipeline.report.figures.scope import Scope, within
from audit_pipeline.results.tables import is_own_client

ROWS_MAX = 12_000
CHARS_MAX = 20_000
"""Maximum number of characters of all names of clients, and of all names of topics.

A name may have 249 characters or more.
"""

_MOVED = f"""
CREATE OR REPLACE TEMP TABLE moved AS
SELECT cluster_id, coalesce(client_id, '(none)') AS client_id, topic, epoch_us(window_start) AS at_us,
  sum(in_bytes)::BIGINT AS produced, sum(out_bytes)::BIGINT AS fetched, sum(records)::BIGINT AS records,
  sum(requests)::BIGINT AS requests, sum(errors)::BIGINT AS errors
FROM usage
WHERE {within("window_start")} AND topic IS NOT NULL AND NOT is_follower AND NOT {is_own_client("usage.client_id")}
GROUP BY ALL
"""

_PLACES = """
CREATE OR REPLACE TEMP TABLE places_of_{name} AS
SELECT {name}, row_number() OVER (ORDER BY sum(produced + fetched) DESC, {name}) - 1 AS place
FROM moved GROUP BY {name}
"""

_COLUMNS = {"clusters": "cluster_id", "clients": "client_id", "topics": "topic"}

_FOLDED = """
SELECT least(clusters.place, $clusters) AS cluster, least(clients.place, $clients) AS client,
  least(topics.place, $topics) AS topic, (at_us - $begin_us) // $step_us AS step,
  sum(produced)::BIGINT AS produced, sum(fetched)::BIGINT AS fetched, sum(records)::BIGINT AS records,
  sum(requests)::BIGINT AS requests, sum(errors)::BIGINT AS errors
FROM moved
JOIN places_of_cluster_id AS clusters USING (cluster_id)
JOIN places_of_client_id AS clients USING (client_id)
JOIN places_of_topic AS topics USING (topic)
GROUP BY ALL
"""


class Fold(NamedTuple):
    """A degree of detail: how many clusters, clients and topics have a name, and the maximum number of time steps."""

    clusters: int
    clients: int
    topics: int
    steps: int


FOLDS = (
    Fold(16, 200, 100, 96),
    Fold(16, 200, 100, 48),
    Fold(8, 100, 50, 48),
    Fold(8, 50, 25, 48),
    Fold(4, 25, 15, 32),
    Fold(3, 10, 8, 24),
)
"""The degrees of detail, from the finest to one that never has more than ROWS_MAX rows."""


class Row(NamedTuple):
    """The use of a topic by a client in a step of time. The first four fields are places in the lists of `Moved`.

    A place behind the end of its list means all others. `records` is None if no number of records is known.
    """

    cluster: int
    client: int
    topic: int
    step: int
    produced: int
    fetched: int
    records: int | None
    requests: int
    errors: int

    @property
    def moved(self) -> int:
        return self.produced + self.fetched


@dataclass(frozen=True, slots=True)
class Moved:
    """The bytes that clients moved on topics over time, in rows.

    Names are those with a place, the largest first; `folded` counts the others.
    """

    begin_us: int
    step_us: int
    steps: int
    clusters: tuple[str, ...]
    clients: tuple[str, ...]
    topics: tuple[str, ...]
    folded: dict[str, int]
    rows: tuple[Row, ...]


class Names(NamedTuple):
    """The largest names of a kind, as many as a fold may have, and the number of all."""

    largest: Sequence[str]
    number: int

    def first(self, most: int) -> tuple[str, ...]:
        lengths = accumulate(map(len, self.largest[:most]))
        return tuple(name for name, length in zip(self.largest, lengths, strict=False) if length <= CHARS_MAX)


def moved(scope: Scope) -> Moved:
    scope.make(_MOVED)
    names = {kind: _names(scope, column) for kind, column in _COLUMNS.items()}
    found = _folded(scope, FOLDS[0], names)
    for fold in FOLDS[1:]:
        if len(found.rows) <= ROWS_MAX:
            break
        found = _folded(scope, fold, names)
    return found


def _names(scope: Scope, column: str) -> Names:
    scope.make(_PLACES.format(name=column))
    rows = scope.ask(f"SELECT {column} AS name FROM places_of_{column} ORDER BY place LIMIT {max(FOLDS[0])}")
    (all_of,) = scope.ask(f"SELECT count(*) AS number FROM places_of_{column}")
    return Names([row["name"] for row in rows], all_of["number"])


def _folded(scope: Scope, fold: Fold, names: Mapping[str, Names]) -> Moved:
    shown, coarse_us = scope.windows.shown, scope.windows.coarse_step_us
    # One step more than the length needs: the first one may begin before the time shown.
    step_us = coarse_us * -(-shown.length_us // (coarse_us * (fold.steps - 1)))
    begin_us = shown.from_us - shown.from_us % step_us
    most = {"clusters": fold.clusters, "clients": fold.clients, "topics": fold.topics}
    known = {kind: each.first(most[kind]) for kind, each in names.items()}
    given = {"begin_us": begin_us, "step_us": step_us, **{kind: len(each) for kind, each in known.items()}}
    rows = scope.ask(f"{_FOLDED} ORDER BY ALL LIMIT {ROWS_MAX + 1}", None, **given)
    folded = {kind: each.number - len(known[kind]) for kind, each in names.items()}
    steps = -(-(shown.to_us - begin_us) // step_us)
    return Moved(begin_us, step_us, steps, **known, folded=folded, rows=tuple(Row(**row) for row in rows))
