"""The cluster whose data a volume claim has, and the instructions to the user."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from sluicegate_operator.api import BrokerCluster, parse_resource
from sluicegate_operator.planning.clusters.claims import VolumeClaim, plan_claims
from sluicegate_operator.planning.layout.cluster_layout import Role, cluster_id, plan_cluster
from tests.support.manifests.bad_manifests import cluster

MADE = datetime(2026, 1, 1, tzinfo=UTC)
OLD_ID = "NKr8a1QYQ0yqmZ0Jb1m7eA"


def shop(**spec: Any) -> BrokerCluster:
    uid = "6264ce5a-f913-40b0-85d0-94474e8cc1d2"
    meta = {"name": "shop", "uid": uid, "creationTimestamp": MADE.isoformat()}
    of = parse_resource(cluster(**spec) | {"metadata": meta})
    assert isinstance(of, BrokerCluster)
    return of


def claim(ordinal: int, cluster_id: str | None = None, *, age_s: int = -5, role: Role = Role.BROKER) -> VolumeClaim:
    name = f"data-shop-{role}s-{ordinal}"
    made = MADE - timedelta(seconds=age_s)
    return VolumeClaim(name, f"uid of {name}", role, ordinal, made, cluster_id, of_cluster="shop")


def test_claims_of_another_cluster_stop_it_and_the_way_out_is_told() -> None:
    plan = plan_claims(shop(), [claim(0, OLD_ID, age_s=60), claim(1, OLD_ID, age_s=60)], 3, started=False)
    assert "data-shop-brokers-0, data-shop-brokers-1" in plan.taken
    assert f"set spec.clusterId to {OLD_ID}" in plan.taken
    assert "kubectl delete pvc -l sluicegate.dev/cluster=shop" in plan.taken
    assert plan.unmarked == ()


def test_a_cluster_that_names_its_cluster_id_keeps_the_existing_data() -> None:
    old = [claim(0, OLD_ID, age_s=60), claim(1, None, age_s=60)]
    plan = plan_claims(shop(clusterId=OLD_ID), old, 3, started=False)
    assert plan.taken == ""
    assert [marked.ordinal for marked in plan.unmarked] == [1]
    assert plan_cluster(shop(clusterId=OLD_ID), []).cluster_id == OLD_ID


def test_the_wrong_id_is_refused() -> None:
    assert plan_claims(shop(clusterId="A" * 22), [claim(0, OLD_ID)], 3, started=False).taken


def test_claims_that_are_older_than_the_cluster_are_nobodys_until_an_id_is_said() -> None:
    plan = plan_claims(shop(), [claim(0, None, age_s=60)], 3, started=False)
    assert "meta.properties" in plan.taken


@pytest.mark.parametrize("started", [True, False])
def test_a_clusters_own_claims_are_marked_once(started: bool) -> None:
    own = cluster_id(shop())
    plan = plan_claims(shop(), [claim(0), claim(1, own), claim(0, role=Role.CONTROLLER)], 3, started=started)
    assert plan.taken == ""
    assert [marked.name for marked in plan.unmarked] == ["data-shop-brokers-0", "data-shop-controllers-0"]


def test_claims_of_a_cluster_that_an_older_operator_made_are_its_own() -> None:
    """A user bound volumes by hand before the cluster was created."""
    plan = plan_claims(shop(), [claim(0, None, age_s=60)], 3, started=True)
    assert (plan.taken, len(plan.unmarked)) == ("", 1)


@pytest.mark.parametrize("started", [True, False])
@pytest.mark.parametrize("label", ["", "another"])
@pytest.mark.parametrize("holds", [None, OLD_ID])
def test_a_claim_without_the_clusters_label_is_somebody_elses(started: bool, label: str, holds: str | None) -> None:
    theirs = replace(claim(1, holds), of_cluster=label)
    for spec in ({}, {"clusterId": "A" * 22}, {"storage": {"deleteClaims": True}}):
        plan = plan_claims(shop(**spec), [claim(0), theirs], 3, started=started)
        assert (plan.unlabelled, plan.unmarked, plan.misowned) == ((), (), ())
        assert plan.taken.startswith("the volume claims data-shop-brokers-1 exist and do not belong")
        assert "(data-shop-brokers-1 lacks the label sluicegate.dev/cluster=shop)" in plan.taken
        assert "kubectl label pvc data-shop-brokers-1 sluicegate.dev/cluster=shop" in plan.taken


def test_a_claim_that_another_object_controls_is_somebody_elses() -> None:
    theirs = replace(claim(1, cluster_id(shop())), controller="StatefulSet other")
    assert "(StatefulSet other controls data-shop-brokers-1)" in plan_claims(shop(), [theirs], 3, started=True).taken


def test_a_cluster_becomes_no_owner_of_a_claim_that_another_object_controls_but_ends_being_one() -> None:
    theirs = replace(claim(3, cluster_id(shop())), controller="StatefulSet other")
    assert plan_claims(shop(storage={"deleteClaims": True}), [theirs], 3, started=True).misowned == ()
    owned = replace(theirs, goes_with=frozenset({shop().metadata.uid}))
    assert plan_claims(shop(), [owned], 3, started=True).misowned == (owned,)


def test_a_claim_with_the_clusters_id_that_has_lost_its_label_gets_it_back() -> None:
    own = replace(claim(0, cluster_id(shop())), of_cluster="")
    plan = plan_claims(shop(), [own], 3, started=True)
    assert (plan.taken, plan.unlabelled, plan.unmarked) == ("", (own,), ())


def test_a_claim_that_no_node_needs_is_ignored_until_one_does() -> None:
    assert plan_claims(shop(), [claim(3, OLD_ID)], 3, started=True).taken == ""
    assert plan_claims(shop(), [claim(3, OLD_ID)], 4, started=True).taken


def test_with_standbys_the_plan_reports_that_the_metadata_is_lost() -> None:
    plan = plan_claims(shop(controllers={"replicas": 3}), [claim(0, OLD_ID)], 3, started=False)
    assert "cannot be restored" in plan.taken
    assert "spec.clusterId" not in plan.taken


def test_the_journals_name_follows_the_id() -> None:
    """A clusterId equal to the cluster's own uid changes nothing."""
    standbys = {"controllers": {"replicas": 3}}
    unsaid = plan_cluster(shop(**standbys), [])
    said = plan_cluster(shop(clusterId=unsaid.cluster_id, **standbys), [])
    assert said == unsaid
