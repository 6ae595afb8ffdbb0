"""The controller's view: the broker's own output is read, and any other body is refused."""

import json
from typing import Any

import pytest

from sluicegate_operator.planning.registrations.overview import (
    BrokerState,
    OverviewError,
    parse_active_controller,
    parse_overview,
)

BROKER: dict[str, Any] = {
    "id": 2,
    "epoch": 41,
    "incarnation": "6264ce5a-f913-40b0-85d0-94474e8cc1d2",
    "state": "Fenced",
    "rack": None,
    "heartbeatAgeSeconds": 0.25,
    "leaders": 0,
    "replicas": 3,
    "outOfSync": 1,
    "metadataLag": None,
    "host": "10.0.0.2",
}
DOCUMENT: dict[str, Any] = {
    "clusterId": "c",
    "controllerId": 1000,
    "controllerEpoch": 3,
    "metadataOffset": 77,
    "brokers": [BROKER, BROKER | {"id": 1, "state": "Online", "rack": "a", "metadataLag": 4, "heartbeatAgeSeconds": 1}],
}


def test_the_document_is_read_in_order_of_id() -> None:
    overview = parse_overview(json.dumps(DOCUMENT))
    assert [broker.id for broker in overview.brokers] == [1, 2]
    assert overview.online == {1}
    fenced = overview.broker(2)
    assert fenced is not None
    assert (fenced.state, fenced.epoch, fenced.heartbeat_age_s, fenced.host) == (
        BrokerState.FENCED,
        41,
        0.25,
        "10.0.0.2",
    )
    assert (fenced.rack, fenced.metadata_lag, fenced.out_of_sync, fenced.has_session) == (None, None, 1, True)


def test_fields_of_a_newer_controller_do_no_harm() -> None:
    assert parse_overview(json.dumps(DOCUMENT | {"later": 1})) == parse_overview(json.dumps(DOCUMENT))


@pytest.mark.parametrize(
    ("body", "word"),
    [
        pytest.param("<html>", "JSON", id="another program answers"),
        pytest.param("[]", "object", id="a list"),
        pytest.param(json.dumps({"error": "x", "activeControllerId": 1}), "brokers", id="the answer of a standby"),
        pytest.param(json.dumps(DOCUMENT | {"brokers": [BROKER | {"state": "Asleep"}]}), "Asleep", id="a new state"),
        pytest.param(json.dumps(DOCUMENT | {"brokers": [BROKER, BROKER]}), "twice", id="one id twice"),
        pytest.param(json.dumps(DOCUMENT | {"brokers": [BROKER | {"epoch": "41"}]}), "epoch", id="a number as text"),
        pytest.param(
            json.dumps(DOCUMENT | {"brokers": [BROKER | {"leaders": True}]}), "leaders", id="a truth as number"
        ),
        pytest.param(json.dumps(DOCUMENT | {"brokers": [BROKER | {"incarnation": "x"}]}), "UUID", id="no incarnation"),
        pytest.param(json.dumps(DOCUMENT | {"brokers": ["1"]}), "objects", id="a broker that is none"),
        pytest.param(json.dumps({k: v for k, v in DOCUMENT.items() if k != "brokers"}), "missing", id="no brokers"),
    ],
)
def test_an_unreadable_overview_raises_an_error_instead_of_appearing_empty(body: str, word: str) -> None:
    with pytest.raises(OverviewError, match=word):
        parse_overview(body)


@pytest.mark.parametrize(("active", "read"), [(1001, 1001), (None, None)])
def test_a_standby_names_the_active_controller(active: int | None, read: int | None) -> None:
    assert parse_active_controller(json.dumps({"error": "x", "activeControllerId": active})) == read


@pytest.mark.parametrize(
    ("incarnation", "began_ms"),
    [
        # The example of RFC 9562, appendix A.6: Tuesday, February 22, 2022 2:22:22.00 PM GMT-05:00.
        ("017f22e2-79b0-7cc3-98c4-dc0c0c07398f", 1_645_557_742_000),
        ("6264ce5a-f913-40b0-85d0-94474e8cc1d2", None),
    ],
)
def test_an_incarnation_may_tell_when_its_process_began(incarnation: str, began_ms: int | None) -> None:
    [broker] = parse_overview(json.dumps(DOCUMENT | {"brokers": [BROKER | {"incarnation": incarnation}]})).brokers
    assert broker.began_ms == began_ms
