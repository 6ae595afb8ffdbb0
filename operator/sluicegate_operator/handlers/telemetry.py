"""The operator's own Prometheus metrics."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector

REGISTRY = CollectorRegistry()
ProcessCollector(registry=REGISTRY)

APPLY_TO_ENFORCED = Histogram(
    "sluicegate_apply_to_enforced_seconds",
    "From the operator learning of a changed ConnectionQuota to every broker enforcing it",
    buckets=(0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60),
    registry=REGISTRY,
)
RECONCILES = Counter("sluicegate_reconcile", "Reconciles by queue and result", ["queue", "result"], registry=REGISTRY)
DRIFT_MENDED = Counter(
    "sluicegate_quota_drift_mended", "Limits that somebody had changed by hand on the brokers", registry=REGISTRY
)
FENCED_AT_ONCE = Counter(
    "sluicegate_brokers_fenced", "Brokers fenced because their container, pod or node was gone", registry=REGISTRY
)
RESTARTS = Counter("sluicegate_node_restarts", "Nodes restarted by rolls", ["reason"], registry=REGISTRY)
QUEUE_OLDEST = Gauge(
    "sluicegate_queue_oldest_seconds",
    "For how long the key that is due or worked on longest has been so; 0 when none is",
    ["queue"],
    registry=REGISTRY,
)
LOOP_SILENT = Gauge(
    "sluicegate_operator_event_loop_silent_seconds",
    "Since the operator's event loop last turned; it beats every five seconds",
    registry=REGISTRY,
)
LOOP_LONGEST_TURN = Gauge(
    "sluicegate_operator_loop_longest_turn_seconds",
    "The longest turn of the operator's event loop since it was started: what is due waits for the turn that runs",
    registry=REGISTRY,
)
LOOP_MOST_WORKED = Gauge(
    "sluicegate_operator_loop_longest_work_seconds",
    "The most processor time that a turn of the operator's event loop has taken since it was started",
    registry=REGISTRY,
)
LOOP_LONG_TURNS = Gauge(
    "sluicegate_operator_loop_long_turns",
    "Turns of the operator's event loop that have worked for longer than 50 ms, since it was started",
    registry=REGISTRY,
)
READY = Gauge("sluicegate_ready", "1 while /readyz of this operator has nothing to say", registry=REGISTRY)
QUEUE_DEPTH = Gauge("sluicegate_queue_depth", "Keys that wait or are worked on", ["queue"], registry=REGISTRY)
LEADING = Gauge("sluicegate_leading", "1 while this operator holds the Lease", registry=REGISTRY)
