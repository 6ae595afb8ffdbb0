"""Tags of brokers, from a manifest and from labels of nodes: clients receive them, and no broker is restarted."""

from collections.abc import Iterator

import pytest

from e2e.cluster.waiting import wait_for
from e2e.world.shop import BROKERS, CLUSTER, Json, Shop
from sluicegate_operator.api.models.parts.broker_tags import BUILT_IN_TAGS
from sluicegate_operator.kafka_admin.configs import ConfigChange
from tests.support.processes.process_kubelet.node import ZONE_LABEL

TOLD_TIMEOUT_S = 30.0
"""The operator checks nodes and manual changes every 3 s here; a manifest takes a second."""

Tags = dict[str, str]


def told_by(shop: Shop, broker_id: int) -> dict[int, Tags]:
    """The configured tags of every broker, as reported by this broker."""
    found = shop.admin(shop.pod(broker_id), lambda broker: broker.describe_brokers())
    return {one.id: {name: value for name, value in one.tags.items() if name not in BUILT_IN_TAGS} for one in found}


def shown(shop: Shop) -> dict[int, Tags]:
    """Tags shown by `kubectl get br`."""
    return {broker_id: shop.registration(broker_id).get("tags", {}) for broker_id in range(BROKERS)}


def await_tags(shop: Shop, wanted: dict[int, Tags]) -> None:
    def each_broker_tells() -> bool:
        told = [told_by(shop, broker_id) for broker_id in range(BROKERS)]
        assert told == [wanted] * BROKERS
        return True

    wait_for(f"clients are told of {wanted}", each_broker_tells, timeout_s=TOLD_TIMEOUT_S, interval_s=0.1)
    wait_for("kubectl get br has them", lambda: shown(shop) == wanted, timeout_s=TOLD_TIMEOUT_S, interval_s=0.1)


def everybody(tags: Tags) -> dict[int, Tags]:
    return dict.fromkeys(range(BROKERS), tags)


def nodes_of(shop: Shop) -> dict[int, Json]:
    """The node of each broker."""
    nodes = {node["metadata"]["name"]: node for node in shop.plane.get("nodes")["items"]}
    pods = {pod.id: shop.plane.get("pod", pod.name) for pod in shop.broker_pods()}
    return {broker_id: nodes[pod["spec"]["nodeName"]] for broker_id, pod in pods.items()}


@pytest.fixture
def same_processes(shop: Shop) -> Iterator[None]:
    before = shop.fingerprint()
    yield
    assert shop.fingerprint() == before, "a broker was restarted"


@pytest.mark.usefixtures("same_processes")
def test_tags_of_a_manifest_are_added_changed_and_removed_without_a_restart(shop: Shop) -> None:
    await_tags(shop, everybody({}))
    shop.change_cluster(brokers={"tags": {"team": "payments", "aws.zone": "eu-central-1"}})
    await_tags(shop, everybody({"team": "payments", "aws.zone": "eu-central-1"}))
    shop.change_cluster(brokers={"tags": {"team": "orders"}})
    await_tags(shop, everybody({"team": "orders"}))

    by_hand = ConfigChange(set={"tag.rack": "r8a9", "tag.team": "somebody"})
    shop.alter_by_hand(shop.pod(1), 1, by_hand)
    await_tags(shop, everybody({"team": "orders"}) | {1: {"team": "orders", "rack": "r8a9"}})
    shop.change_cluster()
    await_tags(shop, everybody({}) | {1: {"rack": "r8a9"}})
    shop.alter_by_hand(shop.pod(1), 1, ConfigChange(delete=["tag.rack"]))
    await_tags(shop, everybody({}))


@pytest.mark.usefixtures("same_processes")
def test_labels_of_nodes_are_tags_of_the_brokers_there_also_when_a_node_is_labelled_anew(shop: Shop) -> None:
    nodes = nodes_of(shop)
    zones = {broker_id: node["metadata"]["labels"][ZONE_LABEL] for broker_id, node in nodes.items()}
    shop.change_cluster(brokers={"tagsFromNodeLabels": {"zone": ZONE_LABEL, "disk": "example.org/disk"}})
    await_tags(shop, {broker_id: {"zone": zone} for broker_id, zone in zones.items()})

    name = nodes[0]["metadata"]["name"]
    labelled = {broker_id for broker_id, node in nodes.items() if node["metadata"]["name"] == name}
    shop.plane.kubectl("label", "node", name, "example.org/disk=ssd")
    try:
        disks = {broker_id: {"disk": "ssd"} if broker_id in labelled else {} for broker_id in zones}
        await_tags(shop, {broker_id: {"zone": zone} | disks[broker_id] for broker_id, zone in zones.items()})
    finally:
        shop.plane.kubectl("label", "node", name, "example.org/disk-")
    await_tags(shop, {broker_id: {"zone": zone} for broker_id, zone in zones.items()})
    shop.change_cluster()
    await_tags(shop, everybody({}))
    wait_for("nothing is left", lambda: not shop.cluster()["status"].get("dynamicConfigKeys"))


def test_other_brokers_describe_an_offline_broker_which_returns_with_its_tags(shop: Shop) -> None:
    zone = nodes_of(shop)[2]["metadata"]["labels"][ZONE_LABEL]
    shop.change_cluster(brokers={"tags": {"team": "payments"}, "tagsFromNodeLabels": {"zone": ZONE_LABEL}})
    wanted = {"team": "payments", "zone": zone}
    wait_for("broker 2 has its tags", lambda: shown(shop)[2] == wanted, timeout_s=TOLD_TIMEOUT_S)
    shop.plane.kubectl("delete", "pod", f"{CLUSTER}-brokers-2", "--wait=false")
    wait_for("it is away", lambda: shop.registration(2)["state"] != "Online", timeout_s=TOLD_TIMEOUT_S)
    assert told_by(shop, 0)[2] == wanted
    shop.await_state(2, "Online")
    wait_for("it is back", lambda: told_by(shop, 2)[2] == wanted, timeout_s=TOLD_TIMEOUT_S)
    status = shop.registration(2)
    assert 1 <= status["protocolVersionMin"] < status["protocolVersionMax"]
    assert status["version"].endswith("-sluicegate")
