"""Faults: whatever fails while a limit changes, the limit is finally right on every broker."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.cluster.waiting import wait_for
from e2e.world.operator_process import OperatorProcess
from e2e.world.shop import (
    BROKERS,
    EXTERNAL_RATE_KEY,
    NAMESPACE,
    READY_TIMEOUT_S,
    UNLIMITED,
    BrokerPod,
    Shop,
    quota_document,
)
from sluicegate_operator.kafka_admin.configs import ConfigChange


def external_rate(rate: int) -> dict[str, object]:
    return quota_document("shop-external-rate", {"listener": "EXTERNAL"}, maxConnectionCreationRate=rate)


@pytest.fixture
def away(shop: Shop) -> Iterator[BrokerPod]:
    """A broker that was killed and stays down until the test releases it."""
    pod = shop.pod(2)
    shop.kubelet.hold_pod(NAMESPACE, pod.name)
    wait_for("the broker is away", lambda: not shop.pod(2).ready)
    yield pod
    shop.kubelet.release_pod(NAMESPACE, pod.name)


@pytest.fixture
def operator_back(shop: Shop) -> Iterator[OperatorProcess]:
    yield shop.operator
    if not shop.operator.running:
        shop.operator.start()


def test_a_limit_altered_by_hand_for_one_broker_is_mended(shop: Shop) -> None:
    with shop.operator.frozen():
        shop.alter_by_hand(shop.pod(1), 1, ConfigChange(set={EXTERNAL_RATE_KEY: "9999"}))
        wait_for("the broker took it", lambda: shop.external_rates() == [50, 9999, 50])
    wait_for("mended", lambda: shop.external_rates() == [50] * BROKERS)


def test_the_strictest_limits_do_not_lock_out_the_operator(shop: Shop, operator_back: OperatorProcess) -> None:
    quotas = [
        quota_document("shop-one", {"broker": {}}, maxConnections=1, maxConnectionCreationRate=1),
        quota_document("shop-one-each", {"defaultIp": {}}, maxConnections=1, maxConnectionCreationRate=1),
    ]
    shop.apply(*quotas)
    for quota in quotas:
        shop.await_enforced(quota["metadata"]["name"])
    operator_back.kill()
    operator_back.start()
    for quota in quotas:
        shop.delete("connectionquota", quota["metadata"]["name"])
    wait_for(
        "lifted on every broker",
        lambda: [shop.broker_config(pod, "max.connections") for pod in shop.broker_pods()] == [UNLIMITED] * BROKERS,
        timeout_s=READY_TIMEOUT_S,
    )
    assert all(state == "Online" for state in shop.states().values())


def test_a_limit_removed_by_hand_for_all_brokers_is_mended(shop: Shop) -> None:
    before = shop.fingerprint()
    with shop.operator.frozen():
        shop.alter_by_hand(shop.pod(0), None, ConfigChange(delete=[EXTERNAL_RATE_KEY]))
        wait_for("the brokers took it", lambda: shop.external_rates() == [UNLIMITED] * BROKERS)
    wait_for("mended", lambda: shop.external_rates() == [50] * BROKERS)
    assert shop.fingerprint() == before


def test_a_quota_changed_while_a_broker_is_away_is_in_force_when_it_is_back(shop: Shop, away: BrokerPod) -> None:
    shop.apply(external_rate(33))
    quota = shop.await_enforced("shop-external-rate", brokers="2/3")
    assert any(condition["status"] == "False" for condition in quota["status"]["conditions"])
    assert shop.external_rates() == [33, 33]
    shop.kubelet.release_pod(NAMESPACE, away.name)
    shop.await_enforced("shop-external-rate")
    shop.await_external_rate(33)


def test_a_quota_deleted_while_a_broker_is_away_is_lifted_when_it_is_back(shop: Shop, away: BrokerPod) -> None:
    shop.delete("connectionquota", "shop-external-rate")
    wait_for("lifted where brokers are up", lambda: shop.external_rates() == [UNLIMITED, UNLIMITED])
    shop.kubelet.release_pod(NAMESPACE, away.name)
    shop.await_external_rate(UNLIMITED)


def test_a_crashed_broker_comes_back_with_its_limits(shop: Shop) -> None:
    pod = shop.pod(0)
    shop.kubelet.kill_container(NAMESPACE, pod.name)
    wait_for("restarted", lambda: shop.pod(0).restarts == pod.restarts + 1)
    wait_for("ready again", shop.all_brokers_ready)
    assert shop.external_rates() == [50] * BROKERS


def test_a_change_made_while_the_operator_is_down_is_made_good(shop: Shop, operator_back: OperatorProcess) -> None:
    operator_back.kill()
    shop.apply(external_rate(44))
    assert shop.external_rates() == [50] * BROKERS, "brokers do not need the operator to keep their limits"
    operator_back.start()
    shop.await_enforced("shop-external-rate")
    shop.await_external_rate(44)


def test_a_quota_deleted_while_the_operator_is_down_is_lifted_by_the_next_one(
    shop: Shop, operator_back: OperatorProcess
) -> None:
    operator_back.kill()
    shop.delete("connectionquota", "shop-external-rate", "--wait=false")
    operator_back.start()
    shop.await_external_rate(UNLIMITED)
    wait_for(
        "the object is gone",
        lambda: not shop.plane.kubectl("get", "connectionquota", "shop-external-rate", "--ignore-not-found"),
    )


def test_the_operator_stops_in_order(shop: Shop, operator_back: OperatorProcess) -> None:
    assert operator_back.stop() == 0
    operator_back.start()
    shop.apply(external_rate(46))
    shop.await_enforced("shop-external-rate")


def test_of_two_operators_one_acts_and_the_other_takes_over(
    shop: Shop, operator_back: OperatorProcess, tmp_path: Path
) -> None:
    with OperatorProcess(shop.plane.kubeconfig, tmp_path / "second.log", "operator-two") as second:

        def holder() -> str:
            second.must_run()
            leases = shop.plane.get("lease", "-A")["items"]
            [lease] = [lease for lease in leases if "sluicegate" in lease["metadata"]["name"]]
            return str(lease["spec"].get("holderIdentity") or "")

        wait_for("the second waits", lambda: "wait" in second.output().lower())
        first_holder = holder()
        assert "operator-one" in first_holder
        shop.apply(external_rate(55))
        shop.await_enforced("shop-external-rate")
        assert "shop-external-rate" not in second.output()
        operator_back.kill()
        wait_for("the second leads", lambda: "operator-two" in holder())
        shop.apply(external_rate(56))
        shop.await_enforced("shop-external-rate")
        shop.await_external_rate(56)
        assert second.stop() == 0, "and lets go of the Lease, which the first one waits for now"


def test_an_outage_of_the_api_server_changes_no_limit_and_later_changes_are_applied(shop: Shop) -> None:
    before = shop.fingerprint()
    pods = shop.broker_pods()
    shop.plane.pause_api_server()
    try:
        assert [shop.broker_config(pod, EXTERNAL_RATE_KEY) for pod in pods] == [50] * BROKERS
    finally:
        shop.plane.resume_api_server()
    shop.operator.must_run()
    shop.apply(external_rate(66))
    wait_for("followed", lambda: shop.external_rates() == [66] * BROKERS, timeout_s=READY_TIMEOUT_S)
    assert shop.fingerprint() == before
