"""Placement of pods: users' settings reach the pods of that role, and no label for selection is lost."""

from typing import Any

import pytest

from sluicegate_operator.api import BrokerCluster, parse_resource
from sluicegate_operator.planning.layout.children import cluster_children
from sluicegate_operator.planning.layout.restart_reasons import decode_revision, restart_reasons
from sluicegate_operator.resources.labels import REVISION, labels
from tests.support.manifests.bad_manifests import cluster, pod_settings

Json = dict[str, Any]

ROLES = ("broker", "controller")
HOST = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"


def templates(*, rack: str | None = None, of: str = "broker", **pod: Any) -> dict[str, Json]:
    """Pod templates by role; `pod` are settings of the role `of`."""
    spec: Json = {"brokers": {"replicas": 3, "storage": {"size": "1Gi"}}, "controllers": {"replicas": 3}}
    if rack is not None:
        spec["brokers"]["rack"] = {"topologyKey": rack}
    if pod:
        spec[f"{of}s"]["pod"] = pod
    parsed = parse_resource(cluster(**spec))
    assert isinstance(parsed, BrokerCluster)
    sets = [child for child in cluster_children(parsed, []) if child["kind"] == "StatefulSet"]
    return {one["metadata"]["name"].removeprefix("shop-").removesuffix("s"): one["spec"]["template"] for one in sets}


@pytest.mark.parametrize("role", ROLES)
def test_pods_of_a_role_are_on_different_nodes_where_there_are_enough(role: str) -> None:
    spec = templates()[role]["spec"]
    [constraint] = spec["topologySpreadConstraints"]
    assert (constraint["topologyKey"], constraint["whenUnsatisfiable"]) == (HOST, "ScheduleAnyway")
    own = templates()[role]["metadata"]["labels"].items()
    assert constraint["labelSelector"]["matchLabels"].items() <= own
    assert "affinity" not in spec


@pytest.mark.parametrize("role", ROLES)
def test_two_pods_that_must_not_share_a_node_do_not(role: str) -> None:
    spec = templates(of=role, spread="Required")[role]["spec"]
    [term] = spec["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert term["topologyKey"] == HOST
    assert term["labelSelector"]["matchLabels"]["app.kubernetes.io/component"] == role, "of this role only"
    assert "topologySpreadConstraints" not in spec


def test_racks_are_spread_over_whatever_is_said_of_nodes() -> None:
    for spread, over in (("Preferred", [ZONE, HOST]), ("Required", [ZONE]), ("None", [ZONE])):
        spec = templates(rack=ZONE, spread=spread)["broker"]["spec"]
        assert [one["topologyKey"] for one in spec["topologySpreadConstraints"]] == over
        assert "nodeAffinity" in spec["affinity"], "brokers need nodes that have a rack"
        assert ("podAntiAffinity" in spec["affinity"]) is (spread == "Required")


def test_no_spread_constraints_are_set_with_spread_none() -> None:
    spec = templates(spread="None")["broker"]["spec"]
    assert not {"topologySpreadConstraints", "affinity"} & spec.keys()


@pytest.mark.parametrize("role", ROLES)
def test_pod_settings_apply_to_pods_of_their_role_only(role: str) -> None:
    said = pod_settings()
    [other] = set(ROLES) - {role}
    before, after = templates(), templates(of=role, **said)
    assert after[other] == before[other]
    spec, meta = after[role]["spec"], after[role]["metadata"]
    assert spec["nodeSelector"] == said["nodeSelector"]
    assert spec["priorityClassName"] == said["priorityClassName"]
    assert spec["tolerations"] == [{"operator": "Equal"} | toleration for toleration in said["tolerations"]]
    assert meta["labels"] == said["labels"] | labels("shop", role)
    assert meta["annotations"].items() >= said["annotations"].items()


@pytest.mark.parametrize("role", ROLES)
def test_pods_are_rolled_for_it_and_the_reason_names_the_field(role: str) -> None:
    def revision(template: Json) -> Any:
        return decode_revision(template["metadata"]["annotations"][REVISION])

    before, after = templates(), templates(of=role, labels={"example.org/team": "payments"})
    wanted = revision(after[role])
    assert wanted is not None
    [reason] = restart_reasons(revision(before[role]), wanted)
    assert str(reason) == f"ConfigChanged (spec.{role}s.pod)"


def test_the_default_said_in_words_rolls_nothing() -> None:
    assert templates(spread="Preferred") == templates()


def test_pods_pull_their_image_with_the_secrets_that_are_named() -> None:
    parsed = parse_resource(cluster(imagePullSecrets=["registry.example.org", "other"]))
    assert isinstance(parsed, BrokerCluster)
    specs = [c["spec"]["template"]["spec"] for c in cluster_children(parsed, []) if c["kind"] == "StatefulSet"]
    assert [spec["imagePullSecrets"] for spec in specs] == [[{"name": "registry.example.org"}, {"name": "other"}]] * 2
