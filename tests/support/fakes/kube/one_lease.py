"""An API server in memory that stores one Lease."""

from typing import Any

from sluicegate_operator.kube.http.errors import KubeConflictError, KubeUnavailableError
from sluicegate_operator.kube.http.kinds import Kind


class OneLease:
    """The API server; with `away` it does not answer."""

    def __init__(self) -> None:
        self.lease: dict[str, Any] | None = None
        self.writes = self.reads = 0
        self.away = False

    async def get(self, kind: Kind, namespace: str, name: str) -> dict[str, Any] | None:
        self._answer()
        self.reads += 1
        return self.lease

    async def create(self, kind: Kind, namespace: str, manifest: dict[str, Any]) -> dict[str, Any]:
        return self._store(manifest)

    async def replace(self, kind: Kind, namespace: str, name: str, manifest: dict[str, Any]) -> dict[str, Any]:
        assert self.lease is not None
        if manifest["metadata"]["resourceVersion"] != self.lease["metadata"]["resourceVersion"]:
            raise KubeConflictError("changed")
        return self._store(manifest)

    def _store(self, manifest: dict[str, Any]) -> dict[str, Any]:
        self._answer()
        self.writes += 1
        self.lease = {**manifest, "metadata": {**manifest["metadata"], "resourceVersion": str(self.writes)}}
        return self.lease

    def _answer(self) -> None:
        if self.away:
            raise KubeUnavailableError("away")
