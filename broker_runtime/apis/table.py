"""The tables of APIs by kind of listener, each with the module that serves it.

Clients of a broker reach the controller through that broker. The controller's own listener serves brokers and tools.
"""

from typing import Any

from broker_runtime.apis.cluster import (
    broker_heartbeat,
    broker_metadata,
    broker_registration,
    describe_cluster,
    describe_quorum,
    unregister_broker,
    update_features,
)
from broker_runtime.apis.cluster.api_versions import with_api_versions
from broker_runtime.apis.configs import (
    alter_client_quotas,
    alter_configs,
    broker_loggers,
    describe_client_quotas,
    describe_configs,
    incremental_alter_configs,
    list_config_resources,
)
from broker_runtime.apis.configs.alter_own_listeners import with_own_listeners
from broker_runtime.apis.fetch import fetch, fetch_snapshot, list_offsets, offset_for_leader_epoch
from broker_runtime.apis.groups import find_coordinator
from broker_runtime.apis.partitions import (
    alter_partition,
    alter_partition_reassignments,
    alter_replica_log_dirs,
    describe_log_dirs,
    list_partition_reassignments,
)
from broker_runtime.apis.produce import allocate_producer_ids, describe_producers, init_producer_id, produce
from broker_runtime.apis.push.push_apis import PUSH_APIS
from broker_runtime.apis.request.call import Api
from broker_runtime.apis.request.context import ApiSpec, BrokerContext, ControllerContext, NodeContext
from broker_runtime.apis.request.dispatching.on_demand import on_demand
from broker_runtime.apis.request.forwarding import active_only, forwarded
from broker_runtime.apis.sasl import alter_user_scram_credentials, describe_user_scram_credentials
from broker_runtime.apis.topics import (
    create_partitions,
    create_topics,
    delete_records,
    delete_topics,
    describe_topic_partitions,
    elect_leaders,
    metadata,
)
from broker_runtime.wire import versions
from kafka_bytes import own_keys

_OF_GROUPS: tuple[ApiSpec[BrokerContext], ...] = (
    on_demand("groups.offset_commit", versions.OFFSET_COMMIT, "OffsetCommit", (2, 10)),
    on_demand("groups.consumer_group_heartbeat", versions.CONSUMER_GROUP_HEARTBEAT, "ConsumerGroupHeartbeat", (0, 1)),
    on_demand("groups.consumer_group_describe", versions.CONSUMER_GROUP_DESCRIBE, "ConsumerGroupDescribe", (0, 1)),
    on_demand("groups.offset_fetch", versions.OFFSET_FETCH, "OffsetFetch", (1, 10)),
    on_demand("groups.join_group", versions.JOIN_GROUP, "JoinGroup", (0, 9)),
    on_demand("groups.sync_group", versions.SYNC_GROUP, "SyncGroup", (0, 5)),
    on_demand("groups.heartbeat", versions.HEARTBEAT, "Heartbeat", (0, 4)),
    on_demand("groups.leave_group", versions.LEAVE_GROUP, "LeaveGroup", (0, 5)),
    on_demand("groups.offset_delete", versions.OFFSET_DELETE, "OffsetDelete", (0, 0)),
    on_demand("groups.list_groups", versions.LIST_GROUPS, "ListGroups", (0, 5)),
    on_demand("groups.describe_groups", versions.DESCRIBE_GROUPS, "DescribeGroups", (0, 6)),
    on_demand("groups.delete_groups", versions.DELETE_GROUPS, "DeleteGroups", (0, 2)),
)
"""APIs of groups: module in `apis`, key, name and versions as in its ApiSpec. A broker without groups imports none."""

_OF_TRANSACTIONS: tuple[ApiSpec[BrokerContext], ...] = (
    on_demand("transactions.add_partitions_to_txn", versions.ADD_PARTITIONS_TO_TXN, "AddPartitionsToTxn", (0, 5)),
    on_demand("transactions.add_offsets_to_txn", versions.ADD_OFFSETS_TO_TXN, "AddOffsetsToTxn", (0, 4)),
    on_demand("transactions.end_txn", versions.END_TXN, "EndTxn", (0, 5)),
    on_demand("transactions.write_txn_markers", versions.WRITE_TXN_MARKERS, "WriteTxnMarkers", (1, 2)),
    on_demand("groups.txn_offset_commit", versions.TXN_OFFSET_COMMIT, "TxnOffsetCommit", (0, 5)),
    on_demand("transactions.describe_transactions", versions.DESCRIBE_TRANSACTIONS, "DescribeTransactions", (0, 0)),
    on_demand("transactions.list_transactions", versions.LIST_TRANSACTIONS, "ListTransactions", (0, 2)),
)
"""APIs of transactions. A broker whose clients use none imports none of them."""

_SELDOM_ASKED: tuple[ApiSpec[BrokerContext], ...] = (
    on_demand("acls.describe_acls", versions.DESCRIBE_ACLS, "DescribeAcls", (1, 3)),
    on_demand("acls.create_acls", versions.CREATE_ACLS, "CreateAcls", (1, 3)),
    on_demand("acls.delete_acls", versions.DELETE_ACLS, "DeleteAcls", (1, 3)),
    on_demand(
        "telemetry.get_telemetry_subscriptions",
        versions.GET_TELEMETRY_SUBSCRIPTIONS,
        "GetTelemetrySubscriptions",
        (0, 0),
    ),
    on_demand("telemetry.push_telemetry", versions.PUSH_TELEMETRY, "PushTelemetry", (0, 0)),
)
"""APIs that few clients use: ACLs, and metrics of clients."""

_ACLS_ON_CONTROLLER: tuple[ApiSpec[ControllerContext], ...] = (
    on_demand("acls.describe_acls", versions.DESCRIBE_ACLS, "DescribeAcls", (1, 3), "ON_CONTROLLER"),
    on_demand("acls.create_acls", versions.CREATE_ACLS, "CreateAcls", (1, 3), "ON_CONTROLLER"),
    on_demand("acls.delete_acls", versions.DELETE_ACLS, "DeleteAcls", (1, 3), "ON_CONTROLLER"),
)

_OF_SASL: tuple[ApiSpec[Any], ...] = (
    on_demand("sasl.sasl_handshake", versions.SASL_HANDSHAKE, "SaslHandshake", (0, 1)),
    on_demand("sasl.sasl_authenticate", versions.SASL_AUTHENTICATE, "SaslAuthenticate", (0, 2)),
)
"""Authentication, as it is answered outside of an exchange. A client's exchange never reaches these."""

_OF_DAMAGED_LOGS: tuple[ApiSpec[BrokerContext], ...] = (
    on_demand("fetch.replica_range", own_keys.REPLICA_RANGE, "ReplicaRange", (0, 0)),
    on_demand("partitions.describe_log_damage", own_keys.DESCRIBE_LOG_DAMAGE, "DescribeLogDamage", (0, 0)),
    on_demand("partitions.accept_log_loss", own_keys.ACCEPT_LOG_LOSS, "AcceptLogLoss", (0, 0)),
)
"""APIs for damaged logs. A broker without one imports them only if an operator calls them."""

_ANY_NODE: tuple[ApiSpec[NodeContext], ...] = (
    describe_configs.API,
    describe_client_quotas.API,
    describe_user_scram_credentials.API,
    describe_cluster.API,
    list_config_resources.API,
)
"""APIs that every node answers from its own metadata."""

_ACTIVE_CONTROLLER: tuple[ApiSpec[ControllerContext], ...] = (
    create_topics.API,
    delete_topics.API,
    create_partitions.API,
    alter_client_quotas.API,
    alter_user_scram_credentials.API,
    describe_quorum.API,
    elect_leaders.API,
    alter_partition_reassignments.API,
    list_partition_reassignments.API,
    unregister_broker.API,
    update_features.API,
)
"""APIs that clients may send to any broker, which forwards them."""

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
    *_OF_GROUPS,
    *_OF_TRANSACTIONS,
    init_producer_id.API,
    broker_metadata.API,
    *_SELDOM_ASKED,
    *_OF_DAMAGED_LOGS,
    *_OF_SASL,
    *_ANY_NODE,
    *(forwarded(api) for api in _ACTIVE_CONTROLLER),
    with_own_listeners(alter_configs.API, alter_configs.alter, alter_configs.answer_to),
    with_own_listeners(
        incremental_alter_configs.API,
        incremental_alter_configs.alter,
        alter_configs.answer_to,
        broker_loggers.alter_loggers,
    ),
)
COUNTED_APIS: tuple[Api, ...] = (*BROKER_APIS, *PUSH_APIS.values())
"""All APIs that brokers serve, for metrics and recordings."""

CONTROLLER_APIS: tuple[ApiSpec[ControllerContext], ...] = with_api_versions(
    fetch.METADATA_API,
    fetch_snapshot.API,
    broker_registration.API,
    broker_heartbeat.API,
    alter_partition.API,
    allocate_producer_ids.API,
    on_demand("cluster.connection_shares", own_keys.CONNECTION_SHARES, "ConnectionShares", (0, 0)),
    on_demand("cluster.envelope", versions.ENVELOPE, "Envelope", (0, 0)),
    *_OF_SASL,
    *(active_only(api) for api in _ACTIVE_ONLY),
    *_ACLS_ON_CONTROLLER,
)
