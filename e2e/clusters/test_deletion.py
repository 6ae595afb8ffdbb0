"""Deletion ends in any order: of a namespace with a cluster in it, and of Topics without an operator.

No pod runs in the namespace here: Kubernetes waits for half of the grace period of running pods.
"""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.cluster.binaries import binaries_folder
from e2e.cluster.waiting import wait_for
from e2e.clusters.test_cluster_life import MINI, a_cluster, document, listener
from e2e.world.operator_process import OPERATOR_NAMESPACE, REPOSITORY
from e2e.world.shop import Json, Shop

NAMESPACE, OTHER_NAMESPACE = "leaving", "leaving-too"
GONE_TIMEOUT_S = 60
FINALIZER = "sluicegate.dev/topic"
GUIDE = REPOSITORY / "docs" / "gitops.md"


def short_lived(cluster: str = MINI, **metadata: object) -> Json:
    spec = {"clusterRef": {"name": cluster}, "partitions": 1, "replicas": 1, "deletionPolicy": "Delete"}
    topic = document("Topic", "short-lived", spec)
    return topic | {"metadata": topic["metadata"] | metadata}


def apply(shop: Shop, namespace: str, *documents: Json) -> None:
    listed = {"apiVersion": "v1", "kind": "List", "items": list(documents)}
    shop.plane.kubectl("apply", "-n", namespace, "-f", "-", input=json.dumps(listed))


def the_topic(shop: Shop, namespace: str) -> Json:
    found: Json = shop.plane.get("topic", "short-lived", "-n", namespace)["metadata"]
    return found


def await_gone(shop: Shop, namespace: str) -> None:
    shop.plane.kubectl("wait", "--for=delete", f"namespace/{namespace}", f"--timeout={GONE_TIMEOUT_S}s")


def test_a_namespace_with_a_cluster_and_topics_that_delete_goes(standing_shop: Shop) -> None:
    shop = standing_shop
    shop.plane.kubectl("create", "namespace", NAMESPACE)
    shop.plane.kubectl("create", "quota", "no-pods", "--hard=pods=0", "-n", NAMESPACE)
    target: Json = {"clusterRef": {"name": MINI}, "target": {"broker": {}}, "maxConnections": 9}
    quota = document("ConnectionQuota", "rate", target)
    apply(shop, NAMESPACE, a_cluster(), listener("CLIENTS", 9095), quota, short_lived())
    wait_for("the Topic has its finalizer", lambda: the_topic(shop, NAMESPACE).get("finalizers") == [FINALIZER])
    wait_for("it has its StatefulSets", lambda: shop.plane.get("statefulsets", "-n", NAMESPACE)["items"])
    shop.plane.kubectl("delete", "namespace", NAMESPACE, f"--timeout={GONE_TIMEOUT_S}s")


@pytest.fixture
def without_operator(standing_shop: Shop) -> Iterator[Shop]:
    """Yield Topics with their finalizer, in namespaces being deleted, without an operator to remove the finalizer."""
    shop = standing_shop
    shop.operator.stop()
    try:
        for namespace in (NAMESPACE, OTHER_NAMESPACE):
            shop.plane.kubectl("create", "namespace", namespace)
            apply(shop, namespace, short_lived("gone", finalizers=[FINALIZER]))
            shop.plane.kubectl("delete", "namespace", namespace, "--wait=false")
        wait_for("they are on their way out", lambda: all("deletionTimestamp" in one for one in topics(shop)))
        yield shop
    finally:
        shop.operator.start()


def topics(shop: Shop) -> list[Json]:
    return [the_topic(shop, namespace) for namespace in (NAMESPACE, OTHER_NAMESPACE)]


def test_topics_are_released_without_an_operator_by_the_documented_command_and_by_the_program(
    without_operator: Shop, operator_kubeconfig: Path, tmp_path: Path
) -> None:
    shop = without_operator
    assert the_topic(shop, NAMESPACE)["finalizers"] == [FINALIZER]
    as_documented(shop, tmp_path)
    assert by_its_program(operator_kubeconfig).endswith("1 Topics and KafkaUsers had the operator's finalizer\n")
    await_gone(shop, NAMESPACE)
    await_gone(shop, OTHER_NAMESPACE)


def as_documented(shop: Shop, folder: Path) -> None:
    [command] = re.findall(
        r"^kubectl get topics\.sluicegate\.dev,.*?done$", GUIDE.read_text(), re.MULTILINE | re.DOTALL
    )
    kubectl = folder / "kubectl"
    kubectl.write_text(f'#!/bin/sh\nexec {binaries_folder() / "kubectl"} --kubeconfig={shop.plane.kubeconfig} "$@"\n')
    kubectl.chmod(0o700)
    environment = {"PATH": f"{folder}:/usr/bin:/bin", "NAMESPACE": NAMESPACE, "HOME": str(folder)}
    subprocess.run(["sh", "-euc", command], env=environment, timeout=GONE_TIMEOUT_S, check=True)


def by_its_program(kubeconfig: Path) -> str:
    """Release Topics as the chart does on uninstall, with the operator's rights, and return the output."""
    environment = {
        "KUBECONFIG": str(kubeconfig),
        "PYTHONPATH": f"{REPOSITORY}:{REPOSITORY / 'operator'}",
        "POD_NAMESPACE": OPERATOR_NAMESPACE,
    }
    done = subprocess.run(
        [sys.executable, "-m", "sluicegate_operator", "--release-topics"],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=GONE_TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stderr
