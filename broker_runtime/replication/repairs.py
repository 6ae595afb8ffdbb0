"""Mends the damaged ranges of this broker's replicas with batches of other brokers' replicas (decision 46).

This module decides when a replica is mended, `repairing` mends it. One task, one segment at a time. A follower asks its
leader first, a leader the in-sync replicas. Each answers only in the same leader epoch, in which all their logs agree.
Ranges that no replica can supply stay damaged. They are requested again with growing pauses, until a person accepts
their loss.
"""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from broker_runtime.clock import Clock
from broker_runtime.coordination.backoff import Backoff
from broker_runtime.metadata.image import MetadataImage
from broker_runtime.on_demand import Importer
from broker_runtime.replication.following.follower import FollowerReplica
from broker_runtime.replication.leader import LeaderReplica
from broker_runtime.replication.peer import Peers
from broker_runtime.storage.log.log import Log
from broker_runtime.storage.log_dir.manager import LogManager

log = logging.getLogger(__name__)

Key = tuple[str, int]
REPAIRING = "broker_runtime.replication.repairing"
"""The module `repairing`, imported when a replica is damaged (decision 45)."""
_SINCE_PROTOCOL = 5
"""Brokers of older protocol versions close the connection when they are asked for a range."""
_LOOK_S = 1.0
_LOAD_AGAIN_S = 30.0
_BACKOFF_MAX_S = 60.0
_NOT_TRIED = "the repair begins soon"
_SUSPECTED_MAX = 100
_NOTES_MAX = 20
_RANGES_NOTED_MAX = 5


@dataclass(slots=True)
class _State:
    """The repair of one damaged replica in one leader epoch."""

    leader_epoch: int
    backoff: Backoff = field(default_factory=lambda: Backoff(_BACKOFF_MAX_S))
    not_before_s: float = 0.0
    clause: str = _NOT_TRIED


@dataclass(frozen=True, slots=True)
class DamagedReplica:
    """A damaged replica in one leader epoch.

    It is led or followed here; `others` are the other brokers with a replica of the partition.
    """

    log: Log
    leader_epoch: int
    others: Sequence[int]
    leader: LeaderReplica | None = None
    follower: FollowerReplica | None = None


@dataclass(frozen=True, slots=True)
class OtherBrokers:
    """The other brokers of the cluster, and the links to them.

    An exchange with one of them takes at most `timeout_s` seconds.
    """

    me: int
    image: MetadataImage
    peers: Peers
    timeout_s: float

    def may_be_asked(self, broker_id: int) -> bool:
        broker = self.image.brokers.get(broker_id)
        return broker is not None and not broker.fenced and broker.protocol_versions[1] >= _SINCE_PROTOCOL


class Repairs:
    """Repairs the damaged logs of this broker from other replicas.

    `led` and `followed` are the current replicas of the manager. Only the mended segments are stored on disk.
    """

    def __init__(
        self,
        clock: Clock,
        logs: LogManager,
        others: OtherBrokers,
        led: Mapping[Key, LeaderReplica],
        followed: Mapping[Key, FollowerReplica],
    ) -> None:
        self._clock = clock
        self._logs = logs
        self._others = others
        self._led = led
        self._followed = followed
        self._states: dict[Key, _State] = {}
        self._suspected: dict[FollowerReplica, None] = {}
        self._found = asyncio.Event()
        self._importer = Importer()
        self._repairing: Any = None
        """The Repairing of `repairing`; None before it is needed."""
        logs.damage.on_found = self._found.set

    def state_of(self, key: Key) -> str:
        """Return the state of the repair of a damaged replica, as half a sentence."""
        state = self._states.get(key)
        return _NOT_TRIED if state is None else state.clause

    def notes(self) -> list[str]:
        """Return a sentence about each damaged replica, up to a limit."""
        damaged = self._logs.damage.logs()
        notes = []
        for each in damaged[:_NOTES_MAX]:
            ranges = each.damage
            shown = ", ".join(f"{one.first_offset} to {one.next_offset - 1}" for one in ranges[:_RANGES_NOTED_MAX])
            more = "" if len(ranges) <= _RANGES_NOTED_MAX else f" and {len(ranges) - _RANGES_NOTED_MAX} more ranges"
            clause = self.state_of((each.topic, each.partition))
            notes.append(f"{each.place} is damaged at offsets {shown}{more} ({ranges[0].reason}): {clause}")
        more_logs = len(damaged) - _NOTES_MAX
        return [*notes, f"{more_logs} more replicas are damaged"] if more_logs > 0 else notes

    def suspect_leader(self, replica: FollowerReplica) -> None:
        """Ask the leader soon to check its own file, because the leader has sent a damaged batch."""
        if len(self._suspected) < _SUSPECTED_MAX:
            self._suspected[replica] = None
            self._found.set()

    async def run(self) -> None:
        """Mend damaged replicas until cancelled."""
        while True:
            damaged = self._logs.damage.logs()
            if not damaged and not self._suspected:
                self._states.clear()
                await self._found.wait()
                self._found.clear()
                continue
            if not await self._is_loaded():
                await asyncio.sleep(_LOAD_AGAIN_S)
                continue
            await self._ask_suspected()
            for each in damaged:
                await self._check(each)
            await asyncio.sleep(_LOOK_S)

    async def _is_loaded(self) -> bool:
        """Import the code that mends; False when that fails, for example while no file can be opened."""
        if self._repairing is None:
            try:
                code = await self._importer.load(REPAIRING)
            except Exception:
                log.exception("the code that repairs logs cannot be loaded; retrying")
                return False
            self._repairing = code.Repairing(self._others, self._logs.damage, self._is_current)
        return True

    async def _ask_suspected(self) -> None:
        """Request a range from each suspected leader: a broker checks each batch of a requested range."""
        suspected, self._suspected = self._suspected, {}
        for replica in suspected:
            if self._others.may_be_asked(replica.leader):
                leader = [replica.leader]
                asked = DamagedReplica(replica.log, replica.leader_epoch, leader, follower=replica)
                await self._repairing.ask_leader(asked)

    async def _check(self, damaged: Log) -> None:
        key = damaged.topic, damaged.partition
        leader, follower = self._led.get(key), self._followed.get(key)
        now_s = self._clock.monotonic()
        if leader is not None and leader.log is damaged and leader.leader_epoch >= 0:
            others = dict.fromkeys((*leader.isr, *leader.replicas))
            leader.damage_changed()
            replica = DamagedReplica(
                damaged, leader.leader_epoch, [each for each in others if each != self._others.me], leader
            )
        elif follower is not None and follower.log is damaged and follower.truncated:
            topic = self._others.image.topics.get(damaged.topic)
            part = None if topic is None else topic.partitions.get(damaged.partition)
            others = dict.fromkeys((follower.leader, *(() if part is None else (*part.isr, *part.replicas))))
            asked = [each for each in others if each != self._others.me]
            replica = DamagedReplica(damaged, follower.leader_epoch, asked, follower=follower)
        else:
            return
        state = self._states.get(key)
        if state is None or state.leader_epoch != replica.leader_epoch:
            state = self._states[key] = _State(replica.leader_epoch)
        if state.not_before_s <= now_s:
            await self._mend(replica, state)

    async def _mend(self, replica: DamagedReplica, state: _State) -> None:
        why = await self._repairing.mend(replica)
        if why is None:
            state.clause = "it is repaired"
            state.backoff.succeeded()
        else:
            if state.backoff.is_news(why):
                log.warning("%s cannot be repaired; retrying: %s", replica.log.place, why)
            state.clause = f"it cannot be repaired; retrying: {why}"
            state.not_before_s = self._clock.monotonic() + state.backoff.failed()
        if replica.follower is not None:
            replica.follower.changed()
        if replica.leader is not None and self._is_current(replica):
            replica.leader.damage_changed()

    def _is_current(self, replica: DamagedReplica) -> bool:
        key = replica.log.topic, replica.log.partition
        known = self._led.get(key) if replica.follower is None else self._followed.get(key)
        return known is not None and known.log is replica.log and known.leader_epoch == replica.leader_epoch
