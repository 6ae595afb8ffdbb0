"""Types of requests for their handlers: kio's classes of the newest version that is served. Pure.

An older version is a class of its own, which lacks some of the fields: code that reads such a field checks the version
first. At run time there are no types here, because each module of kio's schema costs memory and time.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import kio.schema.alter_partition.v2.request as alter_partition_v2
    import kio.schema.delete_topics.v5.request as delete_topics_v5
    import kio.schema.incremental_alter_configs.v1.request as incremental_alter_configs_v1
    from kio.schema.add_offsets_to_txn.v4.request import AddOffsetsToTxnRequest as AddOffsetsToTxnRequest
    from kio.schema.add_partitions_to_txn.v5.request import AddPartitionsToTxnRequest as AddPartitionsToTxnRequest
    from kio.schema.allocate_producer_ids.v0.request import AllocateProducerIdsRequest as AllocateProducerIdsRequest
    from kio.schema.alter_client_quotas.v1.request import AlterClientQuotasRequest as AlterClientQuotasRequest
    from kio.schema.alter_client_quotas.v1.request import EntryData as EntryData
    from kio.schema.alter_configs.v2.request import AlterConfigsRequest as AlterConfigsRequest
    from kio.schema.alter_configs.v2.request import AlterConfigsResource as AlterConfigsResource
    from kio.schema.alter_partition.v3.request import AlterPartitionRequest as AlterPartitionRequest
    from kio.schema.alter_partition.v3.request import PartitionData as PartitionData
    from kio.schema.alter_partition_reassignments.v1.request import (
        AlterPartitionReassignmentsRequest as AlterPartitionReassignmentsRequest,
    )
    from kio.schema.alter_partition_reassignments.v1.request import ReassignableTopic as ReassignableTopic
    from kio.schema.alter_replica_log_dirs.v2.request import AlterReplicaLogDirsRequest as AlterReplicaLogDirsRequest
    from kio.schema.alter_user_scram_credentials.v0.request import (
        AlterUserScramCredentialsRequest as AlterUserScramCredentialsRequest,
    )
    from kio.schema.broker_heartbeat.v1.request import BrokerHeartbeatRequest as BrokerHeartbeatRequest
    from kio.schema.consumer_group_describe.v1.request import (
        ConsumerGroupDescribeRequest as ConsumerGroupDescribeRequest,
    )
    from kio.schema.consumer_group_heartbeat.v1.request import (
        ConsumerGroupHeartbeatRequest as ConsumerGroupHeartbeatRequest,
    )
    from kio.schema.create_acls.v3.request import CreateAclsRequest as CreateAclsRequest
    from kio.schema.create_partitions.v3.request import CreatePartitionsRequest as CreatePartitionsRequest
    from kio.schema.create_topics.v7.request import CreatableTopic as CreatableTopic
    from kio.schema.create_topics.v7.request import CreateTopicsRequest as CreateTopicsRequest
    from kio.schema.delete_acls.v3.request import DeleteAclsRequest as DeleteAclsRequest
    from kio.schema.delete_groups.v2.request import DeleteGroupsRequest as DeleteGroupsRequest
    from kio.schema.delete_records.v2.request import DeleteRecordsPartition as DeleteRecordsPartition
    from kio.schema.delete_records.v2.request import DeleteRecordsRequest as DeleteRecordsRequest
    from kio.schema.delete_topics.v6.request import DeleteTopicsRequest as DeleteTopicsRequest
    from kio.schema.describe_acls.v3.request import DescribeAclsRequest as DescribeAclsRequest
    from kio.schema.describe_client_quotas.v1.request import DescribeClientQuotasRequest as DescribeClientQuotasRequest
    from kio.schema.describe_cluster.v2.request import DescribeClusterRequest as DescribeClusterRequest
    from kio.schema.describe_configs.v4.request import DescribeConfigsRequest as DescribeConfigsRequest
    from kio.schema.describe_configs.v4.request import DescribeConfigsResource as DescribeConfigsResource
    from kio.schema.describe_groups.v6.request import DescribeGroupsRequest as DescribeGroupsRequest
    from kio.schema.describe_log_dirs.v5.request import DescribeLogDirsRequest as DescribeLogDirsRequest
    from kio.schema.describe_producers.v0.request import DescribeProducersRequest as DescribeProducersRequest
    from kio.schema.describe_quorum.v2.request import DescribeQuorumRequest as DescribeQuorumRequest
    from kio.schema.describe_topic_partitions.v0.request import (
        DescribeTopicPartitionsRequest as DescribeTopicPartitionsRequest,
    )
    from kio.schema.describe_transactions.v0.request import DescribeTransactionsRequest as DescribeTransactionsRequest
    from kio.schema.describe_user_scram_credentials.v0.request import (
        DescribeUserScramCredentialsRequest as DescribeUserScramCredentialsRequest,
    )
    from kio.schema.elect_leaders.v2.request import ElectLeadersRequest as ElectLeadersRequest
    from kio.schema.end_txn.v5.request import EndTxnRequest as EndTxnRequest
    from kio.schema.envelope.v0.request import EnvelopeRequest as EnvelopeRequest
    from kio.schema.fetch_snapshot.v0.request import FetchSnapshotRequest as FetchSnapshotRequest
    from kio.schema.fetch_snapshot.v0.request import PartitionSnapshot as PartitionSnapshot
    from kio.schema.find_coordinator.v6.request import FindCoordinatorRequest as FindCoordinatorRequest
    from kio.schema.get_telemetry_subscriptions.v0.request import (
        GetTelemetrySubscriptionsRequest as GetTelemetrySubscriptionsRequest,
    )
    from kio.schema.heartbeat.v4.request import HeartbeatRequest as HeartbeatRequest
    from kio.schema.incremental_alter_configs.v1.request import (
        IncrementalAlterConfigsRequest as IncrementalAlterConfigsRequest,
    )
    from kio.schema.init_producer_id.v5.request import InitProducerIdRequest as InitProducerIdRequest
    from kio.schema.join_group.v9.request import JoinGroupRequest as JoinGroupRequest
    from kio.schema.leave_group.v5.request import LeaveGroupRequest as LeaveGroupRequest
    from kio.schema.list_config_resources.v1.request import ListConfigResourcesRequest as ListConfigResourcesRequest
    from kio.schema.list_groups.v5.request import ListGroupsRequest as ListGroupsRequest
    from kio.schema.list_offsets.v11.request import ListOffsetsPartition as ListOffsetsPartition
    from kio.schema.list_offsets.v11.request import ListOffsetsRequest as ListOffsetsRequest
    from kio.schema.list_partition_reassignments.v0.request import (
        ListPartitionReassignmentsRequest as ListPartitionReassignmentsRequest,
    )
    from kio.schema.list_transactions.v2.request import ListTransactionsRequest as ListTransactionsRequest
    from kio.schema.metadata.v13.request import MetadataRequest as MetadataRequest
    from kio.schema.metadata.v13.request import MetadataRequestTopic as MetadataRequestTopic
    from kio.schema.offset_commit.v10.request import OffsetCommitRequest as OffsetCommitRequest
    from kio.schema.offset_commit.v10.request import OffsetCommitRequestTopic as OffsetCommitRequestTopic
    from kio.schema.offset_delete.v0.request import OffsetDeleteRequest as OffsetDeleteRequest
    from kio.schema.offset_fetch.v10.request import OffsetFetchRequest as OffsetFetchRequest
    from kio.schema.offset_fetch.v10.request import OffsetFetchRequestGroup as OffsetFetchRequestGroup
    from kio.schema.offset_fetch.v10.request import OffsetFetchRequestTopics as OffsetFetchRequestTopics
    from kio.schema.offset_for_leader_epoch.v4.request import OffsetForLeaderEpochRequest as OffsetForLeaderEpochRequest
    from kio.schema.offset_for_leader_epoch.v4.request import OffsetForLeaderPartition as OffsetForLeaderPartition
    from kio.schema.sync_group.v5.request import SyncGroupRequest as SyncGroupRequest
    from kio.schema.unregister_broker.v0.request import UnregisterBrokerRequest as UnregisterBrokerRequest
    from kio.schema.update_features.v2.request import FeatureUpdateKey as FeatureUpdateKey
    from kio.schema.update_features.v2.request import UpdateFeaturesRequest as UpdateFeaturesRequest
    from kio.schema.write_txn_markers.v2.request import WriteTxnMarkersRequest as WriteTxnMarkersRequest

    from broker_runtime.wire.broker_registration import BrokerRegistrationRequest as BrokerRegistrationRequest
    from kafka_bytes.messages.broker_metadata import BrokerMetadataRequest as BrokerMetadataRequest
    from kafka_bytes.messages.connection_shares import ConnectionSharesRequest as ConnectionSharesRequest
    from kafka_bytes.messages.log_damage import AcceptLogLossRequest as AcceptLogLossRequest
    from kafka_bytes.messages.log_damage import DescribeLogDamageRequest as DescribeLogDamageRequest
    from kafka_bytes.messages.log_damage import ReplicaRangeRequest as ReplicaRangeRequest

    PartitionDataV2 = alter_partition_v2.PartitionData
    DeleteTopicsRequestV5 = delete_topics_v5.DeleteTopicsRequest
    IncrementalResource = incremental_alter_configs_v1.AlterConfigsResource
    AlterableConfig = incremental_alter_configs_v1.AlterableConfig
else:

    def __getattr__(name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return Any
