"""Which events `tail` shows."""

from typing import Any

import pytest

from audit_pipeline.ingest.selection import Selection

NAMES = {0: "Produce", 1: "Fetch"}
EVENTS: dict[str, tuple[str, dict[str, Any]]] = {
    "request": ("request", {"client_id": "shop-1", "api": "Produce", "api_key": 0, "replica_id": None}),
    "partition": ("partition", {"client_id": "shop-1", "api_key": 0, "topic": "orders", "replica_id": None}),
    "follower": ("request", {"client_id": "broker-2", "api": "Fetch", "api_key": 1, "replica_id": 2}),
    "operator": ("request", {"client_id": "sluicegate-operator", "api": "Metadata", "replica_id": None}),
    "connection": ("connection", {"client_id": None}),
    "change": ("change", {"client_id": "cli", "api": "DeleteTopics", "resource_type": "topic"}),
    "group": ("change", {"client_id": "cli", "api": "DeleteGroups", "resource_type": "group"}),
    "gap": ("gap", {"reason": "queue full"}),
}
EVENTS["change"][1]["resource_name"] = EVENTS["group"][1]["resource_name"] = "orders"


def shown(selection: Selection) -> list[str]:
    return [name for name, (table, event) in EVENTS.items() if selection.has(table, event, NAMES)]


@pytest.mark.parametrize(
    ("selection", "names"),
    [
        (Selection(), ["request", "partition", "connection", "change", "group", "gap"]),
        (Selection(is_with_own=True), list(EVENTS)),
        (Selection(client="shop-1"), ["request", "partition"]),
        (Selection(client="sh*"), ["request", "partition"]),
        (Selection(client="shop"), []),
        (Selection(client="sluicegate-*"), ["operator"]),
        (Selection(topic="orders"), ["partition", "change"]),
        (Selection(topic="ord*", client="cli"), ["change"]),
        (Selection(api="Produce"), ["request", "partition"]),
        (Selection(api="Delete*"), ["change", "group"]),
        (Selection(tables=["request"], api="Fetch", is_with_own=True), ["follower"]),
    ],
)
def test_events_are_shown_by_client_topic_and_api_without_our_own(selection: Selection, names: list[str]) -> None:
    assert shown(selection) == names
