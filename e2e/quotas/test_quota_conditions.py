"""Quotas that cannot be in force report that, with the reason, in their conditions."""

from e2e.cluster.waiting import wait_for
from e2e.world.shop import BROKERS, Shop, quota_document


def test_a_quota_for_a_missing_cluster_says_so_and_recovers_when_deleted(shop: Shop) -> None:
    quota = quota_document("lost-quota", {"broker": {}}, maxConnections=10)
    quota["spec"]["clusterRef"]["name"] = "nowhere"
    shop.apply(quota)
    try:
        condition = shop.await_condition("connectionquota", "lost-quota", "Ready", "False")
        assert "nowhere" in condition["message"]
        assert shop.quota("lost-quota")["status"]["observedGeneration"] == 1
    finally:
        shop.delete("connectionquota", "lost-quota")


def test_a_quota_for_a_missing_listener_is_enforced_once_the_listener_is_there(shop: Shop) -> None:
    shop.apply(quota_document("partner-rate", {"listener": "PARTNER"}, maxConnectionCreationRate=20))
    try:
        condition = shop.await_condition("connectionquota", "partner-rate", "Ready", "False")
        assert "PARTNER" in condition["message"]
    finally:
        shop.delete("connectionquota", "partner-rate")


def test_the_stricter_of_two_quotas_on_one_target_is_enforced_and_the_other_reports_this(shop: Shop) -> None:
    shop.apply(quota_document("shop-external-stricter", {"listener": "EXTERNAL"}, maxConnectionCreationRate=30))
    try:
        shop.await_enforced("shop-external-stricter")
        assert shop.external_rates() == [30] * BROKERS

        def names_the_stricter() -> bool:
            quota = shop.quota("shop-external-rate")
            messages = " ".join(condition["message"] for condition in quota["status"]["conditions"])
            assert "shop-external-stricter" in messages, messages
            assert quota["status"]["effective"] == {"maxConnectionCreationRate": 30}
            return True

        wait_for("the looser quota names the stricter one", names_the_stricter)
    finally:
        shop.delete("connectionquota", "shop-external-stricter")
    shop.await_external_rate(50)
    shop.await_condition("connectionquota", "shop-external-rate", "Ready", "True")
