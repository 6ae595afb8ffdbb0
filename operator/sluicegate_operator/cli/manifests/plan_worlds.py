"""Where `sluicegate plan` reads the current state: a Kubernetes cluster (read only), `sluicegate up`, or files."""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sluicegate_operator.api import Manifests, load_manifests
from sluicegate_operator.api.manifests import InvalidManifest, read_stored
from sluicegate_operator.api.schema.metadata import DEFAULT_NAMESPACE, Resource
from sluicegate_operator.fleet.local.local_data import DataDirError, manifests_file, read_state
from sluicegate_operator.fleet.pods.running_nodes import running_nodes
from sluicegate_operator.kube.client.client import KubeClient
from sluicegate_operator.kube.http.errors import KubeError
from sluicegate_operator.kube.http.kinds import LEASE, USER_KINDS
from sluicegate_operator.planning.layout.preview_nodes import NodeKind
from sluicegate_operator.planning.registrations.operator_lease import DEFAULT_NAME, operator_silence
from sluicegate_operator.preview.manifests import World

FORBIDDEN = 403


class UnknownWorldError(Exception):
    """Error if the current state cannot be read, so that a change cannot be predicted.

    It has a sentence for each reason.
    """

    def __init__(self, sentences: Sequence[str]) -> None:
        super().__init__("; ".join(sentences))
        self.sentences = tuple(sentences)


def in_files(files: Sequence[Path], namespace: str) -> World:
    """Return the state that the manifests in files describe. Raises UnknownWorldError."""
    manifests = load_manifests(files, skip_others=True, namespace=namespace)
    if manifests.errors:
        raise UnknownWorldError([str(error) for error in manifests.errors])
    return World(manifests)


def in_up(data_dir: Path) -> World:
    """Return the state of `sluicegate up` in this folder, from its manifests. Raises UnknownWorldError."""
    try:
        read_state(data_dir)
    except DataDirError as error:
        raise UnknownWorldError([str(error)]) from None
    found = in_files([manifests_file(data_dir)], DEFAULT_NAMESPACE)
    return World(found.manifests, kind=NodeKind.PROCESS)


def in_kubernetes(wanted: Manifests, kubeconfig: str | None) -> World:
    """Return the state of the namespaces that `wanted` names, from the API server. Raises UnknownWorldError."""
    return asyncio.run(_read(wanted, kubeconfig))


async def _read(wanted: Manifests, kubeconfig: str | None) -> World:
    try:
        kube = KubeClient(kubeconfig, may_write=lambda: False)
    except KubeError as error:
        raise UnknownWorldError([f"{error}; or name files with --against"]) from None
    try:
        manifests = Manifests.of([_stored(body) for body in await bodies_there(kube, wanted)])
        nodes = {
            (cluster.namespace, cluster.name): found
            for cluster in manifests.clusters
            if cluster.spec.brokers is not None and (found := await running_nodes(kube, cluster)) is not None
        }
        silence = operator_silence(await _operator_leases(kube), datetime.now(UTC))
    except KubeError as error:
        raise UnknownWorldError([f"the objects in the Kubernetes cluster cannot be read: {error}"]) from None
    finally:
        kube.close()
    return World(manifests, nodes, operator_silence=silence)


async def _operator_leases(kube: KubeClient) -> list[dict[str, Any]]:
    """Return the Leases with the operator's name in all namespaces; none if the user may not read Leases."""
    try:
        return await kube.list(LEASE, None, field_selector=f"metadata.name={DEFAULT_NAME}")
    except KubeError as error:
        if error.status != FORBIDDEN:
            raise
        return []


async def bodies_there(kube: KubeClient, wanted: Manifests) -> list[dict[str, Any]]:
    """Return the existing objects in the namespaces of `wanted`.

    Raises UnknownWorldError if the API server does not know a wanted kind. Other kinds that it does not know have no
    objects.
    """
    namespaces = sorted({resource.namespace for resource in wanted.resources})
    kinds = {resource.kind for resource in wanted.resources}
    bodies: list[dict[str, Any]] = []
    unknown = []
    for kind in USER_KINDS:
        try:
            bodies += [body for namespace in namespaces for body in await kube.list(kind, namespace)]
        except KubeError as error:
            if error.status != 404:
                raise
            unknown.append(kind)
    if missing := sorted(kind.crd for kind in unknown if kind.kind in kinds):
        sentence = f"the Kubernetes cluster does not know {', '.join(missing)}: install the operator's CRDs first"
        raise UnknownWorldError([f"{sentence} (README.md, Install), or name files with --against"])
    return bodies


def _stored(body: dict[str, Any]) -> Resource:
    try:
        return read_stored(body)
    except InvalidManifest as error:
        meta = body["metadata"]
        name = f"{body['kind']} {meta['namespace']}/{meta['name']}"
        raise UnknownWorldError([f"{name} exists and cannot be read by this version: {error}"]) from None
