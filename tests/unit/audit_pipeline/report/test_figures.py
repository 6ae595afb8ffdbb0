"""Questions to published results, and their answers."""

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from audit_pipeline.errors import BadUseError
from audit_pipeline.report.answers.opening import answers_of
from audit_pipeline.report.answers.storm import who_caused
from audit_pipeline.report.asking import PublishedTables
from audit_pipeline.report.figures.completeness import Stretch
from audit_pipeline.report.figures.latency import percentile_us
from audit_pipeline.report.figures.report import Report, Subjects, as_json, report_of
from audit_pipeline.report.page import page
from audit_pipeline.report.window import Wanted
from audit_pipeline.report.words import moment
from audit_pipeline.results.buckets import BUCKET_US
from audit_pipeline.spool.targets import FolderTarget
from tests.support.audit.published_results import HOSTILE, MIRROR, SHOP, Rows, minutes_of_a_demo, publish_rows

BEFORE = datetime(2026, 11, 21, 9, tzinfo=UTC)


@pytest.fixture(scope="module")
def found(report: Report) -> Subjects:
    assert report.subjects is not None
    return report.subjects


def demo(root: Path) -> Report:
    publish_rows(root, minutes_of_a_demo())
    return report_of(PublishedTables(FolderTarget(root)), Wanted())


def us(at: datetime) -> int:
    return round(at.timestamp() * 1e6)


def said(report: Report, number: int) -> str:
    answer = answers_of(report)[number].as_json()
    return " ".join([answer["answer"], *answer["sentences"]])


def test_the_error_without_results_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(BadUseError, match="run `build`"):
        PublishedTables(FolderTarget(tmp_path / "none"))


def test_results_without_an_event_are_a_report_too(tmp_path: Path) -> None:
    publish_rows(tmp_path, {})
    empty = report_of(PublishedTables(FolderTarget(tmp_path)), Wanted())
    assert empty.subjects is None
    assert said(empty, 0).startswith("It is empty These results have no event")


def test_missing_events_are_reported_with_time_and_broker(report: Report) -> None:
    text = said(report, 0)
    assert text.startswith(
        "No 5,423 events of 28.9 million are missing (0.0188 %), 2026-11-16 00:00 to 2026-11-22 18:04"
    )
    assert f"2026-11-20, broker 1 of cluster {SHOP}: 4,812 events in 3 gaps that the broker reported." in text
    assert f"2026-11-17, broker 0 of cluster {SHOP}: 611 events without any record (holes), 1 file set aside." in text
    assert "1 file was set aside without a known day or broker" in text
    assert f"No events from broker 2 of cluster {SHOP} on 2026-11-18: the broker was down" in text


def test_each_broker_is_complete_until_its_first_fault(tmp_path: Path) -> None:
    rows = minutes_of_a_demo()
    (first,) = rows["coverage"]
    at, nothing = first["window_start"], {"first_ts": None, "last_ts": None, "events": 0}
    open_since = at + timedelta(minutes=17, seconds=3)
    rows["coverage"] = [
        first,
        {**first, "window_start": at + timedelta(minutes=20), "last_ts": at + timedelta(minutes=29)},
        {**first, "broker_id": 1},
        {**first, **nothing, "broker_id": 1, "window_start": at + timedelta(minutes=10), "holes": 1}
        | {"open_since": open_since},
        {**first, **nothing, "broker_id": 2, "holes": 1},
    ]
    (complete,) = rows["completeness"]
    rows["completeness"] += [{**complete, "broker_id": broker, "is_complete": False, "holes": 1} for broker in (1, 2)]
    publish_rows(tmp_path, rows)
    report = report_of(PublishedTables(FolderTarget(tmp_path)), Wanted())
    assert report.subjects is not None
    whole, opened, absent = report.subjects.completeness.brokers
    assert [each.complete_until_us for each in (whole, opened, absent)] == [
        us(at + timedelta(minutes=29)),
        us(first["last_ts"]),
        None,
    ]
    heard, silent = Stretch.HEARD, Stretch.SILENT
    assert (whole.cells, opened.cells) == ((heard, silent, heard), (heard, Stretch.OPEN, Stretch.OPEN))
    assert absent.cells == (Stretch.FAULTY, silent, silent)
    text = said(report, 0)
    assert text.startswith("No At least 2 events of ")
    assert "Broker 1: open since 2026-11-22 09:47:03 UTC, when its last segment ended" in text
    assert "Broker 2 is registered, and no event of it has landed." in text
    made = page(report, answers_of(report))
    assert 'aria-label="timeline of broker 1"' in made
    assert "events, none missing, 2026-11-22 09:30" in made


def test_a_broker_that_is_heard_no_more_takes_the_certainty_away(tmp_path: Path) -> None:
    rows = minutes_of_a_demo()
    (known,) = rows["completeness"]
    earlier = known["event_date"] - timedelta(days=1)
    rows["completeness"].append({**known, "event_date": earlier, "broker_id": 1})
    rows["coverage"].append({**rows["coverage"][0], "event_date": earlier, "broker_id": 1, "first_ts": BEFORE})
    publish_rows(tmp_path, rows)
    text = said(report_of(PublishedTables(FolderTarget(tmp_path)), Wanted()), 0)
    assert text.startswith("Yes, for the brokers that reported")
    assert "No events from broker 1 on 2026-11-22" in text


def test_events_without_completeness_are_not_complete(tmp_path: Path) -> None:
    publish_rows(tmp_path, {**minutes_of_a_demo(), "completeness": []})
    assert said(report_of(PublishedTables(FolderTarget(tmp_path)), Wanted()), 0).startswith("Not known")


def test_changes_are_reported_against_a_period_of_equal_length(report: Report, found: Subjects) -> None:
    assert found.changes is not None
    assert found.changes.last.length_us == found.changes.before.length_us
    text = said(report, 1)
    days = "2026-11-16 00:00 to 2026-11-22 18:00 UTC"
    assert f"{days}, compared with the period of equal length before, 2026-11-09 00:00" in text
    assert "New principals: User:reports-v2." in text
    assert "Principals that have disappeared: User:legacy-etl." in text
    assert "New topics: reports." in text
    assert "slower Fetch" in text


def test_one_sentence_names_the_source_of_the_last_storm(report: Report) -> None:
    text = said(report, 2)
    assert text.startswith(
        "loyalty-worker from 10.4.8.77 On 2026-11-22 15:58:00 UTC, for 4 min 20 s, address 10.4.8.77"
    )
    for part in (
        "client id loyalty-worker, librdkafka 1.9.2, principal User:loyalty",
        "made 98.8 % of the connections to listener EXTERNAL",
        "473 connections a second in total at the peak",
        "max.connection.creation.rate of 60/s admitted at most 54 a second",
        "was 94 ms during the storm, 11.4 ms before",
    ):
        assert part in text


@pytest.mark.parametrize(
    ("client_accepted", "verdict"),
    [(60_000, "loyalty-worker from 10,000 addresses"), (9, "10,000 addresses, most from 10.4.8.77")],
)
def test_no_address_is_named_alone_for_a_storm_of_many(found: Subjects, client_accepted: int, verdict: str) -> None:
    assert found.storms.last is not None
    storm = replace(found.storms.last, accepted=90_000, limited=10_000, refused=0, source_attempts=18)
    of_many = replace(storm, addresses=10_000, client_accepted=client_accepted)
    answer = who_caused(replace(found.storms, storms=(of_many, *found.storms.storms)), found)
    assert "".join(answer.verdict) == verdict
    assert "made 0.02 % of the connections to listener EXTERNAL" in "".join(answer.sentences[0])


def test_a_log_of_minutes_is_told_by_the_minute(tmp_path: Path) -> None:
    report = demo(tmp_path)
    assert report.subjects is not None
    (cluster,) = report.subjects.traffic.clusters
    assert [point.requests for point in cluster.points] == [900, 900, 900]
    assert [point.covered_us for point in cluster.points] == [48_000_000, 60_000_000, 23_000_001]
    topics = next(ranking for ranking in report.subjects.traffic.rankings if ranking.dimension == "topic")
    assert [(row.name, row.in_bytes, row.requests) for row in topics.rows] == [("orders", 180_000, 2700)]
    assert said(report, 0).startswith("Yes All 2,700 events of 1 broker are recorded")
    assert said(report, 1).startswith("No earlier period to compare with yet The audit log covers 2 min 11 s:")


def test_rankings_add_up_with_the_others(found: Subjects) -> None:
    points = [point for cluster in found.traffic.clusters for point in cluster.points]
    requests, moved = sum(point.requests for point in points), sum(point.in_bytes for point in points)
    assert {cluster.cluster_id for cluster in found.traffic.clusters} == {SHOP, MIRROR}
    for ranking in found.traffic.rankings:
        if ranking.dimension != "topic":
            assert sum(row.requests for row in ranking.rows) == requests
            assert sum(row.in_bytes for row in ranking.rows) == moved
    principals = found.traffic.rankings[0].rows
    assert (principals[-1].name, principals[-1].names) == (None, 6 + len(HOSTILE) - 9)


def test_cost_adds_up_to_all_of_it(found: Subjects) -> None:
    bill, of_topics = found.cost.bills
    assert (bill.dimension, of_topics.dimension) == ("principal", "topic")
    for each in found.cost.bills:
        lines = [*each.lines, *filter(None, (each.others, each.unattributed))]
        assert sum(line.share or 0 for line in lines) == pytest.approx(1)
        assert sum(line.amount or 0 for line in lines) == pytest.approx(each.amount)
    assert of_topics.amount == pytest.approx(bill.amount)
    assert bill.unattributed is not None
    assert bill.others is not None
    assert bill.others.names == 30


def test_cost_is_told_by_client_where_all_have_one_principal(tmp_path: Path) -> None:
    rows = minutes_of_a_demo()
    cost = {"event_date": rows["coverage"][0]["event_date"], "cluster_id": "demo", "resource": "ingress", "quantity": 7}
    rows["cost"] = [
        {**cost, "dimension": dimension, "name": name}
        for dimension, name in (("principal", "User:ANONYMOUS"), ("client_id", "shop"), ("topic", "orders"))
    ]
    publish_rows(tmp_path, rows)
    report = report_of(PublishedTables(FolderTarget(tmp_path)), Wanted())
    assert report.subjects is not None
    bills = [(bill.dimension, [line.name for line in bill.lines]) for bill in report.subjects.cost.bills]
    assert bills == [("client_id", ["shop"]), ("topic", ["orders"])]


def test_who_moved_how_much_on_which_topic(report: Report, found: Subjects) -> None:
    text = said(report, 3)
    assert text.startswith("warehouse-sync: 2.73 GiB on stock-levels Client warehouse-sync of cluster")
    assert "produced 1.67 GiB and fetched 1.06 GiB on topic stock-levels, 33.9 % of all" in text
    assert text.endswith(f"{found.usage.total - 3} more pairs of client and topic moved less.")
    moved = [pair.moved_bytes for pair in found.usage.pairs]
    assert moved == sorted(moved, reverse=True)


def test_own_clients_are_not_among_those_who_moved_most(tmp_path: Path) -> None:
    rows = minutes_of_a_demo()
    rows["usage"] += [{**row, "client_id": "sluicegate-operator"} for row in rows["usage"]]
    rows["traffic"] += [
        {**row, "name": "sluicegate-operator"} for row in rows["traffic"] if row["dimension"] == "client_id"
    ]
    publish_rows(tmp_path, rows)
    report = report_of(PublishedTables(FolderTarget(tmp_path)), Wanted())
    assert report.subjects is not None
    assert [pair.client_id for pair in report.subjects.usage.pairs] == ["shop"]
    clients = next(each for each in report.subjects.traffic.rankings if each.dimension == "client_id")
    assert [row.name for row in clients.rows] == ["shop"]


def test_what_broke_leaves_steps_of_the_protocol_out(report: Report, tmp_path: Path) -> None:
    text = said(report, 4)
    assert text.startswith("50 failures, most of them NOT_LEADER_OR_FOLLOWER NOT_LEADER_OR_FOLLOWER in 40 answers")
    assert "to Produce of checkout-7" in text
    assert text.endswith("77 other errors are steps of the protocol.")
    made = page(report, answers_of(report))
    assert "77 errors by which the protocol tells a client what to do next: nothing is broken" in made
    assert said(demo(tmp_path), 4) == "Nothing No request of a client failed."


def test_a_timeline_has_all_connections_of_its_storm(found: Subjects) -> None:
    for timeline in found.storms.timelines:
        assert sum(each.accepted for each in timeline.bins) == timeline.storm.accepted
        assert sum(each.limited for each in timeline.bins) == timeline.storm.limited
        assert sum(each.refused for each in timeline.bins) == timeline.storm.refused


def test_the_json_has_what_the_page_shows_in_bounds(report: Report) -> None:
    text = as_json(report, [answer.as_json() for answer in answers_of(report)])
    read = json.loads(text)
    assert len(text) < 400_000
    assert set(read["subjects"]) == set(Subjects.__slots__)
    assert read["answers"][2]["answer"] == "loyalty-worker from 10.4.8.77"


@given(st.dictionaries(st.integers(0, 400), st.integers(1, 50), min_size=1), st.integers(1, 100))
def test_a_percentile_is_that_of_all_requests_in_a_row(buckets: dict[int, int], percent: int) -> None:
    ordered: Sequence[int] = sorted(bucket for bucket, number in buckets.items() for _ in range(number))
    place = -(-len(ordered) * percent // 100) - 1
    assert percentile_us(buckets, percent) == round(1.04 ** ordered[place])


def test_a_day_without_any_event_is_not_known_rather_than_quiet(tmp_path: Path) -> None:
    rows = minutes_of_a_demo()
    before = {**rows["coverage"][0], "event_date": BEFORE.date() - timedelta(days=1)}
    rows["coverage"].append({**before, "first_ts": BEFORE - timedelta(days=1), "last_ts": BEFORE - timedelta(hours=20)})
    publish_rows(tmp_path, rows)
    report = report_of(PublishedTables(FolderTarget(tmp_path)), Wanted())
    assert report.subjects is not None
    (cluster,) = report.subjects.traffic.clusters
    known = {moment(point.at_us)[:10] for point in cluster.points if point.covered_us}
    unknown = {moment(point.at_us)[:10] for point in cluster.points if not point.covered_us}
    assert (known, unknown) == ({"2026-11-20", "2026-11-22"}, {"2026-11-21"})
    assert 'class="line line-0"' in page(report, answers_of(report))


@pytest.mark.parametrize(("bucket", "us"), [(-1, 1), (32_767, BUCKET_US[-1])])
def test_a_bucket_that_no_broker_can_have_counted_is_taken_for_the_nearest(bucket: int, us: int) -> None:
    assert percentile_us({bucket: 1}, 50) == us


@pytest.mark.full
def test_the_same_results_are_the_same_report_to_the_last_digit(told: Path, report: Report) -> None:
    """Floating-point numbers that another thread adds in another order have another sum."""
    for _ in range(10):
        again = report_of(PublishedTables(FolderTarget(told)), Wanted())
        assert as_json(again, []) == as_json(report, [])


def test_changes_of_clients_are_counted_by_outcome_without_our_own(found: Subjects) -> None:
    made = found.made_changes
    assert (made.changes, made.succeeded, made.failed, made.dry_runs, made.unknown, made.own) == (51, 48, 1, 1, 1, 7)
    assert [row.at_us for row in made.rows] == sorted((row.at_us for row in made.rows), reverse=True)
    assert "sluicegate-operator" not in {row.client_id for row in made.rows}
    (failed,) = [row for row in made.rows if row.outcome == "INVALID_CONFIG"]
    assert (failed.client_id, failed.resource_name, failed.key, failed.new_value) == (
        "admin-cli",
        "orders",
        "retention.ms",
        "soon",
    )


def test_the_answer_says_who_changed_what_last(report: Report) -> None:
    text = said(report, 1)
    assert "Clients asked for 51 changes: 48 succeeded, 1 failed." in text
    assert (
        "The newest one, at 2026-11-22 15:04 UTC: User:platform from 10.4.0.5 asked to set retention.ms of topic "
        f"orders of cluster {SHOP} (unknown: cancelled)."
    ) in text


def with_own_clients(rows: Rows) -> Rows:
    """Add the operator with its own principal, and a broker with the principal of everybody: failures, use, cost."""
    day = rows["coverage"][0]["event_date"]
    who = {"event_date": day, "cluster_id": "demo", "window_start": rows["coverage"][0]["window_start"]}
    operator = {**who, "principal": "User:operator", "client_id": "sluicegate-operator", "api": "CreateTopics"}
    broker = {**who, "principal": "User:ANONYMOUS", "client_id": "sluicegate-broker", "api": "Metadata"}
    rows["usage"] += [{**operator, "requests": 5}, {**broker, "requests": 7}]
    shop = {**who, "principal": "User:ANONYMOUS", "client_id": "shop", "api": "Produce"}
    nameless = {**operator, "client_id": None, "failures": 3, "error": "TIMED_OUT"}
    rows["failures"] = [
        nameless,
        {**operator, "error": "TOPIC_ALREADY_EXISTS", "failures": 40},
        {**broker, "error": "MEMBER_ID_REQUIRED", "is_expected": True, "failures": 8},
        {**shop, "error": "MESSAGE_TOO_LARGE", "failures": 2},
    ]
    cost = {"event_date": day, "cluster_id": "demo", "resource": "requests", "currency": "EUR"}
    names = {"principal": ("User:ANONYMOUS", "User:operator"), "client_id": ("shop", "sluicegate-operator")}
    rows["cost"] = [
        {**cost, "dimension": dimension, "name": name, "quantity": 10, "amount": 1.0}
        for dimension, both in names.items()
        for name in both
    ]
    return rows


def test_own_clients_are_folded_away_in_failures_and_in_cost(tmp_path: Path) -> None:
    publish_rows(tmp_path, with_own_clients(minutes_of_a_demo()))
    report = report_of(PublishedTables(FolderTarget(tmp_path)), Wanted())
    assert report.subjects is not None
    broke = report.subjects.failures
    assert ([row.error for row in broke.broken], broke.broken_total) == (["MESSAGE_TOO_LARGE"], 2)
    assert (broke.expected, broke.expected_total) == ((), 0)
    own = ["TOPIC_ALREADY_EXISTS", "MEMBER_ID_REQUIRED", "TIMED_OUT"]
    assert ([row.error for row in broke.own], broke.own_total, broke.own_rows) == (own, 51, 3)
    (bill,) = report.subjects.cost.bills
    assert (bill.dimension, [line.name for line in bill.lines]) == ("client_id", ["shop"])
    assert bill.own is not None
    assert (bill.own.names, bill.own.amount, bill.own.share) == (1, 1.0, 0.5)
    made = page(report, answers_of(report))
    assert "<details><summary>Sluicegate&#x27;s own clients: 51 errors</summary>" in made
    assert "<details><summary>Sluicegate&#x27;s own: 1 client ID</summary>" in made
    assert said(report, 4).startswith("2 failures, most of them MESSAGE_TOO_LARGE")


def test_principals_that_only_own_clients_have_are_folded_away(tmp_path: Path) -> None:
    rows = with_own_clients(minutes_of_a_demo())
    rows["cost"].append({**rows["cost"][0], "name": "User:billing"})
    publish_rows(tmp_path, rows)
    report = report_of(PublishedTables(FolderTarget(tmp_path)), Wanted())
    assert report.subjects is not None
    (bill,) = (bill for bill in report.subjects.cost.bills if bill.dimension == "principal")
    assert [line.name for line in bill.lines] == ["User:ANONYMOUS", "User:billing"]
    assert [line.name for line in bill.own_lines] == ["User:operator"]
