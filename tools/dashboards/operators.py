"""The dashboard of the operator, the observers and the audit log."""

from tools.dashboards.queries import IN, OF, VARIABLES, most, now, rate
from tools.grafana import Dashboard, Panel, Query, Row, Stat

_OBSERVER = "sluicegate_observer_"
_AUDIT = "sluicegate_audit_"

OPERATOR = Dashboard(
    "sluicegate-operator",
    "Sluicegate / Operator and audit",
    "Whether manifests have an effect, and whether the audit log is complete.",
    VARIABLES,
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
                    [Query(f"count({now('sluicegate_roll_blocked')}) or vector(0)")],
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
                    [Query(f"sum by (queue) (rate(sluicegate_reconcile_total[{IN}]))", "{{queue}}")],
                    unit="ops",
                    stacked=True,
                ),
                Panel(
                    "Reconciles by result",
                    "Per second; unsettled ones are reconciled again soon",
                    [Query(f"sum by (result) (rate(sluicegate_reconcile_total[{IN}]))", "{{result}}")],
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
                    [Query(f"sum by (pod) ({rate(_AUDIT + 'events_total')})", "{{pod}}")],
                    unit="ops",
                    width=6,
                ),
                Panel(
                    "Events that were dropped",
                    "In the last five minutes; gap events report them",
                    [Query(f"sum by (pod) (increase({_AUDIT}dropped_total{{{OF}}}[5m]))", "{{pod}}")],
                    width=6,
                ),
                Panel("Spools that wait to be landed", "By broker", most(_AUDIT + "waiting_spools"), width=6),
                Panel(
                    "Events that wait for the spool",
                    "By broker; above 0 while the spool cannot be written",
                    most(_AUDIT + "queued_bytes"),
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
                    [Query(f"sum by (observer) ({rate(_OBSERVER + 'calls_total')})", "{{observer}}")],
                    unit="ops",
                    width=6,
                ),
                Panel(
                    "Time of the event loop",
                    "Share of time in calls of an observer; maximum of all brokers",
                    [
                        Query(
                            f"max by (observer) ({rate(_OBSERVER + 'call_seconds_total')})",
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
                        Query(f"sum by (observer) ({rate(_OBSERVER + 'errors_total')})", "{{observer}} errors"),
                        Query(
                            f"sum by (observer) ({rate(_OBSERVER + 'over_budget_total')})", "{{observer}} over budget"
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
                            f"sum by (observer, state) ({now(_OBSERVER + 'state')}) > 0",
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
