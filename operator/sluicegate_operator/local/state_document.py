"""The content of state.json: every process and resource of a run, and the objects that are being deleted."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sluicegate_operator.api import Resource
from sluicegate_operator.api.queues import Queue
from sluicegate_operator.engine.context.progress import ClusterProgress
from sluicegate_operator.engine.context.snapshot import ClusterKey
from sluicegate_operator.fleet.local.local import LocalFleet
from sluicegate_operator.local.clusters import LocalClusters
from sluicegate_operator.local.context import LocalContext
from sluicegate_operator.local.objects import LocalObjects
from sluicegate_operator.local.secrets import LocalSecrets
from sluicegate_operator.local.state import cluster_row, progress_of, resource_row
from sluicegate_operator.planning.layout.cluster_layout import INTERNAL, Role
from sluicegate_operator.planning.layout.node_certificates import server_name
from sluicegate_operator.resources.secrets.cluster_secrets import nodes_secret_name

Work = tuple[Queue, ClusterKey]
"""One piece of work: a queue, and a key in it."""


@dataclass(slots=True)
class GoingObject:
    """A removed object, kept until the queues that it concerns have finished with it."""

    resource: Resource
    waits_for: set[Work]


class StateDocument:
    """The content of state.json, from the parts of a run. `going` are the objects that are being deleted."""

    def __init__(
        self,
        objects: LocalObjects,
        fleet: LocalFleet,
        clusters: LocalClusters,
        context: LocalContext,
        secrets: LocalSecrets,
    ) -> None:
        self._objects = objects
        self._fleet = fleet
        self._clusters = clusters
        self._context = context
        self._secrets = secrets
        self.going: list[GoingObject] = []

    def settle(self, work: Work) -> bool:
        """Record that a queue has finished with a key. Return whether this was the last work about a deleted object."""
        before = len(self.going)
        for going in self.going:
            going.waits_for.discard(work)
        self.going = [going for going in self.going if going.waits_for]
        return len(self.going) < before

    def addresses(self, name: str, folder: Path) -> Iterator[str]:
        """Yield lines for the user about a cluster's nodes and its folder; none without nodes."""
        nodes = self._fleet.describe(name)
        if not nodes:
            return
        yield f"cluster {name}, files in {folder}"
        for node in nodes:
            shown = [f"{key} {at}" for key, at in node["listeners"].items() if key != INTERNAL]
            yield f"  {node['role']} {node['id']}, pid {node['pid']}: {', '.join(shown)}, http://{node['http']}/metrics"

    def _security(self, key: ClusterKey) -> dict[str, str] | None:
        """Return the folder of the certificate for the listener INTERNAL, and the name in the brokers' certificates."""
        cluster = self._objects.snapshot(key, ()).cluster
        if cluster is None or cluster.spec.cluster_ca is None:
            return None
        secret = self._secrets.path(key[0], nodes_secret_name(key[1]))
        return {"secret": str(secret), "server_name": server_name(cluster, Role.BROKER)}

    def document(self, last_change: dict[str, Any] | None) -> dict[str, Any]:
        """Return the content of state.json for `sluicegate status`. `last_change` is the last change of limits."""
        clusters: dict[str, Any] = {}
        external = self._clusters.external
        for key in {*self._clusters.chosen, *self._context.running}:
            found = self._context.progress.get(key) or ClusterProgress()
            progress = {} if key in external else progress_of(found)
            nodes = self._fleet.describe(key[1])
            clusters[key[1]] = {"nodes": nodes, "resources": [], "progress": progress}
            if (brokers := external.get(key)) is not None:
                clusters[key[1]]["external"] = [f"{broker.host}:{broker.port}" for broker in brokers]
            elif (told := self._security(key)) is not None:
                clusters[key[1]]["security"] = told
            if key in self._clusters.chosen and key not in external:
                clusters[key[1]]["resources"].append(cluster_row(key[1], nodes, progress))
        shown_by_nodes = self._clusters.chosen - external.keys()
        for resource in self._objects.resources:
            if resource.kind != "BrokerCluster" or (resource.namespace, resource.name) not in shown_by_nodes:
                _rows(clusters, resource).append(resource_row(resource))
        for going in self.going:
            row = {"kind": going.resource.kind, "name": going.resource.name}
            _rows(clusters, going.resource).append({**row, "ready": False, "message": "it is being deleted"})
        return {"pid": os.getpid(), "clusters": clusters, "last_change": last_change}


def _rows(clusters: dict[str, Any], resource: Resource) -> list[dict[str, Any]]:
    nobody: dict[str, Any] = {"nodes": [], "resources": [], "progress": {}}
    rows: list[dict[str, Any]] = clusters.setdefault(resource.cluster_name, nobody)["resources"]
    return rows
