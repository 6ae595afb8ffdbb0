"""Which BrokerCluster or AuditPipeline may write to a place in an object store. Pure.

Two clusters in one place have two landers that merge and delete the same segments. Results among segments are read as
segments. Two builds in one place remove each other's files. A cluster whose pods land in a place keeps it. A place
where no pod lands is the older object's, and the younger one gets a sentence. Places are compared over all clusters and
namespaces. On a claim, each cluster and each AuditPipeline has a folder of its own.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any

from sluicegate_operator.api.models.audit_pipeline import AuditPipeline
from sluicegate_operator.api.models.broker_cluster import BrokerCluster
from sluicegate_operator.api.schema.metadata import Resource
from sluicegate_operator.planning.layout.store_places import store_place
from sluicegate_operator.planning.status.seniority import Seniority, seniority, seniority_of_body
from sluicegate_operator.planning.status.unreadable import text_at


@dataclass(frozen=True, slots=True)
class Lander:
    """A place where pods of a BrokerCluster land their audit log now, or will land it as soon as they start.

    The cluster itself may be unreadable, being deleted or gone.
    """

    namespace: str
    cluster: str
    uri: str


@dataclass(frozen=True, slots=True)
class Results:
    """The place for results of an AuditPipeline, which may be unreadable or being deleted."""

    namespace: str
    name: str
    cluster: str
    uri: str
    seniority: Seniority

    @classmethod
    def of(cls, pipeline: AuditPipeline) -> "Results | None":
        """Return the place for results of an AuditPipeline; None for results on a claim."""
        uri, cluster = pipeline.spec.results.uri, pipeline.spec.cluster_ref.name
        return None if uri is None else cls(pipeline.namespace, pipeline.name, cluster, uri, seniority(pipeline))

    @classmethod
    def of_unreadable(cls, body: Mapping[str, Any]) -> "Results | None":
        """Return the place in the manifest of an AuditPipeline that cannot be read.

        None if the manifest names no place in an object store.
        """
        uri, age = text_at(body, "spec", "results", "uri"), seniority_of_body(body)
        if not uri.startswith("s3://"):
            return None
        return cls(age[1], age[2], text_at(body, "spec", "clusterRef", "name"), uri, age)


def results_of(pipelines: Iterable[AuditPipeline]) -> list[Results]:
    """Return the places for results of these AuditPipelines, without those on claims."""
    return [found for one in pipelines if (found := Results.of(one)) is not None]


def why_landing_taken(
    cluster: BrokerCluster,
    clusters: Iterable[BrokerCluster],
    results: Iterable[Results],
    landers: Collection[Lander] = (),
) -> str:
    """Return why the cluster must not land its audit log at its `audit.landing.uri`; empty if it may.

    `landers`: those of all clusters. A cluster that lands there already is only refused if an older one does so too.
    """
    uri = _landing_uri(cluster)
    if uri is None:
        return ""
    place = store_place(uri)
    lands_there = any(_is_of(one, cluster) and store_place(one.uri) == place for one in landers)
    theirs = [one for one in landers if not _is_of(one, cluster) and store_place(one.uri).overlaps(place)]
    if theirs and not lands_there:
        return _landers_words(uri, theirs[0], cluster)
    for other in clusters:
        others = _landing_uri(other)
        if others is None or not store_place(others).overlaps(place) or seniority(other) >= seniority(cluster):
            continue
        if lands_there and not any(_is_of(one, other) for one in theirs):
            continue
        return (
            f"audit.landing.uri {_shown(uri)} cannot be used: BrokerCluster {_name(other, cluster)} is older"
            f" and lands its audit log in {_shown(others)}, and each cluster needs its own place; choose"
            " another uri"
        )
    for one in () if lands_there else results:
        if _is_of(one, cluster) or one.seniority >= seniority(cluster) or not store_place(one.uri).is_within(place):
            continue
        return (
            f"audit.landing.uri {_shown(uri)} cannot be used: AuditPipeline {_name(one, cluster)} is older and"
            f" has its results in {_shown(one.uri)}, which would be read as segments; choose another uri"
        )
    return ""


def why_results_in_landing(
    pipeline: AuditPipeline,
    cluster: BrokerCluster,
    clusters: Iterable[BrokerCluster],
    source: str | None = None,
    landers: Iterable[Lander] = (),
) -> str:
    """Return why the results must not be written to their place; empty if they may.

    The place must not be in the pipeline's `source`, where its own `cluster` or an older one is to land, or where pods
    of any cluster land.
    """
    results = Results.of(pipeline)
    if results is None:
        return ""
    place = store_place(results.uri)
    if source is not None and place.is_within(store_place(source)):
        return _in_source_words(source)
    for other in chain((cluster,), clusters):
        uri = _landing_uri(other)
        if uri is None or not place.is_within(store_place(uri)):
            continue
        if _is_of(results, other):
            return _in_source_words(uri)
        # The cluster wins a tie: a pipeline created in the same second does not keep it from landing.
        if seniority(other) <= seniority(pipeline):
            return (
                f"results would be read as segments, because the older BrokerCluster {_name(other, pipeline)}"
                f" lands its audit log in {_shown(uri)}: choose another place"
            )
    for lander in landers:
        if place.is_within(store_place(lander.uri)):
            return _in_source_words(_shown(lander.uri))
    return ""


def why_results_taken(pipeline: AuditPipeline, others: Iterable[Results]) -> str:
    """Return why the results must not be where an older AuditPipeline has its results; empty if they may."""
    results = Results.of(pipeline)
    if results is None:
        return ""
    place = store_place(results.uri)
    for other in others:
        uri = other.uri
        if not store_place(uri).overlaps(place) or other.seniority >= results.seniority:
            continue
        name = _name(other, pipeline)
        if store_place(uri) == place:
            return f"AuditPipeline {name} is older and has the same place for results: choose another place"
        return f"AuditPipeline {name} is older and has its results in {_shown(uri)}: choose a place outside of it"
    return ""


def _landers_words(uri: str, lander: Lander, cluster: BrokerCluster) -> str:
    other = lander.cluster if lander.namespace == cluster.namespace else f"{lander.namespace}/{lander.cluster}"
    return (
        f"audit.landing.uri {_shown(uri)} cannot be used: pods of BrokerCluster {other} land their audit log"
        f" in {_shown(lander.uri)}, and each cluster needs its own place; choose another uri, or wait until"
        " these pods are deleted or land elsewhere"
    )


def _in_source_words(uri: str) -> str:
    return f"results would be read as segments, because the segments are in {uri}: choose another place"


def _is_of(place: Lander | Results, cluster: BrokerCluster) -> bool:
    """Whether the place is for the audit log of that cluster."""
    return (place.namespace, place.cluster) == (cluster.namespace, cluster.name)


def _landing_uri(cluster: BrokerCluster) -> str | None:
    return cluster.spec.landing.uri if cluster.spec.landing is not None else None


def _name(one: Resource | Results, reader: Resource) -> str:
    return one.name if one.namespace == reader.namespace else f"{one.namespace}/{one.name}"


def _shown(uri: str) -> str:
    """Return the URI without options, because only the store's options matter here."""
    return uri.partition("?")[0]
