"""Warnings about an object that is being applied: what its schema allows, but the cluster does not support. Pure.

The verdicts are those of the planners, and the restarts are those of `sluicegate plan`. A warning never refuses.
"""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime

from sluicegate_operator.api.manifests import Manifests
from sluicegate_operator.api.models.audit_pipeline import AuditPipeline
from sluicegate_operator.api.models.broker_cluster import BrokerCluster
from sluicegate_operator.api.models.broker_listener import BrokerListener
from sluicegate_operator.api.models.connection_quota import ConnectionQuota
from sluicegate_operator.api.models.replica_numbers import cluster_contradictions, topic_contradictions
from sluicegate_operator.api.models.topic import Topic
from sluicegate_operator.api.schema.metadata import Resource
from sluicegate_operator.planning.layout.audit_places import results_of
from sluicegate_operator.planning.layout.images import Images
from sluicegate_operator.planning.layout.preview_nodes import NodeKind, restart_phrases
from sluicegate_operator.planning.pipelines.pipelines import PipelineOutcome, plan_pipeline
from sluicegate_operator.planning.status.seniority import seniority
from sluicegate_operator.preview.cluster import Versions, preview_cluster
from sluicegate_operator.preview.complaints import complaints
from sluicegate_operator.quotas.model.strictest import limit_of
from sluicegate_operator.quotas.model.targets import LimitField

WARNINGS_MAX = 5
"""Maximum number of warnings about an object: the API server returns at most 4,096 characters for all of a request."""
LENGTH_MAX = 250
"""Maximum length of a warning in characters. The API server truncates one that is longer than 256 characters."""
NAMES_MAX = 4
"""Maximum number of nodes that a warning about a restart names."""
_DEFAULT_IMAGES = Images()


def admission_warnings(
    applied: Resource, old: Resource | None, around: Iterable[Resource], now: datetime, images: Images = _DEFAULT_IMAGES
) -> tuple[str, ...]:
    """Return the warnings about the object `applied`, at most WARNINGS_MAX.

    There are none if its spec is that of `old` or if it is being deleted. `old` is the object before the change, None
    for a new object. `around`: its cluster and the objects that the verdict depends on, which may include the object
    itself. `now` is the time of creation of a new object. `images`: those of nodes whose cluster names none.
    """
    if applied.metadata.deletion_timestamp is not None or (old is not None and old.spec == applied.spec):
        return ()
    applied = _as_stored(applied, old, now)
    others = [one for one in around if one.identity != applied.identity]
    before = Manifests.of(others if old is None else [*others, old])
    after = Manifests.of([*others, applied])
    found = [*_of_itself(applied, after, now), *_verdicts(applied, before, after, now)]
    found += _restarts(applied, before, after, now, images)
    sentences = list(dict.fromkeys(map(_cut, found)))
    if len(sentences) > WARNINGS_MAX:
        more = len(sentences) - WARNINGS_MAX + 1
        sentences = [*sentences[: WARNINGS_MAX - 1], f"and {more} more; `sluicegate plan` lists all of them"]
    return tuple(sentences)


def decisive(rivals: Sequence[Resource], now: datetime) -> list[Resource]:
    """Return the rivals that decide: the strictest quota for each limit of a target, or the oldest Topic of a topic.

    The verdict on another object with the same target or topic depends only on these.
    """
    found: list[Resource] = []
    living = [one for one in rivals if one.metadata.deletion_timestamp is None]
    quotas = [one for one in living if isinstance(one, ConnectionQuota) and one.spec.expires > now]
    for limit in LimitField:
        stated = [(value, seniority(one), one) for one in quotas if (value := limit_of(one, limit)) is not None]
        if stated:
            found.append(min(stated, key=lambda entry: entry[:2])[2])
    topics = [one for one in living if isinstance(one, Topic)]
    if topics:
        found.append(min(topics, key=seniority))
    return list({one.identity: one for one in found}.values())


def _as_stored(applied: Resource, old: Resource | None, now: datetime) -> Resource:
    """Return the object with a creation time. A new object is the youngest: of two rivals, the older one wins."""
    if old is not None or applied.metadata.creation_timestamp is not None:
        return applied
    metadata = applied.metadata.model_copy(update={"creation_timestamp": now})
    return applied.model_copy(update={"metadata": metadata})


def _verdicts(applied: Resource, before: Manifests, after: Manifests, now: datetime) -> Iterator[str]:
    """Yield complaints about the object, and new complaints about other objects."""
    known = set(complaints(before, now))
    news = complaints(after, now)
    yield from (one.message for one in news if _names(applied, one.kind, one.name))
    yield from (
        f"{one.kind} {one.name}: {one.message}"
        for one in news
        if one not in known and not _names(applied, one.kind, one.name)
    )


def _names(resource: Resource, kind: str, name: str) -> bool:
    return (resource.kind, resource.name) == (kind, name)


def _of_itself(applied: Resource, after: Manifests, now: datetime) -> Iterator[str]:
    """Yield problems that no complaint covers."""
    if isinstance(applied, BrokerCluster):
        yield from map(str, cluster_contradictions(applied))
    elif isinstance(applied, Topic):
        # The number of brokers is among the complaints.
        yield from map(str, topic_contradictions(applied, None))
    elif isinstance(applied, AuditPipeline):
        cluster = next((one for one in after.clusters if _is_of(applied, one)), None)
        plan = plan_pipeline(applied, cluster, now, results_of(after.of_kind(AuditPipeline)))
        if plan.outcome is not PipelineOutcome.ACCEPTED:
            yield plan.message


def _restarts(applied: Resource, before: Manifests, after: Manifests, now: datetime, images: Images) -> Iterator[str]:
    if not isinstance(applied, BrokerCluster | BrokerListener):
        return
    before, after = (_with_images(manifests, images) for manifests in (before, after))
    cluster = next((one for one in after.clusters if _is_of(applied, one)), None)
    if cluster is None:
        return
    seen = preview_cluster(cluster, Versions(before, after, NodeKind.POD, now), None)
    # A node without a reason waits for the restart of an earlier change.
    if restarts := [node for node in seen.restarts if node.reasons]:
        yield from restart_phrases(restarts, NAMES_MAX)
        yield from seen.notes


def _with_images(manifests: Manifests, images: Images) -> Manifests:
    return Manifests.of([images.of_cluster(o) if isinstance(o, BrokerCluster) else o for o in manifests.resources])


def _is_of(resource: Resource, cluster: BrokerCluster) -> bool:
    name = resource.name if isinstance(resource, BrokerCluster) else resource.cluster_name
    return (resource.namespace, name) == (cluster.namespace, cluster.name)


def _cut(sentence: str) -> str:
    return sentence if len(sentence) <= LENGTH_MAX else f"{sentence[: LENGTH_MAX - 3]}..."
