"""Racks of brokers in Kubernetes: the rack of each broker pod, from the label of its node. Pure.

A pod gets its rack once: its broker reads it at startup, so a changed node label has no effect before the pod is
replaced. A pod on a node without the label gets no rack, and waits.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from sluicegate_operator.planning.status.conditions import NOT_APPLIED, not_applied_words


@dataclass(frozen=True, slots=True)
class RackPod:
    """A broker's pod, with its rack.

    `rack`: the rack that the pod got. `node` is empty before the pod is scheduled; `failing` may have the cause.
    """

    name: str
    uid: str
    node: str = ""
    rack: str = ""
    failing: str = ""


@dataclass(frozen=True, slots=True)
class NodeLabels:
    """The result of reading a Kubernetes node's labels.

    `labels` is None if they could not be read; `unseen` says why. `may_pass`: the next attempt may be accepted.
    """

    labels: Mapping[str, str] | None
    unseen: str = ""
    may_pass: bool = False


@dataclass(frozen=True, slots=True)
class RackAssignment:
    """An assignment of a rack to a pod."""

    pod: RackPod
    rack: str

    @property
    def sentence(self) -> str:
        return f"{self.pod.name} is on node {self.pod.node}, which is in rack {self.rack}"


@dataclass(frozen=True, slots=True)
class RackWait:
    """The wait of a broker that cannot start without its rack. `needs_a_person`: waiting does not help."""

    pod: str
    reason: str
    message: str
    needs_a_person: bool = True
    pod_uid: str = ""


@dataclass(frozen=True, slots=True)
class RacksPlan:
    """The racks to assign to a cluster's pods, and the pods that must wait for theirs.

    `assign` is to be carried out; `known` counts the pods that have a rack.
    """

    known: int = 0
    assign: tuple[RackAssignment, ...] = ()
    waiting: tuple[RackWait, ...] = ()

    def with_refused(self, refused: Collection[RackWait]) -> "RacksPlan":
        """Return the plan after the API server has refused to annotate pods: their brokers wait."""
        pods = {wait.pod for wait in refused}
        assign = tuple(assignment for assignment in self.assign if assignment.pod.name not in pods)
        return replace(self, assign=assign, waiting=(*self.waiting, *refused))


def refused_assignment(assignment: RackAssignment, refusal: str, *, may_pass: bool) -> RackWait:
    """Return the wait of a broker whose pod the API server refuses to annotate.

    `refusal` is the API server's message. `may_pass`: the API server has refused for a minute, and may accept the next
    attempt.
    """
    pod = assignment.pod
    waits = f"{pod.name} waits for its rack {assignment.rack}"
    if may_pass:
        return RackWait(pod.name, NOT_APPLIED, f"{waits}: {not_applied_words(refusal)}", needs_a_person=False)
    sentence = (
        f"{waits}, because the API server refuses to annotate the pod: {refusal}; change the policy or the RBAC rule"
        " that refuses it"
    )
    return RackWait(pod.name, "RackRefused", sentence, pod_uid=pod.uid)


def nodes_to_read(pods: Sequence[RackPod]) -> list[str]:
    return sorted({pod.node for pod in pods if pod.node and not pod.rack})


def plan_racks(topology_key: str, pods: Sequence[RackPod], nodes: Mapping[str, NodeLabels]) -> RacksPlan:
    """Plan the racks of `pods`; `nodes` must contain those of `nodes_to_read`."""
    assign, waiting = [], []
    for pod in sorted(pods, key=lambda pod: pod.name):
        if pod.rack:
            continue
        if not pod.node:
            if pod.failing:
                sentence = (
                    f"{pod.name} is not scheduled yet, and only nodes with the label {topology_key} are suitable: "
                )
                waiting.append(
                    RackWait(pod.name, "NotScheduled", sentence + pod.failing, needs_a_person=False, pod_uid=pod.uid)
                )
            continue
        seen = nodes[pod.node]
        if seen.labels is None:
            sentence = f"{pod.name} waits for its rack: the labels of node {pod.node} cannot be read: {seen.unseen}"
            waiting.append(RackWait(pod.name, "NodeUnreadable", sentence, not seen.may_pass, pod.uid))
        elif rack := seen.labels.get(topology_key, ""):
            assign.append(RackAssignment(pod, rack))
        else:
            sentence = (
                f"{pod.name} waits for its rack: node {pod.node} has no label {topology_key}; label it"
                f" (kubectl label node {pod.node} {topology_key}=...), or correct brokers.rack.topologyKey"
            )
            waiting.append(RackWait(pod.name, "NodeLabelMissing", sentence))
    return RacksPlan(sum(bool(pod.rack) for pod in pods), tuple(assign), tuple(waiting))
