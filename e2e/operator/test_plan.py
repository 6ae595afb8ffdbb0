"""The predictions of `sluicegate plan` match what then happens."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.cluster.control_plane import KubectlError
from e2e.cluster.waiting import wait_for
from e2e.world.shop import CLUSTER, QUICKSTART, READY_TIMEOUT_S, ROLLED_TIMEOUT_S, Json, Shop

COMMAND = Path(sys.executable).parent / "sluicegate"
TIMEOUT_S = 60
NAME = "foretold"


def a_cluster(**changed: Any) -> Json:
    spec = {"brokers": {"replicas": 1, "storage": {"size": "1Gi"}}, **changed}
    return _object("BrokerCluster", NAME, spec)


def a_listener(name: str, port: int) -> Json:
    spec = {"clusterRef": {"name": NAME}, "name": name, "port": port}
    return _object("BrokerListener", f"{NAME}-{name.lower()}", spec)


def a_quota(rate: int) -> Json:
    spec = {"clusterRef": {"name": NAME}, "target": {"listener": "CLIENTS"}, "maxConnectionCreationRate": rate}
    return _object("ConnectionQuota", f"{NAME}-rate", spec)


def _object(kind: str, name: str, spec: Json) -> Json:
    return {"apiVersion": "sluicegate.dev/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": spec}


def planned(shop: Shop, folder: Path, *documents: Json) -> tuple[int, Json]:
    """Run `plan`, and return its exit code and its report."""
    (folder / "wanted.yaml").write_text(yaml.safe_dump_all(documents))
    command = [str(COMMAND), "plan", "-f", str(folder), "-o", "json", "--kubeconfig", str(shop.plane.kubeconfig)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False, env=dict(os.environ))
    assert done.stderr == ""
    return done.returncode, json.loads(done.stdout)


def nodes(shop: Shop) -> dict[str, str]:
    """Nodes of the cluster, with the uid of each one's pod."""
    listed = shop.plane.get("pods", "-l", f"sluicegate.dev/cluster={NAME}")["items"]
    return {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in listed}


def ready(shop: Shop) -> None:
    shop.await_condition("brokercluster", NAME, "Ready", "True", timeout_s=ROLLED_TIMEOUT_S)


def restarts(said: Json) -> dict[str, list[str]]:
    """The kinds of reasons by node."""
    [cluster] = said["clusters"]
    return {node["node"]: [reason["kind"] for reason in node["reasons"]] for node in cluster["restarts"]}


def live(said: Json) -> list[str]:
    [cluster] = said["clusters"]
    found: list[str] = cluster["live"]
    return found


def reasons_told(shop: Shop) -> set[str]:
    return {event["reason"] for event in shop.events(NAME) if event["reason"].endswith("Changed")}


@pytest.fixture
def shop(standing_shop: Shop) -> Shop:
    return standing_shop


def restarts_nothing_when_respelled(shop: Shop, folder: Path, spec: Json) -> None:
    """Other spellings of the same values, and explicit defaults, restart nothing."""
    before = nodes(shop)
    config = {"log.retention.ms": "086400000", "num.io.threads": "+9", "num.partitions": "1"}
    resources = {"requests": {"cpu": "0.1", "memory": "131072Ki"}, "limits": {"cpu": "2000m", "memory": "1024Mi"}}
    brokers = {**spec["brokers"], "resources": resources, "pod": {"spread": "Preferred", "tolerations": []}}
    respelled = a_cluster(**spec | {"config": config, "brokers": brokers})
    code, said = planned(shop, folder, respelled)
    assert (code, restarts(said)) == (0, {})
    shop.apply(respelled)
    ready(shop)
    assert nodes(shop) == before


def test_what_is_foretold_happens(shop: Shop, tmp_path: Path) -> None:
    listener, quota = a_listener("CLIENTS", 9192), a_quota(50)
    code, said = planned(shop, tmp_path, a_cluster(), listener, quota)
    assert (code, {item["outcome"] for item in said["objects"]}) == (0, {"Created"})
    shop.apply(a_cluster(), listener, quota)
    ready(shop)
    shop.await_condition("connectionquota", f"{NAME}-rate", "Ready", "True")
    before = nodes(shop)
    assert planned(shop, tmp_path, a_cluster(), listener, quota)[1]["summary"].startswith("3 unchanged; no node")

    # While nodes run: a limit, a dynamic key, a listener, one more broker.
    changed = a_cluster(config={"log.retention.ms": "86400000"}, brokers={"replicas": 2, "storage": {"size": "1Gi"}})
    wanted = (changed, listener, a_quota(20), a_listener("MORE", 9193))
    code, said = planned(shop, tmp_path, *wanted)
    assert (code, restarts(said)) == (0, {})
    assert live(said) == [
        "broker 1 is added",
        "listener MORE opens at port 9193",
        "log.retention.ms: default -> 86400000",
        "listener CLIENTS 50/s -> 20/s",
    ]
    shop.apply(*wanted)
    shop.await_condition("brokerlistener", f"{NAME}-more", "Ready", "True", timeout_s=READY_TIMEOUT_S)
    ready(shop)
    shop.await_enforced(f"{NAME}-rate", brokers="2/2")
    assert nodes(shop) == before | {f"{NAME}-brokers-1": nodes(shop)[f"{NAME}-brokers-1"]}

    # A static key: predicted, delayed by a pause with the reason in the status, and then done as predicted.
    before = nodes(shop)
    static = {**changed["spec"], "config": {**changed["spec"]["config"], "num.io.threads": "9"}}
    paused = a_cluster(**static, rollout={"paused": True})
    code, said = planned(shop, tmp_path, paused)
    assert code == 2
    configured = {name: ["ConfigChanged"] for name in before}
    assert restarts(said) == configured
    assert said["clusters"][0]["notes"] == ["rollout.paused is true: nodes are not restarted until it is false"]
    shop.apply(paused)

    def says_why() -> bool:
        rollout = shop.plane.get("brokercluster", NAME)["status"]["rollout"]
        return rollout["reason"] == "Paused" and "ConfigChanged (num.io.threads)" in rollout["message"]

    wait_for("the status says what would restart, and why", says_why)
    assert nodes(shop) == before
    # A change that is reverted before it reaches a node restarts none.
    assert planned(shop, tmp_path, changed)[0] == 0
    assert restarts(planned(shop, tmp_path, a_cluster(**static))[1]) == {
        key: ["ConfigChanged"] for key in sorted(before)
    }
    shop.apply(a_cluster(**static))
    wait_for(
        "all nodes are others", lambda: not set(before.values()) & set(nodes(shop).values()), timeout_s=ROLLED_TIMEOUT_S
    )
    ready(shop)
    assert "ConfigChanged" in reasons_told(shop)
    restarts_nothing_when_respelled(shop, tmp_path, static)

    # plan reports a refusal with the API server's message.
    small = a_cluster(**(static | {"brokers": {"replicas": 2, "storage": {"size": "512Mi"}}}))
    code, said = planned(shop, tmp_path, small)
    assert code == 1
    [problem] = said["objects"][0]["problems"]
    with pytest.raises(KubectlError, match=r"storage\.size cannot be less than the size that was requested"):
        shop.apply(small)
    assert "storage.size cannot be less than the size that was requested for the volumes" in problem

    for kind, name in (("connectionquota", f"{NAME}-rate"), ("brokercluster", NAME)):
        shop.delete(kind, name)
    shop.delete("brokerlistener", f"{NAME}-clients")
    shop.delete("brokerlistener", f"{NAME}-more")


def test_an_image_is_a_reason(shop: Shop, tmp_path: Path) -> None:
    """Only predicted, because no process here has another image."""
    document = yaml.safe_load((QUICKSTART / "cluster.yaml").read_text())
    document["spec"]["image"] = "other:1"
    shop.settle()
    code, said = planned(shop, tmp_path, document)
    assert code == 2
    names = [*(f"{CLUSTER}-brokers-{ordinal}" for ordinal in range(3)), f"{CLUSTER}-controllers-0"]
    assert restarts(said) == {name: ["ImageChanged"] for name in names}
