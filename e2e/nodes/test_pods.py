"""Lost broker pods: deleted by hand, evicted as by a drain, and killed without notice."""

import time

from e2e.nodes.site.figures import Figures
from e2e.nodes.site.shop import NodeShop
from tests.support.processes.clients.acknowledged import AcknowledgedWorkload


def test_a_pod_that_is_deleted_comes_back_and_nothing_is_lost(
    shop: NodeShop, load: AcknowledgedWorkload, figures: Figures
) -> None:
    gone, others = shop.pod(1), [broker for broker in shop.running() if not broker.pod.endswith("-1")]
    began_s = time.monotonic()
    shop.delete("pod", gone.name, "--wait=false")
    shop.await_replaced(1, gone.uid)
    figures.note("a deleted pod serves again, s", time.monotonic() - began_s)
    assert [broker for broker in shop.running() if not broker.pod.endswith("-1")] == others


def test_a_pod_that_is_evicted_comes_back_and_nothing_is_lost(shop: NodeShop, load: AcknowledgedWorkload) -> None:
    gone = shop.pod(2)
    shop.evict(gone.name)
    shop.await_replaced(2, gone.uid)


def test_a_pod_that_ends_without_notice_is_fenced_and_comes_back(
    shop: NodeShop, load: AcknowledgedWorkload, figures: Figures
) -> None:
    gone = shop.pod(0)
    began_s = time.monotonic()
    shop.delete("pod", gone.name, "--wait=false", "--grace-period=0", "--force")
    shop.await_replaced(0, gone.uid)
    figures.note("a pod that ended without notice serves again, s", time.monotonic() - began_s)
