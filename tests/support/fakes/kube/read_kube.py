"""An API server in memory for commands that only read: objects, documents by path, access reviews, and refusals."""

from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import format_datetime
from typing import Any

from sluicegate_operator.kube.http.errors import KubeError
from sluicegate_operator.kube.http.kinds import Kind
from tests.support.fakes.kube.memory_kube import MemoryKube

Json = dict[str, Any]


class ReadKube(MemoryKube):
    """Objects in memory, of which the user may not read some.

    - `documents`: the answers to reads by path.
    - `forbidden`: plurals that the user may neither read nor create.
    - `missing`: plurals that the API server does not serve.
    - `forbidden_everywhere`: plurals that the user may list in single namespaces only.
    - `status`: the status of the answer to a read of another path.
    - `denied`: verb and resource of rights that access reviews deny.
    """

    def __init__(self, *objects: Mapping[str, Any]) -> None:
        super().__init__(*objects)
        self.documents: dict[str, Json] = {}
        self.forbidden: set[str] = set()
        self.forbidden_everywhere: set[str] = set()
        self.missing: set[str] = set()
        self.denied: set[tuple[str, str]] = set()
        self.reviewed: list[Json] = []
        self.unavailable = ""
        self.status = 503
        self.date: str | None = None

    @property
    def server(self) -> "ReadKube":
        return self

    async def dated(self, path: str) -> tuple[Json, str]:
        if self.unavailable:
            raise KubeError(self.unavailable)
        now = datetime.now(UTC).replace(microsecond=0)
        return self.documents[path], format_datetime(now, usegmt=True) if self.date is None else self.date

    async def get(self, kind: Kind, namespace: str | None, name: str) -> Json | None:
        self._check(kind.plural)
        return await super().get(kind, namespace, name)

    async def list(
        self, kind: Kind, namespace: str | None, label_selector: str = "", *, field_selector: str = ""
    ) -> list[Json]:
        self._check(kind.plural)
        if namespace is None and kind.plural in self.forbidden_everywhere:
            raise KubeError(f"{kind.plural} is forbidden at the cluster scope", 403)
        parts = label_selector.split(",") if label_selector else []
        equal = ",".join(part for part in parts if "=" in part)
        found = await super().list(kind, namespace, equal, field_selector=field_selector)
        return [one for one in found if set(parts) <= {*equal.split(","), *(one["metadata"].get("labels") or {})}]

    async def read(self, path: str) -> Json | None:
        if path not in self.documents:
            raise KubeError(f"GET {path}: {self.status} no answer", self.status)
        return self.documents[path]

    async def create(self, kind: Kind, namespace: str, manifest: Mapping[str, Any]) -> Json:
        self._check(kind.plural)
        self.reviewed.append(dict(manifest["spec"]))
        asked = manifest["spec"]["resourceAttributes"]
        resource = "/".join(filter(None, (asked["resource"], asked.get("subresource"))))
        return {"status": {"allowed": (asked["verb"], resource) not in self.denied}}

    def _check(self, plural: str) -> None:
        if plural in self.forbidden:
            raise KubeError(f"{plural} is forbidden", 403)
        if plural in self.missing:
            raise KubeError(f"{plural}: 404 page not found", 404)

    def close(self) -> None:
        pass
