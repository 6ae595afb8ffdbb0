"""The explicit table of the APIs that each kind of listener serves."""

from broker_runtime.apis import (
    allocate_producer_ids,
    alter_client_quotas,
    alter_configs,
    alter_partition,
    alter_partition_reassignments,
    alter_replica_log_dirs,
    broker_heartbeat,
    broker_registration,
    create_partitions,
    create_topics,
    delete_records,
    delete_topics,
    describe_client_quotas,
    describe_cluster,
    describe_configs,
    describe_log_dirs,
    describe_producers,
    describe_quorum,
    describe_topic_partitions,
    elect_leaders,
    fetch_snapshot,
    find_coordinator,
    incremental_alter_configs,
    init_producer_id,
    list_config_resources,
    list_offsets,
    list_partition_reassignments,
    metadata,
    offset_for_leader_epoch,
    unregister_broker,
    update_features,
    without_groups,
)
from broker_runtime.apis.api_versions import VERSIONS as API_VERSIONS_RANGE
from broker_runtime.apis.context import ApiSpec, Node, RequestContext
from broker_runtime.wire.messages import Entity, Fields
from broker_runtime.wire.versions import API_VERSIONS, FETCH, PRODUCE


def _answered_by_the_dispatcher(request: Entity, ctx: RequestContext, node: Node) -> Fields:
    raise AssertionError(f"API {ctx.api_key} has its own way through the dispatcher")


_PRODUCE = ApiSpec(PRODUCE, "Produce", (3, 12), _answered_by_the_dispatcher)
_FETCH = ApiSpec(FETCH, "Fetch", (4, 15), _answered_by_the_dispatcher)
_API_VERSIONS = ApiSpec(API_VERSIONS, "ApiVersions", API_VERSIONS_RANGE, _answered_by_the_dispatcher)

_ADMIN = (
    create_topics.API,
    delete_topics.API,
    create_partitions.API,
    alter_configs.API,
    incremental_alter_configs.API,
    alter_client_quotas.API,
    describe_configs.API,
    describe_client_quotas.API,
    describe_cluster.API,
    describe_quorum.API,
    elect_leaders.API,
    alter_partition_reassignments.API,
    list_partition_reassignments.API,
    unregister_broker.API,
    update_features.API,
    list_config_resources.API,
)

BROKER_APIS: tuple[ApiSpec, ...] = (
    _PRODUCE,
    _FETCH,
    _API_VERSIONS,
    metadata.API,
    list_offsets.API,
    offset_for_leader_epoch.API,
    delete_records.API,
    describe_log_dirs.API,
    alter_replica_log_dirs.API,
    describe_topic_partitions.API,
    describe_producers.API,
    find_coordinator.API,
    without_groups.OFFSET_FETCH_API,
    without_groups.OFFSET_COMMIT_API,
    without_groups.JOIN_GROUP_API,
    init_producer_id.API,
    *_ADMIN,
)

CONTROLLER_APIS: tuple[ApiSpec, ...] = (
    _FETCH,
    fetch_snapshot.API,
    _API_VERSIONS,
    broker_registration.API,
    broker_heartbeat.API,
    alter_partition.API,
    allocate_producer_ids.API,
    *_ADMIN,
)
