"""BrokerHeartbeat on a broker's behalf (fencing), and UnregisterBroker.

Only controllers serve BrokerHeartbeat: use the active one's own handle.
"""

from kio.schema.broker_heartbeat.v0.request import BrokerHeartbeatRequest
from kio.schema.broker_heartbeat.v0.response import BrokerHeartbeatResponse
from kio.schema.types import BrokerId
from kio.schema.unregister_broker.v0.request import UnregisterBrokerRequest
from kio.schema.unregister_broker.v0.response import UnregisterBrokerResponse
from kio.static.primitive import i64

from sluicegate_operator.kafka_admin.connecting.exchange import Exchange
from sluicegate_operator.kafka_admin.errors import check

NO_METADATA = i64(-1)


def fence(broker_id: int, epoch: int) -> Exchange[BrokerHeartbeatResponse, None]:
    """Return the request that reports an incarnation of a broker as gone.

    The incarnation is fenced, its leaders move, its session ends, and its id is free. A newer incarnation is not
    affected: the epoch is stale then, and the controller refuses.
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
    """Return the request that unregisters a broker that is gone. A running broker would register again."""
    request = UnregisterBrokerRequest(broker_id=BrokerId(broker_id))

    def read(reply: UnregisterBrokerResponse) -> None:
        check(reply.error_code, reply.error_message, f"unregistering broker {broker_id}")

    return Exchange(request, UnregisterBrokerResponse, read, repeatable=False)
