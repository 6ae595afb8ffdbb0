"""ConnectionQuotas that differ only in spelling have the same limits and the same end; other values have others."""

from datetime import UTC, datetime
from typing import Any

import pytest

from sluicegate_operator.api import BrokerCluster, BrokerListener, ConnectionQuota, parse_resource
from tests.support.manifests.bad_manifests import Json, cluster, listener, quota
from tests.support.worlds.planned_quotas import PlannedQuotas

NOW = datetime(2026, 1, 1, tzinfo=UTC)
IP = {"ip": "10.0.0.1"}
RANGE = {"cidr": "10.0.0.0/8"}


def pods(**labels: Any) -> Json:
    return quota({"workload": {"podSelector": labels}}, maxConnections=5)


def until(moment: str) -> Json:
    return quota(IP, maxConnections=5, expiresAt=moment)


def planned(*documents: Json) -> list[tuple[object, object, object]]:
    """The limits and the next end after each of these versions of one quota."""
    shop, outside = parse_resource(cluster()), parse_resource(listener())
    assert isinstance(shop, BrokerCluster)
    assert isinstance(outside, BrokerListener)
    world = PlannedQuotas()
    found: list[tuple[object, object, object]] = []
    for number, document in enumerate(documents):
        one = parse_resource(document | {"metadata": document["metadata"] | {"generation": number + 1}})
        assert isinstance(one, ConnectionQuota)
        world.select({one.name: {"10.1.1.1": 1.0}})
        for _ in world.update(shop, [outside], [one], NOW):
            pass
        found.append((world.plan.desired, dict(world.plan.limits), world.next_expiry))
    return found


@pytest.mark.parametrize(
    "documents",
    [
        [quota({"ip": ip}, maxConnections=5) for ip in ("2001:db8::1", "2001:DB8:0::0001", "2001:db8:0:0:0:0:0:1")],
        [quota({"cidr": cidr}, maxConnections=5) for cidr in ("2001:db8::/32", "2001:DB8:0::/32", "2001:db8:0:0::/32")],
        [
            until(f"2030-01-31T{rest}")
            for rest in ("18:00:00Z", "18:00:00.000Z", "18:00:00-00:00", "18:00:00+00:00", "23:30:00+05:30")
        ],
        [quota(IP, maxConnections=5), quota(IP, maxConnections=5, mode="Enforce")],
        [quota(RANGE, maxConnections=5), quota(RANGE, maxConnections=5, limitIs="PerAddress")],
        [
            pods(matchLabels={"a": "1", "b": "2"}),
            pods(matchLabels={"b": "2", "a": "1"}, matchExpressions=[]),
            pods(matchLabels={"a": "1"}, matchExpressions=[{"key": "b", "operator": "In", "values": ["2", "2"]}]),
        ],
    ],
    ids=["address", "range", "end", "mode", "limitIs", "selector"],
)
def test_another_spelling_changes_no_limit(documents: list[Json]) -> None:
    first, *others = planned(*documents, *reversed(documents))
    assert first[1], "it has limits"
    assert all(other == first for other in others)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (quota(IP, maxConnections=5), quota({"ip": "10.0.0.2"}, maxConnections=5)),
        (quota(IP, maxConnections=5), quota(IP, maxConnections=6)),
        (quota(RANGE, maxConnections=5), quota({"cidr": "10.0.0.0/9"}, maxConnections=5)),
        (quota(RANGE, maxConnections=5), quota(RANGE, maxConnections=5, mode="Observe")),
        (quota(RANGE, maxConnections=5), quota(RANGE, maxConnections=5, limitIs="Shared")),
        (until("2030-01-31T18:00:00Z"), until("2030-01-31T18:00:01Z")),
    ],
    ids=["address", "number", "range", "mode", "limitIs", "end"],
)
def test_another_value_is_another_limit(one: Json, other: Json) -> None:
    first, second = planned(one, other)
    assert first != second
