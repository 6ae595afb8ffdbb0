"""Which BrokerCluster or AuditPipeline may write to a place in an object store. Pure.

The landers of two clusters in one place would merge and delete the same segments. Results among segments would be read
as segments. Two builds in one place would remove each other's files. So the older object keeps its place, and the
younger one gets an error message. Places are compared over all clusters and namespaces. On a claim, each cluster and
each AuditPipeline has its own folder.
"""

from collections.abc import Iterable
from itertools import chain

from sluicegate_operator.api.audit_pipeline import AuditPipeline
from sluicegate_operator.api.broker_cluster import BrokerCluster
from sluicegate_operator.api.metadata import Resource
from sluicegate_operator.planning.seniority import seniority
from sluicegate_operator.planning.store_places import store_place


def why_landing_taken(
    cluster: BrokerCluster, clusters: Iterable[BrokerCluster], pipelines: Iterable[AuditPipeline]
) -> str:
    """Return why the cluster must not land its audit log at its `audit.landing.uri`; empty if it may."""
    uri = _landing_uri(cluster)
    if uri is None:
        return ""
    place = store_place(uri)
    for other in clusters:
        others = _landing_uri(other)
        if others is None or not store_place(others).overlaps(place) or seniority(other) >= seniority(cluster):
            continue
        return (
            f"audit.landing.uri {_shown(uri)} cannot be used: BrokerCluster {_name(other, cluster)} is older and lands"
            f" its audit log in {_shown(others)}, and each cluster needs a place of its own; choose another uri"
        )
    for pipeline in pipelines:
        results = pipeline.spec.results.uri
        if results is None or _is_of(pipeline, cluster) or seniority(pipeline) >= seniority(cluster):
            continue
        if store_place(results).is_within(place):
            return (
                f"audit.landing.uri {_shown(uri)} cannot be used: AuditPipeline {_name(pipeline, cluster)} is older and"
                f" has its results in {_shown(results)}, which would be read as segments; choose another uri"
            )
    return ""


def why_results_in_landing(
    pipeline: AuditPipeline, cluster: BrokerCluster, clusters: Iterable[BrokerCluster], source: str | None = None
) -> str:
    """Return why the results must not be among segments; empty if they may.

    The segments are those in the pipeline's `source`, and those that its own `cluster` or an older one lands.
    """
    results = pipeline.spec.results.uri
    if results is None:
        return ""
    place = store_place(results)
    if source is not None and place.is_within(store_place(source)):
        return _in_source_words(source)
    for other in chain((cluster,), clusters):
        uri = _landing_uri(other)
        if uri is None or not place.is_within(store_place(uri)):
            continue
        if _is_of(pipeline, other):
            return _in_source_words(uri)
        # The cluster wins a tie: a pipeline created in the same second does not keep it from landing.
        if seniority(other) <= seniority(pipeline):
            return (
                f"results lie among the segments that BrokerCluster {_name(other, pipeline)}, which is older, lands in"
                f" {_shown(uri)}, and would be read as such: choose another place"
            )
    return ""


def why_results_taken(pipeline: AuditPipeline, others: Iterable[AuditPipeline]) -> str:
    """Return why the results must not be where an older AuditPipeline has its results; empty if they may."""
    results = pipeline.spec.results.uri
    if results is None:
        return ""
    place = store_place(results)
    for other in others:
        uri = other.spec.results.uri
        if uri is None or not store_place(uri).overlaps(place) or seniority(other) >= seniority(pipeline):
            continue
        name = _name(other, pipeline)
        if store_place(uri) == place:
            return f"AuditPipeline {name} is older and has the same place for results: choose another"
        return f"AuditPipeline {name} is older and has its results in {_shown(uri)}: choose a place outside of that"
    return ""


def _in_source_words(uri: str) -> str:
    return f"results lie among the segments, in {uri}, and would be read as such: choose another place"


def _is_of(pipeline: AuditPipeline, cluster: BrokerCluster) -> bool:
    """Return whether the pipeline reads the audit log of that cluster."""
    return (pipeline.namespace, pipeline.spec.cluster_ref.name) == (cluster.namespace, cluster.name)


def _landing_uri(cluster: BrokerCluster) -> str | None:
    return cluster.spec.landing.uri if cluster.spec.landing is not None else None


def _name(one: Resource, reader: Resource) -> str:
    return one.name if one.namespace == reader.namespace else f"{one.namespace}/{one.name}"


def _shown(uri: str) -> str:
    """Return the URI without options, because only the store's options matter here."""
    return uri.partition("?")[0]
