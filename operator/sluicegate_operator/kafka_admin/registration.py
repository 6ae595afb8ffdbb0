"""BrokerHeartbeat on a broker's behalf (fencing), and UnregisterBroker.

BrokerHeartbeat is served by controllers only: ask the active one through its own handle.
"""

from kio.schema.broker_heartbeat.v0.request import BrokerHeartbeatRequest
from kio.schema.broker_heartbeat.v0.response import BrokerHeartbeatResponse
from kio.schema.types import BrokerId
from kio.schema.unregister_broker.v0.request import UnregisterBrokerRequest
from kio.schema.unregister_broker.v0.response import UnregisterBrokerResponse
from kio.static.primitive import i64

from sluicegate_operator.kafka_admin.errors import check
from sluicegate_operator.kafka_admin.exchange import Exchange

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
