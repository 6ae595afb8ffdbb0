"""The simulation is not blind: each rule that is broken here on purpose is found within some seeds.

The number of seeds depends on every other line of the code, so a range of seeds is tried. The search begins at the seed
that first found the broken rule at the time of writing, and then tries the seeds before it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from broker_runtime.apis.sasl import authenticator
from broker_runtime.config import TopicConfig
from broker_runtime.controller import registration
from broker_runtime.controller.journal.file import FileJournal
from broker_runtime.controller.journal.kubernetes import KubernetesJournal
from broker_runtime.controller.partitions import elections, partition_changes
from broker_runtime.errors import KafkaError
from broker_runtime.metadata.areas.brokers import BrokerInfo
from broker_runtime.metadata.areas.topics import Partition
from broker_runtime.metadata.image import MetadataImage
from broker_runtime.metadata.record import MetadataRecord
from broker_runtime.replication.following import truncation
from broker_runtime.replication.following.follower import Cut, FollowerReplica
from broker_runtime.replication.leader import LeaderReplica
from broker_runtime.security.principal import ANONYMOUS
from broker_runtime.security.sasl import scram
from broker_runtime.security.sasl.exchange import SaslExchange
from broker_runtime.security.sasl.mechanism import Authenticated
from broker_runtime.slicing.steps import Steps
from broker_runtime.storage.disk.place import LogPlace
from broker_runtime.storage.log.log import Log
from broker_runtime.storage.log_dir.checkpoints import Checkpoints
from broker_runtime.storage.log_dir.loader import Promise, load_log
from broker_runtime.storage.records.producers import ProducerStates, StoredBatch
from broker_runtime.storage.recovery.recovery import RecoveryReport
from tests.simulation.broken_rules import Break, assert_found
from tests.simulation.cluster.shape import DEPOSED, HARSH, LOSSES, PIPELINED, SECURED, Shape

SEEDS = range(1_000, 1_080)
REPLACED = replace(
    HARSH,
    partitions=8,
    pause_max_s=1.0,
    delay_factor=5.0,
    faults=("power_loss", "kill", "cut_two"),
    fault_interval_s=0.4,
)
LOSSY = replace(HARSH, faults=LOSSES, fault_interval_s=0.8, delay_factor=5.0)
FULL = pytest.mark.full


def acknowledge_before_replication(monkeypatch: pytest.MonkeyPatch) -> None:
    """The high watermark follows the leader alone."""
    monkeypatch.setattr(LeaderReplica, "_electable", property(lambda self: self.isr[:0]))


def elect_outside_the_in_sync_set(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every election may be unclean."""
    monkeypatch.setattr(elections, "unclean_allowed", lambda topic, image: True)


def follow_without_truncation(monkeypatch: pytest.MonkeyPatch) -> None:
    """A follower takes for granted that its log is a beginning of the new leader's."""
    monkeypatch.setattr(truncation, "cut_for", lambda log, epoch, end: Cut(log.log_end_offset, True))


def count_a_removal_before_it_is_committed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A leader that is cut off shrinks the in-sync set on its own word (what KIP-497's maximal set is against)."""

    def as_wanted(self: LeaderReplica) -> Sequence[int]:
        isr = self.isr if self.pending is None else self.pending.isr
        return tuple(dict.fromkeys((*isr, *self.elr)))

    monkeypatch.setattr(LeaderReplica, "_electable", property(as_wanted))


def join_without_catching_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """The controller adds whoever asks: every replica that is alive is in sync as soon as anything changes."""
    real = elections.changed_partition

    def everybody(old: Partition, wanted: Partition, candidates: elections.Candidates) -> Partition:
        isr = tuple(r for r in wanted.replicas if r in wanted.isr or r in candidates.active)
        parts = (wanted.leader, wanted.leader_epoch, wanted.partition_epoch, wanted.adding, wanted.removing)
        return real(old, Partition(wanted.replicas, isr, *parts), candidates)

    monkeypatch.setattr(elections, "changed_partition", everybody)
    monkeypatch.setattr(partition_changes, "changed_partition", everybody)


def forget_producers(monkeypatch: pytest.MonkeyPatch) -> None:
    """A retried batch is appended again."""
    monkeypatch.setattr(ProducerStates, "duplicate_or_check", lambda *_: None)


def answer_before_the_journal_is_durable(monkeypatch: pytest.MonkeyPatch) -> None:
    """The controller does without fsync."""

    async def commit(self: Any) -> None:
        """Nothing."""

    monkeypatch.setattr(FileJournal, "commit", commit)


def fence_whoever_has_the_id(monkeypatch: pytest.MonkeyPatch) -> None:
    """The operator's order hits a broker that has come back since."""
    real = registration.registered

    def whatever_its_epoch(broker_id: int, epoch: int, image: MetadataImage) -> BrokerInfo:
        known = image.brokers.get(broker_id)
        return real(broker_id, epoch if known is None else known.epoch, image)

    monkeypatch.setattr(registration, "registered", whatever_its_epoch)


def count_progress_of_an_earlier_incarnation(monkeypatch: pytest.MonkeyPatch) -> None:
    """A follower that has lost power is taken to have what it had before (what KIP-903 is against)."""
    real = LeaderReplica.follow_brokers

    def of_whoever(self: LeaderReplica, brokers: Mapping[int, BrokerInfo], now_s: float) -> None:
        for replica, follower in self.followers.items():
            if replica in brokers:
                follower.broker_epoch = brokers[replica].epoch
        real(self, brokers, now_s)

    monkeypatch.setattr(LeaderReplica, "follow_brokers", of_whoever)


def acknowledge_without_the_eligible(monkeypatch: pytest.MonkeyPatch) -> None:
    """The high watermark moves on while a replica that is away may still be elected (what KIP-966 is against)."""

    def in_sync(self: LeaderReplica) -> Sequence[int]:
        asked = () if self.pending is None else self.pending.isr
        return tuple(dict.fromkeys((*self.isr, *asked)))

    monkeypatch.setattr(LeaderReplica, "_electable", property(in_sync))


def count_what_the_leader_has_not_synced(monkeypatch: pytest.MonkeyPatch) -> None:
    """With flush.messages=1 the leader acknowledges while its own sync is still to come."""
    real = Log.extend_to

    def at_once(self: Log, end: int) -> None:
        real(self, end)
        if self.on_counted is not None:
            self.counted_end = end
            self.advance_high_watermark(end if self.sole_replica else 0)

    monkeypatch.setattr(Log, "extend_to", at_once)


def report_what_the_follower_has_not_synced(monkeypatch: pytest.MonkeyPatch) -> None:
    """With flush.messages=1 a follower asks for what comes next as soon as it has written."""
    monkeypatch.setattr(FollowerReplica, "is_counted", property(lambda self: True))
    monkeypatch.setattr(Log, "waits_for_sync", property(lambda self: False))


def answer_deletions_before_the_followers_have_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """DeleteRecords is answered as soon as the leader's log has its new start."""
    monkeypatch.setattr(LeaderReplica, "low_watermark", property(lambda self: self.log.log_start_offset))


def stay_eligible_after_a_power_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    """The controller takes every incarnation for one that has lost nothing."""
    real = elections.leave

    def whole(broker_id: int, image: MetadataImage, *, unclean_shutdown: bool = False) -> Steps[list[MetadataRecord]]:
        return real(broker_id, image)

    monkeypatch.setattr(elections, "leave", whole)


def keep_what_was_said_of_a_deleted_log(monkeypatch: pytest.MonkeyPatch) -> None:
    """Entries of checkpoints outlive their partition and are believed of the next one of that name."""
    monkeypatch.setattr(Checkpoints, "forget", lambda self, key: None)


def cut_damaged_logs_in_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    """A log ends at the first damage, whatever it once had."""
    monkeypatch.setattr(Promise, "excuses", lambda self, damage: True)
    monkeypatch.setattr(Promise, "least_end", property(lambda self: 0))


@pytest.mark.parametrize(
    ("break_it", "first"),
    [
        pytest.param(acknowledge_before_replication, 1_000, marks=FULL),
        pytest.param(elect_outside_the_in_sync_set, 1_000, marks=FULL),
        (follow_without_truncation, 1_000),
        pytest.param(count_a_removal_before_it_is_committed, 1_011, marks=FULL),
        pytest.param(join_without_catching_up, 1_000, marks=FULL),
        pytest.param(forget_producers, 1_000, marks=FULL),
        pytest.param(answer_before_the_journal_is_durable, 1_000, marks=FULL),
        pytest.param(fence_whoever_has_the_id, 1_000, marks=FULL),
    ],
)
def test_a_broken_rule_is_found(break_it: Break, first: int) -> None:
    _finds(break_it, HARSH, first)


@FULL
@pytest.mark.parametrize(
    ("break_it", "first"),
    [
        (acknowledge_without_the_eligible, 1_009),
        (stay_eligible_after_a_power_loss, 1_003),
    ],
)
def test_a_broken_rule_about_lost_data_is_found(break_it: Break, first: int) -> None:
    _finds(break_it, LOSSY, first)


@FULL
@pytest.mark.parametrize(
    ("break_it", "replicas", "first"),
    [
        (count_what_the_leader_has_not_synced, 1, 1_000),
        (report_what_the_follower_has_not_synced, 3, 1_006),
    ],
)
def test_a_broken_rule_about_syncs_is_found(break_it: Break, replicas: int, first: int) -> None:
    shape = replace(HARSH, faults=("power_loss",), flush_messages=1, replication_factor=replicas)
    _finds(break_it, replace(shape, min_insync_replicas=min(replicas, 2)), first)


def serve_after_the_session(monkeypatch: pytest.MonkeyPatch) -> None:
    """A session lasts as long as its connection."""
    monkeypatch.setattr(SaslExchange, "has_ended", lambda self, now_s: False)


def become_another_user(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that authenticates again may be somebody else."""
    real = SaslExchange._prove

    def as_anybody(self: SaslExchange, proof: Authenticated, now_s: float, wall_ms: int) -> None:
        self.session = None
        real(self, proof, now_s, wall_ms)

    monkeypatch.setattr(SaslExchange, "_prove", as_anybody)


def keep_the_first_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """A request is handled under the name of the connection, which nobody sets."""
    monkeypatch.setattr(authenticator, "Principal", lambda kind, name: ANONYMOUS)


def accept_any_proof(monkeypatch: pytest.MonkeyPatch) -> None:
    """The proof of SCRAM is not compared."""
    monkeypatch.setattr(scram, "hmac", SimpleNamespace(compare_digest=lambda one, other: True))


@pytest.mark.parametrize(
    "break_it",
    [
        serve_after_the_session,
        pytest.param(become_another_user, marks=FULL),
        pytest.param(keep_the_first_name, marks=FULL),
        pytest.param(accept_any_proof, marks=FULL),
    ],
)
def test_a_broken_rule_about_sessions_is_found(break_it: Break) -> None:
    _finds(break_it, SECURED)


def take_any_sequence(monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch is appended though another, which was refused, should come before it."""
    real = ProducerStates.duplicate_or_check

    def lenient(self: ProducerStates, *asked: int) -> StoredBatch | None:
        try:
            return real(self, *asked)
        except KafkaError:
            return None

    monkeypatch.setattr(ProducerStates, "duplicate_or_check", lenient)


@FULL
def test_batches_in_flight_that_are_taken_out_of_order_are_found() -> None:
    _finds(take_any_sequence, PIPELINED)


@FULL
def test_an_early_answer_to_a_deletion_is_found() -> None:
    _finds(answer_deletions_before_the_followers_have_them, replace(HARSH, faults=("delete_records", "kill")), 1_028)


@FULL
def test_checkpoints_of_a_deleted_log_are_found() -> None:
    faults = ("topic_made_again", "delete_records", "kill")
    _finds(keep_what_was_said_of_a_deleted_log, replace(HARSH, faults=faults), 1_017)


def test_a_cut_in_silence_is_found() -> None:
    _finds(cut_damaged_logs_in_silence, replace(HARSH, faults=("damaged_end",)))


def keep_what_comes_after_a_lost_beginning(monkeypatch: pytest.MonkeyPatch) -> None:
    """A log that is cut where it is damaged may begin with any segment."""

    def load(place: LogPlace, config: TopicConfig, promise: Promise, report: RecoveryReport) -> Log:
        return load_log(place, config, promise if promise.whole else replace(promise, begin=-1), report)

    for module in ("manager", "startup_loader"):
        monkeypatch.setattr(f"broker_runtime.storage.log_dir.{module}.load_log", load)


@FULL
def test_a_lost_beginning_is_found() -> None:
    faults = ("lost_beginning", "kill", "controlled_restart", "elect_preferred")
    _finds(keep_what_comes_after_a_lost_beginning, replace(HARSH, faults=faults), 1_024)


def commit_whether_or_not_the_name_is_free(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who holds the lease takes it for the right to write."""

    async def overwrite(self: KubernetesJournal, base: int, data: bytes) -> None:
        name = self._names.batch(base)
        if not await self._patient.create(name, "batch", data):
            found = await self._patient.get(name)
            if found is not None:
                await self._patient.replace(name, "batch", data, found.version)

    monkeypatch.setattr(KubernetesJournal, "_create", overwrite)


@FULL
def test_two_controllers_that_both_commit_are_found() -> None:
    _finds(commit_whether_or_not_the_name_is_free, DEPOSED)


@FULL
@pytest.mark.timeout(900)
def test_progress_of_an_earlier_incarnation_is_found() -> None:
    """One seed in 180: the high watermark must stay while the follower is away, and the leader must die soon after."""
    _finds(count_progress_of_an_earlier_incarnation, REPLACED, 1_023, range(1_000, 1_300))


def _finds(break_it: Break, shape: Shape, first: int = 1_000, seeds: Sequence[int] = SEEDS) -> None:
    assert_found(break_it, shape, seeds, first)
