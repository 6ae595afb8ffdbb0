"""The answers of brokers about an address, as rows for users and as one document for programs. Pure.

docs/reference/connection-groups.md describes a broker's answer; the document contains all of it.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from kafka_bytes.printable import printable
from sluicegate_operator.cli.asking.quota_rows import share_words
from sluicegate_operator.cli.asking.quotas_named import Behind
from sluicegate_operator.quotas.observing.shares import ReportedShare

Json = Mapping[str, Any]
_LIMITS = ("connection_creation_rate", "max_connections")
_WHO = {"ip": "set for this address", "default": "set for all addresses"}
"""Text for a limit that no ConnectionQuota asks for."""
_SET_OTHERWISE = "set on the brokers"
BLOCKED_SHOWN_MIN = 0.005
"""Least share of blocked time that is shown: half a percent, which is rounded to one percent."""


@dataclass(frozen=True, slots=True)
class BrokerAnswer:
    """The answer of one broker. Without an answer, `document` is None and `problem` is the reason."""

    cluster: str
    broker_id: int
    document: Mapping[str, Any] | None
    problem: str = ""


@dataclass(frozen=True, slots=True)
class AddressAnswers:
    """The answers of all brokers about one address."""

    address: str
    answers: tuple[BrokerAnswer, ...]
    quotas: Behind = field(default_factory=dict)

    @property
    def silent(self) -> tuple[BrokerAnswer, ...]:
        return tuple(answer for answer in self.answers if answer.document is None)


def document(found: Sequence[AddressAnswers]) -> dict[str, Any]:
    return {
        "addresses": [
            {
                "address": one.address,
                "brokers": [_document(answer) for answer in one.answers],
                "quotas": [
                    {"cluster": cluster, "kind": kind, "names": list(names)}
                    for (cluster, kind), names in sorted(one.quotas.items())
                ],
            }
            for one in found
        ]
    }


def _document(answer: BrokerAnswer) -> dict[str, Any]:
    who = {"cluster": answer.cluster, "broker": answer.broker_id}
    return who | ({"problem": answer.problem} if answer.document is None else {"answer": answer.document})


def silent_words(found: Iterable[AddressAnswers]) -> list[str]:
    """Return a sentence for each broker that did not answer."""
    said = {(a.cluster, a.broker_id): a.problem for one in found for a in one.silent}
    return [f"broker {number} of {cluster} did not answer: {why}" for (cluster, number), why in sorted(said.items())]


def why_tables(found: AddressAnswers, now: datetime) -> list[Table]:
    """Return a table for each cluster, with a row for each limit on each broker that answered.

    80 columns hold most tables. `rate/s` and `open` are the present use of the limit. `blocked`: share of the time that
    new connections wait for it.
    """
    return [_table(found, cluster, now) for cluster in sorted({answer.cluster for answer in found.answers})]


def _table(found: AddressAnswers, cluster: str, now: datetime) -> Table:
    observes = any(answer.document and answer.document["observers"] for answer in found.answers)
    table = Table(
        title=f"Limits on {found.address} in cluster {cluster}",
        caption="in brackets: would have been delayed or rejected if the quota did not only observe"
        if observes
        else None,
        box=SIMPLE_HEAD,
        pad_edge=False,
        padding=(0, 1, 0, 0),
    )
    table.add_column("broker", justify="right")
    for heading in ("quota", "by"):
        table.add_column(heading, overflow="fold")
    for heading in ("rate/s", "open", "blocked", "held", "for"):
        table.add_column(heading, justify="right", no_wrap=True)
    for answer in found.answers:
        if answer.cluster == cluster and answer.document is not None:
            for row in _rows(answer.document, _by_kind(found, cluster), now):
                table.add_row(str(answer.broker_id), *(Text(printable(cell)) for cell in row))
    return table


def _by_kind(found: AddressAnswers, cluster: str) -> Mapping[str, str]:
    """Return the names of the quotas behind a limit by its kind, except for limits of connection groups."""
    named = {kind: ", ".join(names) for (of, kind), names in found.quotas.items() if of == cluster}
    return _WHO | named


def _rows(said: Json, who: Mapping[str, str], now: datetime) -> list[tuple[str, ...]]:
    rows = [_cells(limit, who, now) for limit in (*said["holders"], *said["observers"])]
    per_ip = said["max_connections_per_ip"]
    if per_ip is not None:
        rows.append(("max per ip", "", "-", _used(str(said["connections"]), per_ip), "-", "-", "-"))
    rows += [_shared_cells(name, limit, who) for name, limit in _shared(said)]
    return rows or [("nothing", "", "-", str(said["connections"]), "-", "-", "-")]


def _shared(said: Json) -> Iterator[tuple[str, Json]]:
    """Yield the limits that all clients of a listener or of the broker share.

    A broker of an earlier release does not report them.
    """
    for name, limit in said.get("listeners", {}).items():
        own = {key: limit[key] for key in _LIMITS if key not in limit["inherited"] and limit[key] is not None}
        if own:
            yield f"listener {name}", {**limit, **dict.fromkeys(_LIMITS), **own}
    broker = said.get("broker")
    if broker is not None and any(broker[key] is not None for key in _LIMITS):
        yield "broker", broker


def _shared_cells(name: str, limit: Json, who: Mapping[str, str]) -> tuple[str, ...]:
    share, adaptive = limit["blocked_share"], limit.get("adaptive")
    return (
        who.get(name, _SET_OTHERWISE),
        (name if adaptive is None else f"{name}, adaptive: {adaptive['reason']}") + _of_cluster(limit),
        _used(f"{limit['rate']:.1f}", _rate_limit(limit)),
        _used(str(limit["connections"]), limit["max_connections"]),
        f"{share:.0%}" if share == 0 or share >= BLOCKED_SHOWN_MIN else "<1%",
        str(sum(limit["held"].values())),
        "-" if adaptive is None else _age(timedelta(seconds=adaptive["unchanged_s"])),
    )


def _rate_limit(limit: Json) -> int | str | None:
    """Return the rate with which the broker compares its own: for a rate of the cluster, its share."""
    share = ReportedShare.of(limit)
    rate: int | None = limit["connection_creation_rate"]
    return rate if share is None or rate is None else f"{share.share:.1f}"


def _of_cluster(limit: Json) -> str:
    share = ReportedShare.of(limit)
    has_rate = limit["connection_creation_rate"] is not None
    return f", share {share_words(share)}" if share is not None and has_rate else ""


def _cells(limit: Json, who: Mapping[str, str], now: datetime) -> tuple[str, ...]:
    observes = limit["mode"] == "Observe"
    counts = limit.get("would_hold" if observes else "held")
    held = "-" if counts is None else str(sum(counts.values()))
    return (
        str(limit.get("group") or who.get(limit["kind"], limit["kind"])),
        str(limit.get("member") or "") + (" shared" if limit["shared"] else "") + _of_cluster(limit),
        _used(f"{limit['rate']:.1f}", _rate_limit(limit)),
        _used(str(limit["connections"]), limit["max_connections"]),
        "-",
        f"({held})" if observes else held,
        "-" if limit["since"] is None else _age(now - datetime.fromisoformat(limit["since"])),
    )


def _age(passed: timedelta) -> str:
    """Return an age as kubectl shows it, with about two digits."""
    seconds = max(0, int(passed.total_seconds()))
    for unit, length in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= 2 * length:
            return f"{seconds // length}{unit}"
    return f"{seconds}s"


def _used(now: str, limit: int | str | None) -> str:
    return "-" if limit is None else f"{now}/{limit}"
