"""Logs without an end, as the coordinators of push groups see them: consumers read records that were never written.

Leaders are asked, and may be slow or away. Only the offsets in their answers are replaced.
"""

from broker_runtime.groups.epoch_ends import EpochEnds
from broker_runtime.groups.push.state.log_ends import Asked, End, Ends, Partition

_FAR = 1 << 60


class EndlessLogs(EpochEnds):
    def known_ends(self, asked: Asked) -> tuple[Ends, Asked]:
        known, others = super().known_ends(asked)
        return _endless(known), others

    async def _asked(self, leader: int, page: Asked) -> dict[Partition, End]:
        return _endless(await super()._asked(leader, page))


def _endless(ends: Ends) -> dict[Partition, End]:
    return {at: end._replace(offset=_FAR) for at, end in ends.items()}
