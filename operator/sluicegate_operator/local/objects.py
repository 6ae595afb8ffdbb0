"""Objects from files, with what an API server would add to each: uid, generation, finalizers, status.

Fields that must outlive `up` (the keys that it has set, the ids of topics) are written to disk before they are acted
on. With them are the uid of the object, and the spec of a KafkaUser: if its file is removed while `up` is stopped, or
`up` is killed before the brokers have removed the user, the next `up` removes it.
"""

import json
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar
from uuid import NAMESPACE_URL, uuid5

from sluicegate_operator.api import KafkaUser, Manifests, Resource, Topic
from sluicegate_operator.api.kinds import KINDS
from sluicegate_operator.api.manifests import InvalidManifest, read_stored
from sluicegate_operator.api.models.kafka_user import FINALIZER
from sluicegate_operator.api.schema.metadata import API_VERSION, Identity, Status
from sluicegate_operator.engine.context.context import reference
from sluicegate_operator.engine.context.snapshot import ClusterKey, LeavingTopic, LeavingUser, Snapshot
from sluicegate_operator.fleet.local.local_data import DataDirError
from sluicegate_operator.kube.http.kinds import Kind

Kept = TypeVar("Kept", bound=Resource)

Remembered = dict[str, dict[str, Any]]
"""The stored fields of statuses, by kind/namespace/name.

They also have the `UID`, and the `SPEC` of a KafkaUser.
"""

UID, SPEC = "uid", "spec"

OUTLIVES = ("topicId", "clusterId")
"""The fields of a status that are always written to disk.

An adopted topic stays adopted, and an external cluster is recognized by its id.
"""


@dataclass(frozen=True, slots=True)
class Changes:
    """The objects that differ between two applied sets of manifests.

    `written` are new or changed objects, `gone` are removed ones.
    """

    written: tuple[Resource, ...]
    gone: tuple[Resource, ...]


class LocalObjects:
    """The objects of `sluicegate up`, from files and from reconcilers.

    `apply` takes the present content of the files; the other methods serve reconcilers.
    """

    def __init__(self, remembered: Remembered, write: Callable[[Remembered], None]) -> None:
        self._remembered = remembered
        self._write = write
        self._objects: dict[Identity, Resource] = {}
        self._created: Counter[str] = Counter()
        """How many objects of a kind, namespace and name this run has created."""
        self._leaving: dict[str, Topic | KafkaUser] = {}
        """Topics and KafkaUsers that are being deleted, by uid."""

    @property
    def resources(self) -> tuple[Resource, ...]:
        return tuple(self._objects.values())

    def apply(self, manifests: Manifests, now: datetime) -> Changes:
        wanted = {resource.identity: resource for resource in manifests.resources}
        self._add_absent_users(wanted.keys(), manifests, now)
        gone = [self._delete(identity, now) for identity in list(self._objects) if identity not in wanted]
        written = []
        for identity, resource in wanted.items():
            before = self._objects.pop(identity, None)
            found = self._objects[identity] = self._taken(resource, before, now)
            if before is None or found.metadata.generation != before.metadata.generation:
                written.append(found)
        return Changes(tuple(written), tuple(gone))

    def snapshot(self, key: ClusterKey, kinds: Collection[Kind]) -> Snapshot:
        namespace, name = key
        mine = [found for found in self._objects.values() if (found.namespace, found.cluster_name) == key]
        models = {KINDS[kind.kind].model for kind in kinds}
        leaving = [
            found
            for found in self._leaving.values()
            if type(found) in models and (found.namespace, found.cluster_name) == key
        ]
        topics = tuple(LeavingTopic(_body(found), found) for found in leaving if isinstance(found, Topic))
        users = tuple(LeavingUser(_body(found), found) for found in leaving if isinstance(found, KafkaUser))
        clusters = Manifests.of(mine).clusters
        cluster = next((found for found in clusters if (found.namespace, found.name) == (namespace, name)), None)
        resources = {model: tuple(found for found in mine if isinstance(found, model)) for model in models}
        return Snapshot(cluster, resources, leaving_topics=topics, leaving_users=users)

    def write_status(self, resource: Resource, status: Status, without: Collection[str]) -> bool:
        """Write the status of an object, without the fields in `without`.

        Returns whether the status changed: never for an object that is gone.
        """
        found = self._objects.get(resource.identity)
        if found is None or found.metadata.uid != resource.metadata.uid:
            return False
        kept = {key: value for key, value in found.status.manifest().items() if key in without}
        manifest = {key: value for key, value in status.manifest().items() if key not in without} | kept
        if manifest == found.status.manifest():
            return False
        self._objects[found.identity] = _with_status(found, manifest)
        if lasting := {key: manifest[key] for key in OUTLIVES if manifest.get(key)}:
            self._remember(found, lasting)
        return True

    def remember(self, resource: Resource, fields: Mapping[str, Any]) -> None:
        self._remember(resource, fields)
        found = self._objects.get(resource.identity)
        if found is not None:
            self._objects[found.identity] = _with_status(found, {**found.status.manifest(), **fields})

    def set_finalizers(self, body: Mapping[str, Any], finalizers: Sequence[str]) -> None:
        meta = body["metadata"]
        identity = (body["kind"], meta["namespace"], meta["name"])
        if not finalizers:
            self._leaving.pop(meta["uid"], None)
            if self._remembered.get("/".join(identity), {}).get(UID) == meta["uid"]:
                self._forget(identity)
        found = self._objects.get(identity)
        if found is not None and found.metadata.uid == meta["uid"]:
            self._objects[identity] = _with_metadata(found, finalizers=tuple(finalizers))

    def _taken(self, resource: Resource, before: Resource | None, now: datetime) -> Resource:
        if before is None:
            kept = self._remembered.get("/".join(resource.identity), {})
            if kept.get(UID) in self._leaving:
                # They are of an earlier object of this name, which is still being removed.
                kept = {}
            meta = {"uid": self._uid_of(resource.identity, kept), "generation": 1, "creation_timestamp": now}
            return _with_status(_with_metadata(resource, **meta), {**resource.status.manifest(), **_fields(kept)})
        old = before.metadata
        changed = _written(resource) != _written(before)
        meta = {
            "uid": old.uid,
            "generation": old.generation + changed,
            "creation_timestamp": old.creation_timestamp,
            "finalizers": old.finalizers,
        }
        return _with_metadata(resource, **meta).model_copy(update={"status": before.status})

    def _uid_of(self, identity: Identity, kept: Mapping[str, Any]) -> str:
        """Return the uid of an object that the files have now. It is the same in the next run: Secrets name it."""
        place, uid = "/".join(identity), kept.get(UID)
        while uid is None or uid in self._leaving:
            self._created[place] += 1
            uid = f"local-{uuid5(NAMESPACE_URL, place)}-{self._created[place]}"
        return str(uid)

    def _delete(self, identity: Identity, now: datetime) -> Resource:
        found = self._objects.pop(identity)
        if isinstance(found, Topic | KafkaUser) and found.metadata.finalizers:
            self._leaving[found.metadata.uid] = _with_metadata(found, deletion_timestamp=now)
            self._remember(found, {})
        else:
            self._forget(identity)
        return found

    def _add_absent_users(self, wanted: Collection[Identity], manifests: Manifests, now: datetime) -> None:
        """Add KafkaUsers of earlier runs that the files do not have any more, so that they are deleted.

        Users of clusters that are not in the files stay remembered. Raises DataDirError.
        """
        clusters = {(cluster.namespace, cluster.name) for cluster in manifests.clusters}
        for place, kept in self._remembered.items():
            kind, namespace, name = identity = tuple(place.split("/"))
            if SPEC not in kept or identity in wanted or identity in self._objects or kept[UID] in self._leaving:
                continue
            user = _user_of_before(namespace, name, kept, now)
            if (namespace, user.cluster_name) in clusters:
                self._objects[kind, namespace, name] = user

    def _remember(self, resource: Resource, fields: Mapping[str, Any]) -> None:
        place, uid = "/".join(resource.identity), resource.metadata.uid
        before = self._remembered.get(place, {})
        known = {} if before.get(UID, uid) != uid else before
        spec: dict[str, Any] = {}
        if isinstance(resource, KafkaUser):
            spec = {SPEC: resource.spec.model_dump(mode="json", by_alias=True, exclude_none=True)}
        if (after := {**known, **fields, UID: uid, **spec}) != before:
            self._remembered[place] = after
            self._write(self._remembered)

    def _forget(self, identity: Identity) -> None:
        if self._remembered.pop("/".join(identity), None) is not None:
            self._write(self._remembered)


def _user_of_before(namespace: str, name: str, kept: Mapping[str, Any], now: datetime) -> Resource:
    """Return a KafkaUser of an earlier run, with the finalizer that it had. Raises DataDirError."""
    head = {"apiVersion": API_VERSION, "kind": KafkaUser.__name__, "metadata": {"name": name, "namespace": namespace}}
    try:
        user = read_stored({**head, "spec": kept[SPEC]})
    except InvalidManifest as error:
        raise DataDirError(
            f"KafkaUser {namespace}/{name} of an earlier run cannot be read from remembered.json: {error}; remove the"
            " user with Kafka's tools, then its entry from that file"
        ) from None
    metadata = {"uid": kept[UID], "generation": 1, "creation_timestamp": now, "finalizers": (FINALIZER,)}
    return _with_status(_with_metadata(user, **metadata), _fields(kept))


def _fields(kept: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of the status."""
    return {key: value for key, value in kept.items() if key not in (UID, SPEC)}


def _body(resource: Resource) -> dict[str, Any]:
    body = reference(resource)
    return {**body, "metadata": {**body["metadata"], "finalizers": list(resource.metadata.finalizers)}}


def _with_metadata(resource: Kept, **fields: Any) -> Kept:
    return resource.model_copy(update={"metadata": resource.metadata.model_copy(update=fields)})


def _with_status(resource: Kept, manifest: Mapping[str, Any]) -> Kept:
    status = type(resource.status).model_validate_json(json.dumps(manifest))
    return resource.model_copy(update={"status": status})


def _written(resource: Resource) -> tuple[object, ...]:
    """Return the parts of the object that its user wrote."""
    meta = resource.metadata
    return resource.spec, meta.labels, meta.annotations
