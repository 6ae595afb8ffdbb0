"""BrokerHeartbeat on a broker's behalf (fencing), UnregisterBroker, and DescribeCluster with brokers that are fenced.

BrokerHeartbeat is served by controllers only: ask the active one through its own handle.
"""

from kio.schema.broker_heartbeat.v0.request import BrokerHeartbeatRequest
from kio.schema.broker_heartbeat.v0.response import BrokerHeartbeatResponse
from kio.schema.describe_cluster.v2.request import DescribeClusterRequest
from kio.schema.describe_cluster.v2.response import DescribeClusterResponse
from kio.schema.types import BrokerId
from kio.schema.unregister_broker.v0.request import UnregisterBrokerRequest
from kio.schema.unregister_broker.v0.response import UnregisterBrokerResponse
from kio.static.primitive import i8, i64

from sluicegate_operator.kafka_admin.errors import check
from sluicegate_operator.kafka_admin.exchange import Exchange
from sluicegate_operator.kafka_admin.views import RegisteredBroker

BROKERS = i8(1)
NO_METADATA = i64(-1)


def fence(broker_id: int, epoch: int) -> Exchange[BrokerHeartbeatResponse, None]:
    """The word that this incarnation is gone: fenced, its leaders moved, its session ended, its id free.

    A newer incarnation is not hit: the epoch is then stale, and the controller refuses.
    """
    request = BrokerHeartbeatRequest(
        broker_id=BrokerId(broker_id),
        broker_epoch=i64(epoch),
        current_metadata_offset=NO_METADATA,
        want_fence=True,
        want_shut_down=True,
    )

    def read(reply: BrokerHeartbeatResponse) -> None:
        check(reply.error_code, None, f"fencing broker {broker_id} of epoch {epoch}")

    return Exchange(request, BrokerHeartbeatResponse, read)


def unregister(broker_id: int) -> Exchange[UnregisterBrokerResponse, None]:
    """A broker that still runs registers anew; do it when it is gone."""
    request = UnregisterBrokerRequest(broker_id=BrokerId(broker_id))

    def read(reply: UnregisterBrokerResponse) -> None:
        check(reply.error_code, reply.error_message, f"unregistering broker {broker_id}")

    return Exchange(request, UnregisterBrokerResponse, read, repeatable=False)


def describe() -> Exchange[DescribeClusterResponse, tuple[RegisteredBroker, ...]]:
    """Kafka serves this version from 4.1 on (KIP-1073)."""
    request = DescribeClusterRequest(
        include_cluster_authorized_operations=False, endpoint_type=BROKERS, include_fenced_brokers=True
    )
    return Exchange(request, DescribeClusterResponse, _read)


def _read(reply: DescribeClusterResponse) -> tuple[RegisteredBroker, ...]:
    check(reply.error_code, reply.error_message, "describing the brokers")
    brokers = (RegisteredBroker(b.broker_id, b.host, b.port, b.rack, b.is_fenced) for b in reply.brokers)
    return tuple(sorted(brokers, key=lambda broker: broker.id))
