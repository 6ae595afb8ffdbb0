"""The store in a Kubernetes API server: ConfigMaps with binary data, and one coordination.k8s.io Lease.

The only module of the broker runtime that knows Kubernetes. It speaks plain HTTP with urllib3 in its own threads, each
request bounded in time. The account is the pod's (its token is read each time, as it is renewed), or KUBECONFIG's.
Batches and chunks are immutable ConfigMaps; the manifest is not. All of it may have an owner: the API server's garbage
collector deletes it when the owner is gone, also what a controller that still runs writes after that.
Rights needed: configmaps create, get, list, update, delete; leases create, get, update.
"""

import asyncio
import base64
import json
import logging
import math
import os
import socket
import ssl
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

import urllib3

from broker_runtime.controller.journal.store import LeaseRecord, Part, StoredObject, StoreError, StoreRefusedError
from broker_runtime.errors import ConfigError

log = logging.getLogger(__name__)

_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_JOURNAL_LABEL = "sluicegate.dev/journal"
_PART_LABEL = "sluicegate.dev/journal-part"
_DURATION = "sluicegate.dev/lease-duration-ms"
_ADDRESS = "sluicegate.dev/holder-address"
_FIELD = "data"
_OWNER_FIELDS = ("apiVersion", "kind", "name", "uid")
_NAMES_ONLY = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
_PAGE = 50
_THREADS = 4
_EXISTS, _GONE = 409, 404
_REFUSED = (401, 403)


@dataclass(frozen=True, slots=True)
class Account:
    """Where the API server is and who we are there."""

    url: str
    namespace: str
    certificate_file: str | None
    certificate: str | None
    token: Callable[[], str]


def find_account(namespace: str | None, environment: Mapping[str, str]) -> Account:
    """KUBECONFIG, else the pod's service account; raises ConfigError."""
    path = environment.get("KUBECONFIG")
    if path:
        return _from_kubeconfig(Path(path), namespace)
    host, port = environment.get("KUBERNETES_SERVICE_HOST"), environment.get("KUBERNETES_SERVICE_PORT", "443")
    folder = Path(environment.get("SLUICEGATE_SERVICE_ACCOUNT_FOLDER", str(_ACCOUNT)))
    if not host or not (folder / "token").exists():
        raise ConfigError(
            "sluicegate.controller.journal=kubernetes needs an API server: run in a pod with a service account, or set "
            "KUBECONFIG"
        )
    return Account(
        f"https://{f'[{host}]' if ':' in host else host}:{port}",
        namespace or (folder / "namespace").read_text().strip(),
        str(folder / "ca.crt"),
        None,
        lambda: (folder / "token").read_text().strip(),
    )


def _from_kubeconfig(path: Path, namespace: str | None) -> Account:
    try:
        document = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise ConfigError(f"KUBECONFIG={path} must be a kubeconfig in JSON: {error}") from error
    try:
        by_name = {c["name"]: c["context"] for c in document["contexts"]}
        context = by_name[document["current-context"]]
        cluster = next(c["cluster"] for c in document["clusters"] if c["name"] == context["cluster"])
        user = next(u["user"] for u in document["users"] if u["name"] == context["user"])
        token = user["token"]
    except (KeyError, StopIteration) as error:
        raise ConfigError(f"KUBECONFIG={path}: {error} is missing; only tokens are supported") from error
    inline = cluster.get("certificate-authority-data")
    return Account(
        cluster["server"],
        namespace or context.get("namespace", "default"),
        cluster.get("certificate-authority"),
        None if inline is None else base64.b64decode(inline).decode(),
        lambda: str(token),
    )


def owner_reference(text: str) -> dict[str, str]:
    """Of `apiVersion/kind/name/uid`; raises ConfigError. One that is wrong is an owner that is gone."""
    parts = text.rsplit("/", 3)
    if len(parts) != len(_OWNER_FIELDS) or not all(parts):
        raise ConfigError(f"sluicegate.controller.journal.owner={text}: apiVersion/kind/name/uid is expected")
    return dict(zip(_OWNER_FIELDS, parts, strict=True))


class KubeStore:
    """Objects are ConfigMaps whose names begin with `name`; every method raises StoreError."""

    def __init__(
        self,
        name: str,
        namespace: str | None,
        lease_duration_s: float,
        environment: Mapping[str, str] | None = None,
        *,
        owner: str | None = None,
    ) -> None:
        """`name` is the Lease's and labels every object. `owner`: see owner_reference. Raises ConfigError."""
        self._owners = [] if owner is None else [owner_reference(owner)]
        self._account = find_account(namespace, os.environ if environment is None else environment)
        self._name = name
        tls = ssl.create_default_context(cafile=self._account.certificate_file, cadata=self._account.certificate)
        # Two attempts fit into the time that a lease is held without a renewal.
        timeout_s = max(0.2, lease_duration_s / 3)
        self._http = urllib3.PoolManager(
            num_pools=1,
            maxsize=_THREADS,
            block=True,
            ssl_context=tls,
            retries=False,
            timeout=urllib3.Timeout(connect=timeout_s, read=timeout_s),
        )
        self._threads = ThreadPoolExecutor(_THREADS, "journal-store")

    def own_host(self) -> str:
        """The address of this machine on its way to the API server: in a pod the pod's. Empty when there is none."""
        server = urllib3.util.parse_url(self._account.url)
        try:
            found = socket.getaddrinfo((server.host or "").strip("[]"), server.port or 443, type=socket.SOCK_DGRAM)
            family, kind, protocol, _, address = found[0]
            with socket.socket(family, kind, protocol) as way:
                # Nothing is sent.
                way.connect(address)
                return str(way.getsockname()[0])
        except OSError as error:
            log.warning("there is no way to the API server %s yet: %s", self._account.url, error)
            return ""

    async def create(self, name: str, part: Part, data: bytes) -> bool:
        body = self._config_map(name, part, data)
        status, _ = await self._ask("POST", self._config_maps(), body, also=(_EXISTS,))
        return status != _EXISTS

    async def get(self, name: str) -> StoredObject | None:
        status, found = await self._ask("GET", self._config_maps(name), also=(_GONE,))
        return None if status == _GONE else _stored(found)

    async def replace(self, name: str, part: Part, data: bytes, version: str) -> bool:
        body = self._config_map(name, part, data)
        body["metadata"]["resourceVersion"] = version
        status, _ = await self._ask("PUT", self._config_maps(name), body, also=(_EXISTS, _GONE))
        return status not in (_EXISTS, _GONE)

    async def list(self, part: Part) -> Sequence[StoredObject]:
        return [_stored(item) for item in await self._all(part, "application/json")]

    async def names(self, part: Part) -> Sequence[str]:
        return [item["metadata"]["name"] for item in await self._all(part, _NAMES_ONLY)]

    async def delete(self, name: str) -> None:
        await self._ask("DELETE", self._config_maps(name), also=(_GONE,))

    async def lease(self) -> LeaseRecord | None:
        status, found = await self._ask("GET", self._leases(self._name), also=(_GONE,))
        return None if status == _GONE else _lease(found)

    async def put_lease(self, lease: LeaseRecord) -> LeaseRecord | None:
        body = self._lease_body(lease)
        if lease.version:
            body["metadata"]["resourceVersion"] = lease.version
            status, found = await self._ask("PUT", self._leases(self._name), body, also=(_EXISTS, _GONE))
        else:
            status, found = await self._ask("POST", self._leases(), body, also=(_EXISTS,))
        return None if status in (_EXISTS, _GONE) else _lease(found)

    async def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._http.clear()

    # Requests

    async def _all(self, part: Part, accept: str) -> Sequence[Any]:
        """Page by page, by name within the API server; a page token that has expired is a StoreError."""
        found: list[Any] = []
        selector = quote(f"{_JOURNAL_LABEL}={self._name},{_PART_LABEL}={part}")
        token = ""
        while True:
            path = f"{self._config_maps()}?labelSelector={selector}&limit={_PAGE}"
            if token:
                path += f"&continue={quote(token)}"
            _, page = await self._ask("GET", path, accept=accept)
            found += page.get("items") or []
            token = page["metadata"].get("continue", "")
            if not token:
                return found

    async def _ask(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        *,
        also: Sequence[int] = (),
        accept: str = "application/json",
    ) -> tuple[int, Any]:
        """Status and decoded answer; a status that is neither 2xx nor one of `also` is a StoreError."""
        content = None if body is None else json.dumps(body).encode()

        def ask() -> tuple[int, bytes]:
            headers = {
                "Authorization": f"Bearer {self._account.token()}",
                "Accept": accept,
                "Content-Type": "application/json",
            }
            try:
                answer = self._http.request(method, self._account.url + path, body=content, headers=headers)
            except (urllib3.exceptions.HTTPError, OSError) as error:
                raise StoreError(f"{method} {path}: {error}") from error
            return answer.status, answer.data

        status, data = await asyncio.get_running_loop().run_in_executor(self._threads, ask)
        if not (200 <= status < 300 or status in also):
            kind = StoreRefusedError if status in _REFUSED else StoreError
            raise kind(f"{method} {path}: {status} {_message(data)}")
        return status, json.loads(data) if 200 <= status < 300 else None

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


def _message(data: bytes) -> str:
    try:
        return str(json.loads(data).get("message", ""))
    except (ValueError, AttributeError):
        return data[:200].decode(errors="replace")


def _stored(item: Any) -> StoredObject:
    meta = item["metadata"]
    return StoredObject(
        meta["name"], base64.b64decode(item.get("binaryData", {}).get(_FIELD, "")), meta["resourceVersion"]
    )


def _lease(item: Any) -> LeaseRecord:
    meta, spec = item["metadata"], item.get("spec", {})
    seconds = spec.get("leaseDurationSeconds", 1)
    annotations = meta.get("annotations") or {}
    return LeaseRecord(
        spec.get("holderIdentity") or "",
        int(annotations.get(_DURATION, str(seconds * 1000))),
        spec.get("leaseTransitions", 0),
        0,
        meta["resourceVersion"],
        annotations.get(_ADDRESS, ""),
    )
