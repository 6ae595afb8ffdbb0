"""Invented results of the audit pipeline, published for tests: rows of every table that tell a story.

Two clusters over fifteen days, with:
- a storm of one client two hours before the end, and an older one that no limit held back
- a broker that lost events, and one that was silent for a day
- a principal and a topic that appeared, and ones that disappeared
- topics without use, and a mirror that lost records
- names that try to run as a script, are written backwards, or break the page
"""

import io
import math
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from pyarrow import parquet

from audit_pipeline.reading.published import WHOLE, Manifest, publish, result_schema
from audit_pipeline.results.tables import result_tables
from audit_pipeline.spool.targets import FolderTarget
from tests.support.audit.published_limits import recommended

Rows = dict[str, list[dict[str, Any]]]

FIRST_DAY: Final = date(2026, 11, 8)
DAYS: Final = 15
END: Final = datetime(2026, 11, 22, 18, 4, 20, tzinfo=UTC)
STORM_AT: Final = datetime(2026, 11, 22, 15, 58, tzinfo=UTC)
SHOP, MIRROR = "shop-7Qm2rXb4TtGv1cZl9aWkEw", "shop-eu-P0c5n8sYTa2dLq6uKf3hJg"

SCRIPT: Final = "<script>document.title='owned'</script>"
QUOTES: Final = "\"><img src=x onerror=\"document.title='owned'\"> '; --"
BACKWARDS: Final = "orders\u202egpj.exe\u2066"
LONG: Final = "a-topic-with-the-longest-name-" + "x" * 219
HOSTILE: Final = (SCRIPT, QUOTES, BACKWARDS, LONG, "طلبات", "line\nbreak\tand\x00nul", "]]></script></style><!--")
"""Kafka accepts few of them as names of topics, but all of them as client ids and principals."""

_EVERY = timedelta(minutes=30)
_BESIDE = {"principal": "User:checkout", "client_id": "checkout-7", "client_ip": "10.4.1.17"}
_HISTOGRAM_SPREAD = ((0, 62), (20, 37), (60, 1))
_CLIENTS = (
    # principal, client id, address, software, version, requests of ten minutes, bytes of a request
    ("User:checkout", "checkout-7", "10.4.1.17", "apache-kafka-java", "4.3.0", 5200, 2100),
    ("User:warehouse", "warehouse-sync", "10.4.2.9", "librdkafka", "2.12.1", 2600, 5200),
    ("User:clickstream", "web-edge", "10.4.7.31", "apache-kafka-java", "3.9.1", 9100, 700),
    ("User:billing", "billing-batch", "10.4.3.4", "aiokafka", "0.13.0", 640, 3600),
    ("User:fraud", "fraud-scoring", "10.4.5.12", "franz-go", "1.20.0", 1900, 900),
)
_MIRRORING = ("User:mirror-maker", "mirror-eu", "10.9.0.2", "apache-kafka-java", "4.3.0", 900, 4100)
_TOPICS = {
    "User:checkout": "orders",
    "User:warehouse": "stock-levels",
    "User:clickstream": "page-views",
    "User:billing": "invoices",
    "User:fraud": "orders",
    "User:mirror-maker": "orders",
}
_API_BASE_US = {"Produce": 2600, "Fetch": 900, "Metadata": 500}


def publish_rows(
    root: Path,
    rows: Mapping[str, Sequence[Mapping[str, Any]]],
    version: str = "20261122T180500-1",
    summary: Mapping[str, Any] | None = None,
) -> None:
    """Publish a results folder that has these rows and no others."""
    root.mkdir(parents=True, exist_ok=True)
    target = FolderTarget(root)
    files: dict[str, dict[str, tuple[str, ...]]] = {}
    for name, table in result_tables().items():
        by_day: dict[str, list[Mapping[str, Any]]] = {}
        for row in rows.get(name, ()):
            by_day.setdefault(row["event_date"].isoformat() if table.is_by_day else WHOLE, []).append(row)
        for day, each in by_day.items():
            folder = f"{name}/event_date={day}" if table.is_by_day else name
            path = f"{folder}/{version}-0.parquet"
            buffer = io.BytesIO()
            parquet.write_table(pa.Table.from_pylist([_whole(name, row) for row in each], result_schema(name)), buffer)
            target.put(path, buffer.getvalue())
            files.setdefault(name, {})[day] = (path,)
    built_us = _us(END + timedelta(minutes=2))
    publish(target, Manifest(version=version, built_us=built_us, files=files, summary=summary or {}))


def story(names: Sequence[str] = HOSTILE) -> Rows:
    """Rows of every table; `names` are used for clients, principals and topics beside the usual ones."""
    rows: Rows = {name: [] for name in result_tables()}
    asked: list[dict[str, Any]] = []
    for number in range(DAYS):
        day = FIRST_DAY + timedelta(days=number)
        asked += _asked(day, names)
        rows["coverage"] += _coverage(day)
        rows["completeness"] += _completeness(day)
        rows["objectives"] += _objectives(day)
        rows["cost"] += _cost(day, names)
        rows["topic_days"].append({"event_date": day, "topic": "orders", "produced_bytes": 7, "fetched_bytes": 9})
        rows["inventory_hours"].append({"event_date": day, "hour": _at(day), "topic": "orders", "partitions": 12})
        rows["mirror_buckets"].append({"event_date": day, "topic": "orders", "bucket": _at(day), "records_placed": 5})
    _add_asked(rows, asked)
    rows["failures"] = list(_failures(names))
    rows["changes"] = list(_changes(names))
    rows["latency"].append({"event_date": END.date(), "window_start": _at(END.date()), "api": "Produce", "requests": 9})
    _storms(rows, names)
    for table, limits in recommended(SHOP, MIRROR, names).items():
        rows[table] += limits
    rows["idle_topics"] = list(_idle_topics(names))
    rows["correctness"] = list(_correctness(names))
    rows["error_budget"] = list(_error_budget(names))
    rows["quarantine"] = list(_quarantine())
    return rows


def minutes_of_a_demo() -> Rows:
    """Rows of a cluster that has just been created: two complete minutes, and a storm."""
    rows: Rows = {name: [] for name in result_tables()}
    start = datetime(2026, 11, 22, 9, 30, 12, tzinfo=UTC)
    client = {"cluster_id": "demo", "listener": "EXTERNAL", "principal": "User:ANONYMOUS", "client_ip": "127.0.0.2"}
    asked: list[dict[str, Any]] = []
    for minute in range(3):
        at = (start + timedelta(minutes=minute)).replace(second=0)
        request = {"event_date": at.date(), "minute": at, **client, "client_id": "shop", "api": "Produce"}
        asked.append({**request, "requests": 900, "request_bytes": 81_000})
        asked += _histogram(request, 2000, 900)
        asked.append({**request, "topic": "orders", "requests": 900, "request_bytes": 60_000, "records": 900})
    _add_asked(rows, asked)
    rows["coverage"].append(
        {"event_date": start.date(), "window_start": start.replace(second=0)}
        | {"cluster_id": "demo", "broker_id": 0, "first_ts": start}
        | {"last_ts": start + timedelta(seconds=131), "events": 2700, "gaps": 0, "missing": 0}
    )
    rows["completeness"].append(
        {"event_date": start.date(), "cluster_id": "demo", "broker_id": 0, "events": 2700, "is_complete": True}
    )
    bins = [(0, 40, 0, 0), (1, 20, 310, 120), (2, 20, 290, 90)]
    _storm(
        rows, start.replace(second=20), bins, {**client, "client_id": "storm", "software_name": "librdkafka"}, "demo"
    )
    return rows


def _at(day: date, hours: float = 0) -> datetime:
    return datetime(day.year, day.month, day.day, tzinfo=UTC) + timedelta(hours=hours)


def _us(at: datetime) -> int:
    return round(at.timestamp() * 1e6)


def _whole(table: str, row: Mapping[str, Any]) -> dict[str, Any]:
    """A complete row: a required column that the row lacks gets the empty value of its type."""
    empty = {"string": "", "bool": False, "double": 0.0}
    whole = dict(row)
    for field in result_tables()[table].fields:
        if field.name == "cluster_id" and not field.nullable:
            whole.setdefault("cluster_id", SHOP)
        whole.setdefault(field.name, None if field.nullable else empty.get(field.type, 0))
    return whole


def _changes(names: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Changes of the last hours: one failed, one was a dry run, some are of the operator, and one counts others."""
    at = END - timedelta(hours=3)
    who = {"event_date": at.date(), "ts": at, "principal": "User:platform", "client_id": "admin-cli"}
    who |= {"client_ip": "10.4.0.5", "api": "IncrementalAlterConfigs", "resource_type": "topic", "operation": "set"}
    done = {"outcome": "succeeded", "error_code": 0}
    orders = {**who, "resource_name": "orders", "key": "retention.ms", "topic": "orders"}
    yield {**orders, **done, "old_value": "604800000", "new_value": "86400000", "seq": 1}
    yield {**orders, "new_value": "soon", "outcome": "INVALID_CONFIG", "error_code": 40, "seq": 2}
    yield {**orders, **done, "new_value": "1", "validate_only": True, "seq": 3}
    yield {**who, **done, "api": "DeleteTopics", "operation": "several", "further": 40, "seq": 4}
    yield {**orders, "client_id": None, "outcome": "unknown: cancelled", "seq": 5}
    for number in range(7):
        yield {**orders, **done, "client_id": "sluicegate-operator", "new_value": str(number), "seq": 10 + number}
    for number, name in enumerate(names):
        named = {"principal": name, "client_id": name, "resource_name": name, "key": name, "new_value": name}
        yield {**who, **done, **named, "ts": at - timedelta(hours=1), "seq": 20 + number}


def _histogram(who: Mapping[str, Any], middle_us: float, requests: int) -> Iterator[dict[str, Any]]:
    """A row for each bucket of a histogram."""
    middle = round(math.log(middle_us) / math.log(1.04))
    for by, part in _HISTOGRAM_SPREAD:
        yield {**who, "bucket": middle + by, "measured": max(1, requests * part // 100)}


def _asked(day: date, names: Sequence[str]) -> Iterator[dict[str, Any]]:
    at = _at(day)
    while at < _at(day, 24) and at < END:
        hour = (at - _at(day)).total_seconds() / 3600
        load = 0.55 + 0.45 * math.sin((hour - 8) / 24 * 2 * math.pi) + (0.25 if day.weekday() >= 5 else 0)
        is_storm = STORM_AT - _EVERY < at <= STORM_AT + _EVERY
        for number, client in enumerate(_CLIENTS):
            yield from _requests_of(at, client, load * (1 + number % 3 * 0.1), 9.0 if is_storm else 1.0)
        for row in _requests_of(at, _MIRRORING, load):
            yield row | {"cluster_id": MIRROR}
        if day >= date(2026, 11, 19) and at.minute == 0:
            yield from _requests_of(
                at, ("User:reports-v2", "reports", "10.4.9.9", "kafka-python", "2.3.0", 60, 90_000), 1
            )
        if day < date(2026, 11, 13) and at.minute == 0:
            yield from _requests_of(at, ("User:legacy-etl", "etl", "10.4.9.8", "sarama", "1.46.0", 80, 4000), 1)
        if at.minute == at.hour == 0:
            for name in names:
                yield from _requests_of(at, (name, name, "10.66.6.6", name, None, 40, 9000), 1)
        at += _EVERY


def _requests_of(at: datetime, client: tuple[Any, ...], load: float, slower: float = 1.0) -> Iterator[dict[str, Any]]:
    principal, client_id, client_ip, software, version, most, size = client
    who = {"event_date": at.date(), "minute": at, "cluster_id": SHOP, "listener": "EXTERNAL", "principal": principal}
    who |= {"client_id": client_id, "client_ip": client_ip, "software_name": software, "software_version": version}
    topic = {"User:reports-v2": "reports", "User:legacy-etl": "etl-staging"}.get(
        principal, _TOPICS.get(principal, principal)
    )
    for api, share in (("Produce", 0.6), ("Fetch", 0.38), ("Metadata", 0.02)):
        requests = max(1, round(most * load * share))
        produced, fetched = (requests * size, 0) if api == "Produce" else (0, requests * size if api == "Fetch" else 0)
        errors = requests // 40 if slower > 1 else requests // 900
        middle_us = _API_BASE_US[api] * (0.7 + load) * slower
        yield who | {
            "api": api,
            "requests": requests,
            "errors": errors,
            "request_bytes": produced + 90 * requests,
            "response_bytes": fetched + 60 * requests,
        }
        yield from _histogram(who | {"api": api}, middle_us, requests - errors)
        if api != "Metadata":
            yield who | {
                "api": api,
                "topic": topic,
                "requests": requests,
                "request_bytes": produced,
                "response_bytes": fetched,
                "records": requests * 10 if api == "Produce" else 0,
            }
    if principal == "User:warehouse":
        follower = {"event_date": at.date(), "minute": at, "principal": "User:ANONYMOUS", "client_id": "broker-2"}
        yield follower | {"api": "Fetch", "is_follower": True, "requests": 1200, "response_bytes": 40_000_000}


def _add_asked(rows: Rows, asked: Sequence[Mapping[str, Any]]) -> None:
    """Add the tables of requests, as the build makes them of rows by minute: sums, and buckets of histograms."""
    rows["usage"] = [_usage(row) for row in asked if "bucket" not in row]
    rows["latency_hist"] = list(_latency_hist(asked))
    rows["minutes"] = [
        {**row, "in_bytes": row["in_bytes"], "out_bytes": row["out_bytes"], "minute": each["minute"]}
        for each in asked
        if "bucket" not in each and "topic" not in each
        for row in [_usage(each)]
    ]
    for row in rows["minutes"]:
        for name in set(row) - {field.name for field in result_tables()["minutes"].fields}:
            del row[name]
    rows["traffic"] = list(_traffic(asked))


def _window(at: datetime) -> datetime:
    return at.replace(minute=at.minute // 10 * 10)


def _usage(row: Mapping[str, Any]) -> dict[str, Any]:
    renamed = {"request_bytes": "in_bytes", "response_bytes": "out_bytes"}
    made = {renamed.get(name, name): value for name, value in row.items() if name not in ("minute", "client_ip")}
    made = {"in_bytes": 0, "out_bytes": 0, **made, "window_start": _window(row["minute"])}
    made["address_group"] = _network(row.get("client_ip", ""))
    return made | ({"last_moved": row["minute"]} if "topic" in row else {})


def _network(address: str) -> str:
    return f"{address.rpartition('.')[0]}.0/24" if address else ""


def _latency_hist(asked: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    found: dict[tuple[Any, ...], dict[str, Any]] = {}
    for row in asked:
        if "topic" in row or row.get("is_follower"):
            continue
        who = {name: row.get(name, SHOP) for name in ("event_date", "cluster_id", "api", "principal", "client_id")}
        who["window_start"] = _window(row["minute"])
        made = found.setdefault(tuple(who.values()), {**who, "requests": 0, "errors": 0, "latency": {}})
        if "bucket" in row:
            made["latency"][row["bucket"]] = made["latency"].get(row["bucket"], 0) + row["measured"]
        else:
            made["requests"] += row["requests"]
            made["errors"] += row.get("errors", 0)
    for made in found.values():
        yield {**made, "latency": sorted(made["latency"].items())}


def _failures(names: Sequence[str]) -> Iterator[dict[str, Any]]:
    window = _window(STORM_AT)
    shop = {
        "event_date": window.date(),
        "window_start": window,
        "principal": "User:checkout",
        "client_id": "checkout-7",
    }
    produce = {**shop, "api": "Produce", "error": "NOT_LEADER_OR_FOLLOWER", "error_code": 6, "topic": "orders"}
    yield produce | {"failures": 31}
    yield produce | {"failures": 9, "window_start": window + timedelta(minutes=20)}
    yield shop | {"api": "Fetch", "error": "OFFSET_OUT_OF_RANGE", "error_code": 1, "topic": "orders", "failures": 2}
    yield shop | {"api": "JoinGroup", "error": "hung up", "failures": 1}
    yield shop | {
        "api": "JoinGroup",
        "error": "MEMBER_ID_REQUIRED",
        "error_code": 79,
        "is_expected": True,
        "failures": 77,
    }
    for name in names:
        yield (
            shop
            | {"api": "Produce", "error": "MESSAGE_TOO_LARGE", "error_code": 10, "failures": 1}
            | {
                "client_id": name,
                "topic": name,
            }
        )


def _traffic(asked: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """Traffic as the build computes it, for the dimensions that matter here."""
    found: dict[tuple[Any, ...], dict[str, int]] = {}
    for row in asked:
        if "bucket" in row:
            continue
        topic = row.get("topic")
        names = {"cluster": "", "principal": row["principal"], "client_id": row["client_id"], "api": row["api"]}
        names |= {"address_group": _network(row.get("client_ip", "")), **({"topic": topic} if topic else {})}
        for dimension, name in names.items():
            key = (
                row["event_date"],
                _window(row["minute"]),
                row.get("cluster_id", SHOP),
                dimension,
                name,
                row.get("is_follower", False),
            )
            sums = found.setdefault(key, {})
            counts_requests = (topic is not None) == (dimension == "topic")
            added = {"produced_bytes": row.get("request_bytes", 0), "fetched_bytes": row.get("response_bytes", 0)}
            if topic is None:
                added = {name: row.get(name, 0) for name in ("request_bytes", "response_bytes")}
            if counts_requests:
                added |= {"requests": row["requests"], "errors": row.get("errors", 0)}
            for column, number in added.items():
                sums[column] = sums.get(column, 0) + number
    for (day, at, cluster_id, dimension, name, is_follower), sums in found.items():
        yield {
            "event_date": day,
            "window_start": at,
            "cluster_id": cluster_id,
            "dimension": dimension,
            "name": name,
            "is_follower": is_follower,
            **sums,
        }


def _coverage(day: date) -> Iterator[dict[str, Any]]:
    for cluster_id, broker_id in ((SHOP, 0), (SHOP, 1), (SHOP, 2), (MIRROR, 0)):
        if (broker_id, day) == (2, date(2026, 11, 18)):
            continue
        last = min(_at(day, 24) - timedelta(seconds=1), END)
        row = {
            "event_date": day,
            "window_start": _at(day),
            "cluster_id": cluster_id,
            "broker_id": broker_id,
            "first_ts": _at(day),
            "last_ts": last,
        }
        yield row | {"events": 1_412_007 + 1013 * broker_id if cluster_id == SHOP else 88_000}


def _completeness(day: date) -> Iterator[dict[str, Any]]:
    for row in _coverage(day):
        where = (row["cluster_id"], row["broker_id"], day)
        faults: dict[str, Any] = {"is_complete": True}
        if where == (SHOP, 1, date(2026, 11, 20)):
            faults = {"gaps": 3, "missing": 4_812}
        if where == (SHOP, 0, date(2026, 11, 17)):
            faults = {"holes": 611, "quarantined_files": 1, "quarantined_rows": 611}
        known = {"event_date": day, "cluster_id": row["cluster_id"], "broker_id": row["broker_id"]}
        yield known | {"events": row["events"]} | faults


def _storm(
    rows: Rows,
    started: datetime,
    bins: Sequence[tuple[int, int, int, int]],
    who: dict[str, Any],
    cluster_id: str,
    beside: int = 0,
) -> None:
    """Add a storm.

    `bins`: number of the ten seconds, accepted, limited, refused; `beside` are of another client in each. All are in
    the first of these seconds.
    """
    limit = {"limit_key": "max.connection.creation.rate", "limit_value": 60}
    for number, accepted, limited, refused in bins:
        place = {
            "event_date": started.date(),
            "bin": started + timedelta(seconds=10 * number),
            "first_ts": started + timedelta(seconds=10 * number),
            "last_ts": started + timedelta(seconds=10 * number + 0.9),
            **who,
            "cluster_id": cluster_id,
        }
        rows["storm_bins"].append(place | {"accepted": accepted})
        if limited or refused:
            rows["storm_bins"].append(place | limit | {"limited": limited, "refused": refused})
        if beside:
            rows["storm_bins"].append(place | _BESIDE | {"accepted": beside})
    sums = [sum(each[column] for each in bins) for column in (1, 2, 3)]
    everybody = sums[0] + beside * len(bins)
    held = [accepted for _, accepted, limited, refused in bins if limited or refused]
    named = [who.get("software_name"), who.get("software_version")]
    rows["storms"].append(
        {
            "cluster_id": cluster_id,
            "listener": who["listener"],
            "started": started,
            "ended": started + timedelta(seconds=10 * bins[-1][0] + 0.9),
            "accepted": everybody,
            "limited": sums[1],
            "refused": sums[2],
            "peak_attempts": max(accepted + refused + beside for _, accepted, _, refused in bins),
            "held_accepted": max(held) + beside if held else None,
            **(limit if held else {}),
            "source_ip": who["client_ip"],
            "source_principal": who["principal"],
            "source_client_id": who["client_id"],
            "source_software": " ".join(part for part in named if part) or None,
            "source_attempts": sums[0] + sums[2],
            "others_requests_before": 9_000,
            "others_p99_before_us": 11_400,
            "others_requests_during": 4_000,
            "others_p99_during_us": 94_000 if held else 31_000,
        }
    )
    mine = {**who, "cluster_id": cluster_id, "started": started}
    rows["storm_sources"].append(mine | {"accepted": sums[0], "limited": sums[1], "refused": sums[2]})
    if beside:
        rows["storm_sources"].append(mine | _BESIDE | {"accepted": beside * len(bins)})


def _storms(rows: Rows, names: Sequence[str]) -> None:
    who = {"listener": "EXTERNAL", "principal": "User:loyalty", "client_id": "loyalty-worker", "client_ip": "10.4.8.77"}
    who |= {"software_name": "librdkafka", "software_version": "1.9.2"}
    bins = []
    for number in range(27):
        wave = math.sin(number / 27 * math.pi)
        if number not in (11, 12):
            limited = round(900 * wave)
            bins.append((number, 50 + number % 2 if limited > 60 else 40, limited, round(420 * wave**2)))
    _storm(rows, STORM_AT, bins, who, SHOP, beside=3)
    rows["storm_sources"] += [
        {"cluster_id": SHOP, "listener": "EXTERNAL", "started": STORM_AT, "principal": name, "client_id": name}
        | {"client_ip": f"10.66.6.{number}", "software_name": name, "accepted": 9 - number, "limited": 3, "refused": 1}
        for number, name in enumerate(names)
    ]
    principal, client_id, software = (*names, "User:nightly", "nightly-import", "sarama")[:3]
    who |= {"principal": principal, "client_id": client_id, "client_ip": "10.66.6.6", "software_name": software}
    _storm(rows, _at(date(2026, 11, 12), 4), [(number, 230 + number, 0, 0) for number in range(9)], who, SHOP)


def _objectives(day: date) -> Iterator[dict[str, Any]]:
    burns = {("orders in 50 ms", date(2026, 11, 22)): 6.4, ("reads in 20 ms", date(2026, 11, 20)): 0.9}
    for name, target in (("orders in 50 ms", 0.999), ("reads in 20 ms", 0.99)):
        burn = burns.get((name, day), 0.21)
        bad = round(1_000_000 * (1 - target) * burn)
        row = {"event_date": day, "objective": name, "requests": 1_000_000, "good": 1_000_000 - bad, "bad": bad}
        yield row | {"target": target, "burn": burn}


def _error_budget(names: Sequence[str]) -> Iterator[dict[str, Any]]:
    window = {"from_date": date(2026, 10, 24), "to_date": END.date(), "requests": 15_000_000}
    yield {"objective": "orders in 50 ms", **window, "bad": 16_140, "target": 0.999, "spent": 1.076}
    yield {"objective": "reads in 20 ms", **window, "bad": 38_400, "target": 0.99, "spent": 0.256}
    for name in names[:1]:
        yield {"objective": name, **window, "requests": 0, "bad": 0, "target": 0.9, "spent": 0.0}


def _cost(day: date, names: Sequence[str]) -> Iterator[dict[str, Any]]:
    weights: list[tuple[str | None, int]] = [(principal, most * size) for principal, *_, most, size in _CLIENTS]
    weights += [(name, 400_000) for name in names] + [
        (f"User:team-{number:02}", 90_000 - number) for number in range(30)
    ]
    weights.append((None, 2_300_000))
    amounts = [
        (principal, resource, weight * 144 // divisor, weight * price)
        for principal, weight in weights
        for resource, divisor, price in (
            ("ingress", 1, 2e-7),
            ("egress", 2, 3e-7),
            ("requests", 4000, 1e-8),
            ("storage", 1, 5e-8),
            ("partitions", 90_000, 2e-8),
        )
        if principal is not None or resource in ("storage", "partitions")
    ]
    whole = sum(amount for *_, amount in amounts)
    for principal, resource, quantity, amount in amounts:
        row = {"event_date": day, "resource": resource, "quantity": quantity, "amount": amount}
        row |= {"share": amount / whole, "currency": "EUR"}
        yield row | {"dimension": "principal", "name": principal}
        yield row | {"dimension": "client_id", "name": principal and principal.removeprefix("User:")}
        yield row | {"dimension": "topic", "name": "orders" if resource != "requests" else None}


def _idle_topics(names: Sequence[str]) -> Iterator[dict[str, Any]]:
    known = {"covered_from": _at(FIRST_DAY), "as_of": END, "covered_days": DAYS, "incomplete_days": 2}
    for topic in ("orders", "stock-levels", "page-views", "invoices", "reports"):
        used = {"last_produced": END - timedelta(minutes=1), "last_fetched": END - timedelta(minutes=2)}
        yield known | used | {"topic": topic, "partitions": 12, "replica_bytes": 48_000_000_000, "idle_hours": 0}
    yield (
        known
        | {"topic": "etl-staging", "partitions": 24, "replica_bytes": 910_000_000_000}
        | {
            "last_produced": _at(date(2026, 11, 12), 23),
            "idle_hours": 235,
        }
    )
    for number in range(18):
        spare = (
            ("orders-dlq", "payments-retry", "stock-error")[number]
            if number < 3
            else f"campaign-{2023 + number % 4}-{number:02}"
        )
        fetched = END - timedelta(hours=9 * number) if number % 3 else None
        idle = 9 * number if fetched else 354
        row = {
            "topic": spare,
            "partitions": 3 + number % 5,
            "replica_bytes": number**5 * 40_000,
            "is_spare": number < 3,
        }
        yield known | row | {"last_fetched": fetched, "idle_hours": idle}
    for number, name in enumerate(names):
        yield known | {"topic": name, "partitions": 1, "replica_bytes": 1_000 * number, "idle_hours": 354 - number}


def _correctness(names: Sequence[str]) -> Iterator[dict[str, Any]]:
    for topic in ("orders", "stock-levels", *names[3:4]):
        for number in range(6 * 24 * 3):
            bucket = END.replace(minute=0, second=0) - timedelta(minutes=10 * number)
            produced, mirrored, status = 3000, 3000, "complete"
            if topic == "orders" and number in (40, 41):
                mirrored, status = 2410 + number, "loss"
            if topic == "stock-levels" and number < 2:
                mirrored, status = 900, "lagging"
            yield {
                "mirror": "shop to eu",
                "topic": topic,
                "bucket": bucket,
                "produced_min": produced,
                "produced_max": produced + 12,
                "mirrored_min": max(0, mirrored - 12),
                "mirrored_max": mirrored,
                "produced_ending": produced,
                "mirrored_ending": mirrored,
                "status": status,
                "missing": max(0, produced - mirrored),
                "is_certain": bucket.date() != date(2026, 11, 20),
            }


def _quarantine() -> Iterator[dict[str, Any]]:
    path = "request/arrival_date=2026-11-17/arrival_hour=03"
    known = {"event_date": date(2026, 11, 17), "cluster_id": SHOP, "broker_id": 0, "table": "request"}
    yield known | {
        "path": f"{path}/shop-0-3f2a-00000012.parquet",
        "reason": "corrupt",
        "detail": "Parquet magic bytes not found in footer",
    }
    yield known | {
        "path": f"{path}/shop-0-3f2a-00000013.parquet",
        "reason": "clock",
        "rows": 611,
        "detail": "611 rows are 3 days ahead",
    }
    yield {"path": f"request/{QUOTES}.parquet", "reason": "version", "detail": SCRIPT}
