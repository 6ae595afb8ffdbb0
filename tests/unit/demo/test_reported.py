from dataclasses import replace
from pathlib import Path
from typing import Any

from demo.checks import Expectations
from demo.reported import Caused, Culprit, Reported, expect_named, reported

PAGE = Path("/reports/demo.html")
KEY = "listener.name.external.max.connection.creation.rate"
CAUSED = Caused(
    "EXTERNAL",
    "sluicegate-storm",
    frozenset({"127.0.1.1", "127.0.1.2"}),
    ((None, 1000), ((KEY, 50), 450), ((KEY, 200), 1800)),
)
FREE = Culprit("EXTERNAL", "127.0.1.2", "sluicegate-storm", 1100)
SLOW = Culprit("EXTERNAL", "127.0.1.1", "sluicegate-storm", 450, (KEY, 50), 51)
QUICK = Culprit("EXTERNAL", "127.0.1.1", "sluicegate-storm", 1900, (KEY, 200), 203)


def found(*culprits: Culprit, is_complete: bool = True) -> Reported:
    return Reported(PAGE, is_complete, ("Is the audit complete? No.",), culprits)


def missed(report: Reported) -> list[str]:
    expectations = Expectations()
    expect_named(report, CAUSED, expectations)
    return expectations.missed


def test_storms_that_are_the_demo_s_are_as_expected() -> None:
    assert missed(found(FREE, SLOW, QUICK)) == []


def test_a_wrong_name_is_told_with_the_right_one() -> None:
    assert missed(found(replace(FREE, client_ip="127.0.0.1", client_id="demo"), SLOW, QUICK)) == [
        "the report names demo from 127.0.0.1 as the cause of a storm on EXTERNAL; it was sluicegate-storm from "
        "127.0.1.1, 127.0.1.2 on EXTERNAL"
    ]
    assert missed(found(FREE, replace(SLOW, client_id=None), QUICK))
    assert missed(found(FREE, SLOW, replace(QUICK, listener="REPLICATION")))


def test_lost_connections_and_lost_storms_are_told() -> None:
    assert missed(found(FREE, replace(SLOW, accepted=449), QUICK)) == [
        "450 connections of a storm were admitted, but the report has only 449 of them"
    ]
    assert missed(found(FREE, SLOW)) == ["the demo caused 3 storms, but the report has 2"]


def test_a_wrong_limit_is_told() -> None:
    assert missed(found(replace(FREE, limit=(KEY, 50)), SLOW, QUICK)) == [
        f"the limit of a storm was None; the report has ('{KEY}', 50)"
    ]
    assert missed(found(FREE, replace(SLOW, admitted=102), QUICK)) == [
        "a limit of 50/s admits at most 101 in a second, but the report has 102"
    ]
    assert missed(found(FREE, replace(SLOW, admitted=None), QUICK))


def test_a_log_that_is_not_complete_is_told() -> None:
    report = found(FREE, SLOW, QUICK, is_complete=False)
    assert missed(report) == ["the report does not show the audit log as complete: Is the audit complete? No."]


def test_what_is_read_is_in_the_numbers_of_a_report() -> None:
    storm = {"listener": "EXTERNAL", "source_ip": "127.0.1.1", "source_client_id": None, "accepted": 7, "limited": 1}
    free = storm | {"limit_key": None, "limit_value": None, "held_accepted": None}
    slow = storm | {"limit_key": KEY, "limit_value": 50, "held_accepted": 49}
    numbers: dict[str, Any] = {
        "answers": [
            {"question": "Is the audit complete?", "answer": "Yes, for the brokers that reported"},
            {"question": "Who caused the last storm?", "answer": "somebody"},
        ],
        "subjects": {"storms": {"storms": [slow, free]}},
    }
    assert reported(PAGE, numbers) == Reported(
        PAGE,
        True,
        ("Is the audit complete? Yes, for the brokers that reported.", "Who caused the last storm? somebody."),
        (Culprit("EXTERNAL", "127.0.1.1", None, 7), Culprit("EXTERNAL", "127.0.1.1", None, 7, (KEY, 50), 49)),
    )
