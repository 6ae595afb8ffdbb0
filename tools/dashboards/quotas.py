"""The dashboard of connection limits: what they admit, delay and refuse, adaptive rates, and rates of the cluster."""

from tools.dashboards.queries import ADAPTIVE, AS_ASKED_FOR, ENFORCED, OF_CLUSTER, SOCKET, VARIABLES, now, rate
from tools.grafana import Dashboard, Panel, Query, Row, Stat

QUOTAS = Dashboard(
    "sluicegate-quotas",
    "Sluicegate / Quotas and storms",
    "Limits of connections: whether they are in force, and which clients they delay or refuse.",
    VARIABLES,
    (
        Row(
            "Now",
            (
                Stat(
                    "Limits in force",
                    "ConnectionQuotas that every broker enforces",
                    [Query(f"sum({now('sluicegate_quotas', ENFORCED)})")],
                ),
                Stat(
                    "Limits not in force",
                    "Without quotas that a stricter one overrides, that only observe, have expired or are paused",
                    [
                        Query(
                            f"sum({now('sluicegate_quotas')})"
                            f" - (sum({now('sluicegate_quotas', AS_ASKED_FOR)}) or vector(0))"
                        )
                    ],
                    bad=1,
                ),
                Stat(
                    "Changed to enforced, p99",
                    "In the last hour, from the operator's first event about a change until every broker enforces it",
                    [
                        Query(
                            "histogram_quantile(0.99, sum by (le)"
                            " (increase(sluicegate_apply_to_enforced_seconds_bucket[1h])))"
                        )
                    ],
                    unit="s",
                    bad=1,
                ),
                Stat(
                    "New connections",
                    "Per second, admitted",
                    [Query(f"sum({rate(SOCKET + 'connection_creation_total')})")],
                    unit="ops",
                ),
                Stat(
                    "Refused connections",
                    "Per second, by limits of their addresses",
                    [Query(f"sum({rate(SOCKET + 'connections_rejected_total')})")],
                    unit="ops",
                    bad=10,
                ),
                Stat(
                    "Held back",
                    "Maximum of all acceptors, share of the last ten seconds",
                    [Query(f"max({now('kafka_network_acceptor_blocked_percent')})")],
                    unit="percentunit",
                    bad=0.5,
                ),
            ),
        ),
        Row(
            "Connections",
            (
                Panel(
                    "New connections by listener",
                    "Per second, admitted",
                    [
                        Query(
                            f"sum by (listener) ({rate(SOCKET + 'connection_creation_total')})",
                            "{{listener}}",
                        )
                    ],
                    unit="ops",
                    width=12,
                ),
                Panel(
                    "New connections by broker",
                    "Per second, admitted",
                    [Query(f"sum by (pod) ({rate(SOCKET + 'connection_creation_total')})", "{{pod}}")],
                    unit="ops",
                    width=12,
                ),
            ),
        ),
        Row(
            "Delayed by a rate of the broker or listener",
            (
                Panel(
                    "Blocked acceptors",
                    "Share of the last ten seconds",
                    [
                        Query(
                            f"max by (pod, listener) ({now('kafka_network_acceptor_blocked_percent')}) > 0",
                            "{{pod}} {{listener}}",
                        )
                    ],
                    unit="percentunit",
                ),
                Panel(
                    "Connections that had to wait",
                    "Per second, for a rate or a free slot",
                    [
                        Query(
                            f"sum by (pod, listener) ({rate('kafka_network_acceptor_waits_total')}) > 0",
                            "{{pod}} {{listener}}",
                        )
                    ],
                    unit="ops",
                ),
                Panel(
                    "Mean delay of connections over the rate",
                    "By listener",
                    [
                        Query(
                            f"max by (pod, listener) ({now(SOCKET + 'connection_accept_throttle_time_ms')}) > 0",
                            "{{pod}} {{listener}}",
                        )
                    ],
                    unit="ms",
                ),
            ),
        ),
        Row(
            "Rates that adapt",
            (
                Panel(
                    "Adaptive rate",
                    "New connections per second that each broker allows now",
                    [Query(f"max by (pod, target) ({now(ADAPTIVE)})", "{{pod}} {{target}}")],
                    unit="ops",
                    width=12,
                ),
                Panel(
                    "Event loop's delay",
                    "The p99 that the rate follows, and its objective",
                    [
                        Query(f"max by (pod, target) ({now(ADAPTIVE + '_delay_p99_ms')})", "{{pod}} {{target}}"),
                        Query(f"max by (target) ({now(ADAPTIVE + '_objective_ms')})", "objective of {{target}}"),
                    ],
                    unit="ms",
                    width=12,
                ),
            ),
        ),
        Row(
            "Rates of the cluster",
            (
                Panel(
                    "Shares",
                    "New connections per second that each broker may accept now, and the rate of all brokers together",
                    [
                        Query(f"max by (pod, target) ({now(OF_CLUSTER + '_share')})", "{{pod}} {{target}}"),
                        Query(f"max by (target) ({now(OF_CLUSTER)})", "all brokers, {{target}}"),
                    ],
                    unit="ops",
                ),
                Panel(
                    "Demand",
                    "New connections per second that clients attempt at each broker",
                    [Query(f"max by (pod, target) ({now(OF_CLUSTER + '_demand')})", "{{pod}} {{target}}")],
                    unit="ops",
                ),
                Panel(
                    "Age of the controller's answer",
                    "A broker without a recent answer uses its reserve; -1 before the first answer",
                    [Query(f"max by (pod) ({now(OF_CLUSTER + '_answer_age_seconds')})", "{{pod}}")],
                    unit="s",
                ),
            ),
        ),
        Row(
            "Refused for their address",
            (
                Panel(
                    "Refused connections by reason",
                    "Per second: too many, or too fast (delayed or dropped)",
                    [
                        Query(
                            f"sum by (reason) ({rate(SOCKET + 'connections_rejected_total')})",
                            "{{reason}}",
                        )
                    ],
                    unit="ops",
                ),
                Panel(
                    "Addresses with a limit",
                    "The ten with the most new connections per second",
                    [Query(f"topk(10, sum by (ip) ({now(SOCKET + 'ip_connection_accept_rate')}))", "{{ip}}")],
                    unit="ops",
                ),
                Panel(
                    "Refused connections that are held open",
                    "Connections that are closed when their delay ends",
                    [Query(f"sum by (pod) ({now(SOCKET + 'connections_delayed')})", "{{pod}}")],
                ),
            ),
        ),
        Row(
            "Limits",
            (
                Panel(
                    "ConnectionQuotas by state",
                    "By the reason of their condition Enforced",
                    [Query(f"sum by (state) ({now('sluicegate_quotas')})", "{{state}}")],
                    stacked=True,
                ),
                Panel(
                    "Changed to enforced",
                    "In the last hour; changes are too few for quantiles of a shorter time",
                    [
                        Query(
                            f"histogram_quantile({quantile}, sum by (le)"
                            " (increase(sluicegate_apply_to_enforced_seconds_bucket[1h])))",
                            f"p{quantile * 100:g}",
                        )
                        for quantile in (0.5, 0.99)
                    ],
                    unit="s",
                ),
                Panel(
                    "Limits changed by hand and restored",
                    "In the last five minutes",
                    [Query("sum(increase(sluicegate_quota_drift_mended_total[5m]))", "restored")],
                ),
            ),
        ),
    ),
)
