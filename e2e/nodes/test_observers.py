"""Observers on nodes: loaded into running brokers, queried, and unloaded, without a restart."""

from e2e.cluster.waiting import wait_for
from e2e.nodes.site.shop import NodeShop
from e2e.world.operator_process import REPOSITORY
from tests.support.processes.clients.acknowledged import AcknowledgedWorkload

PLUGIN = REPOSITORY / "examples" / "observers" / "prometheus.yaml"


def test_an_observer_is_added_and_removed_while_brokers_run(shop: NodeShop, load: AcknowledgedWorkload) -> None:
    before = shop.running()
    shop.plane.kubectl("apply", "-f", str(PLUGIN))
    try:
        shop.await_condition("observerplugin", "shop-traffic", "Ready", "True")
        assert shop.plane.get("observerplugin", "shop-traffic")["status"]["brokers"] == "3/3"
        assert [shop.observers(pod) for pod in shop.broker_pods()] == ["shop-traffic"] * 3
    finally:
        shop.delete("observerplugin", "shop-traffic")
    wait_for("no broker loads the observer", lambda: {shop.observers(pod) for pod in shop.broker_pods()} == {""})
    assert shop.running() == before
