"""The content of GET /brokers, from metadata and sessions."""

import json
from itertools import pairwise
from typing import Any
from uuid import UUID

from broker_runtime.controller.overview import overview, view_version
from broker_runtime.controller.sessions import Sessions
from broker_runtime.metadata.areas.brokers import FenceBroker, StopBroker, UnfenceBroker
from broker_runtime.metadata.areas.cluster import ControllerChange
from broker_runtime.metadata.areas.topics import PartitionRecord
from tests.support.worlds.controller import CLUSTER_ID, Metadata

NOW_S = 500.0


def shown(metadata: Metadata, sessions: Sessions | None = None, listener: str = "") -> dict[str, Any]:
    found: dict[str, Any] = json.loads(
        json.dumps(overview(metadata.image, sessions or Sessions(9.0), NOW_S, listener)),
    )
    return found


def by_id(found: dict[str, Any]) -> dict[int, dict[str, Any]]:
    return {broker["id"]: broker for broker in found["brokers"]}


def test_the_overview_names_its_controller() -> None:
    metadata = Metadata()
    metadata.write(ControllerChange(1000, 7))
    found = shown(metadata)
    assert found == {
        "clusterId": CLUSTER_ID,
        "controllerId": 1000,
        "controllerEpoch": 7,
        "metadataOffset": 1,
        "version": found["version"],
        "brokers": [],
    }
    assert found["version"].startswith("7,1,")


def test_its_version_is_another_one_when_there_is_something_new_to_see() -> None:
    metadata, sessions = Metadata(), Sessions(9.0)
    metadata.broker(1, fenced=True)
    epoch = metadata.image.brokers[1].epoch
    versions = [view_version(metadata.image, sessions, NOW_S)]
    sessions.touch(1, epoch, NOW_S)
    for later_s in (0.0, 2.5, 3.5, 4.9, 5.0, 9.1):
        versions.append(view_version(metadata.image, sessions, NOW_S + later_s))
    fresh = [now != before for before, now in pairwise(versions)]
    assert fresh == [True, False, True, False, True, True], "a session, a silence by its steps, no session any more"
    before = versions[-1]
    metadata.write(UnfenceBroker(1, epoch))
    assert view_version(metadata.image, sessions, NOW_S + 9.1) != before


def test_each_state_of_the_seed_is_shown_by_its_name() -> None:
    metadata, sessions = Metadata(), Sessions(9.0)
    for broker_id in (3, 1, 2, 0):
        metadata.broker(broker_id, fenced=broker_id in (0, 1))
    epochs = {broker.id: broker.epoch for broker in metadata.image.brokers.values()}
    for broker_id in (1, 2, 3):
        sessions.touch(broker_id, epochs[broker_id], NOW_S - 2.5)
    metadata.write(StopBroker(3, epochs[3], metadata.image.offset + 1))
    found = shown(metadata, sessions)
    assert [broker["id"] for broker in found["brokers"]] == [0, 1, 2, 3]
    assert [broker["state"] for broker in found["brokers"]] == ["Offline", "Fenced", "Online", "Stopping"]
    assert [broker["heartbeatAgeSeconds"] for broker in found["brokers"]] == [None, 2.5, 2.5, 2.5]
    assert [broker["epoch"] for broker in found["brokers"]] == [epochs[n] for n in range(4)]


def test_a_silent_broker_that_was_fenced_is_offline() -> None:
    metadata, sessions = Metadata(), Sessions(9.0)
    metadata.broker(1)
    epoch = metadata.image.brokers[1].epoch
    sessions.touch(1, epoch, NOW_S - 9.1)
    metadata.write(FenceBroker(1, epoch))
    assert by_id(shown(metadata, sessions))[1]["state"] == "Offline"


def test_leaders_replicas_and_what_is_out_of_sync_are_counted_for_each_broker() -> None:
    metadata = Metadata()
    for broker_id in (0, 1, 2):
        metadata.broker(broker_id)
    topic_id = metadata.topic("t", [0, 1], [1, 2], [1, 0])
    metadata.write(PartitionRecord(topic_id, 1, (1, 2), (1,), 1, 1, 1))
    counts = {
        broker["id"]: (broker["leaders"], broker["replicas"], broker["outOfSync"])
        for broker in shown(metadata)["brokers"]
    }
    assert counts == {0: (1, 2, 0), 1: (2, 3, 0), 2: (0, 1, 1)}


def test_a_lag_is_shown_only_when_a_heartbeat_has_told_it() -> None:
    metadata, sessions = Metadata(), Sessions(9.0)
    metadata.broker(1)
    metadata.broker(2)
    for broker_id in (1, 2):
        sessions.touch(broker_id, metadata.image.brokers[broker_id].epoch, NOW_S)
    sessions.reached(1, metadata.image.offset - 3)
    found = by_id(shown(metadata, sessions))
    assert (found[1]["metadataLag"], found[2]["metadataLag"]) == (3, None)


def test_the_host_is_that_of_the_inter_broker_listener_or_of_the_first() -> None:
    metadata = Metadata()
    metadata.broker(1, "REPLICATION", "EXTERNAL", rack="a")
    broker = by_id(shown(metadata, listener="EXTERNAL"))[1]
    assert (broker["host"], broker["rack"]) == ("127.0.0.1", "a")
    assert broker["incarnation"] == str(UUID(int=1))
    assert by_id(shown(metadata, listener="UNKNOWN"))[1]["host"] == "127.0.0.1"


def test_a_broker_that_was_unfenced_again_is_online() -> None:
    metadata = Metadata()
    metadata.broker(1)
    epoch = metadata.image.brokers[1].epoch
    metadata.write(FenceBroker(1, epoch), UnfenceBroker(1, epoch))
    assert by_id(shown(metadata))[1]["state"] == "Online"
