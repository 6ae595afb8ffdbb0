"""A new cluster waits until it stops changing, with a limit."""

from sluicegate_operator.api.models.broker_cluster import BrokerCluster
from sluicegate_operator.handlers.reconcilers.settling import SETTLE_MAX_S, Settling

SHOP = ("default", "shop")


def shop(generation: int, uid: str = "u") -> BrokerCluster:
    meta = {"name": "shop", "namespace": "default", "uid": uid, "generation": generation}
    return BrokerCluster.model_validate(
        {"metadata": meta, "spec": {"brokers": {"replicas": 1, "storage": {"size": "1Gi"}}}}
    )


def test_a_cluster_is_settled_after_a_while_without_changes() -> None:
    settling = Settling(quiet_s=1.0)
    assert settling.wait_s(shop(1), [], 100.0) == 1.0
    assert settling.wait_s(shop(1), [], 100.6) < 0.5
    assert settling.wait_s(shop(2), [], 100.8) == 1.0, "it was changed meanwhile"
    assert settling.wait_s(shop(2), [], 101.8) == 0.0


def test_repeated_changes_delay_a_new_cluster_for_a_limited_time() -> None:
    settling = Settling(quiet_s=1.0)
    waits = [settling.wait_s(shop(number), [], number * 0.5) for number in range(30)]
    assert waits[int(SETTLE_MAX_S / 0.5) - 1] > 0.0
    assert waits[int(SETTLE_MAX_S / 0.5)] == 0.0


def test_a_cluster_that_was_forgotten_begins_anew() -> None:
    settling = Settling(quiet_s=1.0)
    settling.wait_s(shop(1), [], 0.0)
    settling.forget(SHOP)
    assert settling.wait_s(shop(1), [], 5.0) == 1.0


def test_an_earlier_cluster_of_the_name_does_not_shorten_the_time() -> None:
    settling = Settling(quiet_s=1.0)
    settling.wait_s(shop(1, "of-the-first"), [], 0.0)
    assert settling.wait_s(shop(1), [], 60.0) == 1.0
