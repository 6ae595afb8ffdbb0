"""DescribeCluster (KIP-700, fenced brokers KIP-1073), DescribeQuorum (KIP-595), features of ApiVersions (KIP-584)."""

from collections.abc import Mapping
from importlib.metadata import version

from kio.schema.api_versions.v3.request import ApiVersionsRequest
from kio.schema.api_versions.v3.response import ApiVersionsResponse
from kio.schema.describe_cluster.v0.request import DescribeClusterRequest
from kio.schema.describe_cluster.v0.response import DescribeClusterResponse
from kio.schema.describe_cluster.v2.request import DescribeClusterRequest as DescribeClusterRequestV2
from kio.schema.describe_cluster.v2.response import DescribeClusterResponse as DescribeClusterResponseV2
from kio.schema.describe_quorum.v1.request import DescribeQuorumRequest, PartitionData, TopicData
from kio.schema.describe_quorum.v1.response import DescribeQuorumResponse
from kio.schema.types import TopicName
from kio.static.primitive import i8, i32

from sluicegate_operator.kafka_admin.connecting.exchange import Exchange
from sluicegate_operator.kafka_admin.errors import check, only
from sluicegate_operator.kafka_admin.views import BrokerView, ClusterView, QuorumView, VoterView, node_or_none

METADATA_LOG = TopicName("__cluster_metadata")
OF_BROKERS = i8(1)


def describe() -> Exchange[DescribeClusterResponse, ClusterView]:
    request = DescribeClusterRequest(include_cluster_authorized_operations=False)
    return Exchange(request, DescribeClusterResponse, _read)


def _read(reply: DescribeClusterResponse) -> ClusterView:
    check(reply.error_code, reply.error_message, "describing the cluster")
    brokers = (BrokerView(broker.broker_id, broker.host, broker.port, broker.rack) for broker in reply.brokers)
    in_order = tuple(sorted(brokers, key=lambda broker: broker.id))
    return ClusterView(reply.cluster_id, node_or_none(reply.controller_id), in_order)


def describe_with_fenced() -> Exchange[DescribeClusterResponseV2, ClusterView]:
    """Return the request that describes the cluster including fenced brokers; since Kafka 4.0."""
    request = DescribeClusterRequestV2(
        include_cluster_authorized_operations=False, endpoint_type=OF_BROKERS, include_fenced_brokers=True
    )
    return Exchange(request, DescribeClusterResponseV2, _read_with_fenced)


def _read_with_fenced(reply: DescribeClusterResponseV2) -> ClusterView:
    check(reply.error_code, reply.error_message, "describing the cluster")
    brokers = (BrokerView(one.broker_id, one.host, one.port, one.rack, one.is_fenced) for one in reply.brokers)
    in_order = tuple(sorted(brokers, key=lambda broker: broker.id))
    return ClusterView(reply.cluster_id, node_or_none(reply.controller_id), in_order)


def describe_quorum() -> Exchange[DescribeQuorumResponse, QuorumView]:
    """Return the request that describes the controllers; since Kafka 3.3.

    Any broker forwards the request to the active controller.
    """
    topic = TopicData(topic_name=METADATA_LOG, partitions=(PartitionData(partition_index=i32(0)),))
    return Exchange(DescribeQuorumRequest(topics=(topic,)), DescribeQuorumResponse, _read_quorum)


def _read_quorum(reply: DescribeQuorumResponse) -> QuorumView:
    subject = "describing the quorum of controllers"
    check(reply.error_code, None, subject)
    partition = only(only(reply.topics, subject).partitions, subject)
    check(partition.error_code, None, subject)
    voters = (
        VoterView(one.replica_id, one.log_end_offset, one.last_fetch_timestamp, one.last_caught_up_timestamp)
        for one in partition.current_voters
    )
    in_order = tuple(sorted(voters, key=lambda voter: voter.id))
    return QuorumView(node_or_none(partition.leader_id), partition.leader_epoch, in_order)


def describe_features() -> Exchange[ApiVersionsResponse, Mapping[str, int]]:
    request = ApiVersionsRequest(client_software_name="sluicegate", client_software_version=version("sluicegate"))
    return Exchange(request, ApiVersionsResponse, _read_features)


def _read_features(reply: ApiVersionsResponse) -> dict[str, int]:
    check(reply.error_code, None, "requesting the features of the cluster")
    return {feature.name: feature.max_version_level for feature in reply.finalized_features}
