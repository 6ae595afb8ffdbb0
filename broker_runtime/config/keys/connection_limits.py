"""The keys of connection limits and client quotas, under Kafka's names. Pure."""

from typing import TypeVar

from broker_runtime.config.declaring.addresses import per_ip_overrides_problem
from broker_runtime.config.declaring.allowed import at_least, between, one_of
from broker_runtime.config.declaring.declaration import Config, dynamic, static
from broker_runtime.config.declaring.definition import INT_MAX, Key, Type, UpdateMode, Validator
from broker_runtime.config.declaring.quota_names import quota_names_problem

BOOLEAN, STRING, INT = Type.BOOLEAN, Type.STRING, Type.INT
T = TypeVar("T")


def _listener(name: str, kind: Type, default: T, doc: str, validator: Validator | None = None) -> Key[T]:
    """Return a dynamic key that a listener may override with its prefix."""
    return Key(name, kind, default, doc, validator, UpdateMode.CLUSTER_WIDE, listener_prefixed=True)


class QuotaConfig(Config):
    """Configuration keys of the limits of connections."""

    max_connections_per_ip: Key[int] = dynamic(
        "max.connections.per.ip", INT, INT_MAX, "Connections that one address may have.", at_least(0)
    )
    max_connections_per_ip_overrides: Key[str] = dynamic(
        "max.connections.per.ip.overrides",
        STRING,
        "",
        "host:count, comma separated; overrides max.connections.per.ip for these hosts. Names are resolved at the "
        "start and when they change.",
        per_ip_overrides_problem,
    )
    max_connections: Key[int] = _listener(
        "max.connections",
        INT,
        INT_MAX,
        "Maximum number of connections of the broker; with a listener's prefix, that of the listener.",
        at_least(0),
    )
    max_connection_creation_rate: Key[int] = _listener(
        "max.connection.creation.rate",
        INT,
        INT_MAX,
        "New connections a second of the broker; with a listener's prefix, those of the listener (KIP-612).",
        at_least(0),
    )
    connection_quota_adaptive_p99_ms: Key[int] = _listener(
        "connection.quota.adaptive.p99.ms",
        INT,
        0,
        "With a value above 0, the rate of new connections adapts between connection.quota.adaptive.min.rate and "
        "max.connection.creation.rate, so that the p99 of the time that a ready request waits for the event loop "
        "stays below this many milliseconds. With a listener's prefix, the rate of the listener adapts. 0: the rate is "
        "fixed.",
        at_least(0),
    )
    connection_quota_adaptive_min_rate: Key[int] = _listener(
        "connection.quota.adaptive.min.rate",
        INT,
        1,
        "New connections a second that an adaptive rate always allows; at most max.connection.creation.rate.",
        at_least(1),
    )
    connection_quota_scope: Key[str] = _listener(
        "connection.quota.scope",
        STRING,
        "broker",
        "broker: max.connection.creation.rate is a rate of each broker; cluster: it is one rate of all brokers "
        "together, of which the controller gives each broker a share. With a listener's prefix, the scope of the "
        "listener's own rate. It has no effect without a rate, and none on the inter-broker listener if there is "
        "another listener.",
        one_of("broker", "cluster"),
    )
    max_connection_creation_rate_per_ip: Key[int] = dynamic(
        "max.connection.creation.rate.per.ip",
        INT,
        INT_MAX,
        "New connections a second of each address (KIP-612 as drafted); the `ip` quota entity overrides it.",
        at_least(0),
    )
    quota_window_num: Key[int] = static(
        "quota.window.num", INT, 11, "Samples over which a rate is computed, including the current one.", at_least(1)
    )
    quota_window_size_seconds: Key[int] = static(
        "quota.window.size.seconds", INT, 1, "Length of a sample, in seconds; also the longest delay.", at_least(1)
    )
    connection_quota_strategy: Key[str] = static(
        "connection.quota.strategy",
        STRING,
        "windowed",
        "windowed: Kafka's average, which by default admits the connections of ten windows at once; token-bucket: "
        "admits those of one second at once.",
        one_of("windowed", "token-bucket"),
    )
    connection_quota_ip_action: Key[str] = static(
        "connection.quota.ip.action",
        STRING,
        "delay",
        "What happens to connections of an address over its rate: delay keeps the connection open for a while and "
        "then closes it, as in Kafka's implementation of KIP-612; drop closes it at once.",
        one_of("delay", "drop"),
    )
    sluicegate_connection_quota_names: Key[str] = dynamic(
        "sluicegate.connection.quota.names",
        STRING,
        "",
        "KEY=NAMESPACE/NAME, comma separated: the ConnectionQuota that has set a limit of the broker, of a listener or "
        "of all addresses, by the key of the limit. The operator sets it; audit events name the quota. It limits "
        "nothing.",
        quota_names_problem,
    )
    sluicegate_host_resolution_timeout_ms: Key[int] = static(
        "sluicegate.host.resolution.timeout.ms",
        INT,
        5_000,
        "A host name in a limit counts as unknown if it is not resolved within this time.",
        at_least(1),
    )
    sluicegate_host_resolution_threads_max: Key[int] = static(
        "sluicegate.host.resolution.threads.max",
        INT,
        16,
        "Host names that the broker resolves at the same time.",
        at_least(1),
    )
    connection_quota_tracked_ips_max: Key[int] = static(
        "connection.quota.tracked.ips.max",
        INT,
        100_000,
        "Addresses whose rate is tracked; beyond them, the address that has been idle longest is forgotten first.",
        at_least(1),
    )
    connection_quota_delayed_close_max: Key[int] = static(
        "connection.quota.delayed.close.max",
        INT,
        10_000,
        "Refused connections that stay open until their delay ends; more of them are closed at once.",
        at_least(1),
    )
    connection_quota_count_abandoned: Key[bool] = static(
        "connection.quota.count.abandoned",
        BOOLEAN,
        False,
        "true: a connection that the client closed before the broker accepted it counts in every rate, as in Kafka; "
        "false: it is closed and does not count in any.",
    )
    sluicegate_client_quotas_max: Key[int] = static(
        "sluicegate.client.quotas.max",
        INT,
        100_000,
        "Users, client ids, pairs of them and addresses with quotas; AlterClientQuotas refuses more with "
        "POLICY_VIOLATION. The value of the controller applies.",
        at_least(1),
    )
    sluicegate_client_quotas_names_bytes_max: Key[int] = static(
        "sluicegate.client.quotas.names.bytes.max",
        INT,
        50_000_000,
        "Bytes of the names of all users, client ids and addresses with quotas; AlterClientQuotas refuses more with "
        "POLICY_VIOLATION. Each node has them in memory.",
        at_least(1_000),
    )
    sluicegate_connection_groups_max: Key[int] = static(
        "sluicegate.connection.groups.max",
        INT,
        10_000,
        "Connection groups of the cluster, at most; the value of the controller applies.",
        at_least(0),
    )
    sluicegate_connection_groups_cluster_max: Key[int] = static(
        "sluicegate.connection.groups.cluster.max",
        INT,
        1_000,
        "Connection groups with `cluster` 1, at most; the value of the controller applies. Each of them costs the "
        "controller work for each broker.",
        at_least(0),
    )
    sluicegate_connection_shares_lease_ms: Key[int] = static(
        "sluicegate.connection.shares.lease.ms",
        INT,
        4_000,
        "Time for which a broker may use its shares of the rates of the cluster without an answer of the controller; "
        "afterwards it uses a smaller reserve. The value of the controller applies.",
        between(1_000, 60_000),
    )
    sluicegate_connection_shares_report_ms: Key[int] = static(
        "sluicegate.connection.shares.report.ms",
        INT,
        200,
        "Least time between two reports of a broker to the controller about the rates of the cluster. A broker without "
        "changes reports four times in each lease.",
        between(50, 10_000),
    )
    sluicegate_connection_groups_members_max: Key[int] = static(
        "sluicegate.connection.groups.members.max",
        INT,
        100_000,
        "Addresses and ranges of all connection groups together, at most.",
        at_least(0),
    )
    sluicegate_connection_group_members_max: Key[int] = static(
        "sluicegate.connection.group.members.max",
        INT,
        20_000,
        "Addresses and ranges of one connection group, at most.",
        at_least(0),
    )


class ClientQuotaConfig(Config):
    """Configuration keys of the windows in which client quotas measure.

    `quota.window.*` apply to bytes and request time, too.
    """

    controller_quota_window_num: Key[int] = static(
        "controller.quota.window.num",
        INT,
        11,
        "Samples of the quota of created and deleted partitions (KIP-599): the tokens of so many samples are saved.",
        at_least(1),
    )
    controller_quota_window_size_seconds: Key[int] = static(
        "controller.quota.window.size.seconds",
        INT,
        1,
        "Length of a sample of the quota of created and deleted partitions, in seconds.",
        at_least(1),
    )
    sluicegate_client_quota_buckets_max: Key[int] = static(
        "sluicegate.client.quota.buckets.max",
        INT,
        10_000,
        "Users and client ids whose usage is measured separately, for each kind of quota. If all of them have been "
        "active within the window, further ones share one measurement.",
        at_least(1),
    )
