"""The owner of an object that has the name of a child."""

from typing import Any

import pytest

from sluicegate_operator.api.models.broker_cluster import BrokerCluster
from sluicegate_operator.resources.labels import CLUSTER_LABEL, labels
from sluicegate_operator.resources.owner import child_metadata, why_not_ours

SPEC = {"brokers": {"replicas": 1, "storage": {"size": "1Gi"}}}


def child(uid: str = "uid-1", name: str = "shop") -> dict[str, Any]:
    cluster = BrokerCluster.model_validate({"metadata": {"name": name, "uid": uid}, "spec": SPEC})
    return {"metadata": child_metadata(cluster, "shop-brokers", labels(name, "broker"))}


def found(**changes: Any) -> dict[str, Any]:
    return {"metadata": child()["metadata"] | changes}


STRANGER = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "uid-9"}


@pytest.mark.parametrize(
    "item",
    [
        pytest.param(found(), id="its controller is the child's owner"),
        pytest.param(found(labels={}), id="and then labels do not matter"),
        pytest.param(found(ownerReferences=[]), id="nobody controls it and it is labelled ours"),
        pytest.param(found(ownerReferences=[STRANGER]), id="an owner that is no controller"),
        pytest.param(child(uid="uid-0"), id="what an owner of the same name has left behind"),
    ],
)
def test_an_object_of_the_same_owner_or_an_orphan_of_ours_is_ours(item: dict[str, Any]) -> None:
    assert why_not_ours(item, child()) == ""


@pytest.mark.parametrize(
    ("item", "why"),
    [
        pytest.param(found(ownerReferences=[], labels={}), "it has no controller", id="no owner and no labels"),
        pytest.param(found(ownerReferences=None, labels=None), "it has no controller", id="said with nulls"),
        pytest.param(
            found(ownerReferences=[], labels=labels("shop") | {CLUSTER_LABEL: "bank"}),
            "names cluster bank",
            id="another cluster's",
        ),
        pytest.param(
            found(ownerReferences=[STRANGER | {"controller": True}]), "Deployment web controls it", id="a stranger's"
        ),
        pytest.param(
            child(uid="uid-2", name="bank"),
            "BrokerCluster bank with the uid uid-2 controls it",
            id="of another cluster",
        ),
        pytest.param(
            {"metadata": child(uid="uid-0")["metadata"] | {"labels": {}}},
            "an earlier BrokerCluster shop with the uid uid-0 controls it, and it lacks the operator's labels",
            id="an older owner's, without labels",
        ),
        pytest.param(
            found(ownerReferences=[child()["metadata"]["ownerReferences"][0] | {"apiVersion": "v1", "uid": "uid-2"}]),
            "BrokerCluster shop of v1 controls it",
            id="an owner's of another API group with the same kind and name",
        ),
    ],
)
def test_what_is_not(item: dict[str, Any], why: str) -> None:
    assert why in why_not_ours(item, child())
