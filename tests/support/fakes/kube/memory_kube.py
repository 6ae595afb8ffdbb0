"""An API server's objects in memory, behind the methods of KubeClient: for tests of reconcilers without processes.

Statuses are kept by field manager, as server-side apply does for whole fields. Children are accepted or refused by the
same rule as in KubeClient. Tests create the pods.
"""

import json
import pickle
from collections.abc import Callable, Mapping
from functools import lru_cache
from itertools import count
from typing import Any, Protocol, TypeVar

from sluicegate_operator.api.schema.metadata import Resource
from sluicegate_operator.kube.cache.cached_object import CachedObject, UnreadableObject, Value, cluster_of, read_object
from sluicegate_operator.kube.cache.informer import Informer
from sluicegate_operator.kube.cache.undeclared import UndeclaredFields, without_fields
from sluicegate_operator.kube.cache.watched import Watched
from sluicegate_operator.kube.client.children import immutable_refused, name_taken
from sluicegate_operator.kube.client.client import STATUS_MANAGER
from sluicegate_operator.kube.http.errors import KubeConflictError, KubeError
from sluicegate_operator.kube.http.kinds import EVENT, SECRET, USER_KINDS, Kind, kind_of
from sluicegate_operator.resources.labels import CLUSTER_LABEL
from sluicegate_operator.resources.owner import why_not_ours

Json = dict[str, Any]
Key = tuple[str, str | None, str]
Document = TypeVar("Document", bound=Json | None)
Found = TypeVar("Found", bound=Resource)


class MemoryKube:
    """The objects of an API server in memory, with the methods of KubeClient."""

    def __init__(self, *objects: Mapping[str, Any]) -> None:
        self.refuses: dict[str, str] = {}
        """Kinds that are refused as invalid, with the API server's message."""
        self.undeclared = UndeclaredFields()
        self.lacks: dict[str, tuple[str, ...]] = {}
        """Fields below status, as paths, that the CRD of a kind does not declare."""
        self.before_write: Callable[[str, str], None] = lambda kind, name: None
        """Called between the read and the write of a child, for changes that another client makes meanwhile."""
        self.statuses_written = 0
        self._uids = (f"uid-{number}" for number in count(1))
        self._objects: dict[Key, Json] = {}
        self._statuses: dict[Key, dict[str, Json]] = {}
        for item in objects:
            self.put(item)

    def put(self, item: Mapping[str, Any]) -> Json:
        """Store an object as if a user applied it; return it."""
        meta = {"namespace": "default", **item["metadata"]}
        key = (item["kind"], meta["namespace"], meta["name"])
        before = self._objects.get(key)
        for kept in ("finalizers", "deletionTimestamp"):
            if before is not None and kept in before["metadata"]:
                meta.setdefault(kept, before["metadata"][kept])
        meta["uid"] = meta.get("uid") or (before["metadata"]["uid"] if before else next(self._uids))
        meta["generation"] = (before["metadata"]["generation"] if before else 0) + _differs(before, item)
        meta["resourceVersion"] = next(self._uids)
        self._objects[key] = {**(before or {}), **_copied(dict(item)), "metadata": meta}
        return self._objects[key]

    def take(self, kind: str, name: str, namespace: str | None = "default") -> Json:
        """The stored object. Raises KeyError if it is gone."""
        return self._objects[kind, namespace, name]

    def remove(self, kind: str, name: str, namespace: str | None = "default") -> None:
        del self._objects[kind, namespace, name]

    def delete_as_a_person(self, kind: str, name: str, namespace: str | None = "default") -> None:
        """Delete an object as a user does; an object with finalizers stays until the last one is removed."""
        meta = self.take(kind, name, namespace)["metadata"]
        meta["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        self._remove_what_may_go(kind, name, namespace)

    def _remove_what_may_go(self, kind: str, name: str, namespace: str | None) -> None:
        meta = self.take(kind, name, namespace)["metadata"]
        if meta.get("deletionTimestamp") and not meta.get("finalizers"):
            self.remove(kind, name, namespace)

    def names(self, kind: str) -> list[str]:
        return sorted(name for found, _, name in self._objects if found == kind)

    def condition(self, kind: str, name: str, type_: str = "Ready") -> Json:
        conditions = (self.take(kind, name).get("status") or {}).get("conditions", [])
        found: Json = next((item for item in conditions if item["type"] == type_), {})
        return found

    def events(self, reason: str) -> list[Json]:
        return [item for item in self._objects.values() if item["kind"] == EVENT.kind and item["reason"] == reason]

    @property
    def objects(self) -> Mapping[tuple[str, str | None, str], Json]:
        return self._objects

    @property
    def cache(self) -> "MemoryCache":
        return MemoryCache(self)

    # -- KubeClient --------------------------------------------------------------------------------------------

    async def get(self, kind: Kind, namespace: str | None, name: str) -> Json | None:
        return _copied(self._objects.get((kind.kind, namespace, name)))

    async def list(
        self, kind: Kind, namespace: str | None, label_selector: str = "", *, field_selector: str = ""
    ) -> list[Json]:
        wanted, fields = (
            dict(part.split("=") for part in selector.split(",") if part)
            for selector in (label_selector, field_selector)
        )
        return [
            _copied(item)
            for (found, where, _), item in self._objects.items()
            if found == kind.kind
            and namespace in (None, where)
            and wanted.items() <= (item["metadata"].get("labels") or {}).items()
            and all(_field(item, path) == value for path, value in fields.items())
        ]

    async def apply(self, manifest: Mapping[str, Any], seen: Callable[[Json], None] = lambda _: None) -> Json:
        meta = manifest["metadata"]
        found = await self.get(kind_of(manifest), meta["namespace"], meta["name"])
        if found is not None and (why := why_not_ours(found, manifest)):
            raise name_taken(manifest, found, why)
        if found is not None:
            seen(found)
            if kind_of(manifest) == SECRET and _has_all(found, manifest):
                # As at an API server, an apply that changes nothing makes no new version.
                return found
            if found.get("immutable") and manifest["data"] != found.get("data"):
                refused = KubeError("data: Forbidden: field is immutable when `immutable` is set", 422)
                raise immutable_refused(found, refused)
        self.before_write(manifest["kind"], meta["name"])
        now = self._objects.get((manifest["kind"], meta["namespace"], meta["name"]))
        if _uid(now) != _uid(found):
            raise KubeConflictError(f"{meta['name']} already exists, or has been replaced by another object")
        return self.put(manifest)

    async def try_out(self, manifest: Mapping[str, Any]) -> None:
        meta = manifest["metadata"]
        found = await self.get(kind_of(manifest), meta["namespace"], meta["name"])
        if found is not None and (why := why_not_ours(found, manifest)):
            raise name_taken(manifest, found, why)
        if manifest["kind"] in self.refuses:
            raise KubeError(self.refuses[manifest["kind"]], 422)

    async def create(self, kind: Kind, namespace: str, manifest: Mapping[str, Any]) -> Json:
        self.before_write(kind.kind, manifest["metadata"]["name"])
        if (kind.kind, namespace, manifest["metadata"]["name"]) in self._objects:
            raise KubeConflictError(f"{manifest['metadata']['name']} already exists")
        meta = {"creationTimestamp": "2026-01-01T00:00:00Z", **manifest["metadata"]}
        return self.put({**manifest, "metadata": meta})

    async def replace(self, kind: Kind, namespace: str, name: str, manifest: Mapping[str, Any]) -> Json:
        version, there = manifest["metadata"].get("resourceVersion"), self.take(kind.kind, name, namespace)["metadata"]
        if version not in (None, there["resourceVersion"]):
            raise KubeConflictError(f"{name} has changed")
        return self.put(manifest)

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
        key = (kind.kind, namespace, name)
        if key not in self._objects:
            raise KubeError(f"{name} not found", 404)
        if uid not in ("", self._objects[key]["metadata"]["uid"]):
            raise KubeConflictError(f"{name} has been replaced by another object")
        self.statuses_written += 1
        if lacked := self.lacks.get(kind.kind, ()):
            if (declared := without_fields(status, lacked)) != status:
                self.undeclared.note(kind.crd, lacked)
            status = declared
        managed = self._statuses.setdefault(key, {})
        managed[manager] = _copied(dict(status))
        found = self._objects[key]
        found["status"] = {field: value for one in managed.values() for field, value in one.items()}
        found["metadata"]["resourceVersion"] = next(self._uids)
        return _held(kind, found) if kind in USER_KINDS else None

    async def delete(self, kind: Kind, namespace: str, name: str, *, uid: str = "", resource_version: str = "") -> None:
        found = self._objects.get((kind.kind, namespace, name))
        if found is not None and uid not in ("", found["metadata"]["uid"]):
            raise KubeConflictError(f"{name} has been replaced by another object")
        if found is not None and resource_version not in ("", found["metadata"]["resourceVersion"]):
            raise KubeConflictError(f"{name} has changed")
        self._objects.pop((kind.kind, namespace, name), None)

    async def patch_metadata(
        self,
        kind: Kind,
        namespace: str,
        name: str,
        fields: Mapping[str, Any],
        seen: Mapping[str, str],
        *,
        spec: Mapping[str, Any] | None = None,
    ) -> None:
        found = self._object(kind.kind, namespace, name, seen["uid"])
        meta = found["metadata"]
        if any(meta[key] != value for key, value in seen.items()):
            raise KubeConflictError(f"{name} has changed")
        if spec is not None and kind.kind in self.refuses:
            raise KubeError(self.refuses[kind.kind], 403)
        found["spec"] = {**found.get("spec", {}), **(spec or {})}
        for field, value in fields.items():
            meta[field] = {**meta.get(field, {}), **value} if isinstance(value, Mapping) else value
        meta["resourceVersion"] = next(self._uids)
        self._remove_what_may_go(kind.kind, name, namespace)

    async def set_pod_condition(self, namespace: str, name: str, uid: str, condition: Mapping[str, Any]) -> None:
        status = self._object("Pod", namespace, name, uid).setdefault("status", {})
        others = [one for one in status.get("conditions", []) if one["type"] != condition["type"]]
        status["conditions"] = [*others, dict(condition)]

    def _object(self, kind: str, namespace: str, name: str, uid: str) -> Json:
        found = self._objects.get((kind, namespace, name))
        if found is None:
            raise KubeError(f"{name} not found", 404)
        if found["metadata"]["uid"] != uid:
            raise KubeConflictError(f"{name} has been replaced by another object")
        return found


class MemoryCache:
    """A cache that is always in sync."""

    def __init__(self, kube: "MemoryKube | Lists") -> None:
        self._kube = kube

    async def resources(self, kind: Kind, namespace: str, cluster: str) -> list[Resource | UnreadableObject]:
        found = await self._kube.list(kind, namespace)
        return [_read(item) for item in found if cluster_of(kind, item) == cluster]

    async def everywhere(self, kind: Kind, model: type[Found]) -> list[Found]:
        values = await self.of_kind(kind)
        return [one for one in values if isinstance(one, model) and one.metadata.deletion_timestamp is None]

    async def of_kind(self, kind: Kind) -> list[Value]:
        found = await self._kube.list(kind, None)
        if kind in USER_KINDS:
            return [_read(item) for item in found]
        return [item for item in found if CLUSTER_LABEL in (item["metadata"].get("labels") or {})]

    def informers(self) -> Mapping[Kind, Informer]:
        assert isinstance(self._kube, MemoryKube)
        found = {kind: Informer(Watched(kind, 30)) for kind in USER_KINDS}
        for item in self._kube.objects.values():
            kind = kind_of(item)
            if kind in found:
                found[kind].store.put(_held(kind, item))
        return found

    async def get(self, kind: Kind, namespace: str, name: str) -> Json | None:
        return await self._kube.get(kind, namespace, name)

    async def list(self, kind: Kind, namespace: str, cluster: str, **labels: str) -> list[Json]:
        wanted = {CLUSTER_LABEL: cluster, **labels}
        return await self._kube.list(kind, namespace, ",".join(f"{key}={value}" for key, value in wanted.items()))


def _copied(document: Document) -> Document:
    """Return a copy of a document. `copy.deepcopy` takes several times as long."""
    copy: Document = pickle.loads(pickle.dumps(document))
    return copy


def _read(item: Json) -> Resource | UnreadableObject:
    """Return a parsed object. Equal documents are parsed once, as a cache parses each version once."""
    return _read_text(json.dumps(item))


@lru_cache(maxsize=1000)
def _read_text(text: str) -> Resource | UnreadableObject:
    return read_object(json.loads(text))


class Lists(Protocol):
    """The reads that MemoryCache needs."""

    async def get(self, kind: Kind, namespace: str | None, name: str) -> Json | None: ...

    async def list(self, kind: Kind, namespace: str | None, label_selector: str = "") -> list[Json]: ...


def _has_all(found: object, wanted: object) -> bool:
    """Return whether `found` has every field of `wanted`."""
    if isinstance(found, Mapping) and isinstance(wanted, Mapping):
        return all(key in found and _has_all(found[key], value) for key, value in wanted.items())
    return found == wanted


def _held(kind: Kind, item: Json) -> CachedObject:
    meta = item["metadata"]
    return CachedObject(meta["namespace"], meta["name"], meta["uid"], 1, cluster_of(kind, item), _read(item))


def _uid(item: Json | None) -> str:
    return "" if item is None else item["metadata"]["uid"]


def _differs(before: Json | None, item: Mapping[str, Any]) -> bool:
    """Whether the generation changes: an unchanged object, metadata and statuses do not change it."""
    of_nobody = ("metadata", "status")
    return before is None or any(before.get(part) != value for part, value in item.items() if part not in of_nobody)


def _field(item: Json, path: str) -> object:
    found: Any = item
    for name in path.split("."):
        found = found.get(name) or {}
    return found
