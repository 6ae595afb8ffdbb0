"""The messages of the push protocol, field by field in the order of their bytes, which `layouts` has. Pure data."""

from typing import NamedTuple


class Broker(NamedTuple):
    """A broker of the cluster: broker_struct of the protocol draft."""

    id: int
    host: str
    port: int


class PartitionOffset(NamedTuple):
    """The next offset to read of a partition: offset_struct of the protocol draft.

    The draft's partition_struct has the same fields. `partition` is a text, see `partition_text`.
    """

    topic: str
    partition: str
    offset: int


class ThreadOwnership(NamedTuple):
    """The partitions that one thread (stream) of a consumer has to read: ownership_struct of the protocol draft."""

    consumer_thread_id: str
    assigned_parts: tuple[PartitionOffset, ...]


class ClusterMetadataRequest(NamedTuple):
    """Request for the coordinator of a group, which any broker answers.

    The draft has no field; `group_id` is the group whose coordinator is wanted.
    """

    group_id: str | None = None


NO_COORDINATOR = -1


class ClusterMetadataResponse(NamedTuple):
    """Response to ClusterMetadata. `coordinator_id` is NO_COORDINATOR with every error."""

    error_code: int
    coordinator_id: int
    brokers_info: tuple[Broker, ...]


class RegisterConsumerRequest(NamedTuple):
    """Registration of a consumer with its group's coordinator.

    From then on, the coordinator calls the consumer on this connection.
    """

    group_id: str
    consumer_id: str
    topic_count: str
    auto_commit: bool
    auto_offset_rest: str
    """The policy for groups without an offset, in the draft's spelling: `rest` for `reset`."""
    session_timeout_ms: int


class RegisterConsumerResponse(NamedTuple):
    """Response to RegisterConsumer, sent before the coordinator's first call."""

    error_code: int


class PingRequest(NamedTuple):
    """Call that checks that the consumer is alive.

    `num_retries` counts the preceding pings that were not answered in time.
    """

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
    """Call that orders the consumer to stop reading and to report its offsets."""

    consumer_id: str


class StopFetcherResponse(NamedTuple):
    """Response to StopFetcher: after sending it, the consumer delivers no more records.

    `offset_info` is None unless the consumer registered with auto_commit.
    """

    error_code: int
    consumer_id: str
    offset_info: tuple[PartitionOffset, ...] | None


class StartFetcherRequest(NamedTuple):
    """Call that orders the consumer to read these partitions only, from these offsets on.

    Without threads, the consumer reads nothing.
    """

    consumer_id: str
    ownership_info: tuple[ThreadOwnership, ...]
    brokers_info: tuple[Broker, ...]


class StartFetcherResponse(NamedTuple):
    """Response to StartFetcher: the consumer reads the partitions that the request assigns."""

    error_code: int
    consumer_id: str
