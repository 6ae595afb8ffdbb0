"""The partitions that a follower names in its next fetch: only those that differ from what the leader knows."""

from uuid import UUID

import pytest

from broker_runtime.coordination.backoff import Backoff
from broker_runtime.replication.following.follower import FollowerReplica
from broker_runtime.replication.following.follower_session import FollowerSession, SessionRequest
from broker_runtime.storage.log.follower_log import FollowerLog
from tests.support.logs.logs import LogHouse

NOW_S = 100.0
TOPIC_ID = UUID(int=7)


class Scene:
    """A follower of `partitions` partitions of one leader, whose answers come when the test says."""

    def __init__(self, partitions: int) -> None:
        self.session = FollowerSession()
        house = LogHouse()
        self.logs = [house.logs.create("many", index, TOPIC_ID, house.config) for index in range(partitions)]
        self.replicas = [
            FollowerReplica("many", TOPIC_ID, index, log, 1, 3, Backoff(1.0), truncated=True)
            for index, log in enumerate(self.logs)
        ]
        for replica in self.replicas:
            self.session.follow(replica)

    def ask(self) -> SessionRequest:
        request = self.session.next_request(NOW_S)
        assert request is not None
        return request

    def asked(self) -> list[int]:
        return [wanted.partition for wanted in self.ask().wanted]

    def exchange(self, session_id: int = 77) -> list[int]:
        named = self.asked()
        self.session.answered(session_id)
        return named

    def begin(self) -> None:
        while self.exchange():
            pass

    def store(self, index: int) -> None:
        """Append records, as an answer does."""
        FollowerLog(self.logs[index]).restart_at(self.logs[index].log_end_offset + 5)


def test_a_partition_is_named_once_and_again_when_its_log_has_changed() -> None:
    scene = Scene(3)
    assert scene.exchange() == [0, 1, 2]
    assert scene.exchange() == []
    assert not scene.session.to_look, "the others are not even looked at"
    scene.store(1)
    assert scene.exchange() == [1]
    assert scene.exchange() == []


def test_the_epoch_goes_up_with_each_request_and_the_id_is_the_leaders() -> None:
    scene = Scene(1)
    assert scene.ask().session == (0, 0)
    scene.session.answered(77)
    assert scene.ask().session == (77, 1)
    scene.session.answered(77)
    assert scene.ask().session == (77, 2)


def test_after_an_answer_that_did_not_come_it_begins_again_and_ends_the_old_session() -> None:
    scene = Scene(3)
    scene.exchange()
    scene.ask()
    again = scene.ask()
    assert again.session == (77, 0)
    assert [wanted.partition for wanted in again.wanted] == [0, 1, 2]


def test_many_are_named_in_several_requests() -> None:
    scene = Scene(600)
    first = scene.ask()
    assert first.has_more
    scene.session.answered(77)
    named = [wanted.partition for wanted in first.wanted]
    while more := scene.exchange():
        assert len(more) <= 250
        named += more
    assert sorted(named) == list(range(600))
    assert not scene.ask().has_more


def test_without_a_session_each_request_names_everything() -> None:
    scene = Scene(600)
    scene.exchange(session_id=0)
    for _ in range(2):
        request = scene.ask()
        assert (request.session, len(request.wanted), request.has_more) == ((0, 0), 600, False)
        scene.session.answered(0)


@pytest.mark.parametrize("how", ["is cut again", "is left alone"])
def test_a_partition_that_is_not_ready_is_forgotten_and_added_again_later(how: str) -> None:
    scene = Scene(2)
    scene.begin()
    replica = scene.replicas[1]
    if how == "is cut again":
        replica.truncated = False
    else:
        replica.not_before_s = NOW_S + 1
    scene.session.check(replica)
    request = scene.ask()
    assert (request.wanted, request.forgotten) == ([], [(TOPIC_ID, 1)])
    scene.session.answered(77)
    assert scene.ask().forgotten == []
    scene.session.answered(77)
    replica.truncated, replica.not_before_s = True, 0.0
    assert scene.exchange() == [1]


def test_an_unfollowed_partition_is_forgotten() -> None:
    scene = Scene(2)
    scene.begin()
    scene.session.forget(TOPIC_ID, 0)
    scene.store(0)
    request = scene.ask()
    assert (request.wanted, request.forgotten) == ([], [(TOPIC_ID, 0)])


def test_a_partition_followed_again_is_not_forgotten_in_the_same_request() -> None:
    """A leader adds named partitions before it drops forgotten ones."""
    scene = Scene(2)
    scene.begin()
    scene.session.forget(TOPIC_ID, 0)
    scene.session.follow(scene.replicas[0])
    request = scene.ask()
    assert ([wanted.partition for wanted in request.wanted], request.forgotten) == ([0], [])


def test_no_request_is_sent_if_no_partition_is_ready() -> None:
    scene = Scene(1)
    scene.replicas[0].truncated = False
    assert scene.session.next_request(NOW_S) is None
