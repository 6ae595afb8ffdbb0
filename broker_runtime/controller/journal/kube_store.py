"""The store in a Kubernetes API server: ConfigMaps with binary data, and one coordination.k8s.io Lease.

Only the `kube_` modules of the broker runtime know Kubernetes. The account is the pod's (its token is read for each
request, because it is renewed), or KUBECONFIG's.

Batches and chunks are immutable ConfigMaps; the manifest is mutable. Each object has the label sluicegate.dev/journal
with the journal's name. An object with one of these names that lacks the label is neither read nor written. All objects
may have an owner: the API server's garbage collector deletes them when the owner is gone. It also deletes what a
controller that still runs writes after that.

Required rights: configmaps create, get, list, update, delete; leases create, get, update.
"""

import base64
import logging
import math
import os
import re
import socket
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import urllib3

from broker_runtime.controller.journal.kube_account import find_account
from broker_runtime.controller.journal.kube_requests import KubeRequests
from broker_runtime.controller.journal.store import LeaseRecord, Part, StoredObject, StoreRefusedError
from broker_runtime.errors import ConfigError

log = logging.getLogger(__name__)

_JOURNAL_LABEL = "sluicegate.dev/journal"
_PART_LABEL = "sluicegate.dev/journal-part"
_DURATION = "sluicegate.dev/lease-duration-ms"
_ADDRESS = "sluicegate.dev/holder-address"
_FIELD = "data"
_OWNER_FIELDS = ("apiVersion", "kind", "name", "uid")
_NAMES_ONLY = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
_EXISTS, _GONE = 409, 404


def owner_reference(text: str) -> dict[str, str]:
    """Parse an owner's `apiVersion/kind/name/uid`. Raises ConfigError.

    An owner that does not exist counts as deleted.
    """
    parts = text.rsplit("/", 3)
    if len(parts) != len(_OWNER_FIELDS) or not all(parts):
        raise ConfigError(f"sluicegate.controller.journal.owner={text}: apiVersion/kind/name/uid is expected")
    return dict(zip(_OWNER_FIELDS, parts, strict=True))


class KubeStore:
    """An object store of ConfigMaps whose names begin with `name`. Every method raises StoreError."""

    def __init__(
        self,
        name: str,
        namespace: str | None,
        lease_duration_s: float,
        environment: Mapping[str, str] | None = None,
        *,
        owner: str | None = None,
    ) -> None:
        """`name` is the Lease's and labels every object.

        `owner` is the object whose deletion deletes the journal. Raises ConfigError.
        """
        self._owners = [] if owner is None else [owner_reference(owner)]
        self._account = find_account(namespace, os.environ if environment is None else environment)
        self._name = name
        # Two attempts fit into the time that a lease is valid without a renewal.
        self._api = KubeRequests(self._account, max(0.2, lease_duration_s / 3))

    def own_host(self) -> str:
        """Return this machine's address on the route to the API server: in a pod, the pod's; empty without a route."""
        server = urllib3.util.parse_url(self._account.url)
        try:
            found = socket.getaddrinfo((server.host or "").strip("[]"), server.port or 443, type=socket.SOCK_DGRAM)
            family, kind, protocol, _, address = found[0]
            with socket.socket(family, kind, protocol) as way:
                # Connecting a UDP socket sends nothing.
                way.connect(address)
                return str(way.getsockname()[0])
        except OSError as error:
            log.warning("the API server %s cannot be reached yet: %s", self._account.url, error)
            return ""

    async def create(self, name: str, part: Part, data: bytes) -> bool:
        body = self._config_map(name, part, data)
        status, _ = await self._api.ask("POST", self._config_maps(), body, also=(_EXISTS,))
        return status != _EXISTS

    async def get(self, name: str) -> StoredObject | None:
        status, found = await self._api.ask("GET", self._config_maps(name), also=(_GONE,))
        return None if status == _GONE else _stored(self._own("ConfigMap", found))

    async def replace(self, name: str, part: Part, data: bytes, version: str) -> bool:
        body = self._config_map(name, part, data)
        body["metadata"]["resourceVersion"] = version
        status, _ = await self._api.ask("PUT", self._config_maps(name), body, also=(_EXISTS, _GONE))
        return status not in (_EXISTS, _GONE)

    async def list(self, part: Part) -> Sequence[StoredObject]:
        return [_stored(item) for item in await self._all(part)]

    async def names(self, part: Part) -> Sequence[str]:
        return [item["metadata"]["name"] for item in await self._all(part, _NAMES_ONLY)]

    async def delete(self, name: str) -> None:
        await self._api.ask("DELETE", self._config_maps(name), also=(_GONE,))

    async def lease(self) -> LeaseRecord | None:
        status, found = await self._api.ask("GET", self._leases(self._name), also=(_GONE,))
        return None if status == _GONE else lease_record(self._own("Lease", found))

    async def put_lease(self, lease: LeaseRecord) -> LeaseRecord | None:
        body = self._lease_body(lease)
        if lease.version:
            body["metadata"]["resourceVersion"] = lease.version
            status, found = await self._api.ask("PUT", self._leases(self._name), body, also=(_EXISTS, _GONE))
        else:
            status, found = await self._api.ask("POST", self._leases(), body, also=(_EXISTS,))
        return None if status in (_EXISTS, _GONE) else lease_record(found)

    async def close(self) -> None:
        self._api.close()

    def _own(self, kind: str, found: Any) -> Any:
        """Return `found`. Raises StoreRefusedError if it does not belong to this journal."""
        meta = found["metadata"]
        if (meta.get("labels") or {}).get(_JOURNAL_LABEL) == self._name:
            return found
        what_to_do = (
            "wait until it is gone, because it is being deleted" if "deletionTimestamp" in meta else "delete it"
        )
        raise StoreRefusedError(
            f"{kind} {meta['name']} exists but does not belong to this journal (it lacks the label "
            f"{_JOURNAL_LABEL}={self._name}), so it is not overwritten: {what_to_do}"
        )

    async def _all(self, part: Part, accept: str = "application/json") -> Sequence[Any]:
        return await self._api.list_all(
            self._config_maps(), f"{_JOURNAL_LABEL}={self._name},{_PART_LABEL}={part}", accept
        )

    def _config_maps(self, name: str = "") -> str:
        return f"/api/v1/namespaces/{self._account.namespace}/configmaps" + (f"/{name}" if name else "")

    def _leases(self, name: str = "") -> str:
        group = "/apis/coordination.k8s.io/v1"
        return f"{group}/namespaces/{self._account.namespace}/leases" + (f"/{name}" if name else "")

    def _config_map(self, name: str, part: Part, data: bytes) -> dict[str, Any]:
        return {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {
                "name": name,
                "labels": {_JOURNAL_LABEL: self._name, _PART_LABEL: part},
                "ownerReferences": self._owners,
            },
            "immutable": part != "manifest",
            "binaryData": {_FIELD: base64.b64encode(data).decode()},
        }

    def _lease_body(self, lease: LeaseRecord) -> dict[str, Any]:
        renewed = datetime.fromtimestamp(lease.renewed_ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        return {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {
                "name": self._name,
                "labels": {_JOURNAL_LABEL: self._name},
                "annotations": {_DURATION: str(lease.duration_ms), _ADDRESS: lease.address},
                "ownerReferences": self._owners,
            },
            "spec": {
                "holderIdentity": lease.holder,
                "leaseDurationSeconds": math.ceil(lease.duration_ms / 1000),
                "leaseTransitions": lease.transitions,
                "renewTime": renewed,
            },
        }


def _stored(item: Any) -> StoredObject:
    meta = item["metadata"]
    return StoredObject(
        meta["name"], base64.b64decode(item.get("binaryData", {}).get(_FIELD, "")), meta["resourceVersion"]
    )


def lease_record(item: Any) -> LeaseRecord:
    """Return the Lease in an answer of the API server.

    Another client may have changed its annotations. A duration that is not a positive number is that of the spec.
    """
    meta, spec = item["metadata"], item.get("spec") or {}
    duration_ms = (spec.get("leaseDurationSeconds") or 1) * 1000
    annotations = meta.get("annotations") or {}
    exact = annotations.get(_DURATION, "")
    if re.fullmatch("[0-9]{1,9}", exact) and 0 < int(exact) <= duration_ms:
        duration_ms = int(exact)
    return LeaseRecord(
        spec.get("holderIdentity") or "",
        duration_ms,
        spec.get("leaseTransitions") or 0,
        0,
        meta["resourceVersion"],
        annotations.get(_ADDRESS, ""),
    )
