"""Names of the limits: keys of a broker's configuration and of client quotas, as in Apache Kafka. Pure."""

MAX_CONNECTIONS = "max.connections"
MAX_CONNECTION_CREATION_RATE = "max.connection.creation.rate"
MAX_CONNECTIONS_PER_IP = "max.connections.per.ip"
MAX_CONNECTIONS_PER_IP_OVERRIDES = "max.connections.per.ip.overrides"
MAX_CONNECTION_CREATION_RATE_PER_IP = "max.connection.creation.rate.per.ip"
INTER_BROKER_LISTENER_NAME = "inter.broker.listener.name"
QUOTA_WINDOW_NUM = "quota.window.num"
QUOTA_WINDOW_SIZE_SECONDS = "quota.window.size.seconds"
CONNECTION_QUOTA_STRATEGY = "connection.quota.strategy"
CONNECTION_QUOTA_IP_ACTION = "connection.quota.ip.action"

CONNECTION_QUOTA_SCOPE = "connection.quota.scope"
CONNECTION_QUOTA_ADAPTIVE_P99 = "connection.quota.adaptive.p99.ms"
CONNECTION_QUOTA_ADAPTIVE_MIN_RATE = "connection.quota.adaptive.min.rate"
TRACKED_IPS_MAX = "connection.quota.tracked.ips.max"
COUNT_ABANDONED = "connection.quota.count.abandoned"

ENTITY_RATE = "connection_creation_rate"
"""Key of a client quota: the rate of an address (KIP-612) or of a connection group."""
ENTITY_COUNT = "max_connections"
"""Key of a client quota of a connection group: the maximum number of open connections."""
SHARED, OBSERVE, CLUSTER = "shared", "observe", "cluster"
"""Keys of client quotas of a connection group whose value 1 sets an option."""
CONNECTION_GROUP = "connection-group"
"""Type of the client quota entity of a connection group."""
_OF_CLUSTER = ".cluster"
DEFAULT_ENTITY = "<default>"
"""Kafka's name of the default entity."""


def of_listener(listener: str, key: str) -> str:
    """Return the key with the prefix of a listener: the limit of this listener alone."""
    return f"listener.name.{listener.lower()}.{key}"


def of_cluster(key: str) -> str:
    """Return the name by which connections report a rate of the cluster that delayed or refused them."""
    return f"{key}{_OF_CLUSTER}"


def as_configured(key: str) -> str:
    """Return the key by which a limit is configured, from the name by which connections report it."""
    return key.removesuffix(_OF_CLUSTER)
