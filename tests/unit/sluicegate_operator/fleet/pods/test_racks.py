"""The pods that get a rack, and the meaning of an unreadable node."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from sluicegate_operator.fleet.pods.nodes import FORBIDDEN
from sluicegate_operator.fleet.pods.pods import NodePod
from sluicegate_operator.fleet.pods.racks import placed_brokers, rack_pods, read_labels
from sluicegate_operator.kube.http.errors import KubeError, KubeUnavailableError
from sluicegate_operator.planning.layout.cluster_layout import Role
from sluicegate_operator.planning.registrations.racks import NodeLabels, RackPod
from sluicegate_operator.resources.labels import RACK


class Api:
    """Answers with one node, or with an error."""

    def __init__(self, answer: dict[str, Any] | KubeError | None) -> None:
        self._answer = answer
        self.asked: list[str] = []

    async def get(self, kind: Any, namespace: str | None, name: str) -> dict[str, Any] | None:
        self.asked.append(kind.path(namespace, name))
        if isinstance(self._answer, KubeError):
            raise self._answer
        return self._answer


def read(answer: dict[str, Any] | KubeError | None) -> NodeLabels:
    api = Api(answer)
    labels = asyncio.run(read_labels(api, "n1"))  # type: ignore[arg-type]
    assert api.asked == ["/api/v1/nodes/n1"]
    return labels


def pod(ordinal: int, role: Role = Role.BROKER, *, deleting: bool = False, **annotations: str) -> NodePod:
    told = {RACK: annotations["rack"]} if annotations else {}
    return NodePod(
        f"p-{ordinal}", role, ordinal, "", ready=False, uid="u", deleting=deleting, node="n1", annotations=told
    )


def test_brokers_that_stay_are_told() -> None:
    assert rack_pods([pod(0, rack="a"), pod(1), pod(2, Role.CONTROLLER), pod(3, deleting=True)]) == [
        RackPod("p-0", "u", "n1", "a"),
        RackPod("p-1", "u", "n1", ""),
    ]


def test_brokers_are_on_a_node_unless_they_go() -> None:
    nowhere = replace(pod(4), node="")
    assert placed_brokers([pod(0), pod(2, Role.CONTROLLER), pod(3, deleting=True), nowhere]) == {0: "n1"}


def test_the_labels_of_a_node() -> None:
    assert read({"metadata": {"labels": {"zone": "a"}}}) == NodeLabels({"zone": "a"})
    assert read({"metadata": {}}) == NodeLabels({})


def test_a_node_that_cannot_be_read_is_named_and_only_a_silent_api_server_ends_the_look() -> None:
    assert read(KubeError("GET: 403 forbidden", 403)) == NodeLabels(None, FORBIDDEN)
    assert read(None) == NodeLabels(None, "the node does not exist any more")
    for status in (403, 500):
        passing = KubeError(f"GET nodes/n1: {status} for now", status, retriable=True)
        assert read(passing) == NodeLabels(None, f"GET nodes/n1: {status} for now", may_pass=True)
    with pytest.raises(KubeUnavailableError):
        read(KubeUnavailableError("no answer"))
