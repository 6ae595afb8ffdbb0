from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sluicegate_operator.api import Manifests, load_manifests, parse_resource
from sluicegate_operator.cli.desired import broken_transitions, not_for_a_laptop, plan, removed_topics
from sluicegate_operator.planning.limit_changes import changed_limits
from sluicegate_operator.planning.limits import ip_rates

EXAMPLES = Path(__file__).resolve().parents[4] / "examples"


def resource(kind: str, name: str, spec: dict[str, Any], namespace: str = "default") -> dict[str, Any]:
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": "sluicegate.dev/v1alpha1", "kind": kind, "metadata": metadata, "spec": spec}


def cluster(name: str = "shop", namespace: str = "default") -> dict[str, Any]:
    return resource("BrokerCluster", name, {"brokers": {"replicas": 3, "storage": {"size": "1Gi"}}}, namespace)


def quota(name: str, target: dict[str, Any], rate: int, ref: str = "shop") -> dict[str, Any]:
    return resource(
        "ConnectionQuota", name, {"clusterRef": {"name": ref}, "target": target, "maxConnectionCreationRate": rate}
    )


def listener() -> dict[str, Any]:
    return resource("BrokerListener", "shop-public", {"clusterRef": {"name": "shop"}, "name": "PUBLIC", "port": 9094})


def topic(name: str, **spec: Any) -> dict[str, Any]:
    return resource("Topic", name, {"clusterRef": {"name": "shop"}, "partitions": 6, **spec})


def manifests(documents: Sequence[dict[str, Any]]) -> Manifests:
    return Manifests.of([parse_resource(document) for document in documents])


def complaints(documents: Sequence[dict[str, Any]]) -> list[tuple[str, str]]:
    return [(complaint.name, complaint.message) for complaint in plan(manifests(documents)).complaints]


def test_the_quickstart_has_a_layout_limits_and_a_topic_and_nothing_to_complain_about() -> None:
    desired = plan(load_manifests([EXAMPLES / "quickstart", EXAMPLES / "laptop"]))
    shop = desired.clusters["shop"]
    assert desired.complaints == ()
    assert shop.target.broker_count == 3
    assert [listener.spec.name for listener in shop.target.listeners] == ["EXTERNAL"]
    assert shop.quotas.desired.configs == {"listener.name.external.max.connection.creation.rate": "50"}
    assert shop.quotas.desired.quotas == ip_rates({"127.0.1.7": 5.0})
    assert list(shop.topics) == ["orders"]
    assert shop.resync_s == 60.0


def test_a_quota_of_a_missing_cluster_or_listener_is_told_so() -> None:
    found = complaints([cluster(), quota("a", {"broker": {}}, 5, ref="other"), quota("b", {"listener": "EXTERNAL"}, 5)])
    assert found[0][0] == "b"
    assert "no BrokerListener of cluster shop has spec.name EXTERNAL" in found[0][1]
    assert found[1] == ("a", "there is no BrokerCluster other; create it or correct clusterRef")


def test_the_laxer_of_two_quotas_on_one_target_is_told_so() -> None:
    found = complaints([cluster(), listener(), quota("a", {"broker": {}}, 5), quota("b", {"broker": {}}, 9)])
    assert [name for name, _ in found] == ["b"]
    assert "maxConnectionCreationRate 5 of ConnectionQuota a" in found[0][1]


def test_two_topics_of_one_name_are_one_topic() -> None:
    found = complaints([cluster(), topic("orders"), topic("bestellungen", topicName="orders")])
    assert found == [("bestellungen", "Topic orders has the same topicName; choose another")]


def test_clusters_that_up_cannot_run_are_left_alone() -> None:
    documents = [cluster(), cluster(namespace="other")]
    assert list(plan(manifests(documents)).clusters) == ["shop"]
    assert [name for name, _ in complaints(documents)] == ["shop"]


def test_transitions_are_judged_as_an_api_server_would() -> None:
    before, after = manifests([cluster(), topic("orders")]), manifests([cluster(), topic("orders", partitions=2)])
    assert [sentence.split(":")[0] for sentence in broken_transitions(before, after)] == ["Topic orders"]
    assert broken_transitions(after, before) == []
    assert broken_transitions(before, manifests([])) == []


def test_changed_limits_are_phrases_for_people() -> None:
    shop = [cluster(), listener()]
    before = plan(manifests([*shop, quota("a", {"broker": {}}, 5), quota("b", {"ip": "127.0.1.7"}, 9)]))
    after = plan(manifests([*shop, quota("a", {"broker": {}}, 6), quota("c", {"defaultIp": {}}, 7)]))
    assert changed_limits(before.clusters["shop"].quotas, after.clusters["shop"].quotas) == [
        "broker 5/s -> 6/s",
        "defaultIp no limit -> 7/s",
        "ip 127.0.1.7 9/s -> no limit",
    ]
    assert changed_limits(before.clusters["shop"].quotas, before.clusters["shop"].quotas) == []


def test_only_topics_whose_policy_says_so_are_deleted() -> None:
    documents = [cluster(), topic("kept"), topic("gone", deletionPolicy="Delete")]
    before, after = plan(manifests(documents)), plan(manifests([cluster()]))
    assert removed_topics(before.clusters["shop"], after.clusters["shop"]) == ["gone"]
    assert removed_topics(None, after.clusters["shop"]) == []


def test_standby_controllers_are_for_kubernetes() -> None:
    several = cluster()
    several["spec"]["controllers"] = {"replicas": 3}
    (sentence,) = not_for_a_laptop(manifests([several]))
    assert sentence.startswith("BrokerCluster shop: spec.controllers.replicas is 3")
    assert not_for_a_laptop(manifests([cluster()])) == []


def test_racks_are_of_kubernetes_nodes_and_a_laptop_has_none() -> None:
    zoned = cluster()
    zoned["spec"]["brokers"]["rack"] = {"topologyKey": "topology.kubernetes.io/zone"}
    (sentence,) = not_for_a_laptop(manifests([zoned]))
    assert sentence.startswith("BrokerCluster shop: spec.brokers.rack is a label of Kubernetes nodes")


def test_tags_of_a_manifest_are_for_a_laptop_too_and_labels_of_nodes_are_not() -> None:
    tagged = cluster()
    tagged["spec"]["brokers"]["tags"] = {"team": "payments"}
    assert not_for_a_laptop(manifests([tagged])) == []
    tagged["spec"]["brokers"]["tagsFromNodeLabels"] = {"zone": "topology.kubernetes.io/zone"}
    (sentence,) = not_for_a_laptop(manifests([tagged]))
    assert sentence.startswith("BrokerCluster shop: spec.brokers.tagsFromNodeLabels are labels of Kubernetes nodes")


def test_code_from_elsewhere_is_of_kubernetes() -> None:
    spec = {"clusterRef": {"name": "shop"}, "class": "acme.Orders", "source": {"configMap": {"name": "mine"}}}
    (sentence,) = not_for_a_laptop(manifests([cluster(), resource("ObserverPlugin", "orders", spec)]))
    assert sentence.startswith("ObserverPlugin orders: spec.source is of Kubernetes")


def test_observers_of_a_cluster_and_those_that_cannot_be() -> None:
    spec = {"clusterRef": {"name": "shop"}, "builtIn": "prometheus"}
    twice = resource("ObserverPlugin", "second", {**spec, "name": "traffic"})
    desired = plan(manifests([cluster(), resource("ObserverPlugin", "traffic", spec), twice]))
    assert desired.clusters["shop"].observers.configs["observer.class.names"] == "traffic"
    (complaint,) = desired.complaints
    assert "give this one another spec.name" in complaint.message
