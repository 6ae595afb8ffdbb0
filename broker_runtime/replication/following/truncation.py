"""Cuts the logs of replicas that follow a new leader to the part that both logs share (KIP-101, KIP-279)."""

import logging
from collections.abc import Sequence

from broker_runtime.clock import Clock
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.replication.following.fetch_failures import FetchFailures
from broker_runtime.replication.following.follower import FollowerReplica, cut_for
from broker_runtime.replication.following.follower_session import FollowerSession
from broker_runtime.replication.following.leader_questions import EpochEnd, Exchange, epoch_ends, log_start
from broker_runtime.storage.log.follower_log import FollowerLog

log = logging.getLogger(__name__)

_EPOCHS_PER_REQUEST = 1_000


class Truncation:
    """Truncates the replicas of one session, durably. `exchange` sends requests to their leader."""

    def __init__(
        self,
        leader: int,
        broker_id: int,
        exchange: Exchange,
        session: FollowerSession,
        failures: FetchFailures,
        clock: Clock,
    ) -> None:
        self._leader = leader
        self._broker_id = broker_id
        self._exchange = exchange
        self._session = session
        self._failures = failures
        self._clock = clock

    async def run(self) -> bool:
        """Run one round for the replicas that follow a new leader; return whether there were any."""
        now_s = self._clock.monotonic()
        new = [r for r in self._session.to_look if not r.truncated and r.not_before_s <= now_s]
        asked = []
        for replica in new[:_EPOCHS_PER_REQUEST]:
            if replica.log.latest_epoch >= 0:
                asked.append(replica)
            else:
                # Nothing here was written under an epoch, so there is nothing to compare.
                self._cut(replica, replica.log.high_watermark, final=True)
        if asked:
            await self._ask_epochs(asked)
        return bool(new)

    async def _ask_epochs(self, asked: Sequence[FollowerReplica]) -> None:
        ends = await epoch_ends(self._exchange, self._broker_id, asked)
        for replica, end in ends.items():
            if self._session.holds(replica):
                self._take_epoch(replica, end)

    def _take_epoch(self, replica: FollowerReplica, end: EpochEnd) -> None:
        if end.code != ErrorCode.NONE:
            self._failures.reported_by_leader(replica, end.code)
            return
        cut = cut_for(replica.log, end.leader_epoch, end.end_offset)
        self._cut(replica, cut.offset, final=cut.final)

    def _cut(self, replica: FollowerReplica, offset: int, *, final: bool) -> None:
        if offset < replica.log.log_end_offset:
            log.info(
                "%s is truncated from %d to %d to follow broker %d in epoch %d",
                *(replica, replica.log.log_end_offset, offset, self._leader, replica.leader_epoch),
            )
            try:
                FollowerLog(replica.log).truncate_to(offset)
            except (OSError, KafkaError) as error:
                self._failures.of_storage(replica, error)
                return
        replica.truncated = final

    async def begin_at_leaders_start(self, replica: FollowerReplica) -> None:
        """Restart the log at the leader's start if the leader has deleted the next offsets.

        Otherwise compare epochs again.
        """
        start = await log_start(self._exchange, self._broker_id, replica)
        if not self._session.holds(replica):
            return
        if start.code != ErrorCode.NONE:
            self._failures.reported_by_leader(replica, start.code)
        elif start.offset > replica.log.log_end_offset:
            log.warning(
                "%s starts again at %d: the leader has deleted the records after %d",
                *(replica, start.offset, replica.log.log_end_offset),
            )
            try:
                FollowerLog(replica.log).restart_at(start.offset)
            except (OSError, KafkaError) as error:
                self._failures.of_storage(replica, error)
        else:
            replica.truncated = False
            replica.failed(self._clock.monotonic())
