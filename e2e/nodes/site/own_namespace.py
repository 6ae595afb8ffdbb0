"""A namespace with a small cluster beside the quickstart, with Kubernetes' restricted profile."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from e2e.cluster.waiting import wait_for
from e2e.clusters.test_cluster_life import MINI, a_cluster, document, listener
from e2e.nodes.site.kube import Kube
from e2e.world.shop import READY_TIMEOUT_S, Json, condition_of

GONE_TIMEOUT_S = 120
"""Kubernetes waits for half of the grace period of pods, 30 s for brokers, before it checks again."""


@dataclass(frozen=True, slots=True)
class OwnNamespace:
    kube: Kube
    name: str

    def kubectl(self, *arguments: str, input: str | None = None) -> str:
        return self.kube.kubectl("-n", self.name, *arguments, input=input)

    def items(self, kinds: str, *arguments: str) -> list[Json]:
        found: list[Json] = self.kube.get(kinds, "-n", self.name, *arguments)["items"]
        return found

    def apply(self, *documents: Json) -> None:
        listed = {"apiVersion": "v1", "kind": "List", "items": list(documents)}
        self.kubectl("apply", "-f", "-", input=json.dumps(listed))

    def condition(self, kind: str, name: str, type_: str) -> Json:
        return condition_of(self.kube.get(kind, name, "-n", self.name), type_)

    def await_ready(self, kinds: str = "bc,bl,cq,topic") -> None:
        def look() -> bool:
            unready = [one for one in self.items(kinds) if condition_of(one, "Ready").get("status") != "True"]
            said = {one["metadata"]["name"]: condition_of(one, "Ready").get("message") for one in unready}
            assert not unready, str(said)
            return True

        wait_for(f"all of {self.name} is ready", look, timeout_s=READY_TIMEOUT_S, interval_s=0.3)

    def delete(self) -> None:
        """Delete the namespace and wait. Raises KubectlError if it is not deleted in time."""
        self.kube.kubectl("delete", "namespace", self.name, f"--timeout={GONE_TIMEOUT_S}s", "--ignore-not-found")


@contextmanager
def own_namespace(kube: Kube, name: str) -> Iterator[OwnNamespace]:
    made = OwnNamespace(kube, name)
    made.delete()
    kube.kubectl("create", "namespace", name)
    kube.kubectl("label", "namespace", name, "pod-security.kubernetes.io/enforce=restricted")
    try:
        yield made
    finally:
        # Kubernetes waits for the pods' grace period; the tests do not.
        kube.kubectl("delete", "namespace", name, "--wait=false", "--ignore-not-found")


def small_cluster(**spec: object) -> list[Json]:
    """Return one broker and one controller, with one object of each kind that may refer to them."""
    reference = {"clusterRef": {"name": MINI}}
    return [
        a_cluster(**spec),
        listener("CLIENTS", 9095),
        document("ConnectionQuota", "rate", {**reference, "target": {"broker": {}}, "maxConnectionCreationRate": 90}),
        document("Topic", "gone", {**reference, "partitions": 1, "replicas": 1, "deletionPolicy": "Delete"}),
    ]
