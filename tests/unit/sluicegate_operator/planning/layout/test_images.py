"""Objects without an image get that of the operator's settings; an explicit one stays."""

from typing import Any

from sluicegate_operator.api import AuditPipeline, BrokerCluster, parse_resource
from sluicegate_operator.api.models.audit_pipeline import AuditPlace
from sluicegate_operator.api.models.broker_listener import BrokerListener
from sluicegate_operator.planning.layout.children import cluster_children
from sluicegate_operator.planning.layout.images import Images
from sluicegate_operator.planning.pipelines.pipelines import pipeline_children
from sluicegate_operator.resources.audit.audit_run import AuditPlaces
from tests.support.manifests.bad_manifests import cluster
from tests.support.manifests.pipeline_manifests import pipeline

IMAGES = Images("nodes:1", "nodes:1-landing", "pipeline:1", ("registry",))
LANDING = {"landing": {"claimName": "audit"}}
NO_LISTENERS: list[BrokerListener] = []


def pods(**spec: Any) -> list[dict[str, Any]]:
    """Specs of the pods of controllers, then of brokers."""
    found = parse_resource(cluster(**spec))
    assert isinstance(found, BrokerCluster)
    children = cluster_children(IMAGES.of_cluster(found), NO_LISTENERS)
    return [child["spec"]["template"]["spec"] for child in children if child["kind"] == "StatefulSet"]


def images(**spec: Any) -> list[str]:
    made = [[*pod["containers"], *pod.get("initContainers", ())] for pod in pods(**spec)]
    return [container["image"] for containers in made for container in containers]


def test_a_cluster_that_names_none() -> None:
    assert images() == ["nodes:1", "nodes:1"]
    assert images(audit=LANDING) == ["nodes:1", "nodes:1", "nodes:1-landing"]
    assert [pod["imagePullSecrets"] for pod in pods()] == [[{"name": "registry"}]] * 2


def test_a_cluster_that_names_its_own() -> None:
    assert images(image="mine:2", audit=LANDING) == ["mine:2"] * 3
    landing = {"landing": {"claimName": "audit", "image": "lander:3"}}
    assert images(image="mine:2", audit=landing) == ["mine:2", "mine:2", "lander:3"]
    assert [pod["imagePullSecrets"] for pod in pods(imagePullSecrets=["own"])] == [[{"name": "own"}]] * 2


def pipeline_pod(**spec: Any) -> dict[str, Any]:
    found = parse_resource(pipeline(**spec))
    assert isinstance(found, AuditPipeline)
    claim = AuditPlace(claim_name="audit")
    _, cron_job = pipeline_children(IMAGES.of_pipeline(found), AuditPlaces("shop", claim, claim, None))
    pod: dict[str, Any] = cron_job["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    return pod


def test_a_pipeline() -> None:
    pod = pipeline_pod()
    assert (pod["containers"][0]["image"], pod["imagePullSecrets"]) == ("pipeline:1", [{"name": "registry"}])
    own = pipeline_pod(image="own:1", imagePullSecrets=["own"])
    assert (own["containers"][0]["image"], own["imagePullSecrets"]) == ("own:1", [{"name": "own"}])
