"""Which configuration keys a manifest may have, and what sets the others.

The names are Kafka's and the broker's. The operator shares no rules with the broker, so they are repeated here; a unit
test compares them with the broker's own tables.
"""

from collections.abc import Mapping

from sluicegate_operator.api.schema.config_values import (
    FLAG,
    RATE,
    SHARE,
    ConfigValue,
    Matching,
    WholeNumber,
    any_case,
    list_of,
    long,
    one_of,
)

_COMPRESSION = one_of("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")
_TIMESTAMP = one_of("CreateTime", "LogAppendTime")
_CLEANUP = list_of("delete", "compact")
_MIGRATION = Matching(
    f"^({any_case('bidirectional', 'upgrade', 'downgrade', 'disabled')})$",
    "must be one of bidirectional, upgrade, downgrade, disabled",
    "word",
)

_PROTOCOL = "(classic|consumer|share|streams)"
_PROTOCOLS = Matching(
    f"^({_PROTOCOL} *, *)*classic( *, *{_PROTOCOL})*$",
    "must be a comma-separated list of classic, consumer, share and streams that contains classic",
    "set",
)

_ITEMS_OF_APIS = Matching(
    "^( *[A-Za-z]+:0?(10(2[4-9]|[3-9][0-9])|1[1-9][0-9]{2}|[2-9][0-9]{3}|[1-9][0-9]{4,8}) *(,|$))*$",
    "must be a comma-separated list of API:count pairs such as OffsetCommit:200000, with counts of at least 1024",
    "counts",
)

_BEYOND_ASCII = "\u00a1-\u167f\u1681-\u1fff\u2070-\u2fff\u3001-\ud7ff"
"""Characters that are not spaces of Unicode, as part of a class: RE2 has no name for them."""
_PRINCIPALS = Matching(
    f"^( *[!-9<-~{_BEYOND_ASCII}][^:;]*:[^;]*[!-:<-~{_BEYOND_ASCII}][^;]*(;|$))*$",
    "must be principals such as User:alice, separated by semicolons",
    "principals",
)
_AUTHORIZER = Matching(
    "^(org[.]apache[.]kafka[.]metadata[.]authorizer[.]StandardAuthorizer)?$",
    "must be empty or org.apache.kafka.metadata.authorizer.StandardAuthorizer",
)

QUOTA_NAMES = "sluicegate.connection.quota.names"
"""Key by which brokers know the ConnectionQuotas of their limits; it limits nothing."""

OPERATOR_KEYS = (
    "advertised.listeners",
    "broker.rack",
    "cluster.id",
    "controller.listener.names",
    "controller.quorum.bootstrap.servers",
    "controller.quorum.voters",
    "inter.broker.listener.name",
    "listener.security.protocol.map",
    "listeners",
    "log.dir",
    "log.dirs",
    "node.id",
    "process.roles",
    "proxy.protocol.trusted",
    "sluicegate.broker.rack.file",
    QUOTA_NAMES,
    "sluicegate.controlled.shutdown.timeout.ms",
    "sluicegate.controller.journal",
    "sluicegate.controller.journal.name",
    "sluicegate.controller.journal.namespace",
    "sluicegate.controller.journal.owner",
    "sluicegate.controller.lease.duration.ms",
    "sluicegate.http.listener",
)
"""Keys that the operator sets for each node, from its BrokerListeners and from ConnectionQuotas."""

ADAPTIVE_P99 = "connection.quota.adaptive.p99.ms"
ADAPTIVE_MIN_RATE = "connection.quota.adaptive.min.rate"
QUOTA_SCOPE = "connection.quota.scope"
LIMIT_KEYS = (
    ADAPTIVE_MIN_RATE,
    ADAPTIVE_P99,
    QUOTA_SCOPE,
    "max.connection.creation.rate",
    "max.connection.creation.rate.per.ip",
    "max.connections",
    "max.connections.per.ip",
    "max.connections.per.ip.overrides",
)
"""Connection limits, which ConnectionQuota sets, like every key that begins with `listener.name.`."""

LISTENER_PREFIX = "listener.name."

WINDOW_KEYS = (
    "connection.quota.ip.action",
    "connection.quota.strategy",
    "quota.window.num",
    "quota.window.size.seconds",
)
"""Keys that spec.connectionQuota of the BrokerCluster sets."""

TLS_KEYS = (
    "security.inter.broker.protocol",
    "sluicegate.tls.files.check.interval.ms",
    "sluicegate.tls.handshake.timeout.ms",
    "sluicegate.tls.handshakes.max",
    "sluicegate.tls.pem.max.bytes",
    "sluicegate.tls.server.name",
    "ssl.allow.dn.changes",
    "ssl.allow.san.changes",
    "ssl.cipher.suites",
    "ssl.client.auth",
    "ssl.enabled.protocols",
    "ssl.endpoint.identification.algorithm",
    "ssl.key.password",
    "ssl.keystore.certificate.chain",
    "ssl.keystore.key",
    "ssl.keystore.location",
    "ssl.keystore.password",
    "ssl.keystore.type",
    "ssl.principal.mapping.rules",
    "ssl.protocol",
    "ssl.truststore.certificates",
    "ssl.truststore.location",
    "ssl.truststore.password",
    "ssl.truststore.type",
)
"""Keys of listeners with TLS, which spec.tls of a BrokerListener sets."""
AUTHENTICATION_KEYS = (
    "connection.failed.authentication.delay.ms",
    "connections.max.reauth.ms",
    "sasl.enabled.mechanisms",
    "sasl.jaas.config",
    "sasl.mechanism.controller.protocol",
    "sasl.mechanism.inter.broker.protocol",
    "sasl.oauthbearer.clock.skew.seconds",
    "sasl.oauthbearer.expected.audience",
    "sasl.oauthbearer.expected.issuer",
    "sasl.oauthbearer.jwks.endpoint.refresh.ms",
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms",
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms",
    "sasl.oauthbearer.jwks.endpoint.url",
    "sasl.oauthbearer.scope.claim.name",
    "sasl.oauthbearer.sub.claim.name",
    "sasl.server.max.receive.size",
    "sluicegate.bootstrap.scram.file",
    "sluicegate.oauthbearer.jwks.ca.file",
    "sluicegate.oauthbearer.jwks.max.bytes",
    "sluicegate.oauthbearer.jwks.timeout.ms",
    "sluicegate.oauthbearer.jwks.token.file",
    "sluicegate.sasl.checks.max",
    "sluicegate.sasl.timeout.ms",
)
"""Keys of listeners whose clients authenticate, which spec.authentication of a BrokerListener sets."""

OBSERVER_PREFIX = "observer."

BROKER_CONFIG: Mapping[str, ConfigValue] = {
    "add.partitions.to.txn.retry.backoff.max.ms": WholeNumber(0),
    "add.partitions.to.txn.retry.backoff.ms": WholeNumber(1),
    "allow.everyone.if.no.acl.found": FLAG,
    "authorizer.class.name": _AUTHORIZER,
    "auto.create.topics.enable": FLAG,
    "auto.leader.rebalance.enable": FLAG,
    "background.threads": WholeNumber(1, 1_000),
    "broker.heartbeat.interval.ms": WholeNumber(1),
    "broker.session.timeout.ms": WholeNumber(1),
    "compression.type": _COMPRESSION,
    "connection.quota.count.abandoned": FLAG,
    "connection.quota.delayed.close.max": WholeNumber(1),
    "connection.quota.tracked.ips.max": WholeNumber(1),
    "connections.max.idle.ms": long(1),
    "controlled.shutdown.enable": FLAG,
    "controller.quota.window.num": WholeNumber(1),
    "controller.quota.window.size.seconds": WholeNumber(1),
    "controller.request.queue.max": WholeNumber(1),
    "default.replication.factor": WholeNumber(1),
    "delete.topic.enable": FLAG,
    "fetch.max.bytes": WholeNumber(1024),
    "group.consumer.assignment.interval.ms": WholeNumber(0),
    # The first one is the assignor of a new group.
    "group.consumer.assignors": list_of("uniform", "range", meaning="list"),
    "group.consumer.heartbeat.interval.ms": WholeNumber(1),
    "group.consumer.max.assignment.interval.ms": WholeNumber(0),
    "group.consumer.max.heartbeat.interval.ms": WholeNumber(1),
    "group.consumer.max.session.timeout.ms": WholeNumber(1),
    "group.consumer.max.size": WholeNumber(1),
    "group.consumer.migration.policy": _MIGRATION,
    "group.consumer.min.assignment.interval.ms": WholeNumber(0),
    "group.consumer.min.heartbeat.interval.ms": WholeNumber(1),
    "group.consumer.min.session.timeout.ms": WholeNumber(1),
    "group.consumer.regex.refresh.interval.ms": WholeNumber(10_000),
    "group.consumer.session.timeout.ms": WholeNumber(1),
    "group.coordinator.rebalance.protocols": _PROTOCOLS,
    "group.initial.rebalance.delay.ms": WholeNumber(0),
    "group.max.session.timeout.ms": WholeNumber(0),
    "group.max.size": WholeNumber(1),
    "group.min.session.timeout.ms": WholeNumber(0),
    "initial.broker.registration.timeout.ms": WholeNumber(1),
    "leader.imbalance.check.interval.seconds": long(1),
    "sluicegate.leader.rebalance.delay.ms": long(0),
    "log.cleaner.backoff.ms": long(0),
    "log.cleaner.dedupe.buffer.size": long(1 << 20),
    "log.cleaner.delete.retention.ms": long(0),
    "log.cleaner.enable": FLAG,
    "log.cleaner.io.buffer.load.factor": SHARE,
    "log.cleaner.io.buffer.size": WholeNumber(0),
    "log.cleaner.io.max.bytes.per.second": RATE,
    "log.cleaner.max.compaction.lag.ms": long(1),
    "log.cleaner.min.cleanable.ratio": SHARE,
    "log.cleaner.min.compaction.lag.ms": long(0),
    "log.cleaner.threads": WholeNumber(0),
    "log.cleanup.policy": _CLEANUP,
    "log.flush.interval.messages": long(1),
    "log.flush.interval.ms": long(0),
    "log.flush.offset.checkpoint.interval.ms": WholeNumber(0),
    "log.flush.scheduler.interval.ms": long(1),
    "log.initial.task.delay.ms": long(0),
    "log.index.interval.bytes": WholeNumber(0),
    "log.index.size.max.bytes": WholeNumber(4),
    "log.message.timestamp.after.max.ms": long(0),
    "log.message.timestamp.before.max.ms": long(0),
    "log.message.timestamp.type": _TIMESTAMP,
    "log.retention.bytes": long(-1),
    "log.retention.check.interval.ms": long(1),
    "log.retention.hours": WholeNumber(-1),
    "log.retention.minutes": WholeNumber(-1),
    "log.retention.ms": long(-1),
    "log.roll.hours": WholeNumber(1),
    "log.roll.ms": long(1),
    "log.segment.bytes": WholeNumber(14),
    "log.segment.delete.delay.ms": long(0),
    "max.incremental.fetch.session.cache.slots": WholeNumber(0),
    "message.max.bytes": WholeNumber(0),
    "metadata.log.max.record.bytes.between.snapshots": long(1),
    "min.insync.replicas": WholeNumber(1),
    "num.io.threads": WholeNumber(1, 64),
    "num.network.threads": WholeNumber(1, 64),
    "num.partitions": WholeNumber(1),
    "offset.metadata.max.bytes": WholeNumber(0),
    "offsets.commit.timeout.ms": WholeNumber(1),
    "offsets.retention.check.interval.ms": long(1),
    "offsets.retention.minutes": WholeNumber(1),
    "offsets.topic.num.partitions": WholeNumber(1),
    "offsets.topic.replication.factor": WholeNumber(1, 32_767),
    "offsets.topic.segment.bytes": WholeNumber(14),
    "producer.id.expiration.ms": WholeNumber(1),
    "queued.max.request.bytes": long(1),
    "replica.fetch.backoff.ms": WholeNumber(1),
    "replica.fetch.max.bytes": WholeNumber(1),
    "replica.fetch.min.bytes": WholeNumber(0),
    "replica.fetch.response.max.bytes": WholeNumber(1),
    "replica.fetch.wait.max.ms": WholeNumber(0),
    "replica.high.watermark.checkpoint.interval.ms": long(1),
    "replica.lag.time.max.ms": long(1),
    "request.timeout.ms": WholeNumber(1),
    "sluicegate.broker.rack.timeout.ms": long(1),
    "sluicegate.broker.replicas.max": WholeNumber(1),
    "sluicegate.client.quota.buckets.max": WholeNumber(1),
    "sluicegate.client.quotas.max": WholeNumber(1),
    "sluicegate.client.quotas.names.bytes.max": WholeNumber(1_000),
    "sluicegate.config.resources.max": WholeNumber(0),
    "sluicegate.connection.group.members.max": WholeNumber(0),
    "sluicegate.connection.groups.cluster.max": WholeNumber(0),
    "sluicegate.connection.groups.max": WholeNumber(0),
    "sluicegate.connection.groups.members.max": WholeNumber(0),
    "sluicegate.connection.observers.max": WholeNumber(1),
    "sluicegate.connection.shares.lease.ms": WholeNumber(1_000, 60_000),
    "sluicegate.connection.shares.report.ms": WholeNumber(50, 10_000),
    "sluicegate.proxy.header.max.bytes": WholeNumber(52, 65_551),
    "sluicegate.proxy.header.timeout.ms": WholeNumber(1),
    "sluicegate.connection.push.max.bytes": WholeNumber(1),
    "sluicegate.connection.turn.max.us": WholeNumber(1),
    "sluicegate.connection.turn.requests.max": WholeNumber(1),
    "sluicegate.controller.connection.setup.timeout.ms": long(1),
    "sluicegate.acls.decisions.max": WholeNumber(1),
    "sluicegate.acls.max": WholeNumber(1, 1_000_000),
    "sluicegate.acls.text.bytes.max": WholeNumber(1_000),
    "sluicegate.scram.users.max": WholeNumber(1, 1_000_000),
    "sluicegate.fetch.repeated.partitions.max": WholeNumber(0),
    "sluicegate.fetch.session.partitions.max": WholeNumber(0),
    "sluicegate.frame.receive.timeout.ms": long(1),
    "sluicegate.group.assignments.bytes.max": WholeNumber(1),
    "sluicegate.group.consumer.rebalance.heartbeat.interval.ms": WholeNumber(1),
    "sluicegate.group.coordinator.groups.max": WholeNumber(1),
    "sluicegate.group.coordinator.queue.max": WholeNumber(1),
    "sluicegate.group.lag.groups.max": WholeNumber(0),
    "sluicegate.group.lag.interval.ms": WholeNumber(1_000),
    "sluicegate.group.lag.partitions.max": WholeNumber(1),
    "sluicegate.group.member.bytes.max": WholeNumber(1),
    "sluicegate.group.member.protocols.max": WholeNumber(1),
    "sluicegate.group.member.topics.max": WholeNumber(1),
    "sluicegate.group.push.offsets.check.timeout.ms": WholeNumber(1),
    "sluicegate.group.push.offsets.commit.interval.ms": WholeNumber(0),
    "sluicegate.group.push.ping.retries.max": WholeNumber(0),
    "sluicegate.group.push.rebalance.backoff.ms": WholeNumber(0),
    "sluicegate.group.push.rebalance.retries.max": WholeNumber(0),
    "sluicegate.group.topics.max": WholeNumber(1),
    "sluicegate.groups.members.bytes.max": long(1),
    "sluicegate.host.resolution.threads.max": WholeNumber(1),
    "sluicegate.host.resolution.timeout.ms": WholeNumber(1),
    "sluicegate.network.turn.max.us": WholeNumber(1),
    "sluicegate.observer.budget.us": WholeNumber(1),
    "sluicegate.observer.close.timeout.ms": WholeNumber(1),
    "sluicegate.observer.load.timeout.ms": WholeNumber(1),
    "sluicegate.partition.producers.max": WholeNumber(1),
    "sluicegate.partition.transactions.max": WholeNumber(1),
    "sluicegate.queued.max.response.bytes": long(1_048_576),
    "sluicegate.record.validation": one_of("header", "all"),
    "sluicegate.record.validation.max.bytes": WholeNumber(1),
    "sluicegate.record.validation.queue.max": WholeNumber(1),
    "sluicegate.request.items.max": WholeNumber(1_024),
    "sluicegate.request.items.max.overrides": _ITEMS_OF_APIS,
    "sluicegate.request.max.bytes": WholeNumber(1_024),
    "sluicegate.request.tagged.bytes.max": WholeNumber(1_024),
    "sluicegate.request.tagged.fields.max": WholeNumber(1),
    "sluicegate.requests.long.max.bytes": WholeNumber(1),
    "sluicegate.response.max.bytes": WholeNumber(1_048_576),
    "sluicegate.transaction.coordinator.ids.max": WholeNumber(1),
    "sluicegate.transaction.coordinator.queue.max": WholeNumber(1),
    "sluicegate.transaction.marker.retry.backoff.max.ms": WholeNumber(1),
    "sluicegate.transaction.marker.retry.backoff.ms": WholeNumber(1),
    "sluicegate.transaction.request.partitions.max": WholeNumber(1, 3_000),
    "sluicegate.transaction.verification.queue.max": WholeNumber(1),
    "socket.connection.setup.timeout.ms": long(1),
    "socket.listen.backlog.size": WholeNumber(1),
    "socket.receive.buffer.bytes": WholeNumber(-1),
    "socket.request.max.bytes": WholeNumber(1),
    "socket.send.buffer.bytes": WholeNumber(-1),
    "super.users": _PRINCIPALS,
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": WholeNumber(1),
    "transaction.max.timeout.ms": WholeNumber(1),
    "transaction.partition.verification.enable": FLAG,
    "transaction.remove.expired.transaction.cleanup.interval.ms": WholeNumber(1),
    "transaction.state.log.min.isr": WholeNumber(1),
    "transaction.state.log.num.partitions": WholeNumber(1),
    "transaction.state.log.replication.factor": WholeNumber(1, 32_767),
    "transaction.state.log.segment.bytes": WholeNumber(14),
    "transactional.id.expiration.ms": WholeNumber(1),
    "unclean.leader.election.enable": FLAG,
    "unsupported.request.reply": one_of("close", "empty"),
}
"""The keys that spec.config of a BrokerCluster may have, with their allowed values."""

DYNAMIC_CONFIG_KEYS = frozenset(
    {
        "compression.type",
        "group.consumer.assignment.interval.ms",
        "log.cleaner.backoff.ms",
        "log.cleaner.dedupe.buffer.size",
        "log.cleaner.delete.retention.ms",
        "log.cleaner.io.buffer.load.factor",
        "log.cleaner.io.buffer.size",
        "log.cleaner.io.max.bytes.per.second",
        "log.cleaner.max.compaction.lag.ms",
        "log.cleaner.min.cleanable.ratio",
        "log.cleaner.min.compaction.lag.ms",
        "log.cleaner.threads",
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
        "sluicegate.observer.budget.us",
        "sluicegate.observer.close.timeout.ms",
        "sluicegate.observer.load.timeout.ms",
        "sluicegate.record.validation",
        "transaction.partition.verification.enable",
        "unclean.leader.election.enable",
        "unsupported.request.reply",
    }
)
"""The keys of BROKER_CONFIG that are cluster-wide dynamic in Kafka: changed while brokers run.

All others are static.
"""

TOPIC_CONFIG: Mapping[str, ConfigValue] = {
    "cleanup.policy": _CLEANUP,
    "compression.type": _COMPRESSION,
    "delete.retention.ms": long(0),
    "file.delete.delay.ms": long(0),
    "flush.messages": long(1),
    "flush.ms": long(0),
    "index.interval.bytes": WholeNumber(0),
    "max.compaction.lag.ms": long(1),
    "max.message.bytes": WholeNumber(0),
    "message.timestamp.after.max.ms": long(0),
    "message.timestamp.before.max.ms": long(0),
    "message.timestamp.type": _TIMESTAMP,
    "min.cleanable.dirty.ratio": SHARE,
    "min.compaction.lag.ms": long(0),
    "min.insync.replicas": WholeNumber(1),
    "retention.bytes": long(-1),
    "retention.ms": long(-1),
    "segment.bytes": WholeNumber(14),
    "segment.index.bytes": WholeNumber(4),
    "segment.ms": long(1),
    "sluicegate.record.validation": one_of("header", "all"),
    "unclean.leader.election.enable": FLAG,
}
"""The keys that spec.config of a Topic may have, with their allowed values."""


HIDDEN = "[hidden]"
_SECRET_ENDINGS = ("password", "secret", "token", "jaas.config", "keystore.key")


def is_secret(key: str) -> bool:
    """Return whether a key's value must be hidden, by its name: Kafka's keys of type password, and similar ones."""
    return key.lower().endswith(_SECRET_ENDINGS)
