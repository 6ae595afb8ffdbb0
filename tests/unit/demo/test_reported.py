from pathlib import Path
from typing import Any

from demo.checks import Expectations
from demo.reported import Caused, Culprit, Reported, expect_named, reported

PAGE = Path("/reports/demo.html")
CAUSED = Caused("EXTERNAL", "sluicegate-storm", frozenset({"127.0.1.1", "127.0.1.2"}), 1000)


def found(*culprits: Culprit, is_complete: bool = True) -> Reported:
    return Reported(PAGE, is_complete, ("Is the audit complete? No.",), culprits)


def missed(report: Reported) -> list[str]:
    expectations = Expectations()
    expect_named(report, CAUSED, expectations)
    return expectations.missed


def test_storms_that_are_the_demo_s_are_as_expected() -> None:
    first = Culprit("EXTERNAL", "127.0.1.2", "sluicegate-storm", 700)
    assert missed(found(first, Culprit("EXTERNAL", "127.0.1.1", "sluicegate-storm", 250))) == []


def test_a_wrong_name_is_told_with_the_right_one() -> None:
    assert missed(found(Culprit("EXTERNAL", "127.0.0.1", "demo", 1000))) == [
        "the report names demo from 127.0.0.1 as the cause of a storm on EXTERNAL; it was sluicegate-storm from "
        "127.0.1.1, 127.0.1.2 on EXTERNAL"
    ]
    assert missed(found(Culprit("EXTERNAL", "127.0.1.1", None, 1000)))
    assert missed(found(Culprit("REPLICATION", "127.0.1.1", "sluicegate-storm", 1000)))


def test_lost_connections_and_lost_storms_are_told() -> None:
    few = found(Culprit("EXTERNAL", "127.0.1.1", "sluicegate-storm", 899))
    assert missed(few) == ["1000 connections of the storms were admitted, but the report has only 899 of them"]
    assert missed(found())[0] == "the report has no storm"


def test_a_log_that_is_not_complete_is_told() -> None:
    report = found(Culprit("EXTERNAL", "127.0.1.1", "sluicegate-storm", 1000), is_complete=False)
    assert missed(report) == ["the report does not show the audit log as complete: Is the audit complete? No."]


def test_what_is_read_is_in_the_numbers_of_a_report() -> None:
    storm = {"listener": "EXTERNAL", "source_ip": "127.0.1.1", "source_client_id": None, "accepted": 7, "limited": 1}
    numbers: dict[str, Any] = {
        "answers": [
            {"question": "Is the audit complete?", "answer": "Yes, for the brokers that reported"},
            {"question": "Who caused the last storm?", "answer": "somebody"},
        ],
        "subjects": {"storms": {"storms": [storm]}},
    }
    assert reported(PAGE, numbers) == Reported(
        PAGE,
        True,
        ("Is the audit complete? Yes, for the brokers that reported.", "Who caused the last storm? somebody."),
        (Culprit("EXTERNAL", "127.0.1.1", None, 7),),
    )
