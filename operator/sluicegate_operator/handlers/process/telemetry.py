"""The operator's own Prometheus metrics."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector

REGISTRY = CollectorRegistry()
ProcessCollector(registry=REGISTRY)

APPLY_TO_ENFORCED = Histogram(
    "sluicegate_apply_to_enforced_seconds",
    "Time from the operator's first event about a changed ConnectionQuota until every broker enforces it",
    buckets=(0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60),
    registry=REGISTRY,
)
RECONCILES = Counter("sluicegate_reconcile", "Reconciles by queue and result", ["queue", "result"], registry=REGISTRY)
DRIFT_MENDED = Counter(
    "sluicegate_quota_drift_mended",
    "Limits that were changed manually on the brokers and that the operator has restored",
    registry=REGISTRY,
)
FENCED_AT_ONCE = Counter(
    "sluicegate_brokers_fenced",
    "Brokers fenced because their container, pod or node had disappeared",
    registry=REGISTRY,
)
RESTARTS = Counter("sluicegate_node_restarts", "Nodes restarted by rolls", ["reason"], registry=REGISTRY)
QUEUE_OLDEST = Gauge(
    "sluicegate_queue_oldest_seconds",
    "Time for which the oldest key has been due or in work; 0 if there is none",
    ["queue"],
    registry=REGISTRY,
)
LOOP_SILENT = Gauge(
    "sluicegate_operator_event_loop_silent_seconds",
    "Time since the operator's event loop last ran; it reports every five seconds",
    registry=REGISTRY,
)
LOOP_LONGEST_ITERATION = Gauge(
    "sluicegate_operator_loop_longest_turn_seconds",
    "Longest iteration of the operator's event loop since the start; due work waits for the iteration that runs",
    registry=REGISTRY,
)
LOOP_MOST_WORKED = Gauge(
    "sluicegate_operator_loop_longest_work_seconds",
    "Largest processor time of one iteration of the operator's event loop since the start",
    registry=REGISTRY,
)
LOOP_LONG_ITERATIONS = Gauge(
    "sluicegate_operator_loop_long_turns",
    "Iterations of the operator's event loop that used more than 50 ms of processor time, since the start",
    registry=REGISTRY,
)
READY = Gauge("sluicegate_ready", "1 while /readyz of this operator reports no problem", registry=REGISTRY)
QUEUE_DEPTH = Gauge("sluicegate_queue_depth", "Keys that wait or are in work", ["queue"], registry=REGISTRY)
LEADING = Gauge("sluicegate_leading", "1 while this operator holds the Lease", registry=REGISTRY)
