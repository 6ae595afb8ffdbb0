"""The operator over an API server in memory, with objects of other clients that have the names of its children.

`MADE` has every object that the operator makes for the objects below, found by reconciling: a new kind of child needs
no line here.
"""

import asyncio
import base64
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import pytest

from sluicegate_operator.api import BrokerCluster, parse_resource
from sluicegate_operator.fleet.kafka.controllers import ControllerView
from sluicegate_operator.handlers.context import Context
from sluicegate_operator.handlers.term import reconcilers
from sluicegate_operator.kube.http.kinds import EVENT
from sluicegate_operator.planning.registrations.overview import BrokerOverview, BrokerState, ClusterOverview
from sluicegate_operator.resources.labels import labels
from sluicegate_operator.settings import read_settings
from tests.support.fakes.kube.memory_kube import MemoryKube
from tests.support.manifests.bad_manifests import Json, cluster, listener, observer, quota, topic
from tests.support.manifests.pipeline_manifests import SPARK, pipeline
from tests.support.manifests.user_manifests import kafka_user
from tests.support.processes.authority import TestAuthority

KEY = ("default", "shop")
NOW = datetime(2026, 1, 1, 20, 0, 5, tzinfo=UTC)
"""The names of runs have the hour: cases that were found in one hour are also tested in it."""
ROUNDS = 2
LANDING = {"landing": {"claimName": "audit"}}
BORN = {"uid": "of-the-shop", "creationTimestamp": "2026-01-01T00:00:00Z"}


def shop(**spec: Any) -> Json:
    code = {"allowConfigMapCode": True}
    return born(cluster(controllers={"replicas": 3}, audit=LANDING, observers=code, **spec), "of-the-shop")


def born(document: Json, uid: str) -> Json:
    return document | {"metadata": document["metadata"] | BORN | {"uid": uid}}


PEOPLES = (
    shop(),
    born(listener(exposure="NodePort"), "of-the-listener"),
    quota(),
    topic(),
    observer(),
    born(kafka_user(), "of-alice"),
    born(pipeline("by-job"), "of-by-job"),
    born(pipeline("by-apache", **SPARK, results={"uri": "s3://answers/a"}), "of-by-apache"),
    born(
        pipeline("by-kubeflow", **SPARK | {"sparkOperator": "kubeflow"}, results={"uri": "s3://answers/k"}),
        "of-by-kubeflow",
    ),
)
_AUTHORITY = TestAuthority()
_PAIR = _AUTHORITY.issue("shop")
_PEM = {"tls.crt": _PAIR.certificate, "tls.key": _PAIR.key, "ca.crt": _AUTHORITY.pem}
SECURED = (
    shop(clusterCa={}),
    born(listener(exposure="NodePort", tls={"secretName": "shop-tls"}), "of-the-listener"),
    {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "shop-tls"},
        "data": {name: base64.b64encode(pem.encode()).decode() for name, pem in _PEM.items()},
    },
)


def brokers_online(count: int) -> ControllerView:
    brokers = tuple(BrokerOverview(i, 7, "i", BrokerState.ONLINE, host="h") for i in range(count))
    return ControllerView(ClusterOverview("id", 1000, 1, 9, brokers))


class World:
    """The operator over an API server in memory, with a controller that reports all brokers as online."""

    def __init__(self, *others: Json, secured: bool = False) -> None:
        """`secured`: with TLS between nodes and for clients, which has Secrets and takes longer."""
        self.kube = MemoryKube(*PEOPLES, *(SECURED if secured else ()), *others)
        settings = read_settings({"SLUICEGATE_SETTLE_SECONDS": "0"}, None, None, None)
        self._context = Context(self.kube, settings)  # type: ignore[arg-type]
        self._context.mark = lambda queue, key: None
        self.view = brokers_online(3)
        self.conflicts: tuple[type[Exception], ...] = ()
        """Errors after which a queue tries again, while the others continue."""
        self._reconcilers = reconcilers(self._context, settings)

    async def settle(self) -> None:
        async def view(*_: object) -> ControllerView:
            return self.view

        with pytest.MonkeyPatch.context() as patched:
            patched.setattr("sluicegate_operator.fleet.kubernetes.kubernetes.controller_view", view)
            patched.setattr("sluicegate_operator.planning.rolls.start_failures.LASTING_S", 0.0)
            patched.setattr("sluicegate_operator.handlers.reconcilers.pipelines.now", lambda: NOW)
            for _ in range(ROUNDS):
                for reconcile in self._reconcilers.values():
                    with suppress(*self.conflicts):
                        await reconcile(KEY)

    async def close(self) -> None:
        await self._context.aclose()

    def depart(self) -> None:
        """Note the deletion of the cluster as the watch does."""
        gone = parse_resource(self.kube.take("BrokerCluster", "shop"))
        assert isinstance(gone, BrokerCluster)
        self._context.departed[KEY] = {gone.metadata.uid: gone}

    def said(self, name: str) -> list[str]:
        """Reasons of conditions and Events that name the object."""
        return [reason for reason, message in self.told() if name in message]

    def told(self) -> list[tuple[str, str]]:
        """Reason and message of all conditions and Events of the namespace."""
        found = []
        for item in (one for key, one in self.kube.objects.items() if key[1] == KEY[0]):
            conditions = (item.get("status") or {}).get("conditions") or ()
            found += [(one["reason"], one["message"]) for one in conditions]
            if item["kind"] == EVENT.kind:
                found.append((item["reason"], item["message"]))
        return found


async def made(*, secured: bool) -> list[tuple[str, str, str]]:
    """apiVersion, kind and name of every object that is made, and of the pods that StatefulSets make."""
    world = World(secured=secured)
    before = set(world.kube.objects)
    await world.settle()
    await world.close()
    made = [world.kube.objects[key] for key in world.kube.objects.keys() - before if key[0] != EVENT.kind]
    sets = [item for item in made if item["kind"] == "StatefulSet"]
    pods = [("v1", "Pod", f"{item['metadata']['name']}-0") for item in sets]
    return sorted([(item["apiVersion"], item["kind"], item["metadata"]["name"]) for item in made] + pods)


SECRETS = [case for case in asyncio.run(made(secured=True)) if case[1] == "Secret"]
MADE = sorted({*asyncio.run(made(secured=False)), *SECRETS})
ANOTHERS = [{"apiVersion": "example.org/v1", "kind": "Other", "name": "other", "uid": "x", "controller": True}]
EARLIER = {
    "apiVersion": "sluicegate.dev/v1alpha1",
    "kind": "BrokerCluster",
    "name": "shop",
    "uid": "gone",
    "controller": True,
}
MARKS: dict[str, Json] = {
    "unmarked": {"labels": {"mine": "yes"}},
    "controlled by another": {"labels": labels("shop"), "ownerReferences": ANOTHERS},
    "of another cluster": {"labels": labels("another")},
    "of an earlier cluster, unmarked": {"ownerReferences": [EARLIER]},
    "of an owner of another group": {
        "labels": labels("shop"),
        "ownerReferences": [EARLIER | {"apiVersion": "example.org/v1"}],
    },
}


async def change_and_delete(world: World) -> None:
    """Make changes that delete children: other numbers, disabled fields, and the end of their owners."""
    world.kube.put(shop(storage={"deleteClaims": True}, networkPolicies=False, brokers=_brokers(2)))
    world.kube.put(born(listener(exposure="ClusterIP"), "of-the-listener"))
    world.view = brokers_online(2)
    await world.settle()
    world.depart()
    for item in PEOPLES:
        world.kube.remove(item["kind"], item["metadata"]["name"])
    await world.settle()


def _brokers(replicas: int) -> Json:
    return {"replicas": replicas, "storage": {"size": "20Gi"}}
