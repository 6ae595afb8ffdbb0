"""The messages of the push protocol, field by field in the order of their bytes, which `layouts` has. Pure data."""

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
    """Any broker answers it. The draft has no field; `group_id` is the group whose coordinator is wanted."""

    group_id: str | None = None


NO_COORDINATOR = -1


class ClusterMetadataResponse(NamedTuple):
    """The answer to ClusterMetadata. `coordinator_id` is NO_COORDINATOR with every error."""

    error_code: int
    coordinator_id: int
    brokers_info: tuple[Broker, ...]


class RegisterConsumerRequest(NamedTuple):
    """A consumer's registration with the coordinator of its group, which calls it on this connection from then on."""

    group_id: str
    consumer_id: str
    topic_count: str
    auto_commit: bool
    auto_offset_rest: str
    """The draft's spelling."""
    session_timeout_ms: int


class RegisterConsumerResponse(NamedTuple):
    """Sent before the coordinator's first call."""

    error_code: int


class PingRequest(NamedTuple):
    """Checks that the consumer is alive. `num_retries` counts the preceding pings that were not answered in time."""

    consumer_id: str
    num_retries: int


class PingResponse(NamedTuple):
    """A consumer's answer to a ping.

    `offset_info` is present only if the consumer registered with auto_commit, and None otherwise.
    """

    error_code: int
    consumer_id: str
    offset_info: tuple[PartitionOffset, ...] | None


class StopFetcherRequest(NamedTuple):
    """Orders the consumer to stop reading, and to report its offsets."""

    consumer_id: str


class StopFetcherResponse(NamedTuple):
    """The consumer delivers no record any more once it has sent this.

    `offset_info` is None unless the consumer registered with auto_commit.
    """

    error_code: int
    consumer_id: str
    offset_info: tuple[PartitionOffset, ...] | None


class StartFetcherRequest(NamedTuple):
    """Orders the consumer to read these partitions only, from these offsets on. Without threads it reads nothing."""

    consumer_id: str
    ownership_info: tuple[ThreadOwnership, ...]
    brokers_info: tuple[Broker, ...]


class StartFetcherResponse(NamedTuple):
    """The consumer reads the partitions that the request assigns."""

    error_code: int
    consumer_id: str
