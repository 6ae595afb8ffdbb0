"""Members of other protocols and a group of the push protocol: it is occupied while it has consumers."""

import pytest

from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.groups.classic.heartbeats import heartbeat as classic_heartbeat
from broker_runtime.groups.classic.joining import join
from broker_runtime.groups.classic.leaving import leave
from broker_runtime.groups.classic.requests import HeartbeatRequest as ClassicHeartbeat
from broker_runtime.groups.classic.requests import JoinAnswer, LeaveRequest, LeavingMember, SyncAnswer, SyncRequest
from broker_runtime.groups.classic.syncing import sync
from broker_runtime.groups.consumer.classic_members import CLASSIC_MEMBERS
from broker_runtime.groups.consumer.heartbeat import heartbeat
from broker_runtime.groups.consumer.state.validity import ConsumerHeartbeatRequest
from broker_runtime.groups.group import Committer
from tests.support.groups.classic_coordinator import join_request
from tests.support.groups.push_groups import GROUP, Coordinator


@pytest.fixture
def coordinator() -> Coordinator:
    made = Coordinator()
    made.topic("t", 1)
    made.consumers("a")
    return made


def test_classic_members_cannot_join_a_push_group(coordinator: Coordinator) -> None:
    environment = coordinator.environment
    joined = coordinator.decide(
        lambda state: join(state, environment, join_request("", group_id=GROUP), CLASSIC_MEMBERS)
    ).result
    assert isinstance(joined, JoinAnswer)
    assert joined.error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    synced = coordinator.decide(
        lambda state: sync(state, environment, SyncRequest(GROUP, "a", 0), CLASSIC_MEMBERS)
    ).result
    assert isinstance(synced, SyncAnswer)
    assert synced.error is ErrorCode.UNKNOWN_MEMBER_ID
    beat = ClassicHeartbeat(GROUP, "a", 0, None)
    told = coordinator.decide(lambda state: classic_heartbeat(state, environment, beat, CLASSIC_MEMBERS))
    assert told is ErrorCode.UNKNOWN_MEMBER_ID
    leaving = LeaveRequest(GROUP, (LeavingMember("a", None), LeavingMember("b", None)))
    left = coordinator.decide(lambda state: leave(state, environment, leaving, CLASSIC_MEMBERS))
    assert left.errors == (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.UNKNOWN_MEMBER_ID)
    assert set(coordinator.group.members) == {"a"}


@pytest.mark.parametrize(
    ("epoch", "code"),
    [
        (0, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        (1, ErrorCode.GROUP_ID_NOT_FOUND),
        (-1, ErrorCode.GROUP_ID_NOT_FOUND),
    ],
)
def test_members_of_the_consumer_protocol_cannot_join_a_push_group(
    coordinator: Coordinator, epoch: int, code: ErrorCode
) -> None:
    more = {"rebalance_timeout_ms": 60_000, "owned": {}, "subscribed_topic_names": ("t",)} if epoch == 0 else {}
    request = ConsumerHeartbeatRequest(GROUP, "m", epoch, **more)  # type: ignore[arg-type]
    with pytest.raises(KafkaError) as caught:
        coordinator.decide(lambda state: heartbeat(state, coordinator.environment, request))
    assert caught.value.code is code
    assert set(coordinator.group.members) == {"a"}


def test_nobody_commits_to_a_push_group_in_a_transaction(coordinator: Coordinator) -> None:
    for committer in (Committer(), Committer("a")):
        with pytest.raises(KafkaError, match="uses the push protocol, which takes no part in transactions") as refused:
            coordinator.group.check_commit(committer, in_transaction=True)
        assert refused.value.code is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
