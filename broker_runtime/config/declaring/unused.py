"""Keys of Apache Kafka 4.3 without a meaning for this broker.

The broker has no transactions, no TLS, and no share or Streams groups.

Pure data: names, types and update modes are those of Apache Kafka's own tables; the differential suite compares them
with its jars. When this broker begins to use a key, the key moves to the tables of used keys.
"""

from collections.abc import Mapping

from broker_runtime.config.declaring.allowed import OneOf
from broker_runtime.config.declaring.declaration import keys_by_name
from broker_runtime.config.declaring.definition import ConfigKey, Key, Type, UpdateMode

_DOC = "Known to Apache Kafka and not used by this broker; it changes nothing."
_PREFIXED = ("ssl.", "sasl.", "connections.max.reauth.ms", "principal.builder.class")
"""Beginnings of keys that a listener may override with its prefix."""


def _keys(kind: Type, mode: UpdateMode, names: str, allowed: OneOf | None = None) -> list[ConfigKey]:
    return [
        Key(
            name,
            kind,
            None,
            _DOC,
            allowed,
            mode,
            listener_prefixed=name.startswith(_PREFIXED),
            sensitive=kind is Type.PASSWORD,
            used=False,
        )
        for name in names.split()
    ]


UNUSED_BROKER_KEYS: Mapping[str, ConfigKey] = keys_by_name(
    [
        *_keys(
            Type.BOOLEAN,
            UpdateMode.CLUSTER_WIDE,
            """
        follower.fetch.last.tiered.offset.enable log.preallocate transaction.partition.verification.enable
        """,
        ),
        *_keys(
            Type.BOOLEAN,
            UpdateMode.READ_ONLY,
            """
        controller.quorum.auto.join.enable remote.log.storage.system.enable
        sasl.oauthbearer.assertion.claim.jti.include ssl.allow.dn.changes ssl.allow.san.changes
        transaction.two.phase.commit.enable unstable.api.versions.enable unstable.feature.versions.enable
        """,
        ),
        *_keys(
            Type.CLASS,
            UpdateMode.PER_BROKER,
            """
        principal.builder.class ssl.engine.factory.class
        """,
        ),
        *_keys(
            Type.CLASS,
            UpdateMode.READ_ONLY,
            """
        alter.config.policy.class.name client.quota.callback.class create.topic.policy.class.name
        sasl.client.callback.handler.class sasl.login.callback.handler.class sasl.login.class
        sasl.oauthbearer.jwt.retriever.class sasl.oauthbearer.jwt.validator.class sasl.server.callback.handler.class
        """,
        ),
        *_keys(
            Type.DOUBLE,
            UpdateMode.PER_BROKER,
            """
        sasl.kerberos.ticket.renew.jitter sasl.kerberos.ticket.renew.window.factor sasl.login.refresh.window.factor
        sasl.login.refresh.window.jitter
        """,
        ),
        *_keys(
            Type.DOUBLE,
            UpdateMode.READ_ONLY,
            """
        remote.log.manager.task.retry.jitter
        """,
        ),
        *_keys(
            Type.INT,
            UpdateMode.CLUSTER_WIDE,
            """
        compression.gzip.level compression.lz4.level compression.zstd.level group.coordinator.cached.buffer.max.bytes
        group.share.assignment.interval.ms group.streams.assignment.interval.ms num.recovery.threads.per.data.dir
        num.replica.fetchers remote.fetch.max.wait.ms
        remote.log.manager.copier.thread.pool.size remote.log.manager.expiration.thread.pool.size
        remote.log.manager.follower.thread.pool.size remote.log.reader.threads share.coordinator.cached.buffer.max.bytes
        """,
        ),
        *_keys(
            Type.INT,
            UpdateMode.READ_ONLY,
            """
        add.partitions.to.txn.retry.backoff.max.ms add.partitions.to.txn.retry.backoff.ms
        alter.log.dirs.replication.quota.window.num alter.log.dirs.replication.quota.window.size.seconds broker.id
        connection.failed.authentication.delay.ms controller.quorum.append.linger.ms
        controller.quorum.election.backoff.max.ms controller.quorum.election.timeout.ms
        controller.quorum.fetch.max.bytes controller.quorum.fetch.snapshot.max.bytes controller.quorum.fetch.timeout.ms
        controller.quorum.request.timeout.ms controller.quorum.retry.backoff.ms controller.quota.window.num
        controller.quota.window.size.seconds controller.socket.timeout.ms
        delete.records.purgatory.purge.interval.requests fetch.purgatory.purge.interval.requests
        group.coordinator.append.linger.ms group.coordinator.background.threads group.coordinator.threads
        group.share.delivery.count.limit group.share.heartbeat.interval.ms group.share.initialize.retry.interval.ms
        group.share.max.assignment.interval.ms group.share.max.delivery.count.limit
        group.share.max.heartbeat.interval.ms group.share.max.partition.max.record.locks
        group.share.max.record.lock.duration.ms group.share.max.session.timeout.ms group.share.max.share.sessions
        group.share.max.size group.share.min.assignment.interval.ms group.share.min.delivery.count.limit
        group.share.min.heartbeat.interval.ms group.share.min.partition.max.record.locks
        group.share.min.record.lock.duration.ms group.share.min.session.timeout.ms
        group.share.partition.max.record.locks group.share.record.lock.duration.ms group.share.session.timeout.ms
        group.streams.heartbeat.interval.ms group.streams.initial.rebalance.delay.ms
        group.streams.max.assignment.interval.ms group.streams.max.heartbeat.interval.ms
        group.streams.max.session.timeout.ms group.streams.max.size group.streams.max.standby.replicas
        group.streams.min.assignment.interval.ms group.streams.min.heartbeat.interval.ms
        group.streams.min.session.timeout.ms group.streams.num.standby.replicas group.streams.session.timeout.ms
        internal.metadata.log.segment.bytes internal.metadata.max.batch.size.in.bytes
        kafka.metrics.polling.interval.secs log.flush.start.offset.checkpoint.interval.ms log.roll.jitter.hours
        max.request.partition.size.limit
        metadata.log.segment.bytes metadata.max.idle.interval.ms metrics.num.samples num.replica.alter.log.dirs.threads
        offsets.load.buffer.size offsets.topic.compression.codec producer.id.expiration.check.interval.ms
        producer.purgatory.purge.interval.requests queued.max.requests remote.log.manager.copy.quota.window.num
        remote.log.manager.copy.quota.window.size.seconds remote.log.manager.fetch.quota.window.num
        remote.log.manager.fetch.quota.window.size.seconds remote.log.manager.thread.pool.size
        remote.log.metadata.custom.metadata.max.bytes remote.log.reader.max.pending.tasks
        replica.socket.receive.buffer.bytes replica.socket.timeout.ms replication.quota.window.num
        replication.quota.window.size.seconds sasl.login.connect.timeout.ms sasl.login.read.timeout.ms
        sasl.oauthbearer.assertion.claim.exp.seconds sasl.oauthbearer.assertion.claim.nbf.seconds
        sasl.oauthbearer.clock.skew.seconds sasl.server.max.receive.size share.coordinator.append.linger.ms
        share.coordinator.cold.partition.snapshot.interval.ms share.coordinator.load.buffer.size
        share.coordinator.snapshot.update.records.per.snapshot share.coordinator.state.topic.compression.codec
        share.coordinator.state.topic.num.partitions share.coordinator.state.topic.prune.interval.ms
        share.coordinator.state.topic.segment.bytes share.coordinator.threads share.coordinator.write.timeout.ms
        share.fetch.purgatory.purge.interval.requests telemetry.max.bytes
        transaction.abort.timed.out.transaction.cleanup.interval.ms transaction.max.timeout.ms
        transaction.remove.expired.transaction.cleanup.interval.ms transaction.state.log.load.buffer.size
        transaction.state.log.min.isr transaction.state.log.num.partitions transaction.state.log.segment.bytes
        """,
        ),
        *_keys(
            Type.LIST,
            UpdateMode.CLUSTER_WIDE,
            """
        config.providers metric.reporters
        """,
        ),
        *_keys(
            Type.LIST,
            UpdateMode.PER_BROKER,
            """
        cordoned.log.dirs sasl.enabled.mechanisms sasl.kerberos.principal.to.local.rules ssl.cipher.suites
        ssl.enabled.protocols
        """,
        ),
        *_keys(
            Type.LIST,
            UpdateMode.READ_ONLY,
            """
        early.start.listeners group.share.assignors kafka.metrics.reporters sasl.oauthbearer.expected.audience
        """,
        ),
        *_keys(
            Type.LONG,
            UpdateMode.CLUSTER_WIDE,
            """
        follower.replication.throttled.rate leader.replication.throttled.rate
        log.local.retention.bytes log.local.retention.ms log.roll.jitter.ms remote.list.offsets.request.timeout.ms
        remote.log.index.file.cache.total.size.bytes remote.log.manager.copy.max.bytes.per.second
        remote.log.manager.fetch.max.bytes.per.second replica.alter.log.dirs.io.max.bytes.per.second
        """,
        ),
        *_keys(
            Type.LONG,
            UpdateMode.PER_BROKER,
            """
        sasl.kerberos.min.time.before.relogin
        """,
        ),
        *_keys(
            Type.LONG,
            UpdateMode.READ_ONLY,
            """
        connections.max.reauth.ms controller.performance.always.log.threshold.ms controller.performance.sample.period.ms
        delegation.token.expiry.check.interval.ms delegation.token.expiry.time.ms delegation.token.max.lifetime.ms
        internal.metadata.delete.delay.millis log.dir.failure.timeout.ms
        metadata.log.max.snapshot.interval.ms metadata.log.segment.ms metadata.max.retention.bytes
        metadata.max.retention.ms metrics.sample.window.ms remote.log.index.file.cache.ttl.ms
        remote.log.manager.task.interval.ms remote.log.manager.task.retry.backoff.max.ms
        remote.log.manager.task.retry.backoff.ms sasl.login.retry.backoff.max.ms sasl.login.retry.backoff.ms
        sasl.oauthbearer.jwks.endpoint.refresh.ms sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms
        sasl.oauthbearer.jwks.endpoint.retry.backoff.ms server.max.startup.time.ms
        socket.connection.setup.timeout.max.ms unclean.leader.election.interval.ms
        """,
        ),
        *_keys(
            Type.PASSWORD,
            UpdateMode.PER_BROKER,
            """
        sasl.jaas.config ssl.key.password ssl.keystore.certificate.chain ssl.keystore.key ssl.keystore.password
        ssl.truststore.certificates ssl.truststore.password
        """,
        ),
        *_keys(
            Type.PASSWORD,
            UpdateMode.READ_ONLY,
            """
        delegation.token.secret.key sasl.oauthbearer.assertion.private.key.passphrase
        sasl.oauthbearer.client.credentials.client.secret
        """,
        ),
        *_keys(
            Type.SHORT,
            UpdateMode.PER_BROKER,
            """
        sasl.login.refresh.buffer.seconds sasl.login.refresh.min.period.seconds
        """,
        ),
        *_keys(
            Type.SHORT,
            UpdateMode.READ_ONLY,
            """
        share.coordinator.state.topic.min.isr share.coordinator.state.topic.replication.factor
        transaction.state.log.replication.factor
        """,
        ),
        *_keys(
            Type.STRING,
            UpdateMode.PER_BROKER,
            """
        sasl.kerberos.kinit.cmd sasl.kerberos.service.name sasl.mechanism.inter.broker.protocol ssl.client.auth
        ssl.endpoint.identification.algorithm ssl.keymanager.algorithm ssl.keystore.location ssl.keystore.type
        ssl.protocol ssl.provider ssl.secure.random.implementation ssl.trustmanager.algorithm ssl.truststore.location
        ssl.truststore.type
        """,
        ),
        *_keys(
            Type.STRING,
            UpdateMode.READ_ONLY,
            """
        authorizer.class.name group.share.persister.class.name metadata.log.dir metrics.recording.level
        remote.log.metadata.manager.class.name remote.log.metadata.manager.class.path
        remote.log.metadata.manager.impl.prefix remote.log.metadata.manager.listener.name
        remote.log.storage.manager.class.name remote.log.storage.manager.class.path
        remote.log.storage.manager.impl.prefix replica.selector.class sasl.mechanism.controller.protocol
        sasl.oauthbearer.assertion.algorithm sasl.oauthbearer.assertion.claim.aud sasl.oauthbearer.assertion.claim.iss
        sasl.oauthbearer.assertion.claim.sub sasl.oauthbearer.assertion.file sasl.oauthbearer.assertion.private.key.file
        sasl.oauthbearer.assertion.template.file sasl.oauthbearer.client.credentials.client.id
        sasl.oauthbearer.expected.issuer sasl.oauthbearer.jwks.endpoint.url sasl.oauthbearer.scope
        sasl.oauthbearer.scope.claim.name sasl.oauthbearer.sub.claim.name sasl.oauthbearer.token.endpoint.url
        security.inter.broker.protocol security.providers ssl.principal.mapping.rules
        """,
        ),
    ]
)

UNUSED_TOPIC_KEYS: Mapping[str, ConfigKey] = keys_by_name(
    [
        *_keys(
            Type.BOOLEAN,
            UpdateMode.CLUSTER_WIDE,
            """
        preallocate remote.log.copy.disable remote.log.delete.on.disable remote.storage.enable
        """,
        ),
        *_keys(
            Type.INT,
            UpdateMode.CLUSTER_WIDE,
            """
        compression.gzip.level compression.lz4.level compression.zstd.level internal.segment.bytes
        """,
        ),
        *_keys(
            Type.LIST,
            UpdateMode.CLUSTER_WIDE,
            """
        follower.replication.throttled.replicas leader.replication.throttled.replicas
        """,
        ),
        *_keys(
            Type.LONG,
            UpdateMode.CLUSTER_WIDE,
            """
        local.retention.bytes local.retention.ms segment.jitter.ms
        """,
        ),
    ]
)

UNUSED_GROUP_KEYS: Mapping[str, ConfigKey] = keys_by_name(
    [
        *_keys(Type.BOOLEAN, UpdateMode.CLUSTER_WIDE, "share.renew.acknowledge.enable"),
        *_keys(
            Type.INT,
            UpdateMode.CLUSTER_WIDE,
            """
        share.assignment.interval.ms share.delivery.count.limit share.heartbeat.interval.ms
        share.partition.max.record.locks share.record.lock.duration.ms share.session.timeout.ms
        streams.assignment.interval.ms streams.heartbeat.interval.ms streams.initial.rebalance.delay.ms
        streams.num.standby.replicas streams.session.timeout.ms
        """,
        ),
        *_keys(Type.STRING, UpdateMode.CLUSTER_WIDE, "share.auto.offset.reset"),
        *_keys(
            Type.STRING,
            UpdateMode.CLUSTER_WIDE,
            "share.isolation.level",
            OneOf(("read_committed", "read_uncommitted")),
        ),
    ]
)
