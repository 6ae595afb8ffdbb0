"""The commands of docs/storm-on-kubernetes.md in their order: limits are visible in the documented places."""

import json
import re
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager

from e2e.cluster.waiting import wait_for
from e2e.nodes.site.figures import Figures
from e2e.nodes.site.readme import run
from e2e.nodes.site.shop import NodeShop
from e2e.world.operator_process import REPOSITORY
from e2e.world.shop import READY_TIMEOUT_S, Json
from tests.support.pages.blocks import blocks
from tests.support.processes.clients.acknowledged import AcknowledgedWorkload

PAGE = REPOSITORY / "docs" / "storm-on-kubernetes.md"
STORM_PODS = "app.kubernetes.io/name=sluicegate-storm"
BLOCKED_MIN = 0.5
ENFORCED_MAX_S = 5.0
"""The target is a second, on separate nodes.

Here the nodes, the storm and the tests share one machine with its builds.
"""
_DOCUMENT = re.compile(r"^kubectl apply -f - <<EOF\n.*?^EOF$", re.MULTILINE | re.DOTALL)


def command(begins: str) -> str:
    """Return the only line of the page with this beginning, without the explanation after it."""
    [found] = {
        line.partition("  #")[0].strip()
        for block in blocks(PAGE.read_text(encoding="utf-8"))
        for line in block
        if line.startswith(begins)
    }
    return found


@contextmanager
def storming() -> Iterator[Future[str]]:
    with ThreadPoolExecutor(max_workers=1) as beside:
        yield beside.submit(run, command("sluicegate storm -n"))


def storm_pods(shop: NodeShop) -> dict[str, str]:
    """Return the phase of each storm pod that is not being deleted."""
    listed = shop.plane.get("pods", "-l", STORM_PODS)["items"]
    left = [pod for pod in listed if "deletionTimestamp" not in pod["metadata"]]
    return {pod["metadata"]["name"]: pod["status"]["phase"] for pod in left}


def await_storm(shop: NodeShop) -> str:
    """Wait until all pods of the storm run, and return the name of one."""

    def look() -> str:
        pods = storm_pods(shop)
        assert list(pods.values()) == ["Running"] * 2, f"pods {pods}"
        return next(iter(pods))

    return wait_for("two pods storm", look, timeout_s=READY_TIMEOUT_S)


def await_blocked(pod: str) -> float:
    """Wait until `why` reports that the pod is blocked most of the time.

    Return the share of the broker with the highest one.
    """

    def look() -> float:
        said = json.loads(run(command("sluicegate why").replace("NAME", pod) + " -o json"))
        answers = [broker["answer"] for broker in said["addresses"][0]["brokers"]]
        share: float = max(answer["listeners"]["EXTERNAL"]["blocked_share"] for answer in answers)
        assert share > BLOCKED_MIN, f"blocked {share:.0%} of the time"
        return share

    return wait_for(f"`why` says that {pod} waits", look, interval_s=1)


def await_holding(shop: NodeShop, name: str) -> Json:
    def look() -> Json:
        found: Json = shop.plane.get("cq", name)["status"].get("holding", {})
        return found

    return wait_for(f"{name} says what it holds", look, timeout_s=READY_TIMEOUT_S)


def test_a_storm_by_the_page_is_seen_and_held(shop: NodeShop, load: AcknowledgedWorkload, figures: Figures) -> None:
    before = shop.running()
    with storming() as storm:
        name = await_storm(shop)
        began_s = time.monotonic()
        figures.note("blocked share that `why` says of a storm's listener", await_blocked(name))
        assert "EXTERNAL" in run(command("sluicegate status"))
        assert "EXTERNAL" in run(command("sluicegate quotas -n").replace(" --watch", ""))
        assert await_holding(shop, "shop-external-rate")["blockedPercent"] > 50
        figures.note("a storm until `kubectl get cq` says what is held, s", time.monotonic() - began_s)
        assert "% of time" in run("kubectl get cq shop-external-rate")
        run(command("kubectl patch cq"))
        shop.await_enforced("shop-external-rate")
        assert float(run(command("kubectl get cq shop-external-rate"))) < ENFORCED_MAX_S
        assert "accepted" in storm.result()
    assert storm_pods(shop) == {}
    assert shop.running() == before
    assert load.failures == []


def test_a_limit_of_the_pods_that_storm_takes_over(shop: NodeShop, load: AcknowledgedWorkload) -> None:
    [document] = _DOCUMENT.findall(PAGE.read_text(encoding="utf-8"))
    try:
        with storming() as storm:
            await_storm(shop)
            run(document)
            assert await_holding(shop, "storming-pods")["heldPerSecond"] > 0
            storm.result()
    finally:
        run("kubectl delete cq storming-pods --ignore-not-found")
    assert load.failures == []
