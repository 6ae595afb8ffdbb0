"""From the parts' own figures to Prometheus metric families, made when somebody asks. Knows no arithmetic."""

from collections.abc import Iterable, Iterator

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.process_collector import ProcessCollector

from broker_runtime.apis.request_metrics import RequestCount
from broker_runtime.metadata.figures import ControllerFigures, ReplicationFigures
from broker_runtime.network.metrics import Sample
from broker_runtime.turn_lengths import BOUNDS_S, TurnLengths

_PROCESS = ProcessCollector(registry=None)


def families(samples: Iterable[Sample]) -> Iterator[Metric]:
    """Groups samples by name, keeping their order."""
    found: dict[str, CounterMetricFamily | GaugeMetricFamily] = {}
    for sample in samples:
        family = found.get(sample.name)
        if family is None:
            kind = CounterMetricFamily if sample.kind == "counter" else GaugeMetricFamily
            family = found[sample.name] = kind(sample.name, sample.help, labels=tuple(sample.labels))
        family.add_metric(tuple(sample.labels.values()), sample.value)
    yield from found.values()


def process_families() -> Iterable[Metric]:
    """Memory, descriptors, CPU and start time of this process, where the system tells them."""
    return _PROCESS.collect()


def request_families(counts: Iterable[RequestCount]) -> Iterator[Metric]:
    total = CounterMetricFamily("kafka_network_request_total", "Requests by API", labels=("request",))
    failed = CounterMetricFamily(
        "kafka_network_request_errors_total", "Requests that ended their connection, by API", labels=("request",)
    )
    time = CounterMetricFamily(
        "kafka_network_request_time_seconds_total",
        "Time from reading requests to answering them, waits included, by API",
        labels=("request",),
    )
    for count in counts:
        total.add_metric((count.request,), count.total)
        failed.add_metric((count.request,), count.failed)
        time.add_metric((count.request,), count.time_s)
    yield from (total, failed, time)


def turn_families(turns: Iterable[TurnLengths], delays: TurnLengths, now_s: float) -> Iterator[Metric]:
    """How long the event loop was held at a time, by work; `delays` has how late its timers ran."""
    prefix = "sluicegate_event_loop_"
    lengths = HistogramMetricFamily(
        prefix + "turn_seconds", "How long one kind of work held the event loop at a time", labels=("work",)
    )
    longest = GaugeMetricFamily(
        prefix + "turn_max_seconds", "Longest turn of the last one to two minutes", labels=("work",)
    )
    for turn in turns:
        lengths.add_metric((turn.work,), _buckets(turn), turn.total_s)
        longest.add_metric((turn.work,), turn.longest_s(now_s))
    yield from (lengths, longest)
    late = "How late a timer of the event loop ran: for as long the loop had no time for anything else"
    yield HistogramMetricFamily(prefix + "delay_seconds", late, buckets=_buckets(delays), sum_value=delays.total_s)
    yield _gauge(prefix + "delay_max_seconds", "Longest delay of the last one to two minutes", delays.longest_s(now_s))


def _buckets(turns: TurnLengths) -> list[tuple[str, float]]:
    return list(zip([*map(str, BOUNDS_S), "+Inf"], turns.cumulated(), strict=True))


def membership_families(state: int, epoch: int, *, fenced: bool, self_fenced: bool) -> Iterator[Metric]:
    yield _gauge("kafka_server_broker_state", "Kafka's BrokerState of this broker: 3 is running", state)
    yield _gauge("sluicegate_broker_epoch", "Epoch of this broker's registration", epoch)
    yield _gauge("sluicegate_broker_fenced", "1 while this broker serves no clients", fenced)
    yield _gauge(
        "sluicegate_broker_self_fenced",
        "1 while this broker serves no clients because the controller does not answer",
        self_fenced,
    )


def metadata_families(offset: int, lag_records: int) -> Iterator[Metric]:
    """`lag_records` as of the last answer of the controller; 0 for a node that writes the metadata itself."""
    yield _gauge("sluicegate_metadata_offset", "Last metadata record that this node has applied", offset)
    yield _gauge(
        "kafka_server_broker_metadata_metrics_last_applied_record_offset",
        "Last metadata record that this node has applied",
        offset,
    )
    yield _gauge("sluicegate_metadata_lag_records", "Metadata records that this node has not applied yet", lag_records)


def controller_families(figures: ControllerFigures) -> Iterator[Metric]:
    """Zeroes but on the active controller, as in Kafka."""
    prefix = "kafka_controller_"
    yield _gauge(prefix + "active_controller_count", "1 on the active controller", figures.active)
    yield _gauge(prefix + "active_broker_count", "Brokers that are registered and unfenced", figures.active_brokers)
    yield _gauge(prefix + "fenced_broker_count", "Brokers that are registered and fenced", figures.fenced_brokers)
    yield _gauge(prefix + "global_topic_count", "Topics of the cluster", figures.topics)
    yield _gauge(prefix + "global_partition_count", "Partitions of the cluster", figures.partitions)
    yield _gauge(prefix + "offline_partitions_count", "Partitions without a leader", figures.offline_partitions)
    yield _gauge(
        prefix + "preferred_replica_imbalance_count",
        "Partitions whose leader is not their first replica",
        figures.preferred_replica_imbalance,
    )


def replication_families(figures: ReplicationFigures) -> Iterator[Metric]:
    prefix = "kafka_server_replica_manager_"
    yield _gauge(prefix + "partition_count", "Partitions this broker has a replica of", figures.partitions)
    yield _gauge(prefix + "leader_count", "Partitions this broker leads", figures.leaders)
    yield _gauge(
        prefix + "under_replicated_partitions", "Led partitions with a replica out of sync", figures.under_replicated
    )
    yield _gauge(
        prefix + "under_min_isr_partition_count",
        "Led partitions with fewer replicas in sync than min.insync.replicas",
        figures.under_min_isr,
    )
    yield _gauge(
        prefix + "at_min_isr_partition_count",
        "Led partitions with exactly min.insync.replicas in sync",
        figures.at_min_isr,
    )
    yield CounterMetricFamily(
        prefix + "isr_shrinks_total", "Replicas' departures from in-sync sets of led partitions", figures.isr_shrinks
    )
    yield CounterMetricFamily(
        prefix + "isr_expands_total", "Replicas' returns to in-sync sets of led partitions", figures.isr_expands
    )


def storage_families(stray_folders: int, offline_replicas: int) -> Iterator[Metric]:
    yield _gauge(
        "kafka_server_replica_manager_offline_replica_count",
        "Replicas that this broker should have and cannot serve: damaged, set aside, or their files cannot be opened",
        offline_replicas,
    )
    yield _gauge(
        "sluicegate_log_stray_folders",
        "Folders of logs that were set aside because the metadata does not name them; a person may remove them",
        stray_folders,
    )


def unused_configs_family(count: int) -> Metric:
    return _gauge(
        "sluicegate_config_values_not_applied",
        "Stored configuration values and limits that this broker cannot apply; /readyz says which and why",
        count,
    )


def _gauge(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(name, text, value=value)
