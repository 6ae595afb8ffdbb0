"""Objects as the cache stores them: parsed once for each resourceVersion, without the parts that no plan uses.

Custom kinds are stored as their models, and equal parts of models share one object in memory: ten thousand quotas that
are all enforced differ in little but their names. Other kinds are stored as documents without managedFields and without
the parts that only kubelets read.
"""

import sys
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, cast

from pydantic import BaseModel

from sluicegate_operator.api.manifests import InvalidManifest, read_stored
from sluicegate_operator.api.release import own_release, why_too_new
from sluicegate_operator.api.schema.metadata import Resource
from sluicegate_operator.kube.http.kinds import BROKER_CLUSTER, POD, STATEFUL_SET, USER_KINDS, Kind
from sluicegate_operator.planning.status.unreadable import NEWER_VERSION, UNREADABLE, text_at
from sluicegate_operator.resources.labels import CLUSTER_LABEL
from sluicegate_operator.resources.nodes.lander import lander_of_pod

Json = Mapping[str, Any]
OPERATOR_VERSION = ("status", "operatorVersion")
SHARED_MAX = 1024
WORD_MAX = 200
"""Maximum length of a text that is shared between objects. Longer texts are rarely equal."""
_NOBODY_PLANS_BY = ("kubectl.kubernetes.io/last-applied-configuration",)
"""Annotations that are as long as the object."""


@dataclass(frozen=True, slots=True)
class UnreadableObject:
    """A custom object that this operator cannot read or leaves to a newer one, as the API server has it, and why."""

    body: Json
    why: str
    reason: str = UNREADABLE


Value = Resource | UnreadableObject | Json


@dataclass(frozen=True, slots=True)
class CachedObject:
    """A Kubernetes object as the operator's cache keeps it.

    `cluster` is the name of the object's BrokerCluster; empty if the object names none. `version` is its
    resourceVersion as a number: API servers count upwards.
    """

    namespace: str
    name: str
    uid: str
    version: int
    cluster: str
    value: Value

    @property
    def key(self) -> tuple[str, str]:
        return self.namespace, self.name


_NOTHING: dict[str, Any] = {}
"""The labels and annotations of nearly all objects; shared, because models are never changed."""


class Reader:
    """Converts the API server's objects to cached ones. Each Informer has its own Reader."""

    def __init__(self, trim: Callable[[Json], Json] | None = None) -> None:
        """Create a reader. `trim` returns the part of a document to keep, in place of the default for its kind."""
        self._trim = trim
        self._shared: dict[Hashable, Any] = {}

    def read(self, kind: Kind, body: Json) -> CachedObject:
        meta = body["metadata"]
        namespace, name = meta.get("namespace") or "", meta["name"]
        value = self._value(kind, body)
        return CachedObject(namespace, name, meta.get("uid") or "", version_of(meta), cluster_of(kind, body), value)

    def _value(self, kind: Kind, body: Json) -> Value:
        own = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": _trimmed_metadata(body["metadata"])}
        kept = {**body, **own}
        if kind not in USER_KINDS:
            document: Json = _of_shared_words((self._trim or _TRIMMED.get(kind, _whole))(kept))
            return document
        value = read_object(kept)
        if isinstance(value, Resource):
            self._share(value)
        return value

    def _share(self, model: BaseModel) -> None:
        """Replace parts of the model by equal parts that are already in memory.

        Models are frozen, so sharing is safe.
        """
        fields = model.__dict__
        for name, value in fields.items():
            if isinstance(value, BaseModel):
                fields[name] = self._one(value)
            elif isinstance(value, tuple) and value and isinstance(value[0], BaseModel):
                fields[name] = tuple(self._one(part) for part in value)
            elif isinstance(value, datetime):
                fields[name] = self._kept(value, value)
            elif value == {}:
                fields[name] = _NOTHING
        named = model.__pydantic_fields_set__
        object.__setattr__(model, "__pydantic_fields_set__", self._kept(frozenset(named), named))

    def _one(self, model: BaseModel) -> BaseModel:
        self._share(model)
        try:
            return cast(BaseModel, self._kept(model, model))
        except TypeError:
            # The model contains a mapping, which is not hashable.
            return model

    def _kept(self, key: Hashable, value: Any) -> Any:
        if len(self._shared) >= SHARED_MAX:
            self._shared.clear()
        return self._shared.setdefault(key, value)


def _of_shared_words(value: Any) -> Any:
    """Return an equal value whose keys and short texts are interned: documents differ in few of them."""
    if isinstance(value, dict):
        return {sys.intern(key): _of_shared_words(part) for key, part in value.items()}
    if isinstance(value, list):
        return [_of_shared_words(part) for part in value]
    return sys.intern(value) if isinstance(value, str) and len(value) <= WORD_MAX else value


def read_object(body: Json) -> Resource | UnreadableObject:
    """Return the object as its model. A BrokerCluster of a much newer operator is not read."""
    newer = body.get("kind") == BROKER_CLUSTER.kind and why_too_new(text_at(body, *OPERATOR_VERSION), own_release())
    if newer:
        return UnreadableObject(body, newer, NEWER_VERSION)
    try:
        return read_stored(body)
    except InvalidManifest as error:
        return UnreadableObject(body, str(error))


def version_of(meta: Json) -> int:
    return int(meta.get("resourceVersion") or 0)


def cluster_of(kind: Kind, body: Json) -> str:
    """Return the name of the object's cluster without parsing the rest; empty if the object names no cluster."""
    meta = body["metadata"]
    if kind == BROKER_CLUSTER:
        return str(meta["name"])
    if kind not in USER_KINDS:
        return str((meta.get("labels") or {}).get(CLUSTER_LABEL) or "")
    found: Any = body
    for field in ("spec", "clusterRef", "name"):
        # Objects that were stored under another schema may have a text or a list here.
        found = found.get(field) if isinstance(found, Mapping) else None
    return found if isinstance(found, str) else ""


def _trimmed_metadata(meta: Json) -> Json:
    kept = {field: value for field, value in meta.items() if field != "managedFields"}
    if "annotations" in kept:
        annotations = {key: value for key, value in kept["annotations"].items() if key not in _NOBODY_PLANS_BY}
        kept["annotations"] = annotations
    return kept


def _whole(body: Json) -> Json:
    return body


def _trimmed_pod(body: Json) -> Json:
    spec = body.get("spec") or {}
    kept = {field: spec[field] for field in ("nodeName", "readinessGates") if field in spec}
    return {**body, "spec": {**kept, **_kept_of_pods(spec)}}


def _trimmed_node_set(body: Json) -> Json:
    spec = body["spec"]
    template = spec["template"]
    pods = {**template, "spec": _kept_of_pods(template.get("spec") or {})}
    kept = {
        "replicas": spec.get("replicas", 1),
        "volumeClaimTemplates": spec.get("volumeClaimTemplates") or [],
        "persistentVolumeClaimRetentionPolicy": spec.get("persistentVolumeClaimRetentionPolicy") or {},
    }
    return {**body, "spec": {**kept, "template": pods}}


def _kept_of_pods(spec: Json) -> Json:
    """Return the volumes that are ConfigMaps, and the place where the pod lands its audit log."""
    volumes = [volume for volume in spec.get("volumes") or () if "configMap" in volume]
    landers = lander_of_pod(spec)
    return {"volumes": volumes, **({"initContainers": landers} if landers else {})}


_TRIMMED: Mapping[Kind, Callable[[Json], Json]] = {POD: _trimmed_pod, STATEFUL_SET: _trimmed_node_set}
