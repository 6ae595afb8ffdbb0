"""Every key of server.properties that this broker knows, and so every limit of the broker. Pure.

The names are Kafka's. Sluicegate's own keys begin with `sluicegate.` or belong to the seed (KIP-612 draft). A new key
is one line in its class.
"""

from collections.abc import Mapping
from typing import TypeVar

from broker_runtime.config.declaring.addresses import networks_problem
from broker_runtime.config.declaring.allowed import at_least, between, one_of
from broker_runtime.config.declaring.declaration import Config, dynamic, static
from broker_runtime.config.declaring.definition import (
    INT_MAX,
    ConfigKey,
    Key,
    Type,
    UpdateMode,
)
from broker_runtime.config.declaring.log_times import LogTimesConfig
from broker_runtime.config.declaring.unused import unused_keys
from broker_runtime.config.keys.authorizer import AuthorizerConfig
from broker_runtime.config.keys.cleaner import LogCleanerConfig
from broker_runtime.config.keys.connection_limits import ClientQuotaConfig, QuotaConfig
from broker_runtime.config.keys.groups import GroupConfig, ResourcesConfig
from broker_runtime.config.keys.identity import IdentityConfig
from broker_runtime.config.keys.observers import observer_key, observer_names_problem
from broker_runtime.config.keys.requests import RequestConfig
from broker_runtime.config.keys.sasl import MECHANISM_PREFIXES, OAuthConfig, SaslConfig
from broker_runtime.config.keys.tags import tag_key
from broker_runtime.config.keys.tls import TlsConfig
from broker_runtime.config.keys.topic import TopicConfig
from broker_runtime.config.keys.transactions import TransactionConfig

BOOLEAN, STRING, INT, LONG, LIST = Type.BOOLEAN, Type.STRING, Type.INT, Type.LONG, Type.LIST
T = TypeVar("T")


def _default_of(key: Key[T]) -> Key[T]:
    """Return the broker key with the default of the topic key `key`."""
    if key.synonym is None:
        raise TypeError(f"{key.name} has no broker key")
    return dynamic(key.synonym, key.type, key.default, f"Default of the topic key {key.name}.", key.validator)


class ProxyConfig(Config):
    """Configuration keys of proxies that may connect on behalf of clients, with PROXY protocol version 2."""

    proxy_protocol_trusted: Key[tuple[str, ...]] = Key(
        "proxy.protocol.trusted",
        LIST,
        (),
        "Networks of load balancers, such as 10.0.0.0/8. Connections of the listener must come from them and begin "
        "with a PROXY protocol v2 header; the client's address is the one in the header. If empty, no header is "
        "expected.",
        networks_problem,
        UpdateMode.CLUSTER_WIDE,
        listener_prefixed=True,
        listener_only=True,
    )
    sluicegate_proxy_header_timeout_ms: Key[int] = static(
        "sluicegate.proxy.header.timeout.ms",
        INT,
        5_000,
        "A connection is closed if its PROXY protocol header has not arrived within this time.",
        at_least(1),
    )
    sluicegate_proxy_header_max_bytes: Key[int] = static(
        "sluicegate.proxy.header.max.bytes",
        INT,
        4_096,
        "Largest PROXY protocol header, including its fields beyond the addresses.",
        between(52, 65_551),
    )


class NetworkConfig(Config):
    """Configuration keys of sockets, and of the way in which connections share the event loop. Memory is in bytes."""

    connections_max_idle_ms: Key[int] = static(
        "connections.max.idle.ms",
        LONG,
        600_000,
        "Connections that are idle for longer than this are closed.",
        at_least(1),
    )
    socket_listen_backlog_size: Key[int] = static(
        "socket.listen.backlog.size",
        INT,
        50,
        "Minimum length of the kernel's queue of connections that wait for the acceptor. The queue is as long as the "
        "number of connections that the listener may accept in a second; without a limit it is as long as the kernel "
        "allows (net.core.somaxconn).",
        at_least(1),
    )
    socket_request_max_bytes: Key[int] = static(
        "socket.request.max.bytes", INT, 104_857_600, "Largest request.", at_least(1)
    )
    socket_receive_buffer_bytes: Key[int] = static(
        "socket.receive.buffer.bytes",
        INT,
        -1,
        "SO_RCVBUF; -1 lets the operating system tune it (Kafka: 102400).",
        at_least(-1),
    )
    socket_send_buffer_bytes: Key[int] = static(
        "socket.send.buffer.bytes",
        INT,
        -1,
        "SO_SNDBUF; -1 lets the operating system tune it (Kafka: 102400).",
        at_least(-1),
    )
    sluicegate_frame_receive_timeout_ms: Key[int] = static(
        "sluicegate.frame.receive.timeout.ms",
        LONG,
        30_000,
        "The broker closes a connection if the next 16 KiB of a request, or its end, take longer than this.",
        at_least(1),
    )
    sluicegate_connection_turn_requests_max: Key[int] = static(
        "sluicegate.connection.turn.requests.max",
        INT,
        100,
        "Requests of one connection that are served before other connections; also the number of its produce "
        "requests that may wait for other replicas at the same time.",
        at_least(1),
    )
    sluicegate_connection_turn_max_us: Key[int] = static(
        "sluicegate.connection.turn.max.us",
        INT,
        1_000,
        "Microseconds for which one connection with many requests is served before other connections.",
        at_least(1),
    )
    sluicegate_network_turn_max_us: Key[int] = static(
        "sluicegate.network.turn.max.us",
        INT,
        1_500,
        "Microseconds after which connections yield the event loop to heartbeats, the controller and timers.",
        at_least(1),
    )
    sluicegate_connection_push_max_bytes: Key[int] = static(
        "sluicegate.connection.push.max.bytes",
        INT,
        1_048_576,
        "Unread bytes of frames that are not responses, at most; beyond them the broker closes the connection. One "
        "frame is sent whatever its size, for example the assignment of a consumer of the push protocol.",
        at_least(1),
    )
    sluicegate_connection_observers_max: Key[int] = static(
        "sluicegate.connection.observers.max",
        INT,
        1_000,
        "Parts of the broker that may wait for the end of one connection.",
        at_least(1),
    )
    sluicegate_record_validation_max_bytes: Key[int] = static(
        "sluicegate.record.validation.max.bytes",
        INT,
        33_554_432,
        "Bytes to which a compressed batch may unpack when its records are checked or searched by time.",
        at_least(1),
    )
    sluicegate_record_validation_queue_max: Key[int] = static(
        "sluicegate.record.validation.queue.max",
        INT,
        100,
        "Batches that may wait to be checked in a thread, and lookups by time; further requests get a retriable error.",
        at_least(1),
    )
    queued_max_request_bytes: Key[int] = static(
        "queued.max.request.bytes",
        LONG,
        536_870_912,
        "Bytes of unfinished requests of all connections together; the broker stops reading from a connection that "
        "would exceed its share.",
        at_least(1),
    )
    sluicegate_queued_max_response_bytes: Key[int] = static(
        "sluicegate.queued.max.response.bytes",
        LONG,
        536_870_912,
        "Bytes of responses of all connections together that are being packed, or that clients do not read. Beyond "
        "it, the broker pauses the packing of responses, and closes the connections whose clients read most slowly.",
        at_least(1_048_576),
    )


class ClusterConfig(Config):
    """Configuration keys of a broker as a member of its cluster, and of clients' requests to it."""

    num_partitions: Key[int] = static(
        "num.partitions", INT, 1, "Partitions of a topic that is created without a number of partitions.", at_least(1)
    )
    default_replication_factor: Key[int] = static(
        "default.replication.factor",
        INT,
        1,
        "Replicas of a topic that is created without a replication factor.",
        at_least(1),
    )
    auto_create_topics_enable: Key[bool] = static(
        "auto.create.topics.enable", BOOLEAN, True, "Whether a Metadata request for an unknown topic creates it."
    )
    broker_heartbeat_interval_ms: Key[int] = static(
        "broker.heartbeat.interval.ms", INT, 2_000, "Time between heartbeats to the controller.", at_least(1)
    )
    broker_session_timeout_ms: Key[int] = static(
        "broker.session.timeout.ms", INT, 9_000, "A broker that sends no heartbeat for so long is fenced.", at_least(1)
    )
    initial_broker_registration_timeout_ms: Key[int] = static(
        "initial.broker.registration.timeout.ms",
        INT,
        60_000,
        "The broker exits if it is not registered within this time.",
    )
    controller_request_queue_max: Key[int] = static(
        "controller.request.queue.max", INT, 10_000, "Requests that may wait for the controller's journal.", at_least(1)
    )
    request_timeout_ms: Key[int] = static(
        "request.timeout.ms", INT, 30_000, "Longest wait for a response of the controller.", at_least(1)
    )
    socket_connection_setup_timeout_ms: Key[int] = static(
        "socket.connection.setup.timeout.ms",
        LONG,
        3_000,
        "Longest wait for a connection to another broker (Apache Kafka: 10000).",
        at_least(1),
    )
    sluicegate_controller_connection_setup_timeout_ms: Key[int] = static(
        "sluicegate.controller.connection.setup.timeout.ms",
        LONG,
        1_000,
        "Longest wait for a connection to a controller. After it, a broker tries the next controller, and a standby "
        "controller considers the active one unreachable.",
        at_least(1),
    )
    sluicegate_broker_replicas_max: Key[int | None] = static(
        "sluicegate.broker.replicas.max",
        INT,
        None,
        "Replicas of partitions that one broker may have; requests that would need more are refused. By default the "
        "number follows from the limit of open files (RLIMIT_NOFILE) of the controller's process: three files for "
        "each replica, with a quarter of the limit left for connections.",
        at_least(1),
    )
    unsupported_request_reply: Key[str] = dynamic(
        "unsupported.request.reply",
        STRING,
        "close",
        "Answer to a request whose API or version is not served: close closes its connection, as Apache Kafka does; "
        "empty sends its correlation id and nothing else (KIP-35 as drafted).",
        one_of("close", "empty"),
    )
    fetch_max_bytes: Key[int] = static(
        "fetch.max.bytes", INT, 57_671_680, "Largest fetch response.", between(1024, INT_MAX)
    )
    max_incremental_fetch_session_cache_slots: Key[int] = static(
        "max.incremental.fetch.session.cache.slots",
        INT,
        1_000,
        "Fetch sessions that are kept (KIP-227): those of followers, and of consumers that request one.",
        at_least(0),
    )
    sluicegate_fetch_session_partitions_max: Key[int] = static(
        "sluicegate.fetch.session.partitions.max",
        INT,
        100_000,
        "Partitions of all consumers' fetch sessions together; a consumer beyond the limit continues with full "
        "requests. About 400 bytes each. Followers' sessions are counted by broker: each broker of the cluster may "
        "have as many as this, or twice the number of partitions that this broker leads.",
        at_least(0),
    )
    sluicegate_fetch_repeated_partitions_max: Key[int] = static(
        "sluicegate.fetch.repeated.partitions.max",
        INT,
        30_000,
        "Partitions that the broker remembers between requests, over all connections, for consumers without fetch "
        "sessions that name many partitions in each request. It then checks only the partitions that have changed. "
        "About 1 KB each.",
        at_least(0),
    )
    producer_id_expiration_ms: Key[int] = dynamic(
        "producer.id.expiration.ms",
        INT,
        86_400_000,
        "How long the broker remembers idle idempotent producers.",
        at_least(1),
    )
    sluicegate_partition_producers_max: Key[int] = static(
        "sluicegate.partition.producers.max",
        INT,
        20_000,
        "Idempotent producers that the broker remembers of one partition, about 560 bytes each. Beyond that it forgets "
        "those that have been idle longest, as after producer.id.expiration.ms.",
        at_least(1),
    )
    sluicegate_partition_transactions_max: Key[int] = static(
        "sluicegate.partition.transactions.max",
        INT,
        5_000,
        "Transactions that may be open in one partition at the same time. The first records of further ones are "
        "refused with NOT_ENOUGH_REPLICAS, and their offsets with COORDINATOR_NOT_AVAILABLE; clients try again.",
        at_least(1),
    )
    delete_topic_enable: Key[bool] = static("delete.topic.enable", BOOLEAN, True, "Whether DeleteTopics is allowed.")
    num_network_threads: Key[int] = static(
        "num.network.threads", INT, 1, "Changes nothing: there is one event loop.", between(1, 64)
    )
    num_io_threads: Key[int] = static(
        "num.io.threads", INT, 1, "Changes nothing: there is one event loop.", between(1, 64)
    )
    background_threads: Key[int] = static(
        "background.threads",
        INT,
        10,
        "Threads that fsync logs: at most so many slow syncs run at the same time.",
        between(1, 1_000),
    )


class ReplicationConfig(Config):
    """Configuration keys of followers: when and how much they fetch, and when they are in sync."""

    replica_lag_time_max_ms: Key[int] = static(
        "replica.lag.time.max.ms",
        LONG,
        30_000,
        "A follower that has not caught up for so long leaves the in-sync set.",
        at_least(1),
    )
    replica_fetch_wait_max_ms: Key[int] = static(
        "replica.fetch.wait.max.ms", INT, 500, "Longest wait of a follower's fetch.", at_least(0)
    )
    replica_fetch_min_bytes: Key[int] = static(
        "replica.fetch.min.bytes", INT, 1, "Bytes for which a follower's fetch waits.", at_least(0)
    )
    replica_fetch_max_bytes: Key[int] = static(
        "replica.fetch.max.bytes", INT, 1_048_576, "Bytes that a follower fetches from one partition.", at_least(1)
    )
    replica_fetch_response_max_bytes: Key[int] = static(
        "replica.fetch.response.max.bytes", INT, 10_485_760, "Bytes of one fetch response to a follower.", at_least(1)
    )
    replica_fetch_backoff_ms: Key[int] = static(
        "replica.fetch.backoff.ms", INT, 1_000, "Longest wait after a failed fetch.", at_least(1)
    )
    replica_high_watermark_checkpoint_interval_ms: Key[int] = static(
        "replica.high.watermark.checkpoint.interval.ms",
        LONG,
        5_000,
        "How often high watermarks are written to disk.",
        at_least(1),
    )


class ControllerConfig(Config):
    """Configuration keys of the controller, and of the controlled shutdown of brokers."""

    controlled_shutdown_enable: Key[bool] = static(
        "controlled.shutdown.enable",
        BOOLEAN,
        True,
        "Whether the broker moves its leaderships to other brokers before it stops.",
    )
    sluicegate_controlled_shutdown_timeout_ms: Key[int] = static(
        "sluicegate.controlled.shutdown.timeout.ms",
        INT,
        20_000,
        "The broker stops after this time even if the controller has not released it; keep it shorter than the pod's "
        "grace period.",
        at_least(1),
    )
    auto_leader_rebalance_enable: Key[bool] = static(
        "auto.leader.rebalance.enable", BOOLEAN, True, "Whether leadership returns to preferred replicas automatically."
    )
    leader_imbalance_check_interval_seconds: Key[int] = static(
        "leader.imbalance.check.interval.seconds",
        LONG,
        300,
        "How often the controller checks whether preferred replicas lead.",
        at_least(1),
    )
    sluicegate_leader_rebalance_delay_ms: Key[int] = static(
        "sluicegate.leader.rebalance.delay.ms",
        LONG,
        10_000,
        "The controller also checks whether preferred replicas lead so long after one is back in sync and does not "
        "lead.",
        at_least(0),
    )
    metadata_log_max_record_bytes_between_snapshots: Key[int] = static(
        "metadata.log.max.record.bytes.between.snapshots",
        LONG,
        20_971_520,
        "The node writes a snapshot of the metadata after so many bytes of records.",
        at_least(1),
    )
    sluicegate_controller_journal: Key[str] = static(
        "sluicegate.controller.journal", STRING, "file", "Where metadata is stored.", one_of("file", "kubernetes")
    )
    sluicegate_controller_journal_name: Key[str | None] = static(
        "sluicegate.controller.journal.name",
        STRING,
        None,
        "For kubernetes: prefix of the names of the journal's objects.",
    )
    sluicegate_controller_journal_namespace: Key[str | None] = static(
        "sluicegate.controller.journal.namespace", STRING, None, "For kubernetes: namespace of the journal's objects."
    )
    sluicegate_controller_journal_owner: Key[str | None] = static(
        "sluicegate.controller.journal.owner",
        STRING,
        None,
        "For kubernetes: owner of the journal's objects, as apiVersion/kind/name/uid; they are deleted with it. "
        "Without an owner they stay.",
    )
    sluicegate_controller_lease_duration_ms: Key[int] = static(
        "sluicegate.controller.lease.duration.ms",
        INT,
        4_000,
        "For kubernetes: a controller that has not renewed its Lease for so long may be replaced.",
        at_least(100),
    )


class ObserverConfig(Config):
    """Configuration keys of observers (KIP-388). The keys of a single observer begin with `observer.<name>.`."""

    observer_class_names: Key[tuple[str, ...]] = dynamic(
        "observer.class.names",
        LIST,
        (),
        "Observers, comma separated: built-in ones by name, classes as package.module.Class, or your own names, each "
        "with its class in observer.<name>.class (docs/reference/observers.md).",
        observer_names_problem,
    )
    sluicegate_observer_budget_us: Key[int] = dynamic(
        "sluicegate.observer.budget.us",
        INT,
        1_000,
        "Microseconds that one call of an observer may take; an observer that exceeds it repeatedly is suspended.",
        at_least(1),
    )
    sluicegate_observer_load_timeout_ms: Key[int] = dynamic(
        "sluicegate.observer.load.timeout.ms",
        INT,
        30_000,
        "An observer fails if it is not loaded and configured within this time. Only a broker that starts waits for "
        "it before it accepts clients.",
        at_least(1),
    )
    sluicegate_observer_close_timeout_ms: Key[int] = dynamic(
        "sluicegate.observer.close.timeout.ms",
        INT,
        2_000,
        "The broker abandons an observer that has not closed within this time.",
        at_least(1),
    )


class TopicDefaultsConfig(Config):
    """Configuration keys of a broker whose values are the defaults of topics without a value of their own."""

    log_cleanup_policy: Key[tuple[str, ...]] = _default_of(TopicConfig.cleanup_policy)
    compression_type: Key[str] = _default_of(TopicConfig.compression_type)
    log_segment_bytes: Key[int] = _default_of(TopicConfig.segment_bytes)
    log_roll_ms: Key[int] = _default_of(TopicConfig.segment_ms)
    log_index_size_max_bytes: Key[int] = _default_of(TopicConfig.segment_index_bytes)
    log_index_interval_bytes: Key[int] = _default_of(TopicConfig.index_interval_bytes)
    log_retention_ms: Key[int] = _default_of(TopicConfig.retention_ms)
    log_retention_bytes: Key[int] = _default_of(TopicConfig.retention_bytes)
    message_max_bytes: Key[int] = _default_of(TopicConfig.max_message_bytes)
    log_message_timestamp_type: Key[str] = _default_of(TopicConfig.message_timestamp_type)
    log_message_timestamp_before_max_ms: Key[int] = _default_of(TopicConfig.message_timestamp_before_max_ms)
    log_message_timestamp_after_max_ms: Key[int] = _default_of(TopicConfig.message_timestamp_after_max_ms)
    log_flush_interval_messages: Key[int] = _default_of(TopicConfig.flush_messages)
    log_flush_interval_ms: Key[int] = _default_of(TopicConfig.flush_ms)
    log_segment_delete_delay_ms: Key[int] = _default_of(TopicConfig.file_delete_delay_ms)
    min_insync_replicas: Key[int] = _default_of(TopicConfig.min_insync_replicas)
    log_cleaner_delete_retention_ms: Key[int] = _default_of(TopicConfig.delete_retention_ms)
    log_cleaner_min_cleanable_ratio: Key[float] = _default_of(TopicConfig.min_cleanable_dirty_ratio)
    log_cleaner_min_compaction_lag_ms: Key[int] = _default_of(TopicConfig.min_compaction_lag_ms)
    log_cleaner_max_compaction_lag_ms: Key[int] = _default_of(TopicConfig.max_compaction_lag_ms)
    sluicegate_record_validation: Key[str] = _default_of(TopicConfig.sluicegate_record_validation)
    unclean_leader_election_enable: Key[bool] = _default_of(TopicConfig.unclean_leader_election_enable)


class BrokerConfig(
    IdentityConfig,
    QuotaConfig,
    ClientQuotaConfig,
    ProxyConfig,
    SaslConfig,
    OAuthConfig,
    TlsConfig,
    NetworkConfig,
    RequestConfig,
    ClusterConfig,
    ReplicationConfig,
    ControllerConfig,
    ObserverConfig,
    GroupConfig,
    TransactionConfig,
    ResourcesConfig,
    LogTimesConfig,
    LogCleanerConfig,
    AuthorizerConfig,
    TopicDefaultsConfig,
):
    """The values of all keys of a broker or controller, typed: those of server.properties, or the effective ones."""


BROKER_KEYS: Mapping[str, ConfigKey] = BrokerConfig.KEYS

LISTENER_PREFIX = "listener.name."


def split_listener_prefix(name: str) -> tuple[str | None, str]:
    """Split `listener.name.external.max.connections` into ("external", "max.connections").

    A name without a listener's prefix gives (None, name).
    """
    if not name.startswith(LISTENER_PREFIX):
        return None, name
    listener, _, base = name.removeprefix(LISTENER_PREFIX).partition(".")
    return (listener, base) if base else (None, name)


def _unused(base: str) -> ConfigKey | None:
    """Return the unused key; a listener's key may begin with the SASL mechanism."""
    keys = unused_keys("broker")
    return keys.get(base) or keys.get(without_mechanism(base))


def without_mechanism(base: str) -> str:
    """Return a listener's key without the SASL mechanism before it, as in `plain.sasl.jaas.config`."""
    for prefix in MECHANISM_PREFIXES:
        rest = base.removeprefix(prefix)
        if rest != base and rest.startswith(("sasl.", SaslConfig.connections_max_reauth_ms.name)):
            return rest
    return base


def broker_key(name: str) -> ConfigKey | None:
    """Return the key of `name`, prefixed or not; None for a key of neither this broker nor Apache Kafka."""
    listener, base = split_listener_prefix(name)
    key = BROKER_KEYS.get(without_mechanism(base)) or _unused(base) or observer_key(name) or tag_key(name)
    if key is None or not (key.listener_prefixed if listener is not None else not key.listener_only):
        return None
    return key


def hint(name: str) -> str:
    """Return words that follow the unknown key `name` in a message: that it needs a listener's prefix.

    Empty if a prefix does not help.
    """
    key = BROKER_KEYS.get(name)
    return f" without {LISTENER_PREFIX}<name>. before it" if key is not None and key.listener_only else ""
