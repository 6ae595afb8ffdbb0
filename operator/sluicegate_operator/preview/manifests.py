"""The result of applying manifests: objects that are created, changed or refused, and the actions of their clusters.

The operator's own planners decide, on the existing objects (`World`) and on those that would exist. No rule is written
twice, so the preview shows what the operator will do. Objects that the manifests do not name stay in Kubernetes, and
are deleted by `sluicegate up`.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from sluicegate_operator.api.configs.config_keys import HIDDEN, is_secret
from sluicegate_operator.api.manifests import Manifests
from sluicegate_operator.api.schema.metadata import Identity, Resource
from sluicegate_operator.api.schema.rules import broken_rules
from sluicegate_operator.planning.layout.preview_nodes import NodeKind, RunningNodes
from sluicegate_operator.preview.cluster import ClusterPreview, Versions, preview_cluster
from sluicegate_operator.preview.complaints import Complaint, complaints

VALUE_SHOWN_MAX = 120


@dataclass(frozen=True, slots=True)
class World:
    """The existing objects with their statuses, and the nodes of clusters whose nodes were read.

    `nodes` are by namespace and name of their cluster. `kind`: pods, or processes of `sluicegate up`; different changes
    restart them, and `sluicegate up` deletes objects that manifests do not name. `operator_silence`: a sentence that no
    operator works on the cluster; empty if one does.
    """

    manifests: Manifests = field(default_factory=Manifests)
    nodes: Mapping[tuple[str, str], RunningNodes] = field(default_factory=dict)
    kind: NodeKind = NodeKind.POD
    operator_silence: str = ""


class ObjectOutcome(StrEnum):
    """The result for one object if new manifests were applied."""

    CREATED = "Created"
    CHANGED = "Changed"
    UNCHANGED = "Unchanged"
    REFUSED = "Refused"
    DELETED = "Deleted"


@dataclass(frozen=True, slots=True)
class ObjectPreview:
    """The effects of new manifests on one object.

    `changes`: a phrase for each field of the spec that differs; `problems`: why the API server would refuse it.
    """

    kind: str
    namespace: str
    name: str
    outcome: ObjectOutcome
    changes: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Preview:
    """The effects of new manifests.

    `complaints`: new complaints about objects that would be accepted. `notes`: sentences about the whole preview.
    """

    objects: tuple[ObjectPreview, ...]
    clusters: tuple[ClusterPreview, ...]
    complaints: tuple[Complaint, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def refused(self) -> bool:
        """Return whether an object would be refused or would have no effect."""
        kept = any(item.outcome is ObjectOutcome.REFUSED for item in self.objects)
        return kept or any(complaint.stalls for complaint in self.complaints)

    @property
    def restarts(self) -> int:
        return sum(len(cluster.restarts) for cluster in self.clusters)


def preview(wanted: Manifests, world: World, now: datetime) -> Preview:
    """Return the effects that new manifests would have.

    `now` is the creation time of new objects, so existing ones are older.
    """
    there = {resource.identity: resource for resource in world.manifests.resources}
    after, objects = dict(there), []
    for resource in wanted.resources:
        old = there.get(resource.identity)
        applied = _as_applied(resource, old, now)
        seen = _preview_object(applied, old)
        objects.append(seen)
        if seen.outcome is not ObjectOutcome.REFUSED:
            after[resource.identity] = applied
    if world.kind is NodeKind.PROCESS:
        named = {resource.identity for resource in wanted.resources}
        for identity in [identity for identity in there if identity not in named]:
            del after[identity]
            objects.append(ObjectPreview(*identity, ObjectOutcome.DELETED))
    then = Manifests.of(list(after.values()))
    touched = {_cluster_of(resource) for resource in (*wanted.resources, *_gone(there, after))}
    versions = Versions(world.manifests, then, world.kind, now)
    clusters = tuple(
        preview_cluster(cluster, versions, world.nodes.get(key))
        for cluster in then.clusters
        if (key := (cluster.namespace, cluster.name)) in touched
    )
    before = set(complaints(world.manifests, now))
    news = tuple(complaint for complaint in complaints(then, now) if complaint not in before)
    return Preview(tuple(objects), clusters, news, (world.operator_silence,) if world.operator_silence else ())


def _gone(there: Mapping[Identity, Resource], after: Mapping[Identity, Resource]) -> Iterator[Resource]:
    return (resource for identity, resource in there.items() if identity not in after)


def _cluster_of(resource: Resource) -> tuple[str, str]:
    ref = getattr(resource.spec, "cluster_ref", None)
    return resource.namespace, resource.name if ref is None else ref.name


def _as_applied(resource: Resource, old: Resource | None, now: datetime) -> Resource:
    """Return the object as the API server would store it: an existing one keeps its status and metadata."""
    if old is None:
        metadata = resource.metadata.model_copy(update={"creation_timestamp": now})
        return resource.model_copy(update={"metadata": metadata})
    return resource.model_copy(update={"metadata": old.metadata, "status": old.status})


def _preview_object(resource: Resource, old: Resource | None) -> ObjectPreview:
    kind, namespace, name = resource.identity
    if problems := tuple(map(str, broken_rules(resource, old))):
        return ObjectPreview(kind, namespace, name, ObjectOutcome.REFUSED, problems=problems)
    if old is None:
        return ObjectPreview(kind, namespace, name, ObjectOutcome.CREATED)
    changes = tuple(spec_changes(old, resource))
    outcome = ObjectOutcome.CHANGED if changes else ObjectOutcome.UNCHANGED
    return ObjectPreview(kind, namespace, name, outcome, changes)


def spec_changes(old: Resource, new: Resource) -> Iterator[str]:
    """Yield phrases such as `spec.brokers.replicas: 3 -> 4`, in order of the fields' names."""
    before, after = (dict(_leaves("spec", one.spec.model_dump(mode="json", by_alias=True))) for one in (old, new))
    for path in sorted({*before, *after}):
        was, is_ = before.get(path), after.get(path)
        if was != is_:
            yield f"{path}: {_shown(path, was)} -> {_shown(path, is_)}"


def _leaves(path: str, value: Any) -> Iterator[tuple[str, Any]]:
    if value is None:
        return
    if not isinstance(value, Mapping):
        yield path, value
        return
    for name, item in value.items():
        yield from _leaves(f"{path}[{name}]" if "." in name else f"{path}.{name}", item)


def _shown(path: str, value: Any) -> str:
    if value is not None and is_secret(path.removesuffix("]")):
        return HIDDEN
    text = "absent" if value is None else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= VALUE_SHOWN_MAX else f"{text[:VALUE_SHOWN_MAX]}..."


def summary(seen: Preview) -> str:
    """Return one sentence about the preview for the end of the output."""
    counts = {outcome: sum(item.outcome is outcome for item in seen.objects) for outcome in ObjectOutcome}
    named = ", ".join(f"{count} {outcome.lower()}" for outcome, count in counts.items() if count)
    kept = "" if counts[ObjectOutcome.DELETED] else "; nothing is deleted"
    return f"{named or 'nothing'}; {_restarts(seen)}{kept}"


def _restarts(seen: Preview) -> str:
    names: Sequence[str] = [node.name for cluster in seen.clusters for node in cluster.restarts]
    if not names:
        return "no node restarts"
    return f"{len(names)} node{'s' if len(names) > 1 else ''} would restart"
