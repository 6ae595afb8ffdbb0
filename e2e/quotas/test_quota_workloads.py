"""Quotas on pods, ranges and moments: from a pod's address to the refused socket, and back."""

import itertools
import json
import socket
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from e2e.cluster.waiting import wait_for
from e2e.world.shop import BROKERS, EXTERNAL_PORT, NAMESPACE, BrokerPod, Json, Shop, condition_of, quota_document

WORKLOAD = {"workload": {"podSelector": {"matchLabels": {"app": "billing"}}}}
ANSWER_S = 20.0
API_VERSIONS = bytes.fromhex("0000000a0012000000000007ffff")
"""ApiVersions version 0, correlation ID 7, no client ID."""
STARTS = itertools.count()
"""Kubernetes records start times in seconds, and an address belongs to at most one pod within a second."""
QUOTAS = ("billing", "billing-everywhere", "range", "until", "what-if")


@pytest.fixture(autouse=True)
def left_as_it_was(shop: Shop) -> Iterator[None]:
    yield
    for name in QUOTAS:
        shop.delete("connectionquota", name)
    shop.plane.kubectl("delete", "pod", "-l", "app", "--grace-period=0", "--force", "--ignore-not-found")
    shop.plane.kubectl("delete", "namespace", "payments", "--ignore-not-found")


def served(pod: BrokerPod, source: str, count: int) -> int:
    """Return how many of `count` simultaneous connections a broker serves to one address."""
    with ExitStack() as stack:
        return served_as_long_as(stack, pod, source, count)


def served_as_long_as(stack: ExitStack, pod: BrokerPod, source: str, count: int) -> int:
    """The same for connections that stay open as long as `stack`."""
    answers, clients = 0, []
    for _ in range(count):
        client = socket.create_connection((pod.address, EXTERNAL_PORT), ANSWER_S, source_address=(source, 0))
        clients.append(stack.enter_context(client))
        client.sendall(API_VERSIONS)
    for client in clients:
        try:
            answers += bool(client.recv(1))
        except ConnectionResetError:
            continue
    return answers


def held(pod: BrokerPod, group: str, address: str) -> bool:
    """Whether the broker itself reports that the group contains the address."""
    url = f"http://{pod.address}:{pod.http_port}/connection-quotas?address={address}"
    with urllib.request.urlopen(url, timeout=ANSWER_S) as answer:
        return group in [one.get("group") for one in json.load(answer)["holders"]]


def everywhere(shop: Shop, group: str, address: str, *, wanted: bool = True) -> bool:
    return all(held(pod, group, address) is wanted for pod in shop.broker_pods())


def sleeper(name: str, namespace: str = NAMESPACE) -> Json:
    """Return a pod of the workload that does nothing."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "labels": {"app": "billing"}},
        "spec": {
            "terminationGracePeriodSeconds": 1,
            "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
            "containers": [
                {
                    "name": "main",
                    "image": "sluicegate",
                    "command": ["sleep", "3600"],
                    "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
                }
            ],
        },
    }


def placed(shop: Shop, name: str, address: str, app: str, phase: str = "Running") -> None:
    """Create a pod on a node that does not exist, with the address that the test needs."""
    document = sleeper(name)
    document["metadata"]["labels"] = {"app": app}
    shop.apply(document | {"spec": document["spec"] | {"nodeName": "nobody"}})
    started = (datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=next(STARTS))).isoformat().replace("+00:00", "Z")
    status = {"phase": phase, "podIP": address, "podIPs": [{"ip": address}], "startTime": started}
    patch = json.dumps({"status": status})
    shop.plane.kubectl("patch", "pod", name, "--subresource=status", "--type=merge", "-p", patch)


def limited(name: str, target: dict[str, Any], **said: Any) -> Json:
    return quota_document(name, target, maxConnections=2, **said)


def seconds_until(what: str, holds: Any, timeout_s: float = 30.0) -> float:
    began_s = time.monotonic()
    wait_for(what, holds, timeout_s=timeout_s, interval_s=0.01)
    return time.monotonic() - began_s


def test_a_pod_is_limited_from_the_time_of_its_address_until_its_deletion(shop: Shop) -> None:
    shop.apply(limited("billing", WORKLOAD))
    shop.await_enforced("billing")
    assert shop.quota("billing")["status"]["members"] == 0
    shop.apply(sleeper("billing-1"))
    wait_for("the pod has an address", lambda: shop.plane.get("pod", "billing-1")["status"].get("podIP"), timeout_s=60)
    address = shop.plane.get("pod", "billing-1")["status"]["podIP"]
    wait_for("its address is held", lambda: everywhere(shop, "default/billing", address), timeout_s=30)
    assert [served(pod, address, 4) for pod in shop.broker_pods()] == [2] * BROKERS
    assert served(shop.pod(0), "127.0.9.1", 4) == 4
    wait_for("its status counts it", lambda: shop.quota("billing")["status"]["members"] == 1, timeout_s=30)
    shop.plane.kubectl("delete", "pod", "billing-1", "--wait=true")
    wait_for("it is lifted", lambda: everywhere(shop, "default/billing", address, wanted=False), timeout_s=30)
    assert served(shop.pod(0), address, 4) == 4


def test_an_address_is_held_and_lifted_within_a_second_and_the_next_pod_that_has_it_is_free(shop: Shop) -> None:
    shop.apply(limited("billing", WORKLOAD))
    shop.await_enforced("billing")
    held_s, lifted_s = [], []
    # Several changes, because a loaded machine may stall for a second.
    for number in range(1, 5):
        name, address = f"billing-{number}", f"127.0.9.{number}"
        placed(shop, name, address, "billing")
        held_s.append(seconds_until("held", lambda a=address: everywhere(shop, "default/billing", a)))
        # Another pod gets the address while the first still exists.
        placed(shop, f"web-{number}", address, "web")
        lifted_s.append(seconds_until("lifted", lambda a=address: everywhere(shop, "default/billing", a, wanted=False)))
    assert served(shop.pod(0), "127.0.9.1", 4) == 4
    assert min(held_s) < 1, held_s
    assert min(lifted_s) < 1, lifted_s
    shop.plane.kubectl("delete", "pod", "web-1", "--grace-period=0", "--force")
    wait_for("the first one's again", lambda: everywhere(shop, "default/billing", "127.0.9.1"), timeout_s=30)


def test_a_pod_that_reuses_an_address_does_not_inherit_its_connections(shop: Shop) -> None:
    pod, address = shop.pod(0), "127.0.9.1"
    shop.apply(limited("billing", WORKLOAD))
    placed(shop, "billing-1", address, "billing")
    wait_for("its address is held", lambda: everywhere(shop, "default/billing", address), timeout_s=30)
    with ExitStack() as gone:
        assert served_as_long_as(gone, pod, address, 3) == 2
        assert served(pod, address, 1) == 0
        placed(shop, "billing-2", address, "billing")
        wait_for("the next one has the whole limit", lambda: served(pod, address, 3) == 2, timeout_s=30)


def test_pods_of_other_namespaces_are_selected_by_the_namespaces_labels(shop: Shop) -> None:
    target = {"workload": WORKLOAD["workload"] | {"namespaceSelector": {"matchLabels": {"team": "payments"}}}}
    shop.apply(limited("billing-everywhere", target, limitIs="Shared"))
    shop.await_enforced("billing-everywhere")
    shop.plane.kubectl("create", "namespace", "payments")
    shop.apply(sleeper("billing-1", "payments"))
    look = ("pod", "billing-1", "-n", "payments")
    wait_for("the pod has an address", lambda: shop.plane.get(*look)["status"].get("podIP"), timeout_s=60)
    address = shop.plane.get(*look)["status"]["podIP"]
    assert shop.quota("billing-everywhere")["status"]["members"] == 0
    shop.plane.kubectl("label", "namespace", "payments", "team=payments")
    group = "default/billing-everywhere"
    wait_for("its address is held", lambda: everywhere(shop, group, address), timeout_s=30)
    shop.plane.kubectl("label", "namespace", "payments", "team-")
    wait_for("it is lifted", lambda: everywhere(shop, group, address, wanted=False), timeout_s=30)


def test_the_operator_comes_back_to_a_workload_and_lifts_nothing_meanwhile(shop: Shop) -> None:
    shop.apply(limited("billing", WORKLOAD))
    placed(shop, "billing-1", "127.0.9.1", "billing")
    wait_for("its address is held", lambda: everywhere(shop, "default/billing", "127.0.9.1"), timeout_s=30)
    shop.operator.kill()
    placed(shop, "billing-2", "127.0.9.2", "billing")
    shop.operator.start()
    free = []

    def both() -> bool:
        free.extend([] if everywhere(shop, "default/billing", "127.0.9.1") else ["127.0.9.1"])
        return everywhere(shop, "default/billing", "127.0.9.2")

    wait_for("the pod that came meanwhile is held", both, timeout_s=90, interval_s=0.05)
    assert free == [], "the other one was held all the time"


def test_a_range_is_held_and_a_limit_ends_at_its_moment(shop: Shop) -> None:
    ends = datetime.now(UTC) + timedelta(seconds=8)
    moment = ends.isoformat(timespec="seconds").replace("+00:00", "Z")
    shop.apply(
        limited("range", {"cidr": "127.0.9.0/25"}), limited("until", {"cidr": "127.0.9.128/25"}, expiresAt=moment)
    )
    shop.await_enforced("range")
    wait_for("the second range is held", lambda: everywhere(shop, "default/until", "127.0.9.200"), timeout_s=5)
    assert served(shop.pod(BROKERS - 1), "127.0.9.7", 4) == 2
    wait_for("it is lifted", lambda: everywhere(shop, "default/until", "127.0.9.200", wanted=False), timeout_s=30)
    assert datetime.now(UTC) >= ends.replace(microsecond=0)
    ended = shop.await_condition("connectionquota", "until", "Ready", "True")
    assert ended["reason"] == "Expired"
    assert condition_of(shop.quota("until"), "Enforced")["status"] == "False"
    wait_for("an Event says so", lambda: "Expired" in [event["reason"] for event in shop.events("until")], timeout_s=30)
    assert served(shop.pod(BROKERS - 1), "127.0.9.200", 4) == 4
    assert served(shop.pod(BROKERS - 1), "127.0.9.7", 4) == 2


def test_an_observed_limit_counts_what_it_would_hold(shop: Shop) -> None:
    shop.apply(limited("what-if", {"cidr": "127.0.9.0/24"}, mode="Observe"))
    shop.await_condition("connectionquota", "what-if", "Ready", "True")
    assert served(shop.pod(0), "127.0.9.1", 5) == 5

    def counted() -> Json:
        observed = shop.quota("what-if")["status"].get("observed") or {}
        assert (observed.get("wouldHold"), observed.get("byCount")) == (3, 3), f"observed {observed}"
        return observed

    assert wait_for("the status counts it", counted, timeout_s=60)["brokers"] == f"{BROKERS}/{BROKERS}"
