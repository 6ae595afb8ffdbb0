"""What the operator does at the API server, in verbs; `api_server` has the requests.

Children and statuses are written by server-side apply with a field manager each. A child is made by create, and only
what is ours is applied to (decision 12). A field of a child that somebody else owns is taken over, and said: what the
operator needs it must own, but nobody should be overruled silently.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sluicegate_operator.kube.api_server import REQUEST_TIMEOUT_S, THREADS_MAX, ApiServer, Json, Kubeconfig
from sluicegate_operator.kube.applied import AppliedChildren
from sluicegate_operator.kube.cache import Cache
from sluicegate_operator.kube.children import CHILD_MANAGER, applied_fields, name_taken
from sluicegate_operator.kube.denials import DENIED_FOR_S
from sluicegate_operator.kube.errors import KubeConflictError, KubeError, KubeUnavailableError
from sluicegate_operator.kube.held import Held
from sluicegate_operator.kube.kinds import POD, Kind, kind_of
from sluicegate_operator.kube.rounds import Rounds
from sluicegate_operator.kube.undeclared import UndeclaredFields, undeclared_fields, without_fields
from sluicegate_operator.kube.watched import Watched
from sluicegate_operator.resources.owner import why_not_ours

log = logging.getLogger(__name__)

STATUS_MANAGER = "sluicegate-operator-status"
CONFIG_STATUS_MANAGER = "sluicegate-operator-config"
"""Owns a BrokerCluster's status.dynamicConfigKeys and a Topic's status.configKeys, which are written on their own,
before anything is set."""
LIMITS_STATUS_MANAGER = "sluicegate-operator-limits"
"""Owns a BrokerCluster's status.limitsSet in the same way."""
_APPLY_TYPE = "application/apply-patch+yaml"
_MERGE_TYPE = "application/merge-patch+json"
_STRATEGIC_MERGE_TYPE = "application/strategic-merge-patch+json"

_OF_A_TAKEN_NAME = (403, 409, 422)
"""How a create may be refused whose name is taken: admission comes before, and may count or judge what is there."""


def _nobody_looks(_: Json) -> None:
    """For a child of which nobody asks what others have made of it."""


def _check_same(name: str, wanted: str, found: str) -> None:
    if wanted and found and wanted != found:
        raise KubeConflictError(f"{name} is another one by now: its uid is {found} and not {wanted}")


class KubeClient:
    """Belongs to one event loop. Every method raises KubeError, KubeConflictError or KubeUnavailableError."""

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
        """`may_write` is asked in the moment before each write, in the thread that sends it. `denied_for_s`: see
        kube.denials. `cache` is of the kinds of `watched`; handlers.kopf_operator feeds it."""
        self.server = ApiServer(
            kubeconfig, timeout_s=timeout_s, threads_max=threads_max, may_write=may_write, denied_for_s=denied_for_s
        )
        self._request = self.server.request
        self.text = self.server.text
        """GET of a path whose answer is not JSON."""
        self._applied = AppliedChildren()
        self.undeclared = UndeclaredFields()
        self._lists: Rounds[list[Json]] = Rounds()
        self.cache = Cache(watched)

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
            if "items" not in found:
                raise KubeUnavailableError(f"GET {kind.path(namespace)}: the answer is not a list of the API server")
            # The items of a list come without their kind.
            return [{"apiVersion": kind.api_version, "kind": kind.kind, **item} for item in found.get("items") or ()]

        return await self._lists.ask((kind, namespace, label_selector, field_selector), fetch)

    async def apply(
        self, manifest: Mapping[str, Any], seen: Callable[[Json], None] = _nobody_looks
    ) -> Mapping[str, Any]:
        """Make a child, or bring our child of that name to what `manifest` says. Nothing is written where it was so
        the last time and is unchanged. Raises NameTakenError where what has the name is not ours.

        `seen` is called with the child as it was before it is written, once more where others changed it meanwhile."""
        kind, meta = kind_of(manifest), manifest["metadata"]
        path = kind.path(meta["namespace"], meta["name"])
        _, known = self.cache.peek(kind, meta["namespace"], meta["name"])
        if known is not None and self._applied.holds(path, manifest, known) and not why_not_ours(known, manifest):
            return known
        applied = await self._created_unseen(manifest)
        if applied is None:
            found = await self.get(kind, meta["namespace"], meta["name"])
            if found is not None:
                if why := why_not_ours(found, manifest):
                    raise name_taken(manifest, why)
                if self._applied.holds(path, manifest, found):
                    return found
                seen(found)
            applied = await self._create_or_patch(path, found, manifest, seen)
        self._applied.note(path, manifest, applied)
        self.cache.note(kind, applied)
        return applied

    async def _created_unseen(self, manifest: Mapping[str, Any], **query: str) -> Json | None:
        """Without being looked for before, where the cache says that it is not there; None where it may be."""
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
            # By what lacks the label that the cache is told by, or since a moment ago; else it is refused once more.
            return None

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
        if await self._created_unseen(manifest, dryRun="All") is not None:
            return
        found = await self.get(kind, meta["namespace"], meta["name"])
        if found is None:
            await self._request("POST", kind.path(meta["namespace"]), query=query, body=manifest)
            return
        if why := why_not_ours(found, manifest):
            raise name_taken(manifest, why)
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
    ) -> Held | None:
        """Without the fields that an older CRD does not have. What the cache holds of the object since.

        `uid` is that of the object which the status is about. Raises KubeConflictError if another object has its name:
        before it is written if the cache holds that object, else after it. The API server itself does not compare uids
        when a status of a custom resource is applied."""
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
                log.warning("%s is older than this operator, apply crds/: not told are %s", kind.crd, ", ".join(fields))
            told = await self._patch(path, {**body, "status": without_fields(status, fields)}, manager, force=True)
        held = self.cache.note(kind, told)
        _check_same(name, uid, told["metadata"].get("uid") or "")
        return held

    async def create(self, kind: Kind, namespace: str, manifest: Mapping[str, Any]) -> Json:
        made = await self._request("POST", kind.path(namespace), body=manifest)
        self.cache.note(kind, made)
        return made

    async def replace(self, kind: Kind, namespace: str | None, name: str, manifest: Mapping[str, Any]) -> Json:
        """With a resourceVersion in the manifest this is compare-and-swap."""
        return await self._request("PUT", kind.path(namespace, name), body=manifest)

    async def set_pod_condition(self, namespace: str, name: str, uid: str, condition: Mapping[str, Any]) -> None:
        """Conditions of other types stay as they are. A KubeConflictError when the pod is another one by now."""
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
        """`fields` of the object's metadata: lists are replaced; labels and annotations that are not named stay. `spec`
        is merged into what the object's says.

        `seen` is what it was when it was looked at, its uid and, where nobody may have changed it meanwhile, its
        resourceVersion: a KubeConflictError when it is so no more.

        A pod's is written beside its status, which takes labels and annotations along: so that the operator need not
        have the right to patch pods, and with it that to put another image into anybody's.
        """
        body: Json = {"metadata": {**seen, **fields}}
        if spec is not None:
            body["spec"] = dict(spec)
        path = kind.path(namespace, name) + ("/status" if kind is POD else "")
        self.cache.note(kind, await self._request("PATCH", path, body=body, content_type=_MERGE_TYPE))

    async def delete(self, kind: Kind, namespace: str, name: str, *, uid: str = "", resource_version: str = "") -> None:
        """Nothing happens when it is not there; a KubeConflictError when it is not the one that is meant."""
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
