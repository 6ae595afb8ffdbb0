"""Racks: six brokers in three zones, in a separate namespace.

Each broker gets the zone of its node, replicas are in different zones, and a roll restarts one zone at a time without
loss.
"""

import json
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from e2e.cluster.control_plane import ControlPlane
from e2e.cluster.waiting import wait_for
from e2e.world.operator_process import OperatorProcess
from e2e.world.shop import ANSWER_TIMEOUT_S, EXTERNAL_PORT, HTTP_PORT, ROLLED_TIMEOUT_S, Json, answer_of, condition_of
from sluicegate_operator.resources.labels import RACK
from tests.support.processes.clients.acknowledged import AcknowledgedWorkload, create_topic
from tests.support.processes.process_kubelet.kubelet import ProcessKubelet
from tests.support.processes.process_kubelet.node import ZONE_LABEL

NAMESPACE, CLUSTER = "zones", "shop"
BROKERS, ZONES = 6, {"zone-0", "zone-1", "zone-2"}
TOPIC_PARTITIONS = 6
PAUSE_S = 0.01
STARTED_TIMEOUT_S = 180.0


def cluster(partitions: str = "3") -> Json:
    """Return the cluster. Another number of `partitions` needs a roll and has no other effect here."""
    return {
        "apiVersion": "sluicegate.dev/v1alpha1",
        "kind": "BrokerCluster",
        "metadata": {"name": CLUSTER, "namespace": NAMESPACE},
        "spec": {
            "brokers": {"replicas": BROKERS, "storage": {"size": "1Gi"}, "rack": {"topologyKey": ZONE_LABEL}},
            "config": {"num.partitions": partitions, "min.insync.replicas": "2"},
            "rollout": {"strategy": "Rack"},
        },
    }


LISTENER = {
    "apiVersion": "sluicegate.dev/v1alpha1",
    "kind": "BrokerListener",
    "metadata": {"name": "shop-external", "namespace": NAMESPACE},
    "spec": {"clusterRef": {"name": CLUSTER}, "name": "EXTERNAL", "port": EXTERNAL_PORT},
}


@dataclass(frozen=True, slots=True)
class Zoned:
    plane: ControlPlane
    kubelet: ProcessKubelet
    operator: OperatorProcess

    def apply(self, *documents: Json) -> None:
        listed = {"apiVersion": "v1", "kind": "List", "items": list(documents)}
        self.plane.kubectl("apply", "-f", "-", input=json.dumps(listed))

    def get(self, *arguments: str) -> Json:
        found: Json = self.plane.get("-n", NAMESPACE, *arguments)
        return found

    def pods(self) -> dict[int, Json]:
        """Pods of brokers, without those being deleted."""
        selector = f"app.kubernetes.io/component=broker,sluicegate.dev/cluster={CLUSTER}"
        listed = self.get("pods", "-l", selector)["items"]
        present = [pod for pod in listed if "deletionTimestamp" not in pod["metadata"]]
        return {int(pod["metadata"]["name"].rpartition("-")[2]): pod for pod in present}

    def zones(self) -> dict[int, str]:
        """Zones of the brokers, from the labels of their pods' nodes."""
        nodes = {n["metadata"]["name"]: n["metadata"]["labels"].get(ZONE_LABEL) for n in self.get("nodes")["items"]}
        return {broker_id: nodes[pod["spec"]["nodeName"]] for broker_id, pod in self.pods().items()}

    def racks_shown(self) -> dict[int, str]:
        """Racks as shown by `kubectl get br`, without rows that have an empty column."""
        head, *rows = (line.split() for line in self.plane.kubectl("-n", NAMESPACE, "get", "br").splitlines())
        full = [dict(zip(head, row, strict=True)) for row in rows if len(row) == len(head)]
        return {int(row["BROKER"]): row["RACK"] for row in full}

    def cluster(self) -> Json:
        return self.get("brokercluster", CLUSTER)

    def events(self) -> list[Json]:
        found: list[Json] = self.get("events", f"--field-selector=involvedObject.name={CLUSTER}")["items"]
        return found

    def view(self) -> dict[int, Json]:
        """The controller's own view, without the operator."""
        with answer_of("the controller"):
            address = self.kubelet.address(NAMESPACE, f"{CLUSTER}-controllers-0")
            url = f"http://{address}:{HTTP_PORT}/brokers"
            with urllib.request.urlopen(url, timeout=ANSWER_TIMEOUT_S) as answer:
                return {broker["id"]: broker for broker in json.loads(answer.read())["brokers"]}

    def settled(self) -> bool:
        self.operator.must_run()
        self.kubelet.must_run()
        pods, found = self.pods(), self.cluster()
        return (
            found.get("status", {}).get("observedGeneration") == found["metadata"]["generation"]
            and condition_of(found, "Ready").get("status") == "True"
            and condition_of(found, "Rolling").get("status") == "False"
            and [condition_of(pod, "Ready").get("status") for pod in pods.values()] == ["True"] * BROKERS
            and [(b["state"], b["outOfSync"]) for b in self.view().values()] == [("Online", 0)] * BROKERS
        )

    def await_settled(self, timeout_s: float = STARTED_TIMEOUT_S) -> None:
        wait_for("the cluster settled", self.settled, timeout_s=timeout_s, interval_s=0.2)

    def bootstrap(self) -> str:
        return ",".join(f"{pod['status']['podIP']}:{EXTERNAL_PORT}" for pod in self.pods().values())

    def load(self, topic: str) -> AcknowledgedWorkload:
        create_topic(self.bootstrap(), topic, TOPIC_PARTITIONS, 3, min_insync_replicas="2")
        return AcknowledgedWorkload(self.bootstrap(), topic, TOPIC_PARTITIONS, pause_s=PAUSE_S)


@pytest.fixture(scope="module")
def standing_zones(plane: ControlPlane, kubelet: ProcessKubelet, operator: OperatorProcess) -> Iterator[Zoned]:
    plane.kubectl("create", "namespace", NAMESPACE)
    plane.kubectl("label", "namespace", NAMESPACE, "pod-security.kubernetes.io/enforce=restricted")
    zoned = Zoned(plane, kubelet, operator)
    zoned.apply(cluster(), LISTENER)
    yield zoned
    # A Prometheus of another test would scrape its pods until they have ended.
    plane.kubectl("delete", "namespace", NAMESPACE, "--timeout=180s")


@pytest.fixture
def zoned(standing_zones: Zoned) -> Iterator[Zoned]:
    standing_zones.await_settled()
    yield standing_zones
    if not standing_zones.operator.running:
        standing_zones.operator.start()


def test_brokers_register_with_their_nodes_zone_and_replicas_lie_in_different_zones(zoned: Zoned) -> None:
    zones = zoned.zones()
    assert sorted(zones.values()) == sorted([*ZONES, *ZONES]), "spread evenly"
    assert {broker_id: broker["rack"] for broker_id, broker in zoned.view().items()} == zones
    wait_for("kubectl get br shows them", lambda: zoned.racks_shown() == zones)
    everyone = f"{BROKERS}/{BROKERS} brokers"
    wait_for("all racks are known", lambda: condition_of(zoned.cluster(), "RacksKnown")["message"] == everyone)

    create_topic(zoned.bootstrap(), "placed", 12, 3)
    seen = AdminClient({"bootstrap.servers": zoned.bootstrap()}).list_topics("placed", timeout=60).topics["placed"]
    placed = [[zones[broker_id] for broker_id in part.replicas] for part in seen.partitions.values()]
    assert len(placed) == 12
    assert all(set(replicas) == ZONES for replicas in placed)


class Watched:
    """Records which brokers were away together during a roll."""

    def __init__(self, zoned: Zoned) -> None:
        self._zoned = zoned
        self._uids = self._now()
        self.away: list[set[int]] = []

    def _now(self) -> dict[int, str]:
        return {broker_id: pod["metadata"]["uid"] for broker_id, pod in self._zoned.pods().items()}

    def look(self) -> bool:
        pods = self._zoned.pods()
        ready = {n for n, pod in pods.items() if condition_of(pod, "Ready").get("status") == "True"}
        self.away.append(set(range(BROKERS)) - ready)
        replaced = all(pod["metadata"]["uid"] != self._uids[n] for n, pod in pods.items())
        return replaced and self._zoned.settled()


def whole_zones(zones: dict[int, str]) -> list[set[int]]:
    return [{broker_id for broker_id, zone in zones.items() if zone == name} for name in sorted(ZONES)]


def test_a_roll_takes_a_whole_zone_at_once_and_loses_nothing(zoned: Zoned) -> None:
    """If a partition would fall below min.insync.replicas without a zone, the zone's brokers are rolled one by one."""
    zones = zoned.zones()
    first, second, third = whole_zones(zones)
    # Two replicas in the third zone, assigned by hand.
    crowded = [*sorted(third), min(first)]
    admin = AdminClient({"bootstrap.servers": zoned.bootstrap()})
    admin.create_topics([NewTopic("crowded", 1, replica_assignment=[crowded])])["crowded"].result(60)
    watched = Watched(zoned)
    with zoned.load("rolled") as load:
        wait_for("the load runs", lambda: load.count > 100)
        zoned.apply(cluster(partitions="4"))
        wait_for("rolled out", watched.look, timeout_s=ROLLED_TIMEOUT_S, interval_s=0.1)
        count = load.count
        wait_for("the load goes on", lambda: load.count > count + 100)
    assert first in watched.away
    assert second in watched.away
    assert third not in watched.away
    assert all(any(away <= zone for zone in (first, second, third)) for away in watched.away), "one zone at a time"
    assert zoned.zones() == zones, "every broker is where its volume is"
    load.check(zoned.bootstrap())
    said = [event["message"] for event in zoned.events() if "the whole rack cannot restart at once" in event["message"]]
    assert said
    assert all("crowded-0 would have 1 in-sync replicas without rack zone-2" in message for message in said)


def test_a_broker_on_a_node_without_the_label_waits_and_it_is_said(zoned: Zoned) -> None:
    """The label is removed between the pod's start and the operator's check of the node."""
    before = zoned.pods()[1]
    node, name, zone = before["spec"]["nodeName"], before["metadata"]["name"], zoned.zones()[1]

    def pod() -> Json:
        found = zoned.pods().get(1, before)
        assert found["metadata"]["uid"] != before["metadata"]["uid"], "the old pod is still there"
        return found

    zoned.operator.kill()
    try:
        zoned.plane.kubectl("-n", NAMESPACE, "delete", "pod", name)
        waiting = "waiting up to 120 s for the rack of this broker"
        wait_for("the broker waits", lambda: pod() and zoned.kubelet.logs(NAMESPACE, name).endswith("rack\n"))
        assert waiting in zoned.kubelet.logs(NAMESPACE, name)
        zoned.plane.kubectl("label", "node", node, f"{ZONE_LABEL}-")
        zoned.operator.start()

        def said() -> bool:
            known, ready = (condition_of(zoned.cluster(), kind) for kind in ("RacksKnown", "Ready"))
            assert (known["status"], known["reason"]) == ("False", "NodeLabelMissing"), known
            assert f"{name} waits for its rack: node {node} has no label {ZONE_LABEL}" in known["message"]
            return bool(ready["reason"] == "RackUnknown")

        wait_for("the condition names the node", said)
        wait_for("an Event", lambda: "NodeLabelMissing" in {event["reason"] for event in zoned.events()})
        assert RACK not in pod()["metadata"].get("annotations", {})
        assert zoned.view()[1]["state"] == "Offline"
    finally:
        zoned.plane.kubectl("label", "--overwrite", "node", node, f"{ZONE_LABEL}={zone}")
    zoned.await_settled()
    assert zoned.view()[1]["rack"] == zone
    assert pod()["metadata"]["annotations"][RACK] == zone
    assert condition_of(zoned.cluster(), "RacksKnown")["status"] == "True"
