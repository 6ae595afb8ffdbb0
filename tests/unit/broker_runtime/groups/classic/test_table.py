"""Every cell of the table of classic groups, played to the machine."""

from collections.abc import Callable
from typing import Any

import pytest

from broker_runtime.config.keys.broker import BrokerConfig
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.groups.answers import DeferredAnswer
from broker_runtime.groups.classic.heartbeats import keep_session
from broker_runtime.groups.classic.requests import LeavingMember
from broker_runtime.groups.classic.states import ClassicState
from broker_runtime.groups.classic.table import STATES, TABLE, Event, RequestOutcome
from broker_runtime.groups.group import Committer
from broker_runtime.groups.offsets.commit import OffsetToCommit, commit
from tests.support.groups.classic_coordinator import GROUP, OTHER_TOPIC, ClassicCoordinator, error_of, told

DEAD, EMPTY, PREPARING, COMPLETING, STABLE = STATES
CELLS = [(state, event) for (state, event), cell in TABLE.items() if cell is not None]
LONG: dict[str, Any] = {"session_timeout_ms": 100_000}


class Scene:
    """A group in a state: a leader, a follower, a static member `one`, and an id that was given.

    In Dead and Empty these are former members.
    """

    def __init__(self, state: ClassicState, *, given: bool = True, only_leader: bool = False) -> None:
        self.at = ClassicCoordinator(BrokerConfig(group_initial_rebalance_delay_ms=1_000))
        self.leader, self.follower, self.static, self.given = "leader", "follower", "static", "given"
        if state is DEAD:
            return
        self._reach(state, only_leader)
        if given:
            self.given = told(self.at.join(**LONG)).member_id

    def _reach(self, state: ClassicState, only_leader: bool) -> None:
        at = self.at
        self.leader = at.joined(**LONG)
        if not only_leader:
            self.follower = at.joined(**LONG)
            at.join(group_instance_id="one", **LONG)
            self.static = at.group.members.static["one"]
        at.advance(2.0)
        if state is COMPLETING:
            return
        at.sync(self.leader, assignments={})
        if state is EMPTY:
            at.leave(LeavingMember(self.leader), LeavingMember(self.follower), LeavingMember(self.static))
        elif state is PREPARING:
            at.join(self.leader, **LONG)
            if only_leader:
                raise AssertionError("a group of one is complete at once")

    @property
    def state(self) -> ClassicState:
        return self.at.group.state if GROUP in self.at.state.groups else DEAD


def join(member: str, **changes: Any) -> Callable[[Scene], object]:
    return lambda scene: scene.at.join(getattr(scene, member, member), **(LONG | changes))


def sync(member: str, generation: int | None = None, **said: Any) -> Callable[[Scene], object]:
    return lambda scene: scene.at.sync(getattr(scene, member, member), _generation(scene, generation), **said)


def beat(member: str, generation: int | None = None, instance: str | None = None) -> Callable[[Scene], object]:
    return lambda scene: scene.at.beat(getattr(scene, member, member), _generation(scene, generation), instance)


def leave(member: str) -> Callable[[Scene], object]:
    return lambda scene: scene.at.leave(LeavingMember(getattr(scene, member, member)))[0]


def commits(member: str, generation: int | None = None) -> Callable[[Scene], object]:
    def play(scene: Scene) -> object:
        at = scene.at
        committer = Committer(getattr(scene, member, member), _generation(scene, generation))
        offsets = [OffsetToCommit("t", 0, 5)]
        try:
            decided = commit(at.state, at, lambda group, by: keep_session(at, group, by), committer, GROUP, offsets)
            return at.decide(decided)[0]
        except KafkaError as error:
            return error.code

    return play


def _generation(scene: Scene, asked: int | None) -> int:
    if asked is not None:
        return asked
    return scene.at.group.generation if scene.state is not DEAD else 1


def in_vain(scene: Scene) -> object:
    waiting = scene.at.sync(scene.follower)
    scene.at.log_refuses = True
    with pytest.raises(KafkaError):
        scene.at.sync(scene.leader, assignments={})
    scene.at.advance(0.0)
    return waiting


def last_to_join(scene: Scene) -> object:
    scene.at.join(scene.static, group_instance_id="one", **LONG)
    return scene.at.join(scene.follower, **LONG)


def time(seconds: float, *alive: str) -> Callable[[Scene], object]:
    """Let time pass while the `alive` members send heartbeats."""

    def play(scene: Scene) -> object:
        for _ in range(10):
            for member in alive:
                scene.at.beat(getattr(scene, member))
            scene.at.advance(seconds / 10)
        return RequestOutcome.SILENT

    return play


PLAYS: dict[Event, Callable[[Scene], object]] = {
    Event.NEW: join(""),
    Event.NEW_WITHOUT_ASKING: join("", needs_known_id=False),
    Event.NEW_STATIC: join("", group_instance_id="two"),
    Event.STATIC_AGAIN: join("", group_instance_id="one"),
    Event.GIVEN_ID: join("given"),
    Event.LEADER_AGAIN: join("leader"),
    Event.FOLLOWER_AGAIN: join("follower"),
    Event.FOLLOWER_CHANGED: join("follower", protocols=OTHER_TOPIC),
    Event.LAST_TO_JOIN: last_to_join,
    Event.STRANGER_JOINS: join("nobody"),
    Event.FENCED_JOINS: join("follower", group_instance_id="one"),
    Event.OTHER_TYPE: join("", protocol_type="connect", needs_known_id=False),
    Event.NO_PROTOCOL: join("", protocols=()),
    Event.LEADER_SYNCS: sync("leader"),
    Event.LEADER_SYNCS_IN_VAIN: in_vain,
    Event.FOLLOWER_SYNCS: sync("follower"),
    Event.OLD_SYNC: sync("follower", 77),
    Event.STRANGER_SYNCS: sync("nobody"),
    Event.FENCED_SYNCS: sync("follower", group_instance_id="one"),
    Event.OTHER_SYNC: sync("follower", protocol="roundrobin"),
    Event.BEAT: beat("follower"),
    Event.OLD_BEAT: beat("follower", 77),
    Event.STRANGER_BEATS: beat("nobody"),
    Event.FENCED_BEATS: beat("follower", instance="one"),
    Event.LEAVE: leave("follower"),
    Event.LAST_LEAVES: leave("leader"),
    Event.GIVEN_ID_LEAVES: leave("given"),
    Event.STRANGER_LEAVES: leave("nobody"),
    Event.COMMIT: commits("follower"),
    Event.OLD_COMMIT: commits("follower", 77),
    Event.STRANGER_COMMITS: commits("nobody"),
    Event.NOBODY_COMMITS: commits("", -1),
}


@pytest.mark.parametrize(("state", "event"), CELLS, ids=[f"{state.value}-{event.name}" for state, event in CELLS])
def test_a_cell(state: ClassicState, event: Event) -> None:
    cell = TABLE[state, event]
    assert cell is not None
    if event in PLAYS:
        alone = event is Event.LAST_LEAVES
        scene = alone_in(state) if alone else Scene(state, given=event is not Event.LAST_TO_JOIN)
        assert scene.state is state
        answer = PLAYS[event](scene)
    else:
        scene = TIMES[event](state)
        answer = RequestOutcome.SILENT
    assert (outcome(answer), scene.state) == (cell.answer, cell.then or state)


def outcome(answer: object) -> ErrorCode | RequestOutcome:
    if isinstance(answer, DeferredAnswer):
        error = error_of(answer)
        return RequestOutcome.WAITS if error is None else error
    assert isinstance(answer, ErrorCode | RequestOutcome)
    return answer


def alone_in(state: ClassicState) -> Scene:
    """A group of one member; in PreparingRebalance it is the only one left."""
    if state is not PREPARING:
        return Scene(state, given=False, only_leader=True)
    scene = Scene(STABLE, given=False)
    for member in (scene.follower, scene.static):
        scene.at.leave(LeavingMember(member))
    return scene


def a_session_ends(state: ClassicState) -> Scene:
    scene = Scene(state, given=False)
    give_up(scene, scene.follower)
    return scene


def give_up(scene: Scene, member_id: str) -> None:
    scene.at.group.members.by_id[member_id].session_timeout_ms = 1
    scene.at.beat(member_id)
    scene.at.advance(0.001)
    assert member_id not in scene.at.group.members.by_id


def the_last_session_ends(state: ClassicState) -> Scene:
    scene = alone_in(state)
    give_up(scene, scene.leader)
    return scene


def newcomers_are_due(state: ClassicState) -> Scene:
    scene = Scene(DEAD)
    scene.at.joined(**LONG)
    assert scene.state is state
    scene.at.advance(1.0)
    return scene


def joins_are_due(state: ClassicState) -> Scene:
    scene = Scene(state, given=False)
    time(60.0, "follower", "static")(scene)
    assert scene.follower not in scene.at.group.members.by_id
    return scene


def nobody_joined(state: ClassicState) -> Scene:
    scene = Scene(STABLE, given=False)
    scene.at.leave(LeavingMember(scene.leader))
    assert scene.state is state
    time(60.0, "static")(scene)
    assert list(scene.at.group.members.by_id) == [scene.static]
    return scene


def syncs_are_due(state: ClassicState) -> Scene:
    scene = Scene(state, given=False)
    assert scene.state is state
    scene.at.sync(scene.static)
    time(60.0)(scene)
    assert scene.follower not in scene.at.group.members.by_id
    return scene


TIMES: dict[Event, Callable[[ClassicState], Scene]] = {
    Event.SESSION_END: a_session_ends,
    Event.LAST_SESSION_END: the_last_session_ends,
    Event.NEWCOMERS_ARE_DUE: newcomers_are_due,
    Event.JOINS_ARE_DUE: joins_are_due,
    Event.NOBODY_JOINED: nobody_joined,
    Event.SYNCS_ARE_DUE: syncs_are_due,
}


def test_every_event_is_played() -> None:
    assert PLAYS.keys() | TIMES.keys() == set(Event)
