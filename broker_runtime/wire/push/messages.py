"""The messages of the push protocol, field by field in the order of their bytes; `layouts` has those. Pure data."""

from typing import NamedTuple


class Broker(NamedTuple):
    """The draft's broker_struct."""

    id: int
    host: str
    port: int


class PartitionOffset(NamedTuple):
    """The draft's offset_struct and partition_struct, which are alike.

    `partition` is a text, see `partition_text`. `offset` is that of the next record to read.
    """

    topic: str
    partition: str
    offset: int


class ThreadOwnership(NamedTuple):
    """The draft's ownership_struct: what one thread (stream) of a consumer is to read."""

    consumer_thread_id: str
    assigned_parts: tuple[PartitionOffset, ...]


class ClusterMetadataRequest(NamedTuple):
    """Any broker answers it. The draft has no field; ours may say whose coordinator is wanted."""

    group_id: str | None = None


NO_COORDINATOR = -1


class ClusterMetadataResponse(NamedTuple):
    """`coordinator_id` is NO_COORDINATOR with every error."""

    error_code: int
    coordinator_id: int
    brokers_info: tuple[Broker, ...]


class RegisterConsumerRequest(NamedTuple):
    """A consumer to the coordinator of its group; the connection is the coordinator's to call it from then on."""

    group_id: str
    consumer_id: str
    topic_count: str
    auto_commit: bool
    auto_offset_rest: str
    """The draft's spelling."""
    session_timeout_ms: int


class RegisterConsumerResponse(NamedTuple):
    """It comes before the coordinator's first call."""

    error_code: int


class PingRequest(NamedTuple):
    """Are you there? `num_retries` counts the pings before it that were not answered in time."""

    consumer_id: str
    num_retries: int


class PingResponse(NamedTuple):
    """`offset_info` is there (None: it is not) where the consumer registered with auto_commit, and only there."""

    error_code: int
    consumer_id: str
    offset_info: tuple[PartitionOffset, ...] | None


class StopFetcherRequest(NamedTuple):
    """Stop reading, and say how far you came."""

    consumer_id: str


class StopFetcherResponse(NamedTuple):
    """No record is delivered any more once it has been sent. `offset_info` as in PingResponse."""

    error_code: int
    consumer_id: str
    offset_info: tuple[PartitionOffset, ...] | None


class StartFetcherRequest(NamedTuple):
    """Read this and nothing else, from these offsets on. Without threads: read nothing."""

    consumer_id: str
    ownership_info: tuple[ThreadOwnership, ...]
    brokers_info: tuple[Broker, ...]


class StartFetcherResponse(NamedTuple):
    """It reads what it was told."""

    error_code: int
    consumer_id: str
