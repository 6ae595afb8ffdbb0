"""The remembered fields of any pod."""

from typing import Any

import pytest

from sluicegate_operator.fleet.pods.workload_pods import trimmed, workload_pod
from sluicegate_operator.planning.limits.pod_index import WorkloadPod


def a_pod(phase: str = "Running", **status: Any) -> dict[str, Any]:
    return {
        "metadata": {
            "uid": "u",
            "namespace": "shop",
            "name": "web-0",
            "labels": {"app": "web"},
            "annotations": {"much": "text" * 1000},
            "managedFields": [{"manager": "kubelet"}],
            "creationTimestamp": "2026-01-01T00:00:00Z",
        },
        "spec": {"containers": [{"name": "web", "image": "web"}]},
        "status": {"phase": phase, "startTime": "2026-01-01T00:00:01Z", "containerStatuses": [{}]} | status,
    }


def test_a_pod_has_all_its_addresses_in_one_form() -> None:
    ips = [{"ip": "10.0.0.7"}, {"ip": "2001:DB8::7"}]
    pod = a_pod(podIP="10.0.0.7", podIPs=ips)
    assert workload_pod(pod) == WorkloadPod(
        "u", "shop", "web-0", {"app": "web"}, ("10.0.0.7", "2001:db8::7"), started="2026-01-01T00:00:01Z"
    )


def test_a_pod_that_waits_for_a_node_has_no_address() -> None:
    pod = a_pod("Pending")
    del pod["status"]["startTime"]
    found = workload_pod(pod)
    assert found is not None
    assert found.addresses == ()
    assert found.started == "2026-01-01T00:00:00Z"


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_pod_that_has_ended_is_none(phase: str) -> None:
    assert workload_pod(a_pod(phase, podIP="10.0.0.7")) is None


def test_a_terminating_pod_keeps_its_address() -> None:
    pod = a_pod(podIP="10.0.0.7")
    pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:01:00Z"
    found = workload_pod(pod)
    assert found is not None
    assert (found.leaving, found.addresses) == (True, ("10.0.0.7",))


def test_a_trimmed_pod_says_the_same_and_is_small() -> None:
    for pod in (a_pod(podIP="10.0.0.7"), a_pod(podIPs=[{"ip": "10.0.0.7"}]), a_pod("Pending"), a_pod("Failed")):
        pod["spec"]["hostNetwork"] = True
        assert workload_pod(trimmed(pod)) == workload_pod(pod)
        assert len(str(trimmed(pod))) < 500
