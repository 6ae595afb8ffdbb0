"""Secrets in memory, behind the methods of the engine's SecretStore. A name of another owner is refused."""

import base64
from collections.abc import Mapping
from itertools import count
from typing import Any

from sluicegate_operator.engine.context.context import StoredSecret
from sluicegate_operator.kube.http.errors import KubeError, NameTakenError


class MemorySecrets:
    """A SecretStore in memory, by name. `denied`: the API server refuses everything."""

    def __init__(self) -> None:
        self.stored: dict[str, StoredSecret] = {}
        self.denied = False
        self.written: list[str] = []
        """Names in the order of their writes."""
        self._versions = count(1)

    async def find_secret(self, child: Mapping[str, Any]) -> StoredSecret | None:
        self._check()
        name, [owner] = child["metadata"]["name"], child["metadata"]["ownerReferences"]
        found = self.stored.get(name)
        if found is not None and found.owner not in ("", owner["uid"]):
            raise NameTakenError(f"a Secret {name} that does not belong to the operator exists")
        return found

    async def read_secret(self, namespace: str, name: str) -> Mapping[str, bytes] | None:
        self._check()
        found = self.stored.get(name)
        return None if found is None else found.data

    async def apply_secret(self, manifest: Mapping[str, Any]) -> StoredSecret:
        await self.find_secret(manifest)
        meta = manifest["metadata"]
        data = {key: base64.b64decode(value) for key, value in manifest["data"].items()}
        [owner] = meta["ownerReferences"]
        found = StoredSecret(data, str(next(self._versions)), meta.get("annotations", {}), owner["uid"])
        self.stored[meta["name"]] = found
        self.written.append(meta["name"])
        return found

    def put(self, name: str, owner: str = "", **data: str) -> None:
        """Store a Secret of another client."""
        values = {key.replace("_", "."): value.encode() for key, value in data.items()}
        self.stored[name] = StoredSecret(values, str(next(self._versions)), {}, owner)

    def _check(self) -> None:
        if self.denied:
            raise KubeError("secrets is forbidden", 403)
