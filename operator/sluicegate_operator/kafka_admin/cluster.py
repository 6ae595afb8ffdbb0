"""DescribeCluster (KIP-700)."""

from kio.schema.describe_cluster.v0.request import DescribeClusterRequest
from kio.schema.describe_cluster.v0.response import DescribeClusterResponse

from sluicegate_operator.kafka_admin.errors import check
from sluicegate_operator.kafka_admin.exchange import Exchange
from sluicegate_operator.kafka_admin.views import BrokerView, ClusterView


def describe() -> Exchange[DescribeClusterResponse, ClusterView]:
    request = DescribeClusterRequest(include_cluster_authorized_operations=False)
    return Exchange(request, DescribeClusterResponse, _read)


def _read(reply: DescribeClusterResponse) -> ClusterView:
    check(reply.error_code, reply.error_message, "describing the cluster")
    brokers = (BrokerView(broker.broker_id, broker.host, broker.port, broker.rack) for broker in reply.brokers)
    return ClusterView(reply.cluster_id, reply.controller_id, tuple(sorted(brokers, key=lambda broker: broker.id)))
