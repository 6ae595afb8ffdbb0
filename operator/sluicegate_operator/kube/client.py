"""The one way to the API server: the `kubernetes` client's connections, off the event loop, with a time limit each.

Children and statuses are written by server-side apply with a field manager each. A child is made by create, and only
what is ours is applied to (decision 12). A field of a child that somebody else owns is taken over, and said: what the
operator needs it must own, but nobody should be overruled silently.
"""

import asyncio
import json
import logging
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import MappingProxyType
from typing import Any
from urllib.parse import urlencode

import urllib3
from kubernetes import client, config
from kubernetes.config import ConfigException

from sluicegate_operator.kube.applied import AppliedChildren
from sluicegate_operator.kube.children import CHILD_MANAGER, applied_fields, name_taken
from sluicegate_operator.kube.denials import DENIED_FOR_S, STATUSES, Denials
from sluicegate_operator.kube.errors import (
    KubeConflictError,
    KubeError,
    KubeFencedError,
    KubeUnavailableError,
    NamespaceGoingError,
)
from sluicegate_operator.kube.kinds import POD, Kind, kind_of
from sluicegate_operator.kube.rounds import Rounds
from sluicegate_operator.resources.owner import why_not_ours

log = logging.getLogger(__name__)

Json = dict[str, Any]

STATUS_MANAGER = "sluicegate-operator-status"
CONFIG_STATUS_MANAGER = "sluicegate-operator-config"
"""Owns a BrokerCluster's status.dynamicConfigKeys and a Topic's status.configKeys, which are written on their own,
before anything is set."""
REQUEST_TIMEOUT_S = 5.0
"""Below a third of the Lease, see kube.lease: a write that was begun while it was held has ended when it runs out."""
THREADS_MAX = 8
BUSY = 429
BUSY_RETRIES_MAX = 5
BUSY_FIRST_S = 0.1
BUSY_PAUSE_MAX_S = 5.0
"""429 means that nothing was done: the API server is busy or still opening a kind's storage. Retry-After says when."""
_GOING = "because it is being terminated"
"""The API server's words of a namespace; the status is that of a right that is missing."""
_APPLY_TYPE = "application/apply-patch+yaml"
_MERGE_TYPE = "application/merge-patch+json"
_STRATEGIC_MERGE_TYPE = "application/strategic-merge-patch+json"


def _nobody_looks(_: Json) -> None:
    """For a child of which nobody asks what others have made of it."""


class KubeClient:
    """Belongs to one event loop. Every method raises KubeError, KubeConflictError or KubeUnavailableError."""

    def __init__(
        self,
        kubeconfig: str | None = None,
        *,
        timeout_s: float = REQUEST_TIMEOUT_S,
        threads_max: int = THREADS_MAX,
        may_write: Callable[[], bool] = lambda: True,
        denied_for_s: float = DENIED_FOR_S,
    ) -> None:
        """`may_write` is asked in the moment before each write, in the thread that sends it. `denied_for_s`: see
        kube.denials."""
        self._api = client.ApiClient(_configuration(kubeconfig))
        self._threads = ThreadPoolExecutor(threads_max, "kube")
        self._timeout = urllib3.Timeout(total=timeout_s)
        self._may_write = may_write
        self._denials = Denials(denied_for_s)
        self._applied = AppliedChildren()
        self._lists: Rounds[list[Json]] = Rounds()

    async def get(self, kind: Kind, namespace: str | None, name: str) -> Json | None:
        return await self.read(kind.path(namespace, name))

    async def read(self, path: str) -> Json | None:
        """Any document of the API server; None when it is not there."""
        try:
            return await self._request("GET", path)
        except KubeError as error:
            if error.status == 404:
                return None
            raise

    async def list(
        self, kind: Kind, namespace: str | None, label_selector: str = "", *, field_selector: str = ""
    ) -> list[Json]:
        """Begun after it was asked for, and shared by all who ask at the time: nobody may change what is in it."""

        async def fetch() -> list[Json]:
            selectors = {"labelSelector": label_selector, "fieldSelector": field_selector}
            query = {name: selector for name, selector in selectors.items() if selector}
            found = await self._request("GET", kind.path(namespace), query=query)
            # The items of a list come without their kind.
            return [{"apiVersion": kind.api_version, "kind": kind.kind, **item} for item in found["items"]]

        return await self._lists.ask((kind, namespace, label_selector, field_selector), fetch)

    async def apply(self, manifest: Mapping[str, Any], seen: Callable[[Json], None] = _nobody_looks) -> Json:
        """Make a child, or bring our child of that name to what `manifest` says. Nothing is written where it was so
        the last time and is unchanged. Raises NameTakenError where what has the name is not ours.

        `seen` is called with the child as it was before it is written, once more where others changed it meanwhile."""
        kind, meta = kind_of(manifest), manifest["metadata"]
        path = kind.path(meta["namespace"], meta["name"])
        found = await self.get(kind, meta["namespace"], meta["name"])
        if found is not None:
            if why := why_not_ours(found, manifest):
                raise name_taken(manifest, why)
            if self._applied.holds(path, manifest, found):
                return found
            seen(found)
        applied = await self._create_or_patch(path, found, manifest, seen)
        self._applied.note(path, manifest, applied)
        return applied

    async def _create_or_patch(
        self, path: str, found: Json | None, manifest: Mapping[str, Any], seen: Callable[[Json], None]
    ) -> Json:
        kind, meta = kind_of(manifest), manifest["metadata"]
        if found is None:
            query = {"fieldManager": CHILD_MANAGER}
            return await self._request("POST", kind.path(meta["namespace"]), query=query, body=manifest)
        if fields := applied_fields(found):
            await self._request("PATCH", path, body={"metadata": fields}, content_type=_MERGE_TYPE)
        # With its uid, so that nothing is applied to what has taken its place meanwhile.
        wanted = {**manifest, "metadata": {**meta, "uid": found["metadata"]["uid"]}}
        try:
            return await self._patch(path, wanted, CHILD_MANAGER, force=False)
        except KubeConflictError as error:
            log.warning("%s %s: taking over what others own: %s", manifest["kind"], meta["name"], error)
            overruled = await self.get(kind, meta["namespace"], meta["name"])
            if overruled is not None:
                seen(overruled)
            return await self._patch(path, wanted, CHILD_MANAGER, force=True)

    async def try_out(self, manifest: Mapping[str, Any]) -> None:
        """Raises what `apply` would raise; nothing is written."""
        kind, meta = kind_of(manifest), manifest["metadata"]
        query = {"fieldManager": CHILD_MANAGER, "dryRun": "All"}
        found = await self.get(kind, meta["namespace"], meta["name"])
        if found is None:
            await self._request("POST", kind.path(meta["namespace"]), query=query, body=manifest)
            return
        if why := why_not_ours(found, manifest):
            raise name_taken(manifest, why)
        path = kind.path(meta["namespace"], meta["name"])
        await self._request("PATCH", path, query=query | {"force": "true"}, body=manifest, content_type=_APPLY_TYPE)

    async def apply_status(
        self, kind: Kind, namespace: str, name: str, status: Mapping[str, Any], *, manager: str = STATUS_MANAGER
    ) -> None:
        body = {
            "apiVersion": kind.api_version,
            "kind": kind.kind,
            "metadata": {"name": name, "namespace": namespace},
            "status": status,
        }
        await self._patch(kind.path(namespace, name) + "/status", body, manager, force=True)

    async def create(self, kind: Kind, namespace: str, manifest: Mapping[str, Any]) -> Json:
        return await self._request("POST", kind.path(namespace), body=manifest)

    async def replace(self, kind: Kind, namespace: str, name: str, manifest: Mapping[str, Any]) -> Json:
        """With a resourceVersion in the manifest this is compare-and-swap."""
        return await self._request("PUT", kind.path(namespace, name), body=manifest)

    async def set_pod_condition(self, namespace: str, name: str, uid: str, condition: Mapping[str, Any]) -> None:
        """Conditions of other types stay as they are. A KubeConflictError when the pod is another one by now."""
        body = {"metadata": {"uid": uid}, "status": {"conditions": [dict(condition)]}}
        await self._patch_pod(POD.path(namespace, name) + "/status", body)

    async def set_finalizers(
        self, kind: Kind, namespace: str, name: str, finalizers: Sequence[str], seen: Mapping[str, str]
    ) -> None:
        """Of the object as it was seen, by uid and resourceVersion: a KubeConflictError when it is so no more."""
        body = {"metadata": {**seen, "finalizers": list(finalizers)}}
        await self._request("PATCH", kind.path(namespace, name), body=body, content_type=_MERGE_TYPE)

    async def set_owners(
        self, kind: Kind, namespace: str, name: str, owners: Sequence[Json], seen: Mapping[str, str]
    ) -> None:
        """As set_finalizers."""
        body = {"metadata": {**seen, "ownerReferences": list(owners)}}
        await self._request("PATCH", kind.path(namespace, name), body=body, content_type=_MERGE_TYPE)

    async def mark(
        self,
        kind: Kind,
        namespace: str,
        name: str,
        uid: str,
        *,
        labels: Mapping[str, str] = MappingProxyType({}),
        annotations: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """Others stay as they are. A KubeConflictError when the object is another one by now."""
        body = {"metadata": {"uid": uid, "labels": dict(labels), "annotations": dict(annotations)}}
        await self._request("PATCH", kind.path(namespace, name), body=body, content_type=_MERGE_TYPE)

    async def _patch_pod(self, path: str, body: Mapping[str, Any]) -> None:
        await self._request("PATCH", path, body=body, content_type=_STRATEGIC_MERGE_TYPE)

    async def delete(self, kind: Kind, namespace: str, name: str, *, uid: str = "", resource_version: str = "") -> None:
        """Nothing happens when it is not there; a KubeConflictError when it is not the one that is meant."""
        wanted = {"uid": uid, "resourceVersion": resource_version}
        preconditions = {key: value for key, value in wanted.items() if value}
        body = {"preconditions": preconditions} if preconditions else None
        try:
            await self._request("DELETE", kind.path(namespace, name), body=body)
        except KubeError as error:
            if error.status != 404:
                raise

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _patch(self, path: str, body: Mapping[str, Any], manager: str, *, force: bool) -> Json:
        query = {"fieldManager": manager, "force": "true" if force else "false"}
        return await self._request("PATCH", path, query=query, body=body, content_type=_APPLY_TYPE)

    async def _request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | None = None,
        content_type: str = "application/json",
    ) -> Json:
        url = f"{self._api.configuration.host}{path}" + (f"?{urlencode(query)}" if query else "")
        headers = {"Accept": "application/json", "Content-Type": content_type, **self._credentials()}
        data = None if body is None else json.dumps(body)
        loop, request = asyncio.get_running_loop(), f"{method} {path}"
        try:
            answer = await self._patiently(method, url, headers, data)
        except KubeError as error:
            self._denials.note(request, error.status, loop.time())
            if error.status in STATUSES and not isinstance(error, NamespaceGoingError):
                error.retriable = self._denials.may_pass(request, loop.time())
            raise
        self._denials.note(request, 200, loop.time())
        return answer

    async def _patiently(self, method: str, url: str, headers: Mapping[str, str], data: str | None) -> Json:
        """Each try is a request of its own, which needs the Lease when it is a write."""
        loop, tries = asyncio.get_running_loop(), 0
        while True:
            try:
                return await loop.run_in_executor(self._threads, self._exchange, method, url, headers, data)
            except KubeError as error:
                tries += 1
                if error.status != BUSY or tries > BUSY_RETRIES_MAX:
                    raise
                wanted_s = BUSY_FIRST_S * 2**tries if error.retry_after_s is None else error.retry_after_s
                await asyncio.sleep(min(BUSY_PAUSE_MAX_S, wanted_s))

    def _credentials(self) -> dict[str, str]:
        # Looked up each time: a projected service account token is renewed in its file.
        found = self._api.configuration.auth_settings().values()
        return {setting["key"]: setting["value"] for setting in found if setting["in"] == "header"}

    def _exchange(self, method: str, url: str, headers: Mapping[str, str], data: str | None) -> Json:
        pool = self._api.rest_client.pool_manager
        if method != "GET" and not self._may_write():
            raise KubeFencedError(f"{method} {url.split('?')[0]} was not sent: the Lease is not held")
        try:
            answer = pool.request(method, url, headers=headers, body=data, timeout=self._timeout, retries=False)
        except urllib3.exceptions.HTTPError as error:
            raise KubeUnavailableError(f"the API server does not answer: {error}") from error
        text = answer.data.decode("utf-8", "replace")
        if answer.status < 300:
            parsed: Json = json.loads(text)
            return parsed
        refusal = _refusal(method, url, answer.status, text)
        refusal.retry_after_s = _seconds(answer.headers.get("Retry-After"))
        raise refusal


def _seconds(text: str | None) -> float | None:
    """Of a Retry-After; a date, which no API server sends, is none."""
    return float(text) if text is not None and text.isdecimal() else None


def _refusal(method: str, url: str, status: int, text: str) -> KubeError:
    try:
        reason = json.loads(text).get("message", text)
    except ValueError:
        reason = text[:300]
    message = f"{method} {url.split('?')[0]}: {status} {reason}"
    # The second is the API server's way to say that a uid is that of another object.
    if status == 409 or (status == 422 and "metadata.uid" in reason):
        return KubeConflictError(message)
    if status == 403 and _GOING in reason:
        return NamespaceGoingError(message)
    if status in (BUSY, 500, 502, 503, 504):
        return KubeError(message, status, retriable=True)
    return KubeError(message, status)


def _configuration(kubeconfig: str | None) -> client.Configuration:
    """`kubeconfig`, else the pod's own account, else what KUBECONFIG or the home folder name."""
    settings = client.Configuration()
    try:
        if kubeconfig is not None:
            config.load_kube_config(kubeconfig, client_configuration=settings)
        else:
            _load_found(settings)
    except ConfigException as error:
        raise KubeError(f"no way to a Kubernetes API server: {error}; set KUBECONFIG or run in a pod") from error
    return settings


def _load_found(settings: client.Configuration) -> None:
    try:
        config.load_incluster_config(client_configuration=settings)
    except ConfigException:
        config.load_kube_config(client_configuration=settings)
