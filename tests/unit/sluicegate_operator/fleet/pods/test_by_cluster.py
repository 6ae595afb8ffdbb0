"""State of BrokerClusters between two reconciles: one for each uid, found by name."""

import pytest

from sluicegate_operator.api.models.broker_cluster import BrokerCluster
from sluicegate_operator.fleet.pods.by_cluster import ByCluster
from tests.support.manifests.bad_manifests import cluster

SHOP = ("default", "shop")


def broker_cluster(name: str = "shop", uid: str = "of-the-first", namespace: str = "default") -> BrokerCluster:
    manifest = cluster(name)
    manifest["metadata"] |= {"uid": uid, "namespace": namespace}
    return BrokerCluster.model_validate(manifest)


def test_a_cluster_keeps_its_state() -> None:
    states = ByCluster[list[int]](list)
    states.of(broker_cluster()).append(1)
    assert states.of(broker_cluster()) == [1]
    assert states[SHOP] == [1]
    assert states.get(SHOP) == [1]


def test_clusters_of_other_names_and_namespaces_have_states_of_their_own() -> None:
    states = ByCluster[list[int]](list)
    states.of(broker_cluster()).append(1)
    assert states.of(broker_cluster("store")) == []
    assert states.of(broker_cluster(namespace="other")) == []
    assert states[SHOP] == [1]


def test_a_later_cluster_of_the_name_begins_with_a_new_state() -> None:
    states = ByCluster[list[int]](list)
    states.of(broker_cluster()).append(1)
    assert states.of(broker_cluster(uid="of-the-second")) == []
    assert states[SHOP] == []


def test_a_reconcile_that_outlives_its_cluster_changes_nothing_of_a_later_one() -> None:
    states = ByCluster[list[int]](list)
    taken_before = states.of(broker_cluster())
    later = states.of(broker_cluster(uid="of-the-second"))
    taken_before.append(1)
    assert states[SHOP] is later
    assert later == []


def test_a_forgotten_state_is_made_again() -> None:
    states = ByCluster[list[int]](list)
    states.of(broker_cluster()).append(1)
    states.forget(SHOP)
    states.forget(SHOP)
    assert states.get(SHOP) is None
    with pytest.raises(KeyError):
        states[SHOP]
    assert states.of(broker_cluster()) == []
