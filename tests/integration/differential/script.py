"""All sequences of the suite, by the name under which their answers are compared."""

from collections.abc import Mapping

from tests.integration.differential.play import Sequence
from tests.integration.differential.scripts import (
    access,
    client_quotas,
    configs,
    connections,
    features,
    frames,
    named_resources,
    partitions,
    records,
    static_limits,
    throttling,
    topics,
)
from tests.integration.differential.scripts.groups import consumer_groups, group_views, offsets

SEQUENCES: Mapping[str, Sequence] = {
    "api versions": frames.api_versions,
    "advertised ranges": frames.advertised_ranges,
    "odd frames": frames.odd_frames,
    "features": features.told,
    "features updated": features.updated,
    "access control lists": features.acls,
    "metrics of clients": features.telemetry,
    "broker configs": configs.broker_configs,
    "config resources": configs.resources,
    "replaced configs": configs.replaced_configs,
    "config precedence": configs.precedence,
    "topic configs": configs.topic_configs,
    "group configs": named_resources.groups,
    "client metrics subscriptions": named_resources.client_metrics,
    "broker loggers": named_resources.broker_loggers,
    "topics made": topics.creation,
    "topics seen": topics.existing,
    "topics made by asking": topics.auto_creation,
    "topics grown": topics.growth,
    "topics deleted": topics.deletion,
    "cluster": topics.cluster,
    "topics by pieces": topics.by_pieces,
    "lists and features": topics.lists_and_features,
    "coordinators": topics.coordinators,
    "producer ids": topics.producer_ids,
    "leaders elected": partitions.elections,
    "partitions moved": partitions.reassignments,
    "brokers unregistered": partitions.brokers,
    "folders": partitions.folders,
    "records produced": records.produced,
    "records unanswered": records.unanswered,
    "records of idempotent producers": records.idempotent,
    "records and configurations": records.configured,
    "records fetched": records.fetched,
    "offsets looked up": records.looked_up,
    "offsets inside batches": records.looked_up_inside,
    "records deleted": records.deleted,
    "quota changes": client_quotas.alterations,
    "quota filters": client_quotas.filters,
    "clients throttled by level": throttling.levels,
    "clients that share a quota": throttling.shared,
    "clients throttled at fetching": throttling.fetched,
    "clients throttled at changing topics": throttling.changed,
    "connections without limits": connections.unlimited,
    "connections and a listener's rate": connections.listener_rate,
    "connections at a pace": connections.paced,
    "connections and the broker's rate": connections.broker_rate,
    "connections and an address's rate": connections.ip_rates,
    "connections and both rates": connections.ip_rate_and_listener_rate,
    "connections and an address's count": connections.ip_counts,
    "connections and slots": connections.slots,
    "connections closed for others": connections.evictions,
}

WITH_LIMITS_IN_THE_FILE: Mapping[str, Sequence] = {
    "limits of the file described": static_limits.described,
    "limits of the file": static_limits.held,
    "limits of the file changed": static_limits.changed,
}

WITH_COORDINATORS: Mapping[str, Sequence] = {
    "coordinators found": offsets.coordinators_found,
    "offsets of nobody": offsets.committed_by_nobody,
    "offsets refused": offsets.refused_to_nobody,
    "offsets of members": offsets.committed_by_members,
    "offsets deleted": offsets.deleted,
    "offsets of deleted topics": offsets.gone_with_their_topic,
    "offsets by topic ids": offsets.by_topic_ids,
    "groups listed and described": group_views.described,
}

WITH_ACCESS_CONTROL: Mapping[str, Sequence] = {
    "topics without permission": access.topics_denied,
    "groups without permission": access.groups_denied,
    "the cluster without permission": access.cluster_denied,
    "permissions on topics": access.topic_permissions,
    "permissions on groups": access.group_permissions,
    "permissions on the cluster": access.cluster_permissions,
    "patterns and denials": access.patterns_and_denials,
    "lists changed": access.acls_made,
}

OF_CONSUMER_GROUPS: Mapping[str, Sequence] = {
    "consumer groups refused": consumer_groups.refused,
    "consumer groups shared": consumer_groups.shared,
    "consumer groups and subscriptions": consumer_groups.subscriptions,
    "consumer groups and expressions": consumer_groups.expressions,
    "consumer groups and static members": consumer_groups.static_members,
    "consumer groups at a pace": consumer_groups.paced,
    "consumer groups and configurations": consumer_groups.configured,
    "consumer groups and silent members": consumer_groups.silent,
    "consumer groups and commits": consumer_groups.commits,
    "consumer groups and assignors": consumer_groups.assignors,
}

PLAYED_AGAIN = (
    {name for name in SEQUENCES if name.startswith(("connections", "clients"))}
    | WITH_LIMITS_IN_THE_FILE.keys()
    | {"odd frames"}
)
"""Sequences that are repeated after a difference.

They count and time crowds of connections, or wait for answers that do not come, so a loaded machine may change their
results. They leave nothing behind: connections are closed, limits are lifted.
"""
