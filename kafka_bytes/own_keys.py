"""The API keys of Sluicegate's own APIs. Kafka numbers its keys from 0 and has not reached 100. Pure.

ApiVersions, which is Kafka's, does not list them. The push protocol has no headers: its request type ids are beside the
API keys, so that one listener serves both protocols.
"""

from struct import Struct

BROKER_METADATA = 30_000
CLUSTER_METADATA, REGISTER_CONSUMER, PING, STOP_FETCHER, START_FETCHER = range(30_001, 30_006)
"""The request type ids of the push protocol."""
_FIRST_BYTE = CLUSTER_METADATA >> 8
"""The first byte of all these ids."""
_TYPE = Struct(">h")
REPLICA_RANGE = 30_006
DESCRIBE_LOG_DAMAGE = 30_007
ACCEPT_LOG_LOSS = 30_008
CONNECTION_SHARES = 30_009


def type_of(frame: memoryview) -> int | None:
    """Return the request type id of a frame of the push protocol; None for a frame that begins with a Kafka API key."""
    if len(frame) < _TYPE.size or frame[0] != _FIRST_BYTE:
        # Every request of Kafka's protocol takes this path.
        return None
    (found,) = _TYPE.unpack_from(frame)
    return found if CLUSTER_METADATA <= found <= START_FETCHER else None
