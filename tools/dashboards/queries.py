"""The queries that dashboards share: metrics of the selected clusters, as rates or as they are now."""

from tools.grafana import Query

OF = 'namespace=~"$namespace", broker_cluster=~"$broker_cluster"'
IN = "$__rate_interval"
SOCKET = "kafka_server_socket_server_"
ADAPTIVE = "sluicegate_adaptive_connection_rate"
OF_CLUSTER = "sluicegate_cluster_connection_rate"
REPLICAS = "kafka_server_replica_manager_"
GROUPS = "kafka_server_group_coordinator_metrics_"
ONLINE, ENFORCED = ', state="Online"', ', state="Enforced"'
AS_ASKED_FOR = ', state=~"Enforced|Conflicted|Observing|Expired|Paused"'
"""Condition on the state of quotas, the same as in the alert SluicegateQuotaNotEnforced."""
VARIABLES = (
    ("namespace", "label_values(sluicegate_brokers_wanted, namespace)"),
    ("broker_cluster", 'label_values(sluicegate_brokers_wanted{namespace=~"$namespace"}, broker_cluster)'),
)


def rate(metric: str, more: str = "") -> str:
    return f"rate({metric}{{{OF}{more}}}[{IN}])"


def now(metric: str, more: str = "") -> str:
    return f"{metric}{{{OF}{more}}}"


def most(metric: str) -> list[Query]:
    """Return a query for the maximum of the metric on each broker."""
    return [Query(f"max by (pod) ({now(metric)})", "{{pod}}")]


def ever(label: str, counter: str) -> str:
    """Return a query for the rate of a counter by `label`, only for values whose counter is above 0.

    Most of the many values are never used.
    """
    return f"sum by ({label}) ({rate(counter)}) and sum by ({label}) ({now(counter)}) > 0"
