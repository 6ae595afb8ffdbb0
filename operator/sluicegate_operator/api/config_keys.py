"""Which configuration keys a manifest may hold, and who else sets the others.

The names are Kafka's and the broker's. The operator shares no code with the broker, so they are written down here
again; a unit test compares them with the broker's own tables.
"""

OPERATOR_KEYS = (
    "advertised.listeners",
    "broker.rack",
    "cluster.id",
    "controller.listener.names",
    "controller.quorum.bootstrap.servers",
    "inter.broker.listener.name",
    "listener.security.protocol.map",
    "listeners",
    "log.dirs",
    "node.id",
    "process.roles",
    "sluicegate.broker.rack.file",
    "sluicegate.controlled.shutdown.timeout.ms",
    "sluicegate.controller.journal",
    "sluicegate.controller.journal.name",
    "sluicegate.controller.journal.namespace",
    "sluicegate.controller.journal.owner",
    "sluicegate.controller.lease.duration.ms",
    "sluicegate.http.listener",
)
"""Set by the operator for each node."""

LIMIT_KEYS = (
    "max.connection.creation.rate",
    "max.connection.creation.rate.per.ip",
    "max.connections",
    "max.connections.per.ip",
    "max.connections.per.ip.overrides",
)
"""Connection limits: set through ConnectionQuota, as is everything that begins with `listener.name.`."""

LISTENER_PREFIX = "listener.name."

WINDOW_KEYS = (
    "connection.quota.ip.action",
    "connection.quota.strategy",
    "quota.window.num",
    "quota.window.size.seconds",
)
"""Set through spec.connectionQuota of the BrokerCluster."""

BROKER_CONFIG_KEYS = (
    "auto.create.topics.enable",
    "auto.leader.rebalance.enable",
    "broker.heartbeat.interval.ms",
    "broker.session.timeout.ms",
    "compression.type",
    "connection.quota.delayed.close.max",
    "connection.quota.tracked.ips.max",
    "connections.max.idle.ms",
    "controlled.shutdown.enable",
    "controller.request.queue.max",
    "default.replication.factor",
    "delete.topic.enable",
    "fetch.max.bytes",
    "initial.broker.registration.timeout.ms",
    "leader.imbalance.check.interval.seconds",
    "log.cleaner.delete.retention.ms",
    "log.cleanup.policy",
    "log.flush.interval.messages",
    "log.flush.interval.ms",
    "log.flush.scheduler.interval.ms",
    "log.index.interval.bytes",
    "log.index.size.max.bytes",
    "log.message.timestamp.after.max.ms",
    "log.message.timestamp.before.max.ms",
    "log.message.timestamp.type",
    "log.retention.bytes",
    "log.retention.check.interval.ms",
    "log.retention.hours",
    "log.retention.minutes",
    "log.retention.ms",
    "log.roll.hours",
    "log.roll.ms",
    "log.segment.bytes",
    "log.segment.delete.delay.ms",
    "max.incremental.fetch.session.cache.slots",
    "message.max.bytes",
    "metadata.log.max.record.bytes.between.snapshots",
    "min.insync.replicas",
    "num.io.threads",
    "num.network.threads",
    "num.partitions",
    "producer.id.expiration.ms",
    "queued.max.request.bytes",
    "replica.fetch.backoff.ms",
    "replica.fetch.max.bytes",
    "replica.fetch.min.bytes",
    "replica.fetch.response.max.bytes",
    "replica.fetch.wait.max.ms",
    "replica.high.watermark.checkpoint.interval.ms",
    "replica.lag.time.max.ms",
    "request.timeout.ms",
    "sluicegate.broker.rack.timeout.ms",
    "sluicegate.frame.receive.timeout.ms",
    "socket.listen.backlog.size",
    "socket.receive.buffer.bytes",
    "socket.request.max.bytes",
    "socket.send.buffer.bytes",
    "transactional.id.expiration.ms",
    "unclean.leader.election.enable",
)
"""What spec.config of a BrokerCluster may hold."""

DYNAMIC_CONFIG_KEYS = frozenset(
    {
        "compression.type",
        "log.cleaner.delete.retention.ms",
        "log.cleanup.policy",
        "log.flush.interval.messages",
        "log.flush.interval.ms",
        "log.index.interval.bytes",
        "log.index.size.max.bytes",
        "log.message.timestamp.after.max.ms",
        "log.message.timestamp.before.max.ms",
        "log.message.timestamp.type",
        "log.retention.bytes",
        "log.retention.ms",
        "log.roll.ms",
        "log.segment.bytes",
        "log.segment.delete.delay.ms",
        "message.max.bytes",
        "min.insync.replicas",
        "producer.id.expiration.ms",
        "unclean.leader.election.enable",
    }
)
"""Of BROKER_CONFIG_KEYS those that Kafka calls cluster-wide: changed while brokers run. All others are static."""

TOPIC_CONFIG_KEYS = (
    "cleanup.policy",
    "compression.type",
    "delete.retention.ms",
    "file.delete.delay.ms",
    "flush.messages",
    "flush.ms",
    "index.interval.bytes",
    "max.message.bytes",
    "message.timestamp.after.max.ms",
    "message.timestamp.before.max.ms",
    "message.timestamp.type",
    "min.insync.replicas",
    "retention.bytes",
    "retention.ms",
    "segment.bytes",
    "segment.index.bytes",
    "segment.ms",
    "unclean.leader.election.enable",
)
"""What spec.config of a Topic may hold."""


def cel_list(keys: tuple[str, ...]) -> str:
    """A list literal of the Common Expression Language."""
    return "[" + ", ".join(f"'{key}'" for key in keys) + "]"
