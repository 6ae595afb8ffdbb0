"""Which replicas should be in sync, as far as their leader knows (KIP-16, KIP-497, KIP-903). Pure.

A leader whose log has damage that cannot be mended while it leads leaves the set itself, which is a hand-over.
"""

from collections.abc import Mapping

from broker_runtime.metadata.areas.brokers import BrokerInfo
from broker_runtime.replication.leader import UNKNOWN, LeaderReplica, PendingIsrChange, unshared_damage


def wanted_change(
    leader: LeaderReplica, brokers: Mapping[int, BrokerInfo], now_s: float, lag_max_s: float, me_epoch: int
) -> PendingIsrChange | None:
    """Return the in-sync set to request from the controller.

    None when the current set is right, or a change is already pending.
    """
    if leader.pending is not None:
        return None
    handed_over = _handed_over(leader, brokers) if leader.hands_over or unshared_damage(leader) is not None else ()
    if handed_over:
        return PendingIsrChange(
            handed_over, {r: leader.followers[r].broker_epoch for r in handed_over}, leader.partition_epoch
        )
    joining = [r for r in leader.followers if r not in leader.isr and _may_join(leader, r, brokers)]
    leaving = {r for r in leader.isr if r != leader.me and _has_fallen_behind(leader, r, now_s, lag_max_s)}
    if not joining and not leaving:
        return None
    isr = (*(r for r in leader.isr if r not in leaving), *joining)
    epochs = {r: me_epoch if r == leader.me else leader.followers[r].broker_epoch for r in isr}
    return PendingIsrChange(isr, epochs, leader.partition_epoch)


def _handed_over(leader: LeaderReplica, brokers: Mapping[int, BrokerInfo]) -> tuple[int, ...]:
    """Return the other members of the in-sync set that may lead; none if too few would be left for acks=all."""
    others = tuple(r for r in leader.isr if r in leader.followers and r in brokers and brokers[r].active)
    is_stuck = unshared_damage(leader) is not None
    enough = min(leader.log.config.min_insync_replicas, len(leader.replicas))
    return others if is_stuck or len(others) >= enough else ()


def _may_join(leader: LeaderReplica, replica: int, brokers: Mapping[int, BrokerInfo]) -> bool:
    broker, follower, log = brokers.get(replica), leader.followers[replica], leader.log
    return (
        broker is not None
        and broker.active
        and broker.epoch == follower.broker_epoch
        and follower.end_offset >= max(log.high_watermark, leader.start_offset)
        and (follower.log_start == UNKNOWN or follower.log_start >= log.log_start_offset)
    )


def _has_fallen_behind(leader: LeaderReplica, replica: int, now_s: float, lag_max_s: float) -> bool:
    follower = leader.followers.get(replica)
    if follower is None:
        return True
    return follower.end_offset != leader.log.log_end_offset and now_s - follower.caught_up_s > lag_max_s
