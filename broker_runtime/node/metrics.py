"""Convert the parts' own figures to Prometheus metric families, on request. Knows no arithmetic."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from broker_runtime.apis.request.request_metrics import RequestCount
from broker_runtime.exposition import MetricFamily, counter, gauge
from broker_runtime.groups.kinds import GroupType
from broker_runtime.groups.lag.metrics import LagMetrics
from broker_runtime.groups.tally import CoordinatorMetrics, Counts, Loss, PushTally, Tally
from broker_runtime.metadata.metrics import ControllerMetrics, ReplicationMetrics
from broker_runtime.network.quotas.metrics import Sample
from broker_runtime.security.acls.model import AclOperation, AclResource
from broker_runtime.slicing.slice_lengths import BOUNDS_S, SliceLengths
from broker_runtime.storage.compaction.metrics import CleanerMetrics

UNSTABLE_PARTITIONS_MAX = 100
"""Partitions whose lag of the last stable offset is shown."""


def families(samples: Iterable[Sample]) -> Iterator[MetricFamily]:
    """Group samples by name into metrics, keeping their order."""
    found: dict[str, MetricFamily] = {}
    for sample in samples:
        family = found.setdefault(sample.name, MetricFamily(sample.name, sample.kind, sample.help))
        family.add(sample.value, **sample.labels)
    yield from found.values()


def request_families(counts: Iterable[RequestCount]) -> Iterator[MetricFamily]:
    total = MetricFamily("kafka_network_request_total", "counter", "Requests by API")
    failed = MetricFamily(
        "kafka_network_request_errors_total", "counter", "Requests after which the broker closed the connection, by API"
    )
    time = MetricFamily(
        "kafka_network_request_time_seconds_total",
        "counter",
        "Time from reading a request to sending its response, waits included, by API",
    )
    for count in counts:
        total.add(count.total, request=count.request)
        failed.add(count.failed, request=count.request)
        time.add(count.time_s, request=count.request)
    yield from (total, failed, time)


def slice_families(slices: Iterable[SliceLengths], delays: SliceLengths, now_s: float) -> Iterator[MetricFamily]:
    """Yield the metrics of how long work blocked the event loop at a time, by kind of work.

    `delays` has the delays of the event loop's timers.
    """
    prefix = "sluicegate_event_loop_"
    lengths = MetricFamily(
        prefix + "turn_seconds", "histogram", "Time for which one kind of work kept the event loop busy without a break"
    )
    longest = MetricFamily(
        prefix + "turn_max_seconds",
        "gauge",
        "Longest time in the last one to two minutes for which one kind of work kept the event loop busy",
    )
    for time_slice in slices:
        lengths.add_histogram(_buckets(time_slice), time_slice.total_s, work=time_slice.work)
        longest.add(time_slice.longest_s(now_s), work=time_slice.work)
    yield from (lengths, longest)
    text = "Delay of a timer of the event loop: for as long the event loop did no other work"
    late = MetricFamily(prefix + "delay_seconds", "histogram", text)
    late.add_histogram(_buckets(delays), delays.total_s)
    yield late
    yield gauge(
        prefix + "delay_max_seconds",
        "Longest delay of a timer of the event loop in the last one to two minutes",
        delays.longest_s(now_s),
    )


def garbage_family(found: Sequence[int]) -> MetricFamily:
    """Return the counter of freed objects by generation. The name is that of Prometheus' client for Python."""
    text = "Objects in reference cycles that the garbage collector has collected, by generation"
    collected = MetricFamily("python_gc_objects_collected_total", "counter", text)
    for generation, count in enumerate(found):
        collected.add(count, generation=str(generation))
    return collected


def _buckets(slices: SliceLengths) -> list[tuple[str, float]]:
    return list(zip([*map(str, BOUNDS_S), "+Inf"], slices.cumulated(), strict=True))


def membership_families(state: int, epoch: int, *, fenced: bool, self_fenced: bool) -> Iterator[MetricFamily]:
    yield gauge("kafka_server_broker_state", "BrokerState of this broker, as in Kafka: 3 is running", state)
    yield gauge("sluicegate_broker_epoch", "Epoch of this broker's registration", epoch)
    yield gauge("sluicegate_broker_fenced", "1 while this broker serves no clients", fenced)
    yield gauge(
        "sluicegate_broker_self_fenced",
        "1 while this broker serves no clients because the controller does not respond",
        self_fenced,
    )


def metadata_families(offset: int, lag_records: int) -> Iterator[MetricFamily]:
    """Yield the metrics of the metadata's offset and lag.

    `lag_records` is as of the controller's last answer; 0 for a node that writes metadata.
    """
    yield gauge("sluicegate_metadata_offset", "Last metadata record that this node has applied", offset)
    yield gauge(
        "kafka_server_broker_metadata_metrics_last_applied_record_offset",
        "Last metadata record that this node has applied",
        offset,
    )
    yield gauge("sluicegate_metadata_lag_records", "Metadata records that this node has not applied yet", lag_records)


def controller_families(figures: ControllerMetrics) -> Iterator[MetricFamily]:
    """Yield the controller's metrics, which are zero except on the active controller, as in Kafka."""
    prefix = "kafka_controller_"
    yield gauge(prefix + "active_controller_count", "1 on the active controller", figures.active)
    yield gauge(prefix + "active_broker_count", "Brokers that are registered and unfenced", figures.active_brokers)
    yield gauge(prefix + "fenced_broker_count", "Brokers that are registered and fenced", figures.fenced_brokers)
    yield gauge(prefix + "global_topic_count", "Topics of the cluster", figures.topics)
    yield gauge(prefix + "global_partition_count", "Partitions of the cluster", figures.partitions)
    yield gauge(prefix + "offline_partitions_count", "Partitions without a leader", figures.offline_partitions)
    yield gauge(
        prefix + "preferred_replica_imbalance_count",
        "Partitions whose leader is not their first replica",
        figures.preferred_replica_imbalance,
    )


def replication_families(figures: ReplicationMetrics) -> Iterator[MetricFamily]:
    prefix = "kafka_server_replica_manager_"
    yield gauge(prefix + "partition_count", "Partitions with a replica on this broker", figures.partitions)
    yield gauge(prefix + "leader_count", "Partitions that this broker leads", figures.leaders)
    yield gauge(
        prefix + "under_replicated_partitions", "Led partitions with a replica out of sync", figures.under_replicated
    )
    yield gauge(
        prefix + "under_min_isr_partition_count",
        "Led partitions with fewer replicas in sync than min.insync.replicas",
        figures.under_min_isr,
    )
    yield gauge(
        prefix + "at_min_isr_partition_count",
        "Led partitions with exactly min.insync.replicas in sync",
        figures.at_min_isr,
    )
    yield counter(
        prefix + "isr_shrinks_total", "Replicas that left the in-sync sets of led partitions", figures.isr_shrinks
    )
    yield counter(
        prefix + "isr_expands_total",
        "Replicas that returned to the in-sync sets of led partitions",
        figures.isr_expands,
    )


def coordinator_families(figures: CoordinatorMetrics) -> Iterator[MetricFamily]:
    prefix = "kafka_server_group_coordinator_metrics_"
    partitions = MetricFamily(
        prefix + "num_partitions",
        "gauge",
        "Partitions of __consumer_offsets that this broker leads, by state; groups wait while their partition is not "
        "active",
    )
    for state, count in (("loading", figures.loading), ("active", figures.active), ("failed", figures.failed)):
        partitions.add(count, state=state)
    yield partitions
    yield gauge(prefix + "group_count", "Groups that this broker coordinates", figures.groups)
    yield gauge(
        prefix + "offset_count", "Committed offsets of the groups that this broker coordinates", figures.offsets
    )


def group_tally_families(tally: Tally, groups: Counts) -> Iterator[MetricFamily]:
    prefix = "kafka_server_group_coordinator_metrics_"
    for kind in GroupType:
        family = MetricFamily(
            f"{prefix}{kind.value}_group_count",
            "gauge",
            f"Groups of the {kind.value} protocol that this broker coordinates, by state, counted some seconds ago",
        )
        for (each, state), count in sorted(groups.items(), key=lambda item: item[0][1]):
            if each is kind:
                family.add(count, state=state)
        yield family
    yield counter(
        prefix + "offset_commit_total", "Offsets that groups have committed to this broker", tally.offset_commits
    )
    yield counter(
        prefix + "offset_deletion_total",
        "Committed offsets that were deleted by a request, or with their topic",
        tally.offset_deletions,
    )
    yield counter(
        prefix + "offset_expiration_total",
        "Committed offsets that have expired on this broker",
        tally.offset_expirations,
    )
    yield counter(
        prefix + "group_completed_rebalance_total",
        "Generations of groups of the classic protocol that this broker has completed",
        tally.classic_rebalances,
    )
    yield counter(
        prefix + "consumer_group_rebalance_total",
        "Epochs of groups of KIP-848 that this broker has begun",
        tally.consumer_rebalances,
    )
    yield from load_time_families(prefix, "__consumer_offsets", tally.load_max_ms, tally.load_ms, tally.loads)
    yield counter(
        "sluicegate_group_coordinator_failures_total",
        "Coordinators of partitions that failed and were restarted; /readyz has the reason",
        tally.failures,
    )


def load_time_families(prefix: str, topic: str, max_ms: float, all_ms: float, loads: int) -> Iterator[MetricFamily]:
    """Yield the load times of a coordinator's partitions. `all_ms` is the sum over `loads` loads."""
    yield gauge(
        prefix + "partition_load_time_max",
        f"Longest load time of a partition of {topic} since the start, milliseconds",
        max_ms,
    )
    yield gauge(
        prefix + "partition_load_time_avg",
        f"Mean load time of partitions of {topic} since the start, milliseconds",
        all_ms / loads if loads else 0,
    )


def push_families(consumers: int, tally: PushTally) -> Iterator[MetricFamily]:
    """Yield the metrics of push groups. Other families count these groups."""
    prefix = "sluicegate_push_"
    yield gauge(prefix + "consumers", "Consumers of the push protocol that are registered with this broker", consumers)
    yield counter(prefix + "rebalances_total", "Completed rebalances of groups of the push protocol", tally.rebalances)
    yield counter(
        prefix + "rebalance_seconds_total",
        "Total duration of completed rebalances, from the plan to the start of the last consumer",
        tally.rebalance_s,
    )
    yield counter(
        prefix + "rebalances_failed_total",
        "ConsumerRebalanceFailed: rebalances that continued without consumers that did not stop or start; the log "
        "names them",
        tally.failed_rebalances,
    )
    lost = MetricFamily(
        prefix + "consumers_lost_total",
        "counter",
        "Consumers whose registration ended: their connection closed, they did not respond, got stuck, or sent a "
        "wrong response",
    )
    for loss in Loss:
        lost.add(tally.losses[loss], cause=loss.value)
    yield lost
    yield counter(prefix + "pings_total", "Pings sent to consumers of the push protocol", tally.pings)
    yield counter(
        prefix + "pings_unanswered_total",
        "Pings that were not answered within two thirds of a session",
        tally.unanswered_pings,
    )


def group_lag_families(figures: LagMetrics, age_s: float) -> Iterator[MetricFamily]:
    """Yield the metrics about how far groups lag behind.

    The first metric has the name and labels that exporters for Apache Kafka use.
    """
    lag = MetricFamily(
        "kafka_consumergroup_lag_sum",
        "gauge",
        "Records of a topic that a group has not committed yet, on the broker that coordinates the group",
    )
    for group_id, by_topic in figures.by_group.items():
        for topic, records in by_topic.items():
            lag.add(records, consumergroup=group_id, topic=topic)
    yield lag
    yield gauge(
        "sluicegate_group_lag_left_out_groups",
        "Groups of this coordinator beyond sluicegate.group.lag.groups.max or .partitions.max, whose lag is not shown",
        figures.left_out,
    )
    yield gauge(
        "sluicegate_group_lag_age_seconds", "Seconds since all leaders last reported their log end offsets", age_s
    )


def damage_families(damaged_ranges: int, mended_ranges: int, accepted_losses: int) -> Iterator[MetricFamily]:
    yield gauge(
        "sluicegate_log_damaged_ranges",
        "Ranges of offsets that cannot be read in this broker's replicas; `sluicegate damage list` names them",
        damaged_ranges,
    )
    yield counter(
        "sluicegate_log_mended_ranges_total",
        "Damaged ranges that were repaired from the replica of another broker",
        mended_ranges,
    )
    yield counter(
        "sluicegate_log_accepted_losses_total",
        "Damaged ranges whose loss a user has accepted",
        accepted_losses,
    )


def storage_families(stray_folders: int, offline_replicas: int) -> Iterator[MetricFamily]:
    yield gauge(
        "kafka_server_replica_manager_offline_replica_count",
        "Replicas that this broker should have and cannot serve: their newest records are damaged, they are set "
        "aside, or their files cannot be opened",
        offline_replicas,
    )
    yield gauge(
        "sluicegate_log_stray_folders",
        "Log folders that were set aside because the metadata does not name them; you may remove them",
        stray_folders,
    )


def transaction_families(lags: Sequence[tuple[tuple[str, int], int]]) -> Iterator[MetricFamily]:
    """Yield the lags of last stable offsets by partition. Kafka has this metric for all partitions."""
    family = MetricFamily(
        "kafka_cluster_partition_last_stable_offset_lag",
        "gauge",
        f"Offsets from the last stable one to the high watermark, of the {UNSTABLE_PARTITIONS_MAX} partitions with the "
        "largest lags; consumers with isolation.level=read_committed do not get these records yet",
    )
    for (topic, partition), lag in lags:
        family.add(lag, topic=topic, partition=str(partition))
    yield family


def cleaner_families(figures: CleanerMetrics, now_s: float) -> Iterator[MetricFamily]:
    """Yield the log cleaner's metrics under Kafka's names. Percents are whole numbers from 0 to 100."""
    cleaner, manager = "kafka_log_log_cleaner_", "kafka_log_log_cleaner_manager_"
    yield gauge(
        cleaner + "cleaner_recopy_percent",
        "Bytes that the last cleaning has written, in percent of the bytes that it has read",
        int(figures.recopy_ratio * 100),
    )
    yield gauge(cleaner + "max_clean_time_secs", "Duration of the last cleaning, seconds", figures.clean_time_s)
    yield gauge(
        cleaner + "max_buffer_utilization_percent",
        "Share of log.cleaner.dedupe.buffer.size that the last cleaning has used, in percent",
        int(figures.map_utilization * 100),
    )
    yield gauge(
        cleaner + "max_compaction_delay_secs",
        "How long the log that was cleaned last had waited beyond its max.compaction.lag.ms, seconds",
        figures.compaction_delay_s,
    )
    yield gauge(
        manager + "max_dirty_percent",
        "Largest share of a log that was not cleaned yet, at the cleaner's last check, in percent",
        int(figures.max_dirty_ratio * 100),
    )
    yield gauge(
        manager + "uncleanable_partitions_count",
        "Partitions that cannot be cleaned until this broker restarts; its log has the reason",
        figures.uncleanable_partitions,
    )
    yield gauge(
        manager + "uncleanable_bytes",
        "Bytes not cleaned in the partitions that cannot be cleaned",
        figures.uncleanable_bytes,
    )
    yield gauge(
        manager + "time_since_last_run_ms",
        "Time since the cleaner last searched for logs to clean; it grows while a log is cleaned",
        round((now_s - figures.last_look_s) * 1000),
    )
    yield counter("sluicegate_log_cleanings_total", "Cleanings of logs", figures.cleanings)


def log_dir_families(failed_writes: int, *, failing: bool) -> Iterator[MetricFamily]:
    yield gauge(
        "sluicegate_log_directory_failing",
        "1 while writes to log.dirs fail, for example on a full disk; /readyz has the reason",
        failing,
    )
    yield counter("sluicegate_log_failed_writes_total", "Writes to log.dirs that failed", failed_writes)


def unused_configs_family(count: int) -> MetricFamily:
    return gauge(
        "sluicegate_config_values_not_applied",
        "Stored configuration values and limits that this broker cannot apply; /readyz has the reason",
        count,
    )


def access_families(acls: int, denied: Mapping[tuple[AclResource, AclOperation], int]) -> Iterator[MetricFamily]:
    """Return the metrics of access control on a node with an authorizer."""
    yield gauge("kafka_server_acls_total_count", "Access control lists (ACLs) in the metadata", acls)
    family = MetricFamily(
        "sluicegate_authorization_denied_total",
        "counter",
        "Denied operations by type of resource and operation, without those that only filter an answer",
    )
    for (resource, operation), count in sorted(denied.items()):
        family.add(count, resource=resource.name, operation=operation.name)
    yield family
