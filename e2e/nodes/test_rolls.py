"""Rolls and scaling under traffic, an operator that fails at the same time, and a controller that is replaced."""

from e2e.cluster.waiting import wait_for
from e2e.nodes.site.shop import NodeShop
from e2e.world.operator_process import OPERATOR_NAMESPACE
from e2e.world.shop import BROKERS, CLUSTER, READY_TIMEOUT_S, ROLLED_TIMEOUT_S, condition_of
from tests.support.processes.clients.acknowledged import AcknowledgedWorkload


def change_of_a_static_key(shop: NodeShop) -> None:
    now = shop.cluster()["spec"]["config"]["num.partitions"]
    shop.change_cluster(config={"num.partitions": "4" if now == "3" else "3"})


def all_replaced(shop: NodeShop, before: dict[int, str]) -> bool:
    now = shop.uids()
    replaced = {broker_id for broker_id, uid in before.items() if now.get(broker_id, uid) != uid}
    assert replaced == set(before), f"replaced are {replaced}"
    return shop.all_in_sync()


def test_a_static_key_rolls_one_broker_after_the_other_and_nothing_is_lost(
    shop: NodeShop, load: AcknowledgedWorkload
) -> None:
    before = shop.uids()
    change_of_a_static_key(shop)
    wait_for("every broker is replaced", lambda: all_replaced(shop, before), timeout_s=ROLLED_TIMEOUT_S)
    shop.await_settled()


def test_an_operator_that_is_deleted_in_the_middle_of_a_roll_ends_it_after_all(
    shop: NodeShop, load: AcknowledgedWorkload
) -> None:
    before = shop.uids()
    change_of_a_static_key(shop)
    wait_for("the roll has begun", lambda: shop.uids() != before, timeout_s=READY_TIMEOUT_S)
    (operator,) = shop.operator_pods()
    shop.plane.kubectl(
        "delete", "pod", "-n", OPERATOR_NAMESPACE, operator["metadata"]["name"], "--grace-period=0", "--force"
    )
    wait_for("every broker is replaced", lambda: all_replaced(shop, before), timeout_s=ROLLED_TIMEOUT_S)
    shop.await_settled()
    (successor,) = shop.operator_pods()
    assert successor["metadata"]["uid"] != operator["metadata"]["uid"]


def test_a_cluster_grows_by_a_broker_and_shrinks_again(shop: NodeShop, load: AcknowledgedWorkload) -> None:
    before = shop.running()
    shop.change_cluster(brokers={"replicas": BROKERS + 1})
    shop.await_settled(BROKERS + 1)
    assert shop.running()[:BROKERS] == before
    shop.change_cluster()
    shop.await_settled()
    assert shop.running() == before


def test_the_only_controller_is_deleted_and_producers_go_on(shop: NodeShop, load: AcknowledgedWorkload) -> None:
    name = f"{CLUSTER}-controllers-0"
    gone = shop.plane.get("pod", name)["metadata"]["uid"]
    shop.delete("pod", name)

    def look() -> bool:
        pod = shop.plane.get("pod", name)
        return pod["metadata"]["uid"] != gone and condition_of(pod, "Ready").get("status") == "True"

    wait_for("the controller is running again", look, timeout_s=READY_TIMEOUT_S)
