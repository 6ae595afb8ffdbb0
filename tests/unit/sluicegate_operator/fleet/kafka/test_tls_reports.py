"""Reports of nodes about their certificates, as the operator reads them."""

import json
from typing import Any

import pytest

from sluicegate_operator.fleet.kafka import tls_reports
from sluicegate_operator.fleet.kafka.http_get import HttpAnswer
from sluicegate_operator.fleet.kafka.tls_reports import NodePlaced, ask_in_force, parsed_report
from sluicegate_operator.planning.certificates.renewal import NodeInForce


def body(*listeners: tuple[str, str | None, list[str] | None, str | None]) -> str:
    keys = ("listener", "certificate", "authorities", "problem")
    return json.dumps({"listeners": [dict(zip(keys, one, strict=True)) for one in listeners]})


def test_the_listeners_of_nodes_count_and_those_of_clients_do_not() -> None:
    told = body(
        ("CONTROLLER", "c1", ["a1"], None),
        ("INTERNAL", "c1", ["a1", "a2"], "new files are not used"),
        ("SECURE", "other", None, "a problem of clients"),
    )
    in_force = frozenset({("c1", frozenset({"a1"})), ("c1", frozenset({"a1", "a2"}))})
    assert parsed_report("a", told) == NodeInForce("a", in_force, problem="new files are not used")


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", body(("INTERNAL", "c1", None, None)), body(), body(("SECURE", "c", None, None))]
)
def test_an_answer_without_the_nodes_listeners_is_silence(text: str) -> None:
    found = parsed_report("a", text)
    assert (found.in_force, bool(found.silence)) == (frozenset(), True)


async def test_silent_nodes_are_values_and_leaving_ones_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    async def get(address: tuple[str, int], path: str, **_: Any) -> HttpAnswer:
        assert path == "/tls"
        if address[0] == "frozen":
            raise TimeoutError
        if address[0] == "gone":
            raise ConnectionRefusedError("refused")
        return HttpAnswer(404 if address[0] == "old" else 200, body(("INTERNAL", "c1", ["a1"], None)))

    monkeypatch.setattr(tls_reports, "http_get", get)
    nodes = [NodePlaced(name, (name, 9404)) for name in ("good", "frozen", "gone", "old")]
    leaving = [NodePlaced(f"{name} leaving", (name, 9404), leaving=True) for name in ("good", "gone")]
    found = await ask_in_force([*nodes, *leaving, NodePlaced("new", None)])
    assert {node.name: node.silence for node in found} == {
        "good": "",
        "frozen": "no answer within 2 s",
        "gone": "refused",
        "old": "it answers 404 to /tls",
        "good leaving": "",
        "new": "it has no address yet",
    }
