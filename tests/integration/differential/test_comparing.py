"""The comparison itself: what counts as a difference, and the effect of the table of wanted ones."""

import pytest

from tests.integration.differential import wanted
from tests.integration.differential.comparing import ABSENT, ENTRY, Difference, Near, differences
from tests.integration.differential.wanted import Wanted, outdated, unexplained
from tests.support.processes.clients.wire_client import Plain

SEQUENCE = "a sequence"


def found(kafka: Plain, ours: Plain) -> list[tuple[str, str, str]]:
    return [(d.path, d.kafka, d.ours) for d in differences({"step": kafka}, {"step": ours})]


def test_entries_are_compared_by_what_identifies_them_not_by_their_order() -> None:
    one, other = {"name": "a", "error_code": "none"}, {"name": "b", "error_code": "none"}
    assert found({"topics": [one, other]}, {"topics": [other, one]}) == []
    wrong = other | {"error_code": "invalid_request"}
    assert found({"topics": [one, other]}, {"topics": [one, wrong]}) == [
        ("step/topics/b/error_code", "none", "invalid_request")
    ]


def test_an_entry_that_is_missing_is_one_difference() -> None:
    one, other = {"name": "a", "x": 1, "y": 2}, {"name": "b", "x": 1, "y": 2}
    assert found({"topics": [one, other]}, {"topics": [one]}) == [("step/topics/b", ENTRY, ABSENT)]
    assert found({"topics": [one]}, {"topics": [one, one]}) == [("step/topics/a+", ABSENT, ENTRY)]


def test_generated_values_are_compared_by_their_presence() -> None:
    assert found({"port": 1, "cluster_id": "a"}, {"port": 2, "cluster_id": "b"}) == []
    assert found({"producer_id": 5}, {"producer_id": -1}) == [("step/producer_id", "(some)", "-1")]
    assert found({"topic_id": "x"}, {"topic_id": None}) == [("step/topic_id", "(some)", "None")]


@pytest.mark.parametrize(
    ("kafka", "ours", "alike"),
    [
        ("Invalid value x.y 4000", "x.y must not be 4000", True),
        ("Invalid value x.y 4000", "the value is wrong", False),
        ("wrong", "something else", True),
        ("wrong", None, False),
        (None, "wrong", False),
        (None, None, True),
    ],
)
def test_messages_are_equal_if_ours_has_the_names_of_kafkas(kafka: str | None, ours: str | None, alike: bool) -> None:
    assert (found({"error_message": kafka}, {"error_message": ours}) == []) is alike


def test_measured_values_are_alike_within_their_tolerance() -> None:
    assert found({"count": Near(10, 2)}, {"count": Near(12, 2)}) == []
    assert found({"count": Near(10, 2)}, {"count": Near(13, 2)}) == [("step/count", "10 (+-2)", "13 (+-2)")]


def test_only_what_the_table_gives_a_reason_for_is_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    line = Wanted(SEQUENCE, "step/*/error_code", "none", "invalid_*", "because")
    monkeypatch.setattr(wanted, "TABLE", (line,))
    known = Difference("step/a/error_code", "none", "invalid_request")
    others = [
        Difference("step/a/error_code", "none", "unknown"),
        Difference("step/a/error_code", "other", "invalid_request"),
        Difference("step/a/offset", "none", "invalid_request"),
    ]
    assert unexplained(SEQUENCE, [known, *others]) == others
    assert unexplained("another sequence", [known]) == [known]
    assert outdated(SEQUENCE, [known]) == []
    assert outdated(SEQUENCE, others) == [line]
