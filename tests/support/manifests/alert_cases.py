"""Series for each alert: some make it fire, others come near and never do.

A case also says what the alert's description is then, and when the alert does not fire (yet, or any more). Values are
in promtool's notation, a sample every 15 s: `0x4 1x40` is 0 five times, then 1 forty-one times.
"""

from collections.abc import Mapping
from dataclasses import dataclass

SHOP = 'namespace="default", broker_cluster="shop"'
BROKER = SHOP + ', pod="shop-brokers-0"'
OF_SHOP = {"namespace": "default", "broker_cluster": "shop"}
OF_BROKER = OF_SHOP | {"pod": "shop-brokers-0"}
OPERATOR = 'namespace="sluicegate-system", pod="sluicegate-0"'
OF_OPERATOR = {"namespace": "sluicegate-system", "pod": "sluicegate-0"}


@dataclass(frozen=True, slots=True)
class AlertCase:
    """A case of an alert.

    `series` begin well, are bad from 1m on and well again by `ends`; `near` are never bad enough.
    """

    alert: str
    series: Mapping[str, str]
    description: str
    fires: str
    labels: Mapping[str, str]
    ends: str
    near: Mapping[str, str]
    not_yet: str = "1m"


def _bad(minutes: int, good: float = 0, bad: float = 1) -> str:
    """A series that is good at first and bad from 1m on, for so many minutes."""
    return f"{good}x3 {bad}x{4 * minutes - 1} {good}x80"


def _rejected(reason: str) -> str:
    labels = f'{BROKER}, listener="EXTERNAL", reason="{reason}"'
    return f"kafka_server_socket_server_connections_rejected_total{{{labels}}}"


def _adaptive(suffix: str, target: str) -> str:
    return f'sluicegate_adaptive_connection_rate{suffix}{{{BROKER}, target="{target}"}}'


def _answer_age(target: str) -> str:
    return f'sluicegate_cluster_connection_rate_answer_age_seconds{{{BROKER}, target="{target}"}}'


def _coordinated(state: str) -> str:
    return f'kafka_server_group_coordinator_metrics_num_partitions{{{BROKER}, state="{state}"}}'


CASES = (
    AlertCase(
        "SluicegateConnectionStorm",
        {f'kafka_network_acceptor_blocked_percent{{{BROKER}, listener="EXTERNAL"}}': _bad(4, bad=0.9)},
        "Listener EXTERNAL of default/shop delays new connections, or refuses more than 10 a second.",
        fires="3m",
        labels=OF_SHOP | {"listener": "EXTERNAL"},
        ends="6m",
        near={
            f'kafka_network_acceptor_blocked_percent{{{BROKER}, listener="EXTERNAL"}}': "0.5x60",
            _rejected("delayed"): "0+140x60",
        },
    ),
    AlertCase(
        "SluicegateConnectionStorm",
        {
            _rejected("delayed"): "0x4 100+100x16 1700x40",
            _rejected("dropped"): "0x4 100+100x16 1700x40",
        },
        "Listener EXTERNAL of default/shop delays new connections, or refuses more than 10 a second.",
        fires="5m",
        labels=OF_SHOP | {"listener": "EXTERNAL"},
        ends="8m",
        near={},
    ),
    AlertCase(
        "SluicegateAdaptiveRateAtMinimum",
        {
            _adaptive("", "listener EXTERNAL"): _bad(14, good=90, bad=50),
            _adaptive("_min", "listener EXTERNAL"): "50x140",
            _adaptive("_max", "listener EXTERNAL"): "2000x140",
        },
        "The rate of new connections of listener EXTERNAL on shop-brokers-0 of default/shop has been at its minimum, 50"
        " a second, for ten minutes.",
        fires="13m",
        labels=OF_BROKER | {"target": "listener EXTERNAL"},
        ends="16m",
        near={
            _adaptive("", "broker"): "50x30 51x2 50x30 51x2 50x30 51x2 50x30",
            _adaptive("_min", "broker"): "50x140",
            _adaptive("_max", "broker"): "2000x140",
            # Its rate cannot change.
            **{_adaptive(suffix, "listener FIXED"): "50x140" for suffix in ("", "_min", "_max")},
        },
        not_yet="10m",
    ),
    *(
        AlertCase(
            "SluicegateShareNotGranted",
            {_answer_age("listener EXTERNAL"): series, _answer_age("broker"): series},
            "The controller has not answered shop-brokers-0 of default/shop for five minutes, so its ConnectionQuotas"
            " with scope Cluster admit only its reserve.",
            fires="8m",
            labels=OF_BROKER,
            ends="12m",
            near={_answer_age("listener EXTERNAL"): "15x20 -1x16 15x20 65x16 15x50"},
            not_yet="5m",
        )
        for series in (_bad(9, good=1, bad=61), _bad(9, good=1, bad=-1))
    ),
    AlertCase(
        "SluicegateQuotaNotEnforced",
        {f'sluicegate_quotas{{{SHOP}, state="Applying"}}': "_x3 2x20 _x40"},
        "2 ConnectionQuotas of default/shop are Applying for two minutes.",
        fires="4m",
        labels=OF_SHOP | {"state": "Applying"},
        ends="12m",
        near={
            f'sluicegate_quotas{{{SHOP}, state="Enforced"}}': "5x60",
            **{
                f'sluicegate_quotas{{{SHOP}, state="{state}"}}': "1x60"
                for state in ("Conflicted", "Observing", "Expired", "Paused")
            },
            f'sluicegate_quotas{{{SHOP}, state="BrokersUnreachable"}}': "0x10 1x7 0x40",
        },
    ),
    AlertCase(
        "SluicegateBrokerFenced",
        {f"sluicegate_broker_fenced{{{BROKER}}}": _bad(5)},
        "Broker shop-brokers-0 of default/shop is fenced.",
        fires="4m",
        labels=OF_BROKER,
        ends="8m",
        near={f"sluicegate_broker_fenced{{{BROKER}}}": "1x6 0x10 1x6 0x40"},
    ),
    AlertCase(
        "SluicegateBrokerOffline",
        {
            f"sluicegate_brokers_wanted{{{SHOP}}}": "3x100",
            f'sluicegate_brokers{{{SHOP}, state="Online"}}': _bad(8, 3, 1),
            f'sluicegate_brokers{{{SHOP}, state="Offline"}}': _bad(8, 0, 2),
        },
        "2 brokers of default/shop are not Online for five minutes.",
        fires="7m",
        labels=OF_SHOP,
        ends="12m",
        near={
            f"sluicegate_brokers_wanted{{{SHOP}}}": "3x100",
            f'sluicegate_brokers{{{SHOP}, state="Online"}}': "3x10 2x15 3x75",
        },
    ),
    AlertCase(
        "SluicegateBrokerOffline",
        {
            f"sluicegate_brokers_wanted{{{SHOP}}}": "1x100",
            f'sluicegate_brokers{{{SHOP}, state="Online"}}': "1x3 stale _x40 1x60",
            f'sluicegate_brokers{{{SHOP}, state="Fenced"}}': "_x3 1x40 _x60",
        },
        "1 brokers of default/shop are not Online for five minutes.",
        fires="11m",
        labels=OF_SHOP,
        ends="14m",
        near={},
    ),
    AlertCase(
        "SluicegateNoActiveController",
        {
            f'up{{{SHOP}, pod="shop-controllers-0", role="controller"}}': "1x100",
            f"kafka_controller_active_controller_count{{{SHOP}}}": _bad(5, 1, 0),
        },
        "default/shop has not exactly one active controller for two minutes.",
        fires="4m",
        labels=OF_SHOP,
        ends="8m",
        near={
            f'up{{{SHOP}, pod="shop-controllers-0", role="controller"}}': "1x100",
            f'up{{{SHOP}, pod="shop-controllers-1", role="controller"}}': "1x100",
            'up{job="other"}': "1x100",
            f'kafka_controller_active_controller_count{{{SHOP}, pod="shop-controllers-0"}}': "1x10 0x5 0x80",
            f'kafka_controller_active_controller_count{{{SHOP}, pod="shop-controllers-1"}}': "0x10 1x5 1x80",
        },
    ),
    AlertCase(
        "SluicegateNoActiveController",
        {f'up{{{BROKER}, role="broker"}}': "_x3 1x19 _x60"},
        "default/shop has not exactly one active controller for two minutes.",
        fires="4m",
        labels=OF_SHOP,
        ends="12m",
        near={},
    ),
    AlertCase(
        "SluicegateOfflinePartitions",
        {f"kafka_controller_offline_partitions_count{{{SHOP}}}": _bad(4, bad=2)},
        "2 partitions of default/shop can neither be written nor read.",
        fires="3m",
        labels=OF_SHOP,
        ends="6m",
        near={f"kafka_controller_offline_partitions_count{{{SHOP}}}": "0x10 4x3 0x60"},
    ),
    AlertCase(
        "SluicegateUnderMinIsr",
        {f"kafka_server_replica_manager_under_min_isr_partition_count{{{BROKER}}}": _bad(4, bad=3)},
        "3 partitions of default/shop have fewer replicas in sync than min.insync.replicas.",
        fires="3m",
        labels=OF_SHOP,
        ends="6m",
        near={f"kafka_server_replica_manager_under_min_isr_partition_count{{{BROKER}}}": "0x10 4x3 0x60"},
    ),
    AlertCase(
        "SluicegateUnderReplicated",
        {f"kafka_server_replica_manager_under_replicated_partitions{{{BROKER}}}": _bad(8, bad=3)},
        "3 partitions of default/shop have a replica out of sync for five minutes.",
        fires="7m",
        labels=OF_SHOP,
        ends="10m",
        near={f"kafka_server_replica_manager_under_replicated_partitions{{{BROKER}}}": "0x10 4x15 0x60"},
    ),
    AlertCase(
        "SluicegateLogDirectoryFailing",
        {f"sluicegate_log_directory_failing{{{BROKER}}}": _bad(4)},
        "Writes to log.dirs of shop-brokers-0 in default/shop fail, for example because the disk is full.",
        fires="3m",
        labels=OF_BROKER,
        ends="6m",
        near={f"sluicegate_log_directory_failing{{{BROKER}}}": "0x10 1x3 0x60"},
    ),
    AlertCase(
        "SluicegateLogDamaged",
        {f"sluicegate_log_damaged_ranges{{{BROKER}}}": _bad(8, bad=2)},
        "shop-brokers-0 of default/shop has 2 damaged ranges of offsets that no other replica has repaired for five "
        "minutes.",
        fires="7m",
        labels=OF_BROKER,
        ends="10m",
        near={f"sluicegate_log_damaged_ranges{{{BROKER}}}": "0x10 1x15 0x60"},
    ),
    AlertCase(
        "SluicegateLogsNotCleaned",
        {f"kafka_log_log_cleaner_manager_uncleanable_partitions_count{{{BROKER}}}": _bad(8, bad=2)},
        "The log cleaner of shop-brokers-0 in default/shop no longer cleans 2 partitions.",
        fires="7m",
        labels=OF_BROKER,
        ends="10m",
        near={
            f"kafka_log_log_cleaner_manager_uncleanable_partitions_count{{{BROKER}}}": "0x10 1x15 0x60",
            f"kafka_log_log_cleaner_manager_max_dirty_percent{{{BROKER}}}": "90x80",
        },
    ),
    AlertCase(
        "SluicegateEventLoopHeld",
        {f"sluicegate_event_loop_delay_max_seconds{{{BROKER}}}": _bad(6, 0.002, 2.5)},
        "The event loop of shop-brokers-0 in default/shop was blocked for 2.5s.",
        fires="5m",
        labels=OF_BROKER,
        ends="9m",
        near={f"sluicegate_event_loop_delay_max_seconds{{{BROKER}}}": "0.9x10 7x8 0.1x60"},
    ),
    AlertCase(
        "SluicegateNodeNotScraped",
        {f'up{{{BROKER}, role="broker"}}': _bad(8, 1, 0)},
        "shop-brokers-0 of default/shop was not scraped for five minutes, so other alerts do not cover it.",
        fires="7m",
        labels=OF_BROKER,
        ends="10m",
        near={f'up{{{BROKER}, role="broker"}}': "1x10 0x15 1x60", 'up{job="others"}': "0x80"},
    ),
    AlertCase(
        "SluicegateLimitNotApplied",
        {f"sluicegate_config_values_not_applied{{{BROKER}}}": _bad(5, bad=2)},
        "shop-brokers-0 of default/shop does not apply 2 stored values.",
        fires="4m",
        labels=OF_BROKER,
        ends="8m",
        near={f"sluicegate_config_values_not_applied{{{BROKER}}}": "0x10 1x7 0x60"},
    ),
    AlertCase(
        "SluicegateGroupsNotServed",
        {_coordinated("failed"): _bad(5), _coordinated("loading"): "0x60"},
        "Broker shop-brokers-0 of default/shop has not loaded all groups that it coordinates for two minutes.",
        fires="4m",
        labels=OF_BROKER,
        ends="7m",
        near={
            _coordinated("loading"): "0x4 50x7 0x60",
            _coordinated("failed"): "0x60",
            _coordinated("active"): "50x60",
        },
    ),
    AlertCase(
        "SluicegateConsumerRebalanceFailed",
        {f"sluicegate_push_rebalances_failed_total{{{BROKER}}}": "0x4 1x80"},
        "Broker shop-brokers-0 of default/shop removed consumers of the push protocol that answer only pings; their "
        "groups continue without them.",
        fires="2m",
        labels=OF_BROKER,
        ends="12m",
        near={f"sluicegate_push_rebalances_failed_total{{{BROKER}}}": "5x80"},
    ),
    AlertCase(
        "SluicegateNoOperatorLeads",
        {f"sluicegate_leading{{{OPERATOR}}}": _bad(5, 1, 0)},
        "For two minutes no operator leads, or none is scraped. Brokers continue unchanged, but no manifest has an "
        "effect.",
        fires="4m",
        labels={},
        ends="8m",
        near={
            'sluicegate_leading{pod="sluicegate-0"}': "1x10 0x90",
            'sluicegate_leading{pod="sluicegate-1"}': "0x14 1x86",
        },
    ),
    AlertCase(
        "SluicegateNoOperatorLeads",
        {f"sluicegate_leading{{{OPERATOR}}}": "1x3 stale _x30 1x60"},
        "For two minutes no operator leads, or none is scraped. Brokers continue unchanged, but no manifest has an "
        "effect.",
        fires="4m",
        labels={},
        ends="10m",
        near={f"sluicegate_leading{{{OPERATOR}}}": "1x100"},
    ),
    AlertCase(
        "SluicegateOperatorStuck",
        {f"sluicegate_operator_event_loop_silent_seconds{{{OPERATOR}}}": "0x3 20+15x20 0x60"},
        "Operator sluicegate-0 has been blocked for 3m 35s.",
        fires="4m15s",
        labels=OF_OPERATOR,
        ends="8m",
        near={
            f"sluicegate_operator_event_loop_silent_seconds{{{OPERATOR}}}": "5x20 70x2 5x60",
            f'sluicegate_queue_oldest_seconds{{{OPERATOR}, queue="quotas"}}': "0+15x40 0x60",
        },
    ),
    AlertCase(
        "SluicegateOperatorStuck",
        {f'sluicegate_queue_oldest_seconds{{{OPERATOR}, queue="rolls"}}': "0x3 500+30x30 0x60"},
        "Operator sluicegate-0 has been blocked for 15m 50s.",
        fires="4m45s",
        labels=OF_OPERATOR,
        ends="12m",
        near={},
    ),
    AlertCase(
        "SluicegateReconcilesFailing",
        {
            'sluicegate_reconcile_total{namespace="sluicegate-system", queue="quotas", result="error"}': (
                "0x4 1+1x40 41x100"
            ),
            'sluicegate_reconcile_total{namespace="sluicegate-system", queue="quotas", result="success"}': (
                "0x44 1+1x100"
            ),
        },
        "No reconcile of the queue quotas has succeeded for ten minutes, and 40 have failed.",
        fires="11m",
        labels={"namespace": "sluicegate-system", "queue": "quotas"},
        ends="13m",
        near={
            'sluicegate_reconcile_total{namespace="sluicegate-system", queue="quotas", result="error"}': "0+1x100",
            'sluicegate_reconcile_total{namespace="sluicegate-system", queue="quotas", result="success"}': "0+1x100",
        },
    ),
    AlertCase(
        "SluicegateWatchSilent",
        {f'sluicegate_watch_silent_seconds{{{OPERATOR}, kind="pods"}}': "0x3 15+15x20 0x60"},
        "A watch of operator sluicegate-0 has delivered nothing for longer than a watch without changes does, or "
        "cannot be established.",
        fires="4m",
        labels=OF_OPERATOR,
        ends="8m",
        near={
            f'sluicegate_watch_silent_seconds{{{OPERATOR}, kind="pods"}}': "0x3 15+15x5 0x60",
            f'sluicegate_watch_silent_seconds{{{OPERATOR}, kind="roles"}}': "0x3 15+15x19 0x60",
            f"sluicegate_ready{{{OPERATOR}}}": "1x10 0x3 1x60",
        },
    ),
    AlertCase(
        "SluicegateWatchSilent",
        {f"sluicegate_ready{{{OPERATOR}}}": _bad(4, 1, 0)},
        "A watch of operator sluicegate-0 has delivered nothing for longer than a watch without changes does, or "
        "cannot be established.",
        fires="3m",
        labels=OF_OPERATOR,
        ends="7m",
        near={},
    ),
    AlertCase(
        "SluicegateRollBlocked",
        {f'sluicegate_roll_blocked{{{SHOP}, reason="BelowMinIsr"}}': "_x3 1x80 _x60"},
        "The roll of default/shop is blocked for 15 minutes: BelowMinIsr.",
        fires="17m",
        labels=OF_SHOP | {"reason": "BelowMinIsr"},
        ends="27m",
        near={f'sluicegate_roll_blocked{{{SHOP}, reason="BelowMinIsr"}}': "1x50 stale _x60"},
        not_yet="15m",
    ),
    AlertCase(
        "SluicegateAuditLosingEvents",
        {f"sluicegate_audit_dropped_total{{{BROKER}}}": "0x7 1000x60"},
        "Broker shop-brokers-0 of default/shop has dropped about 1k events in five minutes.",
        fires="6m",
        labels=OF_BROKER,
        ends="9m",
        near={f"sluicegate_audit_dropped_total{{{BROKER}}}": "1000x60"},
    ),
    AlertCase(
        "SluicegateLanderBehind",
        {f"sluicegate_audit_waiting_spools{{{BROKER}}}": _bad(20, 1, 9)},
        "9 complete spools wait on shop-brokers-0 of default/shop.",
        fires="17m",
        labels=OF_BROKER,
        ends="23m",
        near={f"sluicegate_audit_waiting_spools{{{BROKER}}}": "5x30 9x50 5x60"},
        not_yet="15m",
    ),
    AlertCase(
        "SluicegateAuditIncomplete",
        {f'sluicegate_audit_pipeline_missing_events{{{SHOP}, pipeline="daily"}}': _bad(8, bad=1234)},
        "In the results of AuditPipeline daily in default, 1.234k events of shop are missing.",
        fires="7m",
        labels=OF_SHOP | {"pipeline": "daily"},
        ends="10m",
        near={f'sluicegate_audit_pipeline_missing_events{{{SHOP}, pipeline="daily"}}': "0x10 9x15 0x60"},
    ),
    AlertCase(
        "SluicegateAuditPipelineFailing",
        {f'sluicegate_audit_pipeline_failing{{{SHOP}, pipeline="daily"}}': _bad(20)},
        "The newest run of AuditPipeline daily in default failed.",
        fires="17m",
        labels=OF_SHOP | {"pipeline": "daily"},
        ends="23m",
        near={f'sluicegate_audit_pipeline_failing{{{SHOP}, pipeline="daily"}}': "0x10 1x50 0x60"},
        not_yet="15m",
    ),
    AlertCase(
        "SluicegateObserverNotCalled",
        {f'sluicegate_observer_state{{{BROKER}, observer="audit", state="Suspended"}}': _bad(8)},
        "Observer audit is Suspended on shop-brokers-0 of default/shop.",
        fires="7m",
        labels=OF_BROKER | {"observer": "audit", "state": "Suspended"},
        ends="10m",
        near={
            f'sluicegate_observer_state{{{BROKER}, observer="audit", state="Loaded"}}': "1x60",
            f'sluicegate_observer_state{{{BROKER}, observer="audit", state="Failed"}}': "0x10 1x15 0x60",
        },
    ),
)
