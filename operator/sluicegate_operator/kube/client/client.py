"""The operator's requests to the API server, as methods; `api_server` sends them.

Children and statuses are written by server-side apply with a field manager each. A child is created first, and an apply
goes only to children that belong to the operator (decision 12). If another manager owns a field of a child, the
operator takes the field over and logs it: it must own what it needs, but it overrides no manager silently.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sluicegate_operator.kube.cache.cache import Cache
from sluicegate_operator.kube.cache.cached_object import CachedObject
from sluicegate_operator.kube.cache.single_flight import SingleFlight
from sluicegate_operator.kube.cache.undeclared import UndeclaredFields, undeclared_fields, without_fields
from sluicegate_operator.kube.cache.watched import Watched
from sluicegate_operator.kube.client.applied import AppliedChildren
from sluicegate_operator.kube.client.children import (
    CHILD_MANAGER,
    applied_fields,
    immutable_refused,
    name_taken,
    without_earlier_controller,
)
from sluicegate_operator.kube.http.api_server import REQUEST_TIMEOUT_S, THREADS_MAX, ApiServer, Json, Kubeconfig
from sluicegate_operator.kube.http.denials import DENIED_FOR_S
from sluicegate_operator.kube.http.errors import KubeConflictError, KubeError, KubeUnavailableError
from sluicegate_operator.kube.http.kinds import POD, Kind, kind_of
from sluicegate_operator.resources.owner import why_not_ours

log = logging.getLogger(__name__)

STATUS_MANAGER = "sluicegate-operator-status"
CONFIG_STATUS_MANAGER = "sluicegate-operator-config"
"""The field manager that owns a BrokerCluster's status.dynamicConfigKeys and a Topic's status.configKeys.

They are written separately, before any config is set.
"""
LIMITS_STATUS_MANAGER = "sluicegate-operator-limits"
"""The field manager that owns a BrokerCluster's status.limitsSet, in the same way."""
_APPLY_TYPE = "application/apply-patch+yaml"
_MERGE_TYPE = "application/merge-patch+json"
_STRATEGIC_MERGE_TYPE = "application/strategic-merge-patch+json"

_OF_A_TAKEN_NAME = (403, 409, 422)
"""Statuses of a create whose name is taken.

Admission runs before the name is checked, and may refuse because of a count or of existing objects.
"""


def _nobody_looks(_: Json) -> None:
    """Default of `seen`: ignores the state of the child before the write."""


def _check_same(name: str, wanted: str, found: str) -> None:
    if wanted and found and wanted != found:
        raise KubeConflictError(f"{name} has been replaced by another object: its uid is {found}, not {wanted}")


class KubeClient:
    """The operator's client of the API server. Belongs to one event loop.

    Every method raises KubeError, KubeConflictError or KubeUnavailableError.
    """

    def __init__(
        self,
        kubeconfig: str | Kubeconfig | None = None,
        *,
        timeout_s: float = REQUEST_TIMEOUT_S,
        threads_max: int = THREADS_MAX,
        may_write: Callable[[], bool] = lambda: True,
        denied_for_s: float = DENIED_FOR_S,
        watched: Sequence[Watched] = (),
    ) -> None:
        """Create the client and its cache of the kinds in `watched`, which handlers.kopf_operator feeds.

        `may_write` is called just before each write, in the thread that sends it. `denied_for_s`: how long a denied
        request counts as retriable, in seconds.
        """
        self.server = ApiServer(
            kubeconfig, timeout_s=timeout_s, threads_max=threads_max, may_write=may_write, denied_for_s=denied_for_s
        )
        self._request = self.server.request
        self.text = self.server.text
        """GET a path whose answer is not JSON."""
        self._applied = AppliedChildren()
        self.undeclared = UndeclaredFields()
        self._lists: SingleFlight[list[Json]] = SingleFlight()
        self.cache = Cache(watched)

    async def get(self, kind: Kind, namespace: str | None, name: str) -> Json | None:
        return await self.read(kind.path(namespace, name))

    async def read(self, path: str) -> Json | None:
        """Return any document of the API server; None if it does not exist."""
        try:
            return await self._request("GET", path)
        except KubeError as error:
            if error.status == 404:
                return None
            raise

    async def list(
        self, kind: Kind, namespace: str | None, label_selector: str = "", *, field_selector: str = ""
    ) -> list[Json]:
        """Return the objects of a kind, from a list request that was sent after this call.

        Concurrent callers share one answer, so no caller may change the objects in it.
        """

        async def fetch() -> list[Json]:
            selectors = {"labelSelector": label_selector, "fieldSelector": field_selector}
            query = {name: selector for name, selector in selectors.items() if selector}
            found = await self._request("GET", kind.path(namespace), query=query)
            if "items" not in found:
                raise KubeUnavailableError(f"GET {kind.path(namespace)}: the response is not a list of the API server")
            # The items of a list have no kind.
            return [{"apiVersion": kind.api_version, "kind": kind.kind, **item} for item in found.get("items") or ()]

        return await self._lists.ask((kind, namespace, label_selector, field_selector), fetch)

    async def apply(
        self, manifest: Mapping[str, Any], seen: Callable[[Json], None] = _nobody_looks
    ) -> Mapping[str, Any]:
        """Create a child, or change the operator's child of that name to `manifest`. Returns the child.

        Nothing is written if the same manifest was applied last and the child is unchanged. Raises NameTakenError if an
        object with that name does not belong to the operator.

        `seen` is called with the child before the write, and once more if other managers changed the child meanwhile.
        """
        kind, meta = kind_of(manifest), manifest["metadata"]
        path = kind.path(meta["namespace"], meta["name"])
        _, known = self.cache.peek(kind, meta["namespace"], meta["name"])
        if known is not None and self._applied.is_current(path, manifest, known) and not why_not_ours(known, manifest):
            return known
        applied = await self._created_unseen(manifest)
        if applied is None:
            found = await self.get(kind, meta["namespace"], meta["name"])
            if found is not None:
                if why := why_not_ours(found, manifest):
                    raise name_taken(manifest, found, why)
                if self._applied.is_current(path, manifest, found):
                    return found
                seen(found)
            applied = await self._create_or_patch(path, found, manifest, seen)
        self._applied.note(path, manifest, applied)
        self.cache.note(kind, applied)
        return applied

    async def _created_unseen(self, manifest: Mapping[str, Any], **query: str) -> Json | None:
        """Create the child without a read if the cache says that it does not exist; None if it may exist."""
        kind, meta = kind_of(manifest), manifest["metadata"]
        is_known, there = self.cache.peek(kind, meta["namespace"], meta["name"])
        if not is_known or there is not None:
            return None
        query = {"fieldManager": CHILD_MANAGER, **query}
        try:
            return await self._request("POST", kind.path(meta["namespace"]), query=query, body=manifest)
        except KubeError as error:
            if error.status not in _OF_A_TAKEN_NAME:
                raise
            # An object without the watch's label, or one created a moment ago, has the name. If neither, `apply` fails
            # too.
            return None

    async def _create_or_patch(
        self, path: str, found: Json | None, manifest: Mapping[str, Any], seen: Callable[[Json], None]
    ) -> Json:
        kind, meta = kind_of(manifest), manifest["metadata"]
        if found is None:
            query = {"fieldManager": CHILD_MANAGER}
            return await self._request("POST", kind.path(meta["namespace"]), query=query, body=manifest)
        if fields := applied_fields(found) | without_earlier_controller(found, manifest):
            await self._request("PATCH", path, body={"metadata": fields}, content_type=_MERGE_TYPE)
        # With its uid, so that nothing is applied to an object that has replaced it meanwhile.
        wanted = {**manifest, "metadata": {**meta, "uid": found["metadata"]["uid"]}}
        try:
            return await self._patch_child(path, wanted, seen)
        except KubeError as error:
            raise immutable_refused(found, error) from None

    async def _patch_child(self, path: str, wanted: Mapping[str, Any], seen: Callable[[Json], None]) -> Json:
        """Apply to a child, and take over the fields of other managers that the manifest sets."""
        try:
            return await self._patch(path, wanted, CHILD_MANAGER, force=False)
        except KubeConflictError as error:
            meta = wanted["metadata"]
            log.warning("%s %s: taking over fields of other managers: %s", wanted["kind"], meta["name"], error)
            overruled = await self.get(kind_of(wanted), meta["namespace"], meta["name"])
            if overruled is not None:
                seen(overruled)
            return await self._patch(path, wanted, CHILD_MANAGER, force=True)

    async def try_out(self, manifest: Mapping[str, Any]) -> None:
        """Send `manifest` in a dry run, which writes nothing. Raises the errors that `apply` would raise."""
        kind, meta = kind_of(manifest), manifest["metadata"]
        query = {"fieldManager": CHILD_MANAGER, "dryRun": "All"}
        if await self._created_unseen(manifest, dryRun="All") is not None:
            return
        found = await self.get(kind, meta["namespace"], meta["name"])
        if found is None:
            await self._request("POST", kind.path(meta["namespace"]), query=query, body=manifest)
            return
        if why := why_not_ours(found, manifest):
            raise name_taken(manifest, found, why)
        path = kind.path(meta["namespace"], meta["name"])
        await self._request("PATCH", path, query=query | {"force": "true"}, body=manifest, content_type=_APPLY_TYPE)

    async def apply_status(
        self,
        kind: Kind,
        namespace: str,
        name: str,
        status: Mapping[str, Any],
        *,
        manager: str = STATUS_MANAGER,
        uid: str = "",
    ) -> CachedObject | None:
        """Apply the status, without fields that an older CRD does not declare.

        Return the cached object after the write.

        `uid` is the uid of the object that the status describes. Raises KubeConflictError if another object has its
        name: before the write if the cache has that object, else after it. The API server itself does not compare uids
        when a status of a custom resource is applied.
        """
        informer = self.cache.informers().get(kind)
        known = informer.store.get(namespace, name) if informer is not None else None
        _check_same(name, uid, known.uid if known is not None else "")
        body = {
            "apiVersion": kind.api_version,
            "kind": kind.kind,
            "metadata": {"name": name, "namespace": namespace},
            "status": status,
        }
        path = kind.path(namespace, name) + "/status"
        try:
            told = await self._patch(path, body, manager, force=True)
        except KubeError as error:
            if not (fields := undeclared_fields(str(error))):
                raise
            if self.undeclared.note(kind.crd, fields):
                log.warning(
                    "%s is older than this operator, apply crds/: the status lacks the fields %s",
                    kind.crd,
                    ", ".join(fields),
                )
            told = await self._patch(path, {**body, "status": without_fields(status, fields)}, manager, force=True)
        cached = self.cache.note(kind, told)
        _check_same(name, uid, told["metadata"].get("uid") or "")
        return cached

    async def create(self, kind: Kind, namespace: str, manifest: Mapping[str, Any]) -> Json:
        made = await self._request("POST", kind.path(namespace), body=manifest)
        self.cache.note(kind, made)
        return made

    async def replace(self, kind: Kind, namespace: str | None, name: str, manifest: Mapping[str, Any]) -> Json:
        """Replace an object in the Kubernetes API. A resourceVersion in the manifest makes this a compare-and-swap."""
        return await self._request("PUT", kind.path(namespace, name), body=manifest)

    async def set_pod_condition(self, namespace: str, name: str, uid: str, condition: Mapping[str, Any]) -> None:
        """Set one condition of a pod; conditions of other types are unchanged.

        Raises KubeConflictError if the pod was replaced by another one.
        """
        body = {"metadata": {"uid": uid}, "status": {"conditions": [dict(condition)]}}
        path = POD.path(namespace, name) + "/status"
        self.cache.note(POD, await self._request("PATCH", path, body=body, content_type=_STRATEGIC_MERGE_TYPE))

    async def patch_metadata(
        self,
        kind: Kind,
        namespace: str,
        name: str,
        fields: Mapping[str, object],
        seen: Mapping[str, str],
        *,
        spec: Mapping[str, object] | None = None,
    ) -> None:
        """Merge `fields` into the object's metadata, and `spec` into its spec.

        Lists are replaced; labels and annotations that are not named stay.

        `seen` has the uid of the object as it was read, and its resourceVersion if no other writer may have changed it
        meanwhile. Raises KubeConflictError if they no longer match.

        A pod's metadata is written through its status subresource, which accepts labels and annotations. So the
        operator does not need the right to patch pods, which includes the right to change the image of any pod.
        """
        body: Json = {"metadata": {**seen, **fields}}
        if spec is not None:
            body["spec"] = dict(spec)
        path = kind.path(namespace, name) + ("/status" if kind is POD else "")
        self.cache.note(kind, await self._request("PATCH", path, body=body, content_type=_MERGE_TYPE))

    async def delete(self, kind: Kind, namespace: str, name: str, *, uid: str = "", resource_version: str = "") -> None:
        """Delete the object; do nothing if it does not exist.

        Raises KubeConflictError if its uid or resourceVersion differs.
        """
        wanted = {"uid": uid, "resourceVersion": resource_version}
        preconditions = {key: value for key, value in wanted.items() if value}
        body = {"preconditions": preconditions} if preconditions else None
        try:
            answer = await self._request("DELETE", kind.path(namespace, name), body=body)
        except KubeError as error:
            if error.status != 404:
                raise
            return
        if answer.get("metadata", {}).get("deletionTimestamp"):
            self.cache.note(kind, answer)
        elif uid:
            self.cache.note_gone(kind, namespace, name, uid)

    def close(self) -> None:
        self.server.close()

    async def _patch(self, path: str, body: Mapping[str, Any], manager: str, *, force: bool) -> Json:
        query = {"fieldManager": manager, "force": "true" if force else "false"}
        return await self._request("PATCH", path, query=query, body=body, content_type=_APPLY_TYPE)
