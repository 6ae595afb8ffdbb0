"""Every key of server.properties that this broker knows, under Kafka's names; keys of our own begin with `sluicegate.`
or belong to the seed (KIP-612 draft). Every limit of the broker is here. Pure.
"""

from collections.abc import Mapping

from broker_runtime.config.addresses import per_ip_overrides_problem
from broker_runtime.config.definition import (
    INT_MAX,
    LONG_MAX,
    ConfigKey,
    Type,
    UpdateMode,
    Validator,
    Value,
    at_least,
    between,
    each_of,
    one_of,
    table,
)
from broker_runtime.config.topic import BROKER_SYNONYMS, TOPIC_KEYS
from broker_runtime.config.unused import UNUSED_BROKER_KEYS

READ_ONLY, PER_BROKER, CLUSTER_WIDE = UpdateMode.READ_ONLY, UpdateMode.PER_BROKER, UpdateMode.CLUSTER_WIDE
BOOLEAN, STRING, INT, LONG, DOUBLE, LIST = (
    Type.BOOLEAN,
    Type.STRING,
    Type.INT,
    Type.LONG,
    Type.DOUBLE,
    Type.LIST,
)


def _static(name: str, kind: Type, default: Value, doc: str, validator: Validator | None = None) -> ConfigKey:
    return ConfigKey(name, kind, default, doc, validator)


def _dynamic(name: str, kind: Type, default: Value, doc: str, validator: Validator | None = None) -> ConfigKey:
    return ConfigKey(name, kind, default, doc, validator, CLUSTER_WIDE)


def _listener(name: str, kind: Type, default: Value, doc: str, validator: Validator | None = None) -> ConfigKey:
    return ConfigKey(name, kind, default, doc, validator, CLUSTER_WIDE, listener_prefixed=True)


_IDENTITY = [
    _static("process.roles", LIST, ("broker", "controller"), "What this process is.", each_of("broker", "controller")),
    _static("node.id", INT, None, "Identity of this node; unique in the cluster.", at_least(0)),
    _static("broker.rack", STRING, None, "Rack of this broker, used when replicas are placed."),
    _static(
        "sluicegate.broker.rack.file",
        STRING,
        None,
        "A file that somebody writes the rack into, instead of broker.rack; the broker waits for it before it starts.",
    ),
    _static(
        "sluicegate.broker.rack.timeout.ms",
        LONG,
        120_000,
        "The broker ends when that file is still empty after this.",
        at_least(1),
    ),
    _static("cluster.id", STRING, None, "Identity of the cluster; made and kept in meta.properties when absent."),
    _static("log.dirs", LIST, ("/tmp/sluicegate-logs",), "The folder of the logs (exactly one)."),
    _static("log.dir", LIST, None, "The same, where log.dirs is not given."),
    _static("listeners", LIST, ("PLAINTEXT://:9092",), "NAME://host:port, comma separated; port 0 takes a free port."),
    _static("advertised.listeners", LIST, None, "The addresses clients are told; defaults to listeners."),
    _static("listener.security.protocol.map", LIST, None, "NAME:PROTOCOL; only PLAINTEXT is served."),
    _static("inter.broker.listener.name", STRING, None, "The listener that brokers use; never starved by the others."),
    _static("controller.listener.names", LIST, None, "The listeners of the controller."),
    _static("controller.quorum.bootstrap.servers", LIST, None, "host:port of the controllers, for brokers."),
    _static(
        "controller.quorum.voters",
        LIST,
        None,
        "id@host:port of the controllers, where controller.quorum.bootstrap.servers is not given.",
    ),
    _static("sluicegate.http.listener", STRING, None, "host:port for /metrics, /healthz and /readyz; off when absent."),
]

_QUOTAS = [
    _dynamic("max.connections.per.ip", INT, INT_MAX, "Connections that one address may have.", at_least(0)),
    _dynamic(
        "max.connections.per.ip.overrides",
        STRING,
        "",
        "host:count, comma separated, instead of the above; names are resolved at the start and when they change.",
        per_ip_overrides_problem,
    ),
    _listener(
        "max.connections", INT, INT_MAX, "Connections of the broker, or with a prefix of a listener.", at_least(0)
    ),
    _listener(
        "max.connection.creation.rate",
        INT,
        INT_MAX,
        "New connections a second of the broker, or with a prefix of a listener (KIP-612).",
        at_least(0),
    ),
    _dynamic(
        "max.connection.creation.rate.per.ip",
        INT,
        INT_MAX,
        "New connections a second of each address (KIP-612 as drafted); the `ip` quota entity wins over it.",
        at_least(0),
    ),
    _static("quota.window.num", INT, 11, "Samples that a rate is taken over, the current one included.", at_least(1)),
    _static("quota.window.size.seconds", INT, 1, "Length of a sample; also the longest delay.", at_least(1)),
    _static(
        "connection.quota.strategy",
        STRING,
        "windowed",
        "windowed: Kafka's average, which admits ten windows at once by default; token-bucket: one second's worth.",
        one_of("windowed", "token-bucket"),
    ),
    _static(
        "connection.quota.ip.action",
        STRING,
        "delay",
        "An address over its rate: delay holds the connection, then closes it (as shipped); drop closes at once.",
        one_of("delay", "drop"),
    ),
    _static(
        "sluicegate.host.resolution.timeout.ms",
        INT,
        5_000,
        "Host names in limits that are not resolved by then count as unknown.",
        at_least(1),
    ),
    _static(
        "sluicegate.host.resolution.threads.max",
        INT,
        16,
        "Host names that are resolved at the same time.",
        at_least(1),
    ),
    _static(
        "connection.quota.tracked.ips.max",
        INT,
        100_000,
        "Addresses whose rate is remembered; the longest idle one is forgotten first.",
        at_least(1),
    ),
    _static(
        "connection.quota.delayed.close.max",
        INT,
        10_000,
        "Refused connections held open until their delay is over; beyond it they are closed at once.",
        at_least(1),
    ),
]

_NETWORK = [
    _static("connections.max.idle.ms", LONG, 600_000, "Idle connections are closed after this.", at_least(1)),
    _static("socket.listen.backlog.size", INT, 50, "Connections the kernel keeps for a waiting acceptor.", at_least(1)),
    _static("socket.request.max.bytes", INT, 104_857_600, "Largest request.", at_least(1)),
    _static(
        "socket.receive.buffer.bytes", INT, -1, "SO_RCVBUF; -1 lets the system tune it (Kafka: 102400).", at_least(-1)
    ),
    _static(
        "socket.send.buffer.bytes", INT, -1, "SO_SNDBUF; -1 lets the system tune it (Kafka: 102400).", at_least(-1)
    ),
    _static(
        "sluicegate.frame.receive.timeout.ms",
        LONG,
        30_000,
        "A request that has begun to arrive is given up when 16 KiB more, or its end, take longer than this.",
        at_least(1),
    ),
    _static(
        "sluicegate.connection.turn.requests.max",
        INT,
        100,
        "Requests of one connection that are answered before the others have their turn.",
        at_least(1),
    ),
    _static(
        "sluicegate.connection.turn.max.us",
        INT,
        1_000,
        "Microseconds after which a connection that has sent many requests waits for its next turn.",
        at_least(1),
    ),
    _static(
        "sluicegate.network.turn.max.us",
        INT,
        1_500,
        "Microseconds after which connections leave the event loop to heartbeats, the controller and timers.",
        at_least(1),
    ),
    _static(
        "sluicegate.record.validation.max.bytes",
        INT,
        33_554_432,
        "What a compressed batch may unpack to where its records are checked.",
        at_least(1),
    ),
    _static(
        "sluicegate.record.validation.queue.max",
        INT,
        100,
        "Compressed or long batches that wait to be checked; who comes then is told to try again.",
        at_least(1),
    ),
    _static(
        "queued.max.request.bytes",
        LONG,
        536_870_912,
        "Bytes of unfinished requests held for all connections; who would go beyond its share of it is not read.",
        at_least(1),
    ),
]

_CLUSTER = [
    _static("num.partitions", INT, 1, "Partitions of a topic that is created without a number.", at_least(1)),
    _static("default.replication.factor", INT, 1, "Replicas of such a topic.", at_least(1)),
    _static("auto.create.topics.enable", BOOLEAN, True, "Metadata for an unknown topic creates it."),
    _static("broker.heartbeat.interval.ms", INT, 2_000, "Time between heartbeats to the controller.", at_least(1)),
    _static("broker.session.timeout.ms", INT, 9_000, "A broker that is silent for so long is fenced.", at_least(1)),
    _static("initial.broker.registration.timeout.ms", INT, 60_000, "The broker exits when not registered by then."),
    _static("controller.request.queue.max", INT, 10_000, "Requests waiting for the controller's journal.", at_least(1)),
    _static("request.timeout.ms", INT, 30_000, "Longest wait for the controller.", at_least(1)),
    _static(
        "sluicegate.broker.replicas.max",
        INT,
        None,
        "Replicas of partitions that one broker may have; what would need more is refused. By default it follows from "
        "the limit of open files (RLIMIT_NOFILE) of the controller's process: three for each replica, beside a quarter "
        "for connections.",
        at_least(1),
    ),
    _static("fetch.max.bytes", INT, 57_671_680, "Largest fetch response.", between(1024, INT_MAX)),
    _static("max.incremental.fetch.session.cache.slots", INT, 0, "Fetch sessions are not kept: 0.", between(0, 0)),
    _static("transactional.id.expiration.ms", INT, 604_800_000, "Kept for Kafka's tools; no transactions yet."),
    _dynamic("producer.id.expiration.ms", INT, 86_400_000, "Idempotence is remembered for so long.", at_least(1)),
    _static("delete.topic.enable", BOOLEAN, True, "DeleteTopics is allowed."),
    _static("num.network.threads", INT, 1, "Fixed: one event loop.", between(1, 64)),
    _static("num.io.threads", INT, 1, "Fixed: one event loop.", between(1, 64)),
    _static("background.threads", INT, 10, "Threads that sync logs: so many slow syncs at once.", between(1, 1_000)),
]

_REPLICATION = [
    _static(
        "replica.lag.time.max.ms",
        LONG,
        30_000,
        "A follower that has not caught up for so long leaves the in-sync set.",
        at_least(1),
    ),
    _static("replica.fetch.wait.max.ms", INT, 500, "Longest wait of a follower's fetch.", at_least(0)),
    _static("replica.fetch.min.bytes", INT, 1, "Bytes a follower's fetch waits for.", at_least(0)),
    _static("replica.fetch.max.bytes", INT, 1_048_576, "Bytes a follower fetches of one partition.", at_least(1)),
    _static("replica.fetch.response.max.bytes", INT, 10_485_760, "Bytes of one answer to a follower.", at_least(1)),
    _static("replica.fetch.backoff.ms", INT, 1_000, "Longest wait after a fetch that failed.", at_least(1)),
    _static(
        "replica.high.watermark.checkpoint.interval.ms",
        LONG,
        5_000,
        "How often high watermarks are written to disk.",
        at_least(1),
    ),
]

_CONTROLLER = [
    _static("controlled.shutdown.enable", BOOLEAN, True, "Move leaderships away before stopping."),
    _static(
        "sluicegate.controlled.shutdown.timeout.ms",
        INT,
        20_000,
        "The broker stops after this whether the controller released it or not; keep it inside the pod's grace period.",
        at_least(1),
    ),
    _static("auto.leader.rebalance.enable", BOOLEAN, True, "Give leaderships back to preferred replicas."),
    _static(
        "leader.imbalance.check.interval.seconds", LONG, 300, "How often preferred leaders are looked at.", at_least(1)
    ),
    _static(
        "sluicegate.leader.rebalance.delay.ms",
        LONG,
        10_000,
        "They are looked at besides so long after a preferred replica is back in sync and does not lead.",
        at_least(0),
    ),
    _static(
        "metadata.log.max.record.bytes.between.snapshots",
        LONG,
        20_971_520,
        "A snapshot of the metadata is taken after so many bytes of records.",
        at_least(1),
    ),
    _static("sluicegate.controller.journal", STRING, "file", "Where metadata is kept.", one_of("file", "kubernetes")),
    _static("sluicegate.controller.journal.name", STRING, None, "kubernetes: beginning of the names of its objects."),
    _static("sluicegate.controller.journal.namespace", STRING, None, "kubernetes: where its objects are."),
    _static(
        "sluicegate.controller.journal.owner",
        STRING,
        None,
        "kubernetes: whose end is the end of its objects, as apiVersion/kind/name/uid; without one they stay.",
    ),
    _static(
        "sluicegate.controller.lease.duration.ms",
        INT,
        4_000,
        "kubernetes: a controller that has not renewed its Lease for so long may be replaced.",
        at_least(100),
    ),
]

_LOG_EXTRA = [
    _static("log.retention.hours", INT, 168, "log.retention.ms in hours.", at_least(-1)),
    _static("log.retention.minutes", INT, None, "log.retention.ms in minutes.", at_least(-1)),
    _static("log.roll.hours", INT, 168, "log.roll.ms in hours.", at_least(1)),
    _static("log.retention.check.interval.ms", LONG, 300_000, "Time between two looks for old segments.", at_least(1)),
    _static(
        "log.flush.scheduler.interval.ms", LONG, LONG_MAX, "Time between two looks for logs to fsync.", at_least(1)
    ),
]


def _topic_defaults() -> list[ConfigKey]:
    """The broker-level default of each topic key."""
    return [
        ConfigKey(synonym, key.type, key.default, f"Default of the topic key {name}.", key.validator, CLUSTER_WIDE)
        for name, synonym in BROKER_SYNONYMS.items()
        for key in (TOPIC_KEYS[name],)
    ]


BROKER_KEYS: Mapping[str, ConfigKey] = table(
    [*_IDENTITY, *_QUOTAS, *_NETWORK, *_CLUSTER, *_REPLICATION, *_CONTROLLER, *_LOG_EXTRA, *_topic_defaults()]
)

LISTENER_PREFIX = "listener.name."


def split_listener_prefix(name: str) -> tuple[str | None, str]:
    """`listener.name.external.max.connections` -> ("external", "max.connections"); (None, name) without a prefix."""
    if not name.startswith(LISTENER_PREFIX):
        return None, name
    listener, _, base = name.removeprefix(LISTENER_PREFIX).partition(".")
    return (listener, base) if base else (None, name)


def _unused(base: str) -> ConfigKey | None:
    """A listener's key may have the SASL mechanism before it: `plain.sasl.jaas.config`."""
    _, dot, rest = base.partition(".")
    return UNUSED_BROKER_KEYS.get(base) or (UNUSED_BROKER_KEYS.get(rest) if dot and rest.startswith("sasl.") else None)


def broker_key(name: str) -> ConfigKey | None:
    """The key behind `name`, prefixed or not; None when neither this broker nor Apache Kafka has one."""
    listener, base = split_listener_prefix(name)
    key = BROKER_KEYS.get(base) or _unused(base)
    if key is None or (listener is not None and not key.listener_prefixed):
        return None
    return key
