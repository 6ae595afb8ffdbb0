"""Writes charts/sluicegate/dashboards/*.json, which the chart installs; a unit test fails when they have drifted."""

import json
from pathlib import Path

from tools.grafana import Dashboard, Panel, Query, Row, Stat

FOLDER = Path(__file__).resolve().parent.parent / "charts" / "sluicegate" / "dashboards"

_OF = 'namespace=~"$namespace", broker_cluster=~"$broker_cluster"'
_IN = "$__rate_interval"
_SOCKET = "kafka_server_socket_server_"
_ADAPTIVE = "sluicegate_adaptive_connection_rate"
_REPLICAS = "kafka_server_replica_manager_"
_GROUPS = "kafka_server_group_coordinator_metrics_"
_ONLINE, _ENFORCED = ', state="Online"', ', state="Enforced"'
_AS_ASKED_FOR = ', state=~"Enforced|Conflicted|Observing|Expired|Paused"'
"""The same states as in the alert SluicegateQuotaNotEnforced."""
_VARIABLES = (
    ("namespace", "label_values(sluicegate_brokers_wanted, namespace)"),
    ("broker_cluster", 'label_values(sluicegate_brokers_wanted{namespace=~"$namespace"}, broker_cluster)'),
)


def _rate(metric: str, more: str = "") -> str:
    return f"rate({metric}{{{_OF}{more}}}[{_IN}])"


def _now(metric: str, more: str = "") -> str:
    return f"{metric}{{{_OF}{more}}}"


def _most(metric: str) -> list[Query]:
    """Return a query for the metric's maximum of each broker."""
    return [Query(f"max by (pod) ({_now(metric)})", "{{pod}}")]


def _ever(label: str, counter: str) -> str:
    """Return the rate by `label`, only for values whose counter is above 0: most of the many values are never used."""
    return f"sum by ({label}) ({_rate(counter)}) and sum by ({label}) ({_now(counter)}) > 0"


_CALLED = Query(f"sum by (pod) ({_now('sluicegate_push_consumers')})", "{{pod}}")

CLUSTERS = Dashboard(
    "sluicegate-clusters",
    "Sluicegate / Clusters",
    "Brokers, partitions, requests and the resources of the processes.",
    _VARIABLES,
    (
        Row(
            "Now",
            (
                Stat(
                    "Brokers Online",
                    "As the active controllers see them",
                    [Query(f"sum({_now('sluicegate_brokers', _ONLINE)})")],
                    good_from=1,
                ),
                Stat(
                    "Brokers missing",
                    "Requested brokers that are not Online",
                    [
                        Query(
                            f"sum({_now('sluicegate_brokers_wanted')})"
                            f" - (sum({_now('sluicegate_brokers', _ONLINE)}) or vector(0))"
                        )
                    ],
                    bad=1,
                ),
                Stat(
                    "Active controllers",
                    "One for each cluster",
                    [Query(f"sum({_now('kafka_controller_active_controller_count')})")],
                    good_from=1,
                ),
                Stat(
                    "Partitions without a leader",
                    "Partitions that can neither be written nor read",
                    [Query(f"sum({_now('kafka_controller_offline_partitions_count')})")],
                    bad=1,
                ),
                Stat(
                    "Under min.insync.replicas",
                    "Partitions that refuse acks=all",
                    [Query(f"sum({_now(_REPLICAS + 'under_min_isr_partition_count')})")],
                    bad=1,
                ),
                Stat(
                    "Under-replicated",
                    "Partitions with a replica out of sync",
                    [Query(f"sum({_now(_REPLICAS + 'under_replicated_partitions')})")],
                    bad=1,
                ),
            ),
        ),
        Row(
            "Traffic",
            (
                Panel(
                    "Requests by API",
                    "Per second, all brokers and controllers",
                    [Query(_ever("request", "kafka_network_request_total"), "{{request}}")],
                    unit="reqps",
                    stacked=True,
                ),
                Panel(
                    "Mean time of a request by API",
                    "Includes waits: a Fetch waits for records, a Produce with acks=all for replicas",
                    [
                        Query(
                            f"sum by (request) ({_rate('kafka_network_request_time_seconds_total')})"
                            f" / (sum by (request) ({_rate('kafka_network_request_total')}) > 0)",
                            "{{request}}",
                        )
                    ],
                    unit="s",
                ),
                Panel(
                    "Bytes by topic",
                    "In (produced) and out (fetched); needs the observer `prometheus` with label topic",
                    [
                        Query(
                            f"sum by (topic, direction) ({_rate('sluicegate_observed_topic_bytes_total')})",
                            "{{topic}} {{direction}}",
                        )
                    ],
                    unit="Bps",
                ),
                Panel(
                    "Open connections by listener",
                    "All brokers and controllers",
                    [Query(f"sum by (listener) ({_now(_SOCKET + 'connection_count')})", "{{listener}}")],
                    stacked=True,
                ),
                Panel(
                    "Requests that ended their connection",
                    "Per second, by API; empty if no such requests occurred",
                    [Query(_ever("request", "kafka_network_request_errors_total"), "{{request}}")],
                    unit="ops",
                ),
                Panel(
                    "Refused frames and connections",
                    "Per second, by kind",
                    [Query(f"sum by (kind) ({_rate(_SOCKET + 'refused_total')})", "{{kind}}")],
                    unit="ops",
                ),
            ),
        ),
        Row(
            "Replication",
            (
                Panel(
                    "Brokers by state",
                    "As the active controllers see them",
                    [Query(f"sum by (state) ({_now('sluicegate_brokers')})", "{{state}}")],
                    stacked=True,
                ),
                Panel(
                    "Partitions led",
                    "By broker",
                    [Query(f"sum by (pod) ({_now(_REPLICAS + 'leader_count')})", "{{pod}}")],
                    stacked=True,
                ),
                Panel(
                    "In-sync sets",
                    "Replicas that left and rejoined, per second; partitions with a replica out of sync",
                    [
                        Query(f"sum({_rate(_REPLICAS + 'isr_shrinks_total')})", "left"),
                        Query(f"sum({_rate(_REPLICAS + 'isr_expands_total')})", "came back"),
                        Query(f"sum({_now(_REPLICAS + 'under_replicated_partitions')})", "under-replicated"),
                    ],
                ),
                Panel(
                    "Metadata behind",
                    "Records of the metadata log that a node has not applied yet",
                    _most("sluicegate_metadata_lag_records"),
                ),
                Panel("Fenced", "1 while a broker serves no clients", _most("sluicegate_broker_fenced")),
                Panel(
                    "Failed writes to log.dirs",
                    "Per second, by broker",
                    [Query(f"sum by (pod) ({_rate('sluicegate_log_failed_writes_total')})", "{{pod}}")],
                    unit="ops",
                ),
                Panel(
                    "Damaged ranges",
                    "Ranges of offsets that a broker cannot read",
                    _most("sluicegate_log_damaged_ranges"),
                ),
            ),
        ),
        Row(
            "Groups",
            (
                Panel(
                    "Lag of groups",
                    "Records that a group has not committed yet, for all its topics",
                    [Query(f"sum by (consumergroup) ({_now('kafka_consumergroup_lag_sum')})", "{{consumergroup}}")],
                ),
                Panel(
                    "Groups by coordinator",
                    "Number of groups that each broker coordinates",
                    [Query(f"sum by (pod) ({_now(_GROUPS + 'group_count')})", "{{pod}}")],
                    stacked=True,
                ),
                Panel("Consumers that are called", "Push protocol, by coordinator", [_CALLED], stacked=True),
                Panel(
                    "Coordinators",
                    "Partitions of __consumer_offsets by state; groups of those that are not active wait",
                    [Query(f"sum by (state) ({_now(_GROUPS + 'num_partitions')})", "{{state}}")],
                    stacked=True,
                ),
            ),
        ),
        Row(
            "Processes",
            (
                Panel(
                    "Processors",
                    "Busy, 1 is one processor",
                    [Query(f"sum by (pod) ({_rate('process_cpu_seconds_total')})", "{{pod}}")],
                    unit="percentunit",
                ),
                Panel("Memory", "Resident", _most("process_resident_memory_bytes"), unit="bytes"),
                Panel(
                    "Longest delay of the event loop",
                    "Maximum of the last one to two minutes",
                    _most("sluicegate_event_loop_delay_max_seconds"),
                    unit="s",
                ),
            ),
        ),
    ),
)

QUOTAS = Dashboard(
    "sluicegate-quotas",
    "Sluicegate / Quotas and storms",
    "Limits of connections: whether they are in force, and which clients they delay or refuse.",
    _VARIABLES,
    (
        Row(
            "Now",
            (
                Stat(
                    "Limits in force",
                    "ConnectionQuotas that every broker enforces",
                    [Query(f"sum({_now('sluicegate_quotas', _ENFORCED)})")],
                ),
                Stat(
                    "Limits not in force",
                    "Without quotas that a stricter one overrides, that only observe, have expired or are paused",
                    [
                        Query(
                            f"sum({_now('sluicegate_quotas')})"
                            f" - (sum({_now('sluicegate_quotas', _AS_ASKED_FOR)}) or vector(0))"
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
                    [Query(f"sum({_rate(_SOCKET + 'connection_creation_total')})")],
                    unit="ops",
                ),
                Stat(
                    "Refused connections",
                    "Per second, by limits of their addresses",
                    [Query(f"sum({_rate(_SOCKET + 'connections_rejected_total')})")],
                    unit="ops",
                    bad=10,
                ),
                Stat(
                    "Held back",
                    "Maximum of all acceptors, share of the last ten seconds",
                    [Query(f"max({_now('kafka_network_acceptor_blocked_percent')})")],
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
                            f"sum by (listener) ({_rate(_SOCKET + 'connection_creation_total')})",
                            "{{listener}}",
                        )
                    ],
                    unit="ops",
                    width=12,
                ),
                Panel(
                    "New connections by broker",
                    "Per second, admitted",
                    [Query(f"sum by (pod) ({_rate(_SOCKET + 'connection_creation_total')})", "{{pod}}")],
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
                            f"max by (pod, listener) ({_now('kafka_network_acceptor_blocked_percent')}) > 0",
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
                            f"sum by (pod, listener) ({_rate('kafka_network_acceptor_waits_total')}) > 0",
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
                            f"max by (pod, listener) ({_now(_SOCKET + 'connection_accept_throttle_time_ms')}) > 0",
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
                    [Query(f"max by (pod, target) ({_now(_ADAPTIVE)})", "{{pod}} {{target}}")],
                    unit="ops",
                    width=12,
                ),
                Panel(
                    "Event loop's delay",
                    "The p99 that the rate follows, and its objective",
                    [
                        Query(f"max by (pod, target) ({_now(_ADAPTIVE + '_delay_p99_ms')})", "{{pod}} {{target}}"),
                        Query(f"max by (target) ({_now(_ADAPTIVE + '_objective_ms')})", "objective of {{target}}"),
                    ],
                    unit="ms",
                    width=12,
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
                            f"sum by (reason) ({_rate(_SOCKET + 'connections_rejected_total')})",
                            "{{reason}}",
                        )
                    ],
                    unit="ops",
                ),
                Panel(
                    "Addresses with a limit",
                    "The ten with the most new connections per second",
                    [Query(f"topk(10, sum by (ip) ({_now(_SOCKET + 'ip_connection_accept_rate')}))", "{{ip}}")],
                    unit="ops",
                ),
                Panel(
                    "Refused connections that are held open",
                    "Connections that are closed when their delay ends",
                    [Query(f"sum by (pod) ({_now(_SOCKET + 'connections_delayed')})", "{{pod}}")],
                ),
            ),
        ),
        Row(
            "Limits",
            (
                Panel(
                    "ConnectionQuotas by state",
                    "By the reason of their condition Enforced",
                    [Query(f"sum by (state) ({_now('sluicegate_quotas')})", "{{state}}")],
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

_OBSERVER = "sluicegate_observer_"
_AUDIT = "sluicegate_audit_"

OPERATOR = Dashboard(
    "sluicegate-operator",
    "Sluicegate / Operator and audit",
    "Whether manifests have an effect, and whether the audit log is complete.",
    _VARIABLES,
    (
        Row(
            "Operator now",
            (
                Stat("Leads", "Operators that hold the Lease", [Query("sum(sluicegate_leading)")], good_from=1),
                Stat(
                    "Ready", "Operators whose /readyz reports no problem", [Query("sum(sluicegate_ready)")], good_from=1
                ),
                Stat(
                    "Watch silent",
                    "Time since the last event of the watch of ConnectionQuotas; requested again after 30 seconds",
                    [Query('max(sluicegate_watch_silent_seconds{kind="connectionquotas"})')],
                    unit="s",
                    bad=75,
                ),
                Stat(
                    "Oldest work",
                    "Age of the oldest key that is due or in work",
                    [Query("max(sluicegate_queue_oldest_seconds)")],
                    unit="s",
                    bad=600,
                ),
                Stat(
                    "Event loop silent",
                    "Time since the event loop last ran; it reports every five seconds",
                    [Query("max(sluicegate_operator_event_loop_silent_seconds)")],
                    unit="s",
                    bad=60,
                ),
                Stat(
                    "Rolls blocked",
                    "By conditions that do not end without intervention",
                    [Query(f"count({_now('sluicegate_roll_blocked')}) or vector(0)")],
                    bad=1,
                ),
            ),
        ),
        Row(
            "Operator",
            (
                Panel(
                    "Reconciles by queue",
                    "Per second",
                    [Query(f"sum by (queue) (rate(sluicegate_reconcile_total[{_IN}]))", "{{queue}}")],
                    unit="ops",
                    stacked=True,
                ),
                Panel(
                    "Reconciles by result",
                    "Per second; unsettled ones are reconciled again soon",
                    [Query(f"sum by (result) (rate(sluicegate_reconcile_total[{_IN}]))", "{{result}}")],
                    unit="ops",
                    stacked=True,
                ),
                Panel(
                    "Keys in queues",
                    "Keys that wait or are in work; a settled cluster waits for its next resync",
                    [Query("sum by (queue) (sluicegate_queue_depth)", "{{queue}}")],
                ),
                Panel(
                    "Oldest work by queue",
                    "Age of the oldest key that is due or in work",
                    [Query("max by (queue) (sluicegate_queue_oldest_seconds)", "{{queue}}")],
                    unit="s",
                ),
                Panel(
                    "Nodes restarted and brokers fenced",
                    "In the last five minutes",
                    [
                        Query(
                            "sum by (reason) (increase(sluicegate_node_restarts_total[5m]))", "restarted: {{reason}}"
                        ),
                        Query("sum(increase(sluicegate_brokers_fenced_total[5m]))", "fenced at once"),
                    ],
                ),
                Panel(
                    "Memory",
                    "Resident",
                    [Query('max by (pod) (process_resident_memory_bytes{role="operator"})', "{{pod}}")],
                    unit="bytes",
                ),
            ),
        ),
        Row(
            "Audit log",
            (
                Panel(
                    "Events",
                    "Per second, by broker",
                    [Query(f"sum by (pod) ({_rate(_AUDIT + 'events_total')})", "{{pod}}")],
                    unit="ops",
                    width=6,
                ),
                Panel(
                    "Events that were dropped",
                    "In the last five minutes; gap events report them",
                    [Query(f"sum by (pod) (increase({_AUDIT}dropped_total{{{_OF}}}[5m]))", "{{pod}}")],
                    width=6,
                ),
                Panel("Spools that wait to be landed", "By broker", _most(_AUDIT + "waiting_spools"), width=6),
                Panel(
                    "Events that wait for the spool",
                    "By broker; above 0 while the spool cannot be written",
                    _most(_AUDIT + "queued_bytes"),
                    unit="bytes",
                    width=6,
                ),
            ),
        ),
        Row(
            "Observers",
            (
                Panel(
                    "Calls",
                    "Per second, by observer",
                    [Query(f"sum by (observer) ({_rate(_OBSERVER + 'calls_total')})", "{{observer}}")],
                    unit="ops",
                    width=6,
                ),
                Panel(
                    "Time of the event loop",
                    "Share of time in calls of an observer; maximum of all brokers",
                    [
                        Query(
                            f"max by (observer) ({_rate(_OBSERVER + 'call_seconds_total')})",
                            "{{observer}}",
                        )
                    ],
                    unit="percentunit",
                    width=6,
                ),
                Panel(
                    "Errors, and calls over the budget",
                    "Per second",
                    [
                        Query(f"sum by (observer) ({_rate(_OBSERVER + 'errors_total')})", "{{observer}} errors"),
                        Query(
                            f"sum by (observer) ({_rate(_OBSERVER + 'over_budget_total')})", "{{observer}} over budget"
                        ),
                    ],
                    unit="ops",
                    width=6,
                ),
                Panel(
                    "Observers by state",
                    "Number of brokers by the state of the observer",
                    [
                        Query(
                            f"sum by (observer, state) ({_now(_OBSERVER + 'state')}) > 0",
                            "{{observer}} {{state}}",
                        )
                    ],
                    width=6,
                    stacked=True,
                ),
            ),
        ),
    ),
)

FILES = {"clusters.json": CLUSTERS, "quotas.json": QUOTAS, "operator.json": OPERATOR}


def render(dashboard: Dashboard) -> str:
    return json.dumps(dashboard.model(), indent=1) + "\n"


def main() -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, dashboard in FILES.items():
        (FOLDER / name).write_text(render(dashboard), encoding="utf-8")


if __name__ == "__main__":
    main()
