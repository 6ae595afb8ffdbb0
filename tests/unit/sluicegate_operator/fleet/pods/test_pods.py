"""The pods that are nodes, their addresses, and what they tell about their Kubernetes node."""

from typing import Any

import pytest

from sluicegate_operator.fleet.base import BrokerAddress
from sluicegate_operator.fleet.pods.pods import NodePod, node_pod
from sluicegate_operator.planning.layout.cluster_layout import Role
from sluicegate_operator.planning.registrations.fencing import ContainerEnd
from sluicegate_operator.planning.rolls.pod_failures import why_missing, why_unbound
from sluicegate_operator.planning.rolls.start_failures import StartFailure
from sluicegate_operator.resources.labels import READINESS_GATE, ROLE_LABEL


def pod(name: str = "shop-brokers-2", role: str | None = "broker", **status: Any) -> dict[str, Any]:
    labels = {ROLE_LABEL: role} if role else {}
    spec = {"readinessGates": [{"conditionType": READINESS_GATE}]} if role == "broker" else {}
    return {"metadata": {"name": name, "labels": labels}, "spec": spec, "status": status}


def conditions(**statuses: str) -> list[dict[str, str]]:
    named = {"gate": READINESS_GATE}
    return [{"type": named.get(kind, kind), "status": status} for kind, status in statuses.items()]


def node(manifest: dict[str, Any]) -> NodePod:
    found = node_pod(manifest)
    assert found is not None
    return found


def test_a_ready_broker_answers_at_its_pods_address() -> None:
    broker = node(pod(podIP="10.1.2.3", conditions=conditions(Ready="True")))
    assert (broker.role, broker.ordinal, broker.node_id, broker.ready) == (Role.BROKER, 2, 2, True)
    assert broker.address == BrokerAddress(2, "10.1.2.3", 9091)


def test_a_broker_without_an_address_and_a_controller_cannot_be_asked() -> None:
    controller = node(pod("shop-controllers-1", "controller", podIP="10.1.2.4"))
    assert controller.node_id == 1001
    assert controller.address is None
    assert node(pod()).address is None


def test_a_pod_names_the_node_that_it_was_put_on() -> None:
    manifest = pod()
    assert node(manifest).node == ""
    assert node({**manifest, "spec": {"nodeName": "n1"}}).node == "n1"


@pytest.mark.parametrize(
    "stranger", [pod(role=None), pod(role="web"), pod(name="shop-brokers"), pod(phase="Failed", podIP="10.1.2.3")]
)
def test_other_pods_and_those_that_have_failed_are_no_nodes(stranger: dict[str, Any]) -> None:
    assert node_pod(stranger) is None


def test_a_terminating_pod_is_listed_without_an_address_to_connect_to() -> None:
    going = pod(podIP="10.1.2.3")
    going["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    broker = node(going)
    assert broker.deleting
    assert broker.host == "10.1.2.3", "its session is that of this pod until the pod is gone"
    assert broker.address is None


@pytest.mark.parametrize(
    ("status", "lost"),
    [
        ({"conditions": conditions(Ready="True", ContainersReady="True", gate="True")}, False),
        # A live kubelet clears Ready only for one of these reasons.
        ({"conditions": conditions(Ready="False", ContainersReady="False", gate="True")}, False),
        ({"conditions": conditions(Ready="False", ContainersReady="True", gate="False")}, False),
        ({"conditions": conditions(Ready="False", ContainersReady="True")}, False),
        ({"conditions": conditions(ContainersReady="True", gate="True")}, False),
        ({"conditions": conditions(Ready="False", ContainersReady="True", gate="True")}, True),
        ({"phase": "Unknown"}, True),
        ({"reason": "NodeLost"}, True),
        (
            {"conditions": [{"type": "DisruptionTarget", "status": "True", "reason": "DeletionByTaintManager"}]},
            True,
        ),
        ({"conditions": [{"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}]}, False),
    ],
)
def test_a_lost_node_is_recognized_by_a_status_that_kubelet_does_not_write(status: dict[str, Any], lost: bool) -> None:
    assert node(pod(**status)).node_lost is lost


def waiting(reason: str, message: str = "") -> dict[str, Any]:
    return {"name": "broker", "state": {"waiting": {"reason": reason, "message": message}}}


@pytest.mark.parametrize(
    ("status", "failing"),
    [
        ({"containerStatuses": [waiting("ContainerCreating")]}, ""),
        ({"containerStatuses": [waiting("PodInitializing")]}, ""),
        ({"containerStatuses": [waiting("CrashLoopBackOff", "exit code 2")]}, "CrashLoopBackOff: exit code 2"),
        ({"containerStatuses": [waiting("ImagePullBackOff")]}, "ImagePullBackOff"),
        (
            {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "full"}]},
            "Unschedulable: full",
        ),
    ],
)
def test_a_pod_that_does_not_start_by_waiting_says_why(status: dict[str, Any], failing: str) -> None:
    assert node(pod(**status)).failing == failing


CRASHED = {"exitCode": 2, "message": "2026-01-01 INFO starts\nconfiguration: num.partitions: abc is no number\n"}


def test_a_crash_loop_is_told_in_the_nodes_own_last_words() -> None:
    loop = {**waiting("CrashLoopBackOff", "back-off 40s"), "lastState": {"terminated": CRASHED}}
    assert node(pod(containerStatuses=[loop])).failing == (
        "CrashLoopBackOff: configuration: num.partitions: abc is no number"
    )
    silent = {**loop, "lastState": {"terminated": {"exitCode": 137}}}
    assert node(pod(containerStatuses=[silent])).failing == (
        "CrashLoopBackOff: container broker ended with exit code 137 (Error)"
    )
    ended_well = {**loop, "lastState": {"terminated": {"exitCode": 0}}}
    assert node(pod(containerStatuses=[ended_well])).failing == "CrashLoopBackOff: back-off 40s"


def test_a_container_without_memory_says_so_and_not_its_last_words() -> None:
    end = {"exitCode": 137, "reason": "OOMKilled", "message": "INFO starts"}
    loop = {**waiting("CrashLoopBackOff", "back-off 40s"), "lastState": {"terminated": end}}
    failure = node(pod(containerStatuses=[loop])).failure
    assert failure == StartFailure(
        "OOMKilled",
        "container broker was killed with exit code 137, because it needs more memory than its limit",
        "broker",
    )


def claim(class_name: str = "nope") -> dict[str, Any]:
    return {"metadata": {"name": "data-shop-brokers-0"}, "spec": {"storageClassName": class_name}}


def claim_event(reason: str, message: str, at: str = "2026-01-01T00:00:00Z") -> dict[str, Any]:
    return {"reason": reason, "message": message, "lastTimestamp": at}


@pytest.mark.parametrize(
    ("class_name", "event", "reason", "todo"),
    [
        (
            "nope",
            claim_event("ProvisioningFailed", 'storageclass.storage.k8s.io "nope" not found'),
            "StorageClassMissing",
            "create StorageClass nope, or create a new BrokerCluster with another storage.storageClassName",
        ),
        (
            "",
            claim_event("FailedBinding", "no persistent volumes available for this claim and no storage class is set"),
            "StorageClassMissing",
            "create a default StorageClass",
        ),
        ("fast", claim_event("ProvisioningFailed", "rpc error: no room"), "ProvisioningFailed", "rpc error: no room"),
    ],
)
def test_a_claim_without_a_volume_says_why(class_name: str, event: dict[str, Any], reason: str, todo: str) -> None:
    waits = claim_event("WaitForFirstConsumer", "waiting for first consumer", "2026-01-01T00:00:09Z")
    failure = why_unbound(claim(class_name), [event, waits])
    assert failure is not None
    assert failure.reason == reason
    assert failure.message.startswith("volume claim data-shop-brokers-0 has no volume: ")
    assert todo in failure.message
    assert why_unbound(claim(class_name), [waits]) is None


REFUSED = 'pods "shop-brokers-1" is forbidden: exceeded quota: small'


def event(second: int, reason: str, message: str) -> dict[str, Any]:
    return {"reason": reason, "message": message, "lastTimestamp": f"2026-01-01T00:00:{second:02}Z"}


@pytest.mark.parametrize(
    ("events", "why"),
    [
        ([], None),
        (
            [
                event(
                    1, "FailedCreate", f"create Pod shop-brokers-1 in StatefulSet shop-brokers failed error: {REFUSED}"
                )
            ],
            REFUSED,
        ),
        (
            [
                event(
                    1, "FailedCreate", f"create Pod shop-brokers-1 in StatefulSet shop-brokers failed error: {REFUSED}"
                ),
                event(9, "SuccessfulCreate", "create Pod shop-brokers-1 in StatefulSet shop-brokers successful"),
            ],
            None,
        ),
        (
            [
                event(
                    3, "FailedCreate", f"create Pod shop-brokers-1 in StatefulSet shop-brokers failed error: {REFUSED}"
                ),
                event(9, "SuccessfulCreate", "create Pod shop-brokers-0 in StatefulSet shop-brokers successful"),
            ],
            REFUSED,
        ),
        (
            [
                event(
                    1,
                    "FailedCreate",
                    "create Claim data-shop-brokers-1 Pod shop-brokers-1 in StatefulSet shop-brokers failed error: no",
                )
            ],
            "no",
        ),
    ],
    ids=["nothing is told", "refused", "refused before", "another pod was made", "its claim is refused"],
)
def test_why_a_statefulset_has_no_such_pod(events: list[dict[str, Any]], why: str | None) -> None:
    found = why_missing("shop-brokers-1", events)
    assert found == (StartFailure("FailedCreate", why) if why else None)


def container(name: str = "broker", last: Any = None, **state: Any) -> dict[str, Any]:
    return {"name": name, "state": state, "lastState": {"terminated": last} if last else {}}


def end(second: int, **fields: Any) -> dict[str, Any]:
    fields = {"reason": "Error", "exitCode": 137} | fields
    return fields | {"startedAt": "2026-01-01T00:00:00Z", "finishedAt": f"2026-01-01T00:00:{second:02}Z"}


def ended(second: int, how: str = "Error, exit code 137") -> ContainerEnd:
    return ContainerEnd(1_767_225_600_000 + second * 1000, how)


RUNS = {"startedAt": "2026-01-01T00:00:07Z"}


@pytest.mark.parametrize(
    ("statuses", "found"),
    [
        ([], None),
        ([container(running=RUNS)], None),
        ([container(waiting={"reason": "ContainerCreating"})], None),
        ([container(terminated=end(5))], ended(5)),
        ([container(terminated=end(5, reason="OOMKilled"))], ended(5, "OOMKilled, exit code 137")),
        ([container(last=end(2), terminated=end(5))], ended(5)),
        ([container(last=end(5), waiting={"reason": "CrashLoopBackOff"})], ended(5)),
        ([container(last=end(5), running=RUNS)], ended(5)),
        ([container(last=end(7), running=RUNS)], ended(7)),
        # The host's clock was set back before the next start.
        ([container(last=end(8), running=RUNS)], None),
        # A kubelet that has lost a container knows no time.
        ([container(last=end(5, reason="ContainerStatusUnknown") | {"finishedAt": None}, running=RUNS)], None),
        # Containers beside the broker may start and end.
        ([container("proxy", terminated=end(5)), container(running=RUNS)], None),
        ([container("controller", terminated=end(5))], None),
    ],
)
def test_when_the_brokers_own_container_last_ended(statuses: list[dict[str, Any]], found: ContainerEnd | None) -> None:
    assert node(pod(containerStatuses=statuses)).ended == found
