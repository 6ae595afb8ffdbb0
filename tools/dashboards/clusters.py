"""The dashboard of clusters: brokers, controllers, topics and groups."""

from tools.dashboards.queries import GROUPS, ONLINE, REPLICAS, SOCKET, VARIABLES, ever, most, now, rate
from tools.grafana import Dashboard, Panel, Query, Row, Stat

_CALLED = Query(f"sum by (pod) ({now('sluicegate_push_consumers')})", "{{pod}}")

CLUSTERS = Dashboard(
    "sluicegate-clusters",
    "Sluicegate / Clusters",
    "Brokers, partitions, requests and the resources of the processes.",
    VARIABLES,
    (
        Row(
            "Now",
            (
                Stat(
                    "Brokers Online",
                    "As the active controllers see them",
                    [Query(f"sum({now('sluicegate_brokers', ONLINE)})")],
                    good_from=1,
                ),
                Stat(
                    "Brokers missing",
                    "Requested brokers that are not Online",
                    [
                        Query(
                            f"sum({now('sluicegate_brokers_wanted')})"
                            f" - (sum({now('sluicegate_brokers', ONLINE)}) or vector(0))"
                        )
                    ],
                    bad=1,
                ),
                Stat(
                    "Active controllers",
                    "One for each cluster",
                    [Query(f"sum({now('kafka_controller_active_controller_count')})")],
                    good_from=1,
                ),
                Stat(
                    "Partitions without a leader",
                    "Partitions that can neither be written nor read",
                    [Query(f"sum({now('kafka_controller_offline_partitions_count')})")],
                    bad=1,
                ),
                Stat(
                    "Under min.insync.replicas",
                    "Partitions that refuse acks=all",
                    [Query(f"sum({now(REPLICAS + 'under_min_isr_partition_count')})")],
                    bad=1,
                ),
                Stat(
                    "Under-replicated",
                    "Partitions with a replica out of sync",
                    [Query(f"sum({now(REPLICAS + 'under_replicated_partitions')})")],
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
                    [Query(ever("request", "kafka_network_request_total"), "{{request}}")],
                    unit="reqps",
                    stacked=True,
                ),
                Panel(
                    "Mean time of a request by API",
                    "Includes waits: a Fetch waits for records, a Produce with acks=all for replicas",
                    [
                        Query(
                            f"sum by (request) ({rate('kafka_network_request_time_seconds_total')})"
                            f" / (sum by (request) ({rate('kafka_network_request_total')}) > 0)",
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
                            f"sum by (topic, direction) ({rate('sluicegate_observed_topic_bytes_total')})",
                            "{{topic}} {{direction}}",
                        )
                    ],
                    unit="Bps",
                ),
                Panel(
                    "Open connections by listener",
                    "All brokers and controllers",
                    [Query(f"sum by (listener) ({now(SOCKET + 'connection_count')})", "{{listener}}")],
                    stacked=True,
                ),
                Panel(
                    "Requests that ended their connection",
                    "Per second, by API; empty if no such requests occurred",
                    [Query(ever("request", "kafka_network_request_errors_total"), "{{request}}")],
                    unit="ops",
                ),
                Panel(
                    "Refused frames and connections",
                    "Per second, by kind",
                    [Query(f"sum by (kind) ({rate(SOCKET + 'refused_total')})", "{{kind}}")],
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
                    [Query(f"sum by (state) ({now('sluicegate_brokers')})", "{{state}}")],
                    stacked=True,
                ),
                Panel(
                    "Partitions led",
                    "By broker",
                    [Query(f"sum by (pod) ({now(REPLICAS + 'leader_count')})", "{{pod}}")],
                    stacked=True,
                ),
                Panel(
                    "In-sync sets",
                    "Replicas that left and rejoined, per second; partitions with a replica out of sync",
                    [
                        Query(f"sum({rate(REPLICAS + 'isr_shrinks_total')})", "left"),
                        Query(f"sum({rate(REPLICAS + 'isr_expands_total')})", "came back"),
                        Query(f"sum({now(REPLICAS + 'under_replicated_partitions')})", "under-replicated"),
                    ],
                ),
                Panel(
                    "Metadata behind",
                    "Records of the metadata log that a node has not applied yet",
                    most("sluicegate_metadata_lag_records"),
                ),
                Panel("Fenced", "1 while a broker serves no clients", most("sluicegate_broker_fenced")),
                Panel(
                    "Failed writes to log.dirs",
                    "Per second, by broker",
                    [Query(f"sum by (pod) ({rate('sluicegate_log_failed_writes_total')})", "{{pod}}")],
                    unit="ops",
                ),
                Panel(
                    "Damaged ranges",
                    "Ranges of offsets that a broker cannot read",
                    most("sluicegate_log_damaged_ranges"),
                ),
            ),
        ),
        Row(
            "Groups",
            (
                Panel(
                    "Lag of groups",
                    "Records that a group has not committed yet, for all its topics",
                    [Query(f"sum by (consumergroup) ({now('kafka_consumergroup_lag_sum')})", "{{consumergroup}}")],
                ),
                Panel(
                    "Groups by coordinator",
                    "Number of groups that each broker coordinates",
                    [Query(f"sum by (pod) ({now(GROUPS + 'group_count')})", "{{pod}}")],
                    stacked=True,
                ),
                Panel("Consumers that are called", "Push protocol, by coordinator", [_CALLED], stacked=True),
                Panel(
                    "Coordinators",
                    "Partitions of __consumer_offsets by state; groups of those that are not active wait",
                    [Query(f"sum by (state) ({now(GROUPS + 'num_partitions')})", "{{state}}")],
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
                    [Query(f"sum by (pod) ({rate('process_cpu_seconds_total')})", "{{pod}}")],
                    unit="percentunit",
                ),
                Panel("Memory", "Resident", most("process_resident_memory_bytes"), unit="bytes"),
                Panel(
                    "Longest delay of the event loop",
                    "Maximum of the last one to two minutes",
                    most("sluicegate_event_loop_delay_max_seconds"),
                    unit="s",
                ),
            ),
        ),
    ),
)
