"""Mends one damaged replica: requests the batches from other brokers, and puts them into the log (decision 46).

`repairs` decides when, and imports this module when the first replica is damaged (decision 45).
"""

import asyncio
import logging
from collections.abc import Callable, Sequence

from broker_runtime.config import LONG_MAX
from broker_runtime.errors import ErrorCode, KafkaError, ProtocolError
from broker_runtime.replication.peer import PeerLink
from broker_runtime.replication.repairs import DamagedReplica, OtherBrokers
from broker_runtime.replication.replica_ranges import RANGE_BYTES_MAX
from broker_runtime.storage.damage.damage_watch import DamageWatch
from broker_runtime.storage.damage.mending import MissingBatches, NotSuppliedError, Supplied, mend
from broker_runtime.storage.log.follower_log import FollowerLog
from broker_runtime.storage.log.log import Log
from broker_runtime.storage.log.replacing import ReplacingStoppedError
from broker_runtime.storage.segment.damaged_ranges import DamagedRange
from broker_runtime.storage.segment.segment import Segment
from broker_runtime.wire.messages import decode_response, encode_request_body
from kafka_bytes.own_keys import REPLICA_RANGE

log = logging.getLogger(__name__)

_REASONS_MAX = 3
_ONLY_COPY = (
    "it is the only replica; stop the broker and restore the file, or accept the loss with `sluicegate damage accept`"
)


class _Supply:
    """Gets batches from the first of `sources` that has them; `given_by` is the source of the last ones.

    A source that does not answer is not asked again: it would delay all other damaged replicas.
    """

    def __init__(
        self,
        replica: DamagedReplica,
        sources: Sequence[int],
        brokers: OtherBrokers,
        is_current: Callable[[DamagedReplica], bool],
    ) -> None:
        self.sources = sources
        self.given_by = -1
        self.lacking: list[bool] = []
        """Whether the leader has reported that it lacks the same batches, one item for each failure."""
        self._replica = replica
        self._brokers = brokers
        self._is_current = is_current
        self._links: dict[int, PeerLink] = {}
        self._silent: dict[int, str] = {}
        """Why sources did not answer."""
        self._leader_lacks_it = False

    async def some(self, wanted: MissingBatches) -> Supplied:
        """Batches for `wanted`. Raises NotSuppliedError, and ReplacingStoppedError if the leader epoch has changed."""
        why = []
        self._leader_lacks_it = False
        for source in sorted(self.sources, key=lambda each: each != self.given_by):
            supplied: Supplied | None = None
            try:
                if source not in self._silent:
                    supplied = await self._asked(source, wanted)
            except KafkaError as error:
                why.append(f"broker {source}: {error}")
            if not self._is_current(self._replica):
                raise ReplacingStoppedError(f"{self._replica.log.place} has a new leader epoch")
            if supplied is not None:
                self.given_by = source
                return supplied
            if source in self._silent:
                why.append(f"broker {source}: {self._silent[source]}")
        self.lacking.append(self._leader_lacks_it)
        if not self._replica.others:
            raise NotSuppliedError(_ONLY_COPY)
        offsets = f"offsets {wanted.offset} to {wanted.next_offset - 1}"
        raise NotSuppliedError(f"no other replica has {offsets}: {'; '.join(why) or 'no other replica is available'}")

    async def _asked(self, source: int, wanted: MissingBatches) -> Supplied | None:
        """Return the source's batches; None if it does not answer. Raises KafkaError if it does not have them."""
        damaged, follower = self._replica.log, self._replica.follower
        request = {
            "topic_id": damaged.topic_id,
            "partition": damaged.partition,
            "leader_epoch": self._replica.leader_epoch,
            "offset": wanted.offset,
            "next_offset": wanted.next_offset,
            "max_bytes": RANGE_BYTES_MAX,
        }
        link = self._links.get(source)
        if link is None:
            link = self._links[source] = self._brokers.peers.link_to(source)
        try:
            async with asyncio.timeout(self._brokers.timeout_s):
                body = await link.exchange(REPLICA_RANGE, 0, encode_request_body(REPLICA_RANGE, 0, request))
            answer = decode_response(REPLICA_RANGE, 0, body)
        except (KafkaError, ProtocolError, TimeoutError) as error:
            # Responses come in the order of requests: a late one would be read as the next one.
            link.close()
            self._silent[source] = str(error) or "no response in time"
            return None
        is_leader = follower is not None and source == follower.leader
        if is_leader and answer.log_start_offset > damaged.log_start_offset:
            # The leader has deleted the requested offsets.
            FollowerLog(damaged).move_start(answer.log_start_offset)
        code = ErrorCode(int(answer.error_code))
        if is_leader:
            self._leader_lacks_it = code == ErrorCode.CORRUPT_MESSAGE
        if code != ErrorCode.NONE:
            raise KafkaError(code, answer.error_message or "")
        return Supplied(answer.records, answer.covered_to, answer.may_have_gaps)

    def close(self) -> None:
        for link in self._links.values():
            link.close()


class Repairing:
    """Repairs of damaged ranges of replicas.

    `is_current` returns whether a replica still has the leader epoch in which its damage was found.
    """

    def __init__(self, others: OtherBrokers, damage: DamageWatch, is_current: Callable[[DamagedReplica], bool]) -> None:
        self._others = others
        self._damage = damage
        self._is_current = is_current

    async def ask_leader(self, replica: DamagedReplica) -> None:
        """Ask the leader to check the batches after the end of this follower. The response itself is not used."""
        supply = _Supply(replica, replica.others, self._others, self._is_current)
        try:
            await supply.some(MissingBatches(replica.log.log_end_offset, LONG_MAX))
        except (KafkaError, OSError, ReplacingStoppedError, NotSuppliedError) as error:
            log.info("%s: the leader was asked to check the batches that it sent: %s", replica.follower, error)
        finally:
            supply.close()

    async def mend(self, replica: DamagedReplica) -> str | None:
        """Mend the damaged segments from the other replicas.

        Returns why a part stays damaged; None when all is mended.
        """
        damaged, why = replica.log, list[str]()
        sources = [broker for broker in replica.others if self._others.may_be_asked(broker)]
        supply = _Supply(replica, sources, self._others, self._is_current)
        try:
            for segment in [each for each in damaged.segments if _counts(each, damaged)]:
                if not any(each is segment for each in damaged.segments):
                    continue
                failures = len(supply.lacking)
                try:
                    await self._mend_segment(replica, segment, supply)
                except (KafkaError, OSError, ReplacingStoppedError, NotSuppliedError) as error:
                    why.append(str(error))
                    if len(supply.lacking) == failures:
                        supply.lacking.append(False)
                if not self._is_current(replica):
                    break
        finally:
            supply.close()
        if replica.follower is not None:
            replica.follower.leader_lacks_it = bool(why) and all(supply.lacking)
        if not why:
            return None
        more = len(why) - _REASONS_MAX
        return "; ".join(why[:_REASONS_MAX]) + (f"; and {more} more segments" if more > 0 else "")

    async def _mend_segment(self, replica: DamagedReplica, segment: Segment, supply: _Supply) -> None:
        damaged, ranges = replica.log, segment.damage
        if ranges[0].first_offset < damaged.first_dirty_offset:
            sources = supply.sources
            try:
                await self._mend_cleaned(replica, ranges, supply)
            finally:
                supply.sources = sources
            self._mended(replica, ranges, supply)
            return
        try:
            await mend(damaged, segment, supply.some)
        except NotSuppliedError:
            # A part of it may be mended.
            self._mended(replica, ranges, supply)
            raise
        self._mended(replica, ranges, supply)

    def _mended(self, replica: DamagedReplica, ranges: Sequence[DamagedRange], supply: _Supply) -> None:
        """Log and count which of these offsets can be read now."""
        left = replica.log.damage
        for each in ranges:
            stays = next((one for one in left if each.first_offset <= one.first_offset < each.next_offset), None)
            end = each.next_offset if stays is None else stays.first_offset
            if end > each.first_offset:
                offsets = each.first_offset, end - 1
                log.warning(
                    "offsets %d to %d of %s were repaired from broker %d", *offsets, replica.log.place, supply.given_by
                )
            self._damage.mended_ranges += stays is None

    async def _mend_cleaned(self, replica: DamagedReplica, ranges: Sequence[DamagedRange], supply: _Supply) -> None:
        """Mend damage in a part of the log that was cleaned.

        After the damage the cleaner may have dropped a tombstone. If a less cleaned replica mended only the damage, an
        older record would bring the tombstone's key back. So a follower fetches everything from there again, once its
        leader has shown that it has the damaged offsets. A leader hands over to a replica that has them.

        The follower is cut only while it cannot be elected, and only if its leader can read all that is cut.
        """
        follower, leader = replica.follower, replica.leader
        may_give = leader.isr if leader is not None else () if follower is None else (follower.leader,)
        supply.sources = [broker for broker in supply.sources if broker in may_give]
        for each in ranges:
            offset = max(each.first_offset, replica.log.log_start_offset)
            while offset < each.next_offset:
                offset = (await supply.some(MissingBatches(offset, each.next_offset))).covered_to
        if leader is not None:
            leader.hands_over = True
            raise NotSuppliedError(
                "the damage is in a part that was cleaned, and is repaired once another broker leads"
            )
        await self._check_rest(replica, ranges[-1].next_offset, supply)
        self._check_not_electable(replica)
        first, end = ranges[0].first_offset, replica.log.log_end_offset
        log.warning("%s is truncated from %d to %d: a part that was cleaned is damaged", replica.log.place, end, first)
        FollowerLog(replica.log).truncate_to(first)

    async def _check_rest(self, replica: DamagedReplica, offset: int, supply: _Supply) -> None:
        """Have the leader read everything from `offset` on that this follower has: it may be damaged there, too."""
        self._check_not_electable(replica)
        offset, end = max(offset, replica.log.log_start_offset), replica.log.log_end_offset
        try:
            while offset < end:
                offset = (await supply.some(MissingBatches(offset, end))).covered_to
        except NotSuppliedError:
            # The leader lacks other offsets than those damaged here.
            supply.lacking[-1] = False
            raise

    def _check_not_electable(self, replica: DamagedReplica) -> None:
        """Raise NotSuppliedError if this replica may be elected.

        If it led before it has fetched the cut records again, acknowledged records would be lost.
        """
        topic = self._others.image.topics.get(replica.log.topic)
        part = None if topic is None else topic.partitions.get(replica.log.partition)
        me, cut = self._others.me, "the damage is in a part that was cleaned; the log is fetched again from there"
        if part is not None and me in part.isr:
            raise NotSuppliedError(f"{cut} once this broker has left the in-sync set")
        if part is not None and me in part.elr:
            raise NotSuppliedError(
                f"{cut} once this broker is not an eligible leader: restart this broker, which ends its eligibility"
            )


def _counts(segment: Segment, damaged: Log) -> bool:
    return any(each.next_offset > damaged.log_start_offset for each in segment.damage)
