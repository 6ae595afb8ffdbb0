"""The one table: from API key to module, for each kind of listener.

Clients of a broker reach the controller through it; those of the controller's own listener are brokers and tools.
"""

from broker_runtime.apis import (
    allocate_producer_ids,
    alter_client_quotas,
    alter_configs,
    alter_partition,
    alter_partition_reassignments,
    alter_replica_log_dirs,
    broker_heartbeat,
    broker_metadata,
    broker_registration,
    consumer_group_describe,
    consumer_group_heartbeat,
    create_partitions,
    create_topics,
    delete_groups,
    delete_records,
    delete_topics,
    describe_client_quotas,
    describe_cluster,
    describe_configs,
    describe_groups,
    describe_log_dirs,
    describe_producers,
    describe_quorum,
    describe_topic_partitions,
    elect_leaders,
    fetch,
    fetch_snapshot,
    find_coordinator,
    heartbeat,
    incremental_alter_configs,
    init_producer_id,
    join_group,
    leave_group,
    list_config_resources,
    list_groups,
    list_offsets,
    list_partition_reassignments,
    metadata,
    offset_commit,
    offset_delete,
    offset_fetch,
    offset_for_leader_epoch,
    produce,
    sync_group,
    unregister_broker,
    update_features,
)
from broker_runtime.apis.alter_own_listeners import with_own_listeners
from broker_runtime.apis.api_versions import with_api_versions
from broker_runtime.apis.call import Api
from broker_runtime.apis.context import ApiSpec, BrokerContext, ControllerContext, NodeContext
from broker_runtime.apis.forwarding import active_only, forwarded
from broker_runtime.apis.push_apis import PUSH_APIS

_ANY_NODE: tuple[ApiSpec[NodeContext], ...] = (
    describe_configs.API,
    describe_client_quotas.API,
    describe_cluster.API,
    list_config_resources.API,
)
"""Every node answers from its own metadata."""

_ACTIVE_CONTROLLER: tuple[ApiSpec[ControllerContext], ...] = (
    create_topics.API,
    delete_topics.API,
    create_partitions.API,
    alter_client_quotas.API,
    describe_quorum.API,
    elect_leaders.API,
    alter_partition_reassignments.API,
    list_partition_reassignments.API,
    unregister_broker.API,
    update_features.API,
)
"""Clients may send them to any broker, which forwards them."""

_ACTIVE_ONLY: tuple[ApiSpec[ControllerContext], ...] = (
    *_ANY_NODE,
    *_ACTIVE_CONTROLLER,
    alter_configs.API,
    incremental_alter_configs.API,
)

BROKER_APIS: tuple[ApiSpec[BrokerContext], ...] = with_api_versions(
    produce.API,
    fetch.API,
    metadata.API,
    list_offsets.API,
    offset_for_leader_epoch.API,
    delete_records.API,
    describe_log_dirs.API,
    alter_replica_log_dirs.API,
    describe_topic_partitions.API,
    describe_producers.API,
    find_coordinator.API,
    offset_commit.API,
    consumer_group_heartbeat.API,
    consumer_group_describe.API,
    offset_fetch.API,
    join_group.API,
    sync_group.API,
    heartbeat.API,
    leave_group.API,
    offset_delete.API,
    list_groups.API,
    describe_groups.API,
    delete_groups.API,
    init_producer_id.API,
    broker_metadata.API,
    *_ANY_NODE,
    *(forwarded(api) for api in _ACTIVE_CONTROLLER),
    with_own_listeners(alter_configs.API, alter_configs.alter, alter_configs.answer_to),
    with_own_listeners(incremental_alter_configs.API, incremental_alter_configs.alter, alter_configs.answer_to),
)
COUNTED_APIS: tuple[Api, ...] = (*BROKER_APIS, *PUSH_APIS.values())
"""All that clients ask brokers, as it is counted and recorded."""

CONTROLLER_APIS: tuple[ApiSpec[ControllerContext], ...] = with_api_versions(
    fetch.METADATA_API,
    fetch_snapshot.API,
    broker_registration.API,
    broker_heartbeat.API,
    alter_partition.API,
    allocate_producer_ids.API,
    *(active_only(api) for api in _ACTIVE_ONLY),
)
