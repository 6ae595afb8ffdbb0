"""The metrics of one process, from the parts that exist so far. Shell."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from importlib import import_module

from broker_runtime.exposition import MetricFamily
from broker_runtime.metadata.metrics import (
    ControllerMetrics,
    OncePerState,
    ReplicationMetrics,
    controller_figures,
    replication_figures,
)
from broker_runtime.node.broker_node import BrokerNode
from broker_runtime.node.controller_node import ControllerNode
from broker_runtime.node.metrics import (
    UNSTABLE_PARTITIONS_MAX,
    access_families,
    cleaner_families,
    controller_families,
    coordinator_families,
    damage_families,
    families,
    garbage_family,
    group_lag_families,
    group_tally_families,
    log_dir_families,
    membership_families,
    metadata_families,
    push_families,
    replication_families,
    request_families,
    slice_families,
    storage_families,
    transaction_families,
    unused_configs_family,
)
from broker_runtime.node.node_parts import NodeParts
from broker_runtime.node.process.loop_watch import LoopWatch
from broker_runtime.node.process.process_metrics import process_families
from broker_runtime.security.acls.model import AclOperation, AclResource


class NodeMetrics:
    """The metrics of a node for /metrics.

    Numbers that take a walk over the metadata are kept until the metadata changes.
    """

    def __init__(self, parts: NodeParts, watch: LoopWatch | None) -> None:
        """`watch` observes this process's event loop, if it is a real one."""
        self._parts = parts
        self._watch = watch
        self._replication: OncePerState[ReplicationMetrics] = OncePerState()
        self._control: OncePerState[ControllerMetrics] = OncePerState()

    def collect(self) -> Iterator[MetricFamily]:
        """Yield the present metrics of all parts of the node."""
        parts = self._parts
        clock, broker, controller = parts.clock, parts.broker, parts.controller
        yield from process_families()
        serving = broker or controller
        if serving is not None:
            yield from families(serving.server.collect())
            yield from families(serving.tls.collect())
            yield from request_families(serving.request_metrics.collect())
            yield from self._slice_families()
            yield from self._access_families()
            if (log_dir := parts.log_dir_health) is not None:
                yield from log_dir_families(log_dir.failed_writes, failing=log_dir.failure is not None)
            lag = 0 if parts.follower is None else parts.follower.lag
            yield from metadata_families(serving.image.offset, lag)
        if controller is not None:
            yield from controller_families(self._controller_figures(controller))
            yield from controller.mutations.collect()
        member = None if parts.membership is None else parts.membership.status
        if broker is not None and member is not None:
            yield from membership_families(
                member.state, member.epoch, fenced=not member.serving, self_fenced=member.self_fenced
            )
            yield from replication_families(self._replication_figures(broker))
            yield from cleaner_families(broker.logs.cleaner.figures, clock.monotonic())
            yield from storage_families(len(broker.logs.strays), len(broker.replicas.offline))
            yield from transaction_families(broker.logs.upkeep.stable_offset_lags(UNSTABLE_PARTITIONS_MAX))
            damage = broker.logs.damage
            yield from damage_families(damage.count, damage.mended_ranges, damage.accepted_ranges)
            yield from coordinator_families(broker.groups.figures())
            yield from _transaction_families(broker)
            groups = broker.groups
            yield from group_tally_families(groups.tally, groups.census.groups)
            yield from push_families(groups.push_consumers, groups.tally.push)
            if parts.settings.config.sluicegate_group_lag_groups_max > 0:
                behind = broker.group_lag
                yield from group_lag_families(behind.shown.figures, behind.age_s())
            yield from broker.client_quotas.collect()
            if parts.connection_shares is not None:
                yield from families(parts.connection_shares.collect())
            yield unused_configs_family(len(broker.limits.problems) + len(broker.listeners.problems))
            yield from broker.observers.collect()

    def _access_families(self) -> Iterator[MetricFamily]:
        nodes = [node for node in (self._parts.broker, self._parts.controller) if node is not None]
        denied: Counter[tuple[AclResource, AclOperation]] = Counter()
        for node in nodes:
            if node.authorization is not None:
                denied.update(node.authorization.denials.counts)
        if nodes[0].authorization is not None:
            yield from access_families(len(nodes[0].image.acls), denied)

    def _slice_families(self) -> Iterator[MetricFamily]:
        if self._watch is None:
            return
        parts = self._parts
        broker, controller = parts.broker, parts.controller
        slices = [self._watch.tasks, self._watch.garbage.lengths]
        if parts.wakes is not None:
            slices.append(parts.wakes.lengths)
        slices.extend(node.slices.lengths for node in (broker, controller) if node is not None)
        if broker is not None:
            slices.extend((broker.metadata.reactions.lengths, *broker.server.slice_lengths))
        elif controller is not None:
            slices.extend(controller.server.slice_lengths)
        yield from slice_families(slices, self._watch.delays, parts.clock.monotonic())
        yield garbage_family(self._watch.garbage.found)

    def _replication_figures(self, node: BrokerNode) -> ReplicationMetrics:
        me, changes = self._parts.settings.node_id, node.replicas.in_sync_sets.counts
        figures = self._replication.get(
            node.image,
            lambda: replication_figures(
                node.image, me, lambda topic: node.metadata.topic_config(topic).min_insync_replicas, (0, 0)
            ),
        )
        return replace(figures, isr_shrinks=changes.shrinks, isr_expands=changes.expands)

    def _controller_figures(self, node: ControllerNode) -> ControllerMetrics:
        if not node.controller.active:
            return controller_figures(node.image, active=False)
        return self._control.get(node.image, lambda: controller_figures(node.image, active=True))


def _transaction_families(broker: BrokerNode) -> Iterator[MetricFamily]:
    """Yield the metrics of transactions once this broker has something to do with them (decision 45)."""
    transactions = broker.transactions
    if transactions.existing is not None or transactions.existing_verifier is not None:
        families_of = import_module("broker_runtime.node.transaction_metrics").families_of
        leaders = broker.replicas.led_replicas.leaders.values()
        late_ms = broker.clock.wall_ms() - broker.settings.config.transaction_max_timeout_ms
        yield from families_of(transactions.existing, transactions.existing_verifier, leaders, late_ms)
