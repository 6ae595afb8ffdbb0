"""Membership against a scripted controller, in virtual time."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from uuid import UUID

import pytest

from broker_runtime.cluster.lifecycle import BrokerState, Phase
from broker_runtime.cluster.links.link import ControllerClient
from broker_runtime.cluster.membership import Membership, Timing
from broker_runtime.cluster.registration import BrokerIdentity, MembershipError, RegistrationTimeoutError, ReplacedError
from broker_runtime.config import Endpoint, SecurityProtocol
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.wire.messages import Entity
from broker_runtime.wire.versions import BROKER_HEARTBEAT, BROKER_REGISTRATION
from tests.support.fakes.manual_clock import ManualClock
from tests.support.fakes.virtual_time import run

OPEN, SECURE = Endpoint("PLAINTEXT", "here", 9092), Endpoint("SECURE", "here", 9093, SecurityProtocol.SSL)
ME = BrokerIdentity(7, "cluster", UUID(int=1), None, [OPEN, SECURE])
TIMING = Timing(heartbeat_interval_s=2.0, session_timeout_s=9.0, registration_timeout_s=60.0)
Fields = Mapping[str, object]


@dataclass
class Controller(ControllerClient):
    """A scripted controller.

    `refuse` returns its error, with `hung` it never answers. A heartbeat unfences the broker unless the broker wants to
    be fenced.
    """

    refuse: Callable[[int, Fields], ErrorCode] = lambda _key, _content: ErrorCode.NONE
    hung: bool = False
    slow_s: float = 0.0
    fenced: bool = False
    keeps_waiting: bool = False
    epoch: int = 100
    asked: list[tuple[int, Fields]] = field(default_factory=list)

    async def request(self, api_key: int, version: int, content: Fields, timeout_s: float | None = None) -> Entity:
        self.asked.append((api_key, content))
        if self.hung:
            await asyncio.sleep(30)
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT)
        await asyncio.sleep(self.slow_s)
        code = self.refuse(api_key, content)
        released = bool(content.get("want_shut_down")) and not self.keeps_waiting
        return SimpleNamespace(
            error_code=code,
            broker_epoch=self.epoch,
            is_caught_up=True,
            is_fenced=self.fenced or released or bool(content.get("want_fence")),
            should_shut_down=released,
        )

    def count(self, api_key: int) -> int:
        return sum(key == api_key for key, _ in self.asked)


@dataclass
class Vouched:
    """The known epoch of the data; every epoch that the broker gets is noted."""

    epoch: int = -1
    epochs: list[int] = field(default_factory=list)

    def registered(self, epoch: int) -> None:
        self.epoch = epoch
        self.epochs.append(epoch)


@dataclass
class Bench:
    clock: ManualClock = field(default_factory=ManualClock)
    controller: Controller = field(default_factory=Controller)
    vouched: Vouched = field(default_factory=Vouched)
    ready: bool = True
    has_the_record: bool = True
    door: list[tuple[float, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._began_s = self.clock.monotonic()
        self.membership: Membership

    @property
    def now_s(self) -> float:
        return self.clock.monotonic() - self._began_s

    def progress(self) -> tuple[int, bool]:
        return self.controller.epoch, self.ready

    def knows_unfenced(self, epoch: int) -> bool:
        return self.has_the_record and epoch == self.controller.epoch

    def on_fenced(self, reason: str) -> None:
        self.door.append((self.now_s, reason))

    def on_unfenced(self) -> None:
        self.door.append((self.now_s, "open"))

    def play(self, scene: Callable[["Bench"], Awaitable[None]]) -> None:
        async def main() -> None:
            self.membership = Membership(ME, self.controller, TIMING, self.clock, self, self.vouched)
            life = asyncio.ensure_future(self.membership.run())
            acts = asyncio.ensure_future(scene(self))
            try:
                await asyncio.wait([life, acts], return_when=asyncio.FIRST_COMPLETED)
                if life.done():
                    life.result()
                await acts
            finally:
                for task in (life, acts):
                    task.cancel()
                await asyncio.gather(life, acts, return_exceptions=True)

        run(main(), self.clock)


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_a_broker_registers_and_opens_its_listeners_soon(bench: Bench) -> None:
    async def scene(bench: Bench) -> None:
        await asyncio.sleep(0.5)

    bench.play(scene)
    assert [reason for _, reason in bench.door] == ["open"]
    assert bench.membership.status.state is BrokerState.RUNNING
    assert bench.membership.status.epoch == 100
    assert bench.controller.asked[0][1]["previous_broker_epoch"] == -1
    assert bench.controller.asked[0][1]["listeners"] == [
        {"name": "PLAINTEXT", "host": "here", "port": 9092, "security_protocol": 0},
        {"name": "SECURE", "host": "here", "port": 9093, "security_protocol": 1},
    ]


def test_registration_sends_the_previous_broker_epoch_and_stores_the_new_one_before_a_heartbeat(bench: Bench) -> None:
    bench.vouched.epoch = 41
    told: list[tuple[int, list[int]]] = []
    real = bench.controller.refuse

    def watched(key: int, content: Fields) -> ErrorCode:
        told.append((key, list(bench.vouched.epochs)))
        return real(key, content)

    bench.controller.refuse = watched

    async def scene(bench: Bench) -> None:
        await asyncio.sleep(0.5)

    bench.play(scene)
    assert bench.controller.asked[0][1]["previous_broker_epoch"] == 41
    assert told[:2] == [(BROKER_REGISTRATION, []), (BROKER_HEARTBEAT, [100])]


def test_a_broker_requests_fencing_until_it_is_ready_and_never_afterwards(bench: Bench) -> None:
    bench.ready = False

    async def scene(bench: Bench) -> None:
        await asyncio.sleep(1)
        assert bench.door == []
        bench.ready = True
        await asyncio.sleep(1)
        bench.ready = False
        await asyncio.sleep(30)

    bench.play(scene)
    assert [reason for _, reason in bench.door] == ["open"]


def test_the_broker_opens_its_listeners_after_its_own_metadata_shows_it_unfenced(bench: Bench) -> None:
    async def scene(bench: Bench) -> None:
        bench.has_the_record = False
        await asyncio.sleep(0.5)
        assert bench.door == []
        bench.has_the_record = True
        await asyncio.sleep(0.5)

    bench.play(scene)
    ((opened_s, what),) = bench.door
    assert what == "open"
    assert opened_s == pytest.approx(0.52, abs=0.05)


def test_an_unreachable_controller_fences_it_after_a_session_and_no_sooner(bench: Bench) -> None:
    bench_refuses = ErrorCode.BROKER_NOT_AVAILABLE

    async def scene(bench: Bench) -> None:
        await asyncio.sleep(5)
        bench.controller.refuse = lambda _key, _content: bench_refuses
        await asyncio.sleep(20)
        assert bench.membership.status.self_fenced
        bench.controller.refuse = lambda _key, _content: ErrorCode.NONE
        await asyncio.sleep(2)

    bench.play(scene)
    opened, fenced, reopened = bench.door
    last_answered_s = 4.0
    assert fenced[0] == pytest.approx(last_answered_s + TIMING.session_timeout_s, abs=0.2)
    assert "the controller has not answered" in fenced[1]
    assert reopened[0] == pytest.approx(25.0, abs=1.1)
    assert (opened[1], reopened[1]) == ("open", "open")
    assert bench.controller.count(BROKER_REGISTRATION) == 1, "the registration still stands"


def test_after_silence_the_broker_serves_once_its_metadata_is_new_and_requests_no_fencing(bench: Bench) -> None:
    """A controller that was away has not fenced the broker.

    A request to be fenced would move its leaderships for nothing.
    """

    async def scene(bench: Bench) -> None:
        await asyncio.sleep(1)
        bench.controller.refuse = lambda _key, _content: ErrorCode.BROKER_NOT_AVAILABLE
        await asyncio.sleep(12)
        bench.ready = False
        bench.controller.refuse = lambda _key, _content: ErrorCode.NONE
        back = len(bench.controller.asked)
        await asyncio.sleep(3)
        assert bench.membership.status.self_fenced
        bench.ready = True
        await asyncio.sleep(0.1)
        assert bench.membership.status.serving
        assert not any(content["want_fence"] for _, content in bench.controller.asked[back:])

    bench.play(scene)


def test_a_heartbeat_from_before_it_fenced_itself_does_not_let_it_in_with_metadata_from_then(bench: Bench) -> None:
    async def scene(bench: Bench) -> None:
        await asyncio.sleep(5)
        bench.controller.slow_s = TIMING.session_timeout_s - 1.0
        await asyncio.sleep(TIMING.session_timeout_s - 0.5)
        assert bench.membership.status.self_fenced
        bench.ready = False
        bench.controller.slow_s = 0.0
        await asyncio.sleep(3)
        assert [said == "open" for _, said in bench.door] == [True, False]
        bench.ready = True
        await asyncio.sleep(TIMING.heartbeat_interval_s)
        assert bench.membership.status.serving

    bench.play(scene)


def test_a_controller_that_hangs_fences_it_too(bench: Bench) -> None:
    """The request in flight has 30 s; the session does not."""

    async def scene(bench: Bench) -> None:
        await asyncio.sleep(5)
        bench.controller.hung = True
        await asyncio.sleep(15)

    bench.play(scene)
    assert [reason == "open" for _, reason in bench.door] == [True, False]
    assert bench.door[1][0] == pytest.approx(4.0 + TIMING.session_timeout_s, abs=0.2)


def test_a_process_that_slept_through_its_session_does_not_serve_before_it_is_unfenced(bench: Bench) -> None:
    async def scene(bench: Bench) -> None:
        await asyncio.sleep(5)
        bench.controller.fenced = True
        bench.clock.advance(60)
        await asyncio.sleep(0.5)
        assert not bench.membership.status.serving
        bench.controller.fenced = False
        await asyncio.sleep(1)
        assert bench.membership.status.serving

    bench.play(scene)
    assert len(bench.door) == 3, "logged and told once each way"


def test_the_controllers_word_fences_it(bench: Bench) -> None:
    async def scene(bench: Bench) -> None:
        await asyncio.sleep(1)
        bench.controller.fenced = True
        await asyncio.sleep(3)
        assert bench.membership.status.why_not_ready() == "fenced by the controller"
        assert not bench.membership.status.self_fenced

    bench.play(scene)
    assert not bench.membership.status.serving


@pytest.mark.parametrize("code", [ErrorCode.STALE_BROKER_EPOCH, ErrorCode.BROKER_ID_NOT_REGISTERED])
def test_a_lost_registration_is_made_anew_under_the_same_incarnation(bench: Bench, code: ErrorCode) -> None:
    def stale(key: int, content: Fields) -> ErrorCode:
        return code if key == BROKER_HEARTBEAT and content["broker_epoch"] == 100 else ErrorCode.NONE

    async def scene(bench: Bench) -> None:
        await asyncio.sleep(1)
        bench.controller.epoch = 200
        bench.controller.refuse = stale
        await asyncio.sleep(5)

    bench.play(scene)
    assert bench.membership.status.epoch == 200
    assert bench.membership.status.serving
    first, second = [content for key, content in bench.controller.asked if key == BROKER_REGISTRATION]
    assert second["incarnation_id"] == first["incarnation_id"]
    assert second["previous_broker_epoch"] == 100
    assert [reason == "open" for _, reason in bench.door] == [True, False, True]


def test_a_duplicate_broker_waits_with_one_warning_until_the_other_session_ends(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    def taken(key: int, _: Fields) -> ErrorCode:
        duplicate = key == BROKER_REGISTRATION and bench.now_s < TIMING.session_timeout_s
        return ErrorCode.DUPLICATE_BROKER_REGISTRATION if duplicate else ErrorCode.NONE

    async def scene(bench: Bench) -> None:
        await asyncio.sleep(12)

    bench.controller.refuse = taken
    bench.play(scene)
    assert bench.membership.status.serving
    assert bench.door[0][0] < TIMING.session_timeout_s + 1.5
    assert len([r for r in caplog.records if "another process is registered with broker id 7" in r.getMessage()]) == 1
    assert bench.controller.count(BROKER_REGISTRATION) < 20, "it backs off"


def test_a_duplicate_whose_twin_lives_on_ends_with_a_sentence(bench: Bench) -> None:
    async def scene(bench: Bench) -> None:
        await asyncio.sleep(100)

    bench.controller.refuse = lambda _key, _content: ErrorCode.DUPLICATE_BROKER_REGISTRATION
    with pytest.raises(RegistrationTimeoutError, match="broker id 7 and sent a heartbeat"):
        bench.play(scene)
    assert 60 <= bench.now_s < 62


def test_a_replaced_incarnation_stops_serving_and_ends(bench: Bench) -> None:
    def replaced(key: int, _: Fields) -> ErrorCode:
        return ErrorCode.STALE_BROKER_EPOCH if key == BROKER_HEARTBEAT else ErrorCode.DUPLICATE_BROKER_REGISTRATION

    async def scene(bench: Bench) -> None:
        await asyncio.sleep(1)
        bench.controller.refuse = replaced
        await asyncio.sleep(60)

    with pytest.raises(ReplacedError, match="another process registered with broker id 7"):
        bench.play(scene)
    assert bench.now_s < 4
    assert [reason == "open" for _, reason in bench.door] == [True, False]
    assert bench.membership.status.phase is Phase.REPLACED


@pytest.mark.parametrize(
    "code", [ErrorCode.INCONSISTENT_CLUSTER_ID, ErrorCode.UNSUPPORTED_VERSION, ErrorCode.INVALID_REGISTRATION]
)
def test_what_will_never_be_accepted_is_not_tried_again(bench: Bench, code: ErrorCode) -> None:
    async def scene(bench: Bench) -> None:
        await asyncio.sleep(10)

    bench.controller.refuse = lambda _key, _content: code
    with pytest.raises(MembershipError):
        bench.play(scene)
    assert bench.controller.count(BROKER_REGISTRATION) == 1


def test_a_clean_stop_is_quick_and_ends_the_heartbeats(bench: Bench) -> None:
    async def scene(bench: Bench) -> None:
        await asyncio.sleep(1)
        assert await bench.membership.leave(20)
        assert bench.now_s < 1.1
        asked = len(bench.controller.asked)
        await asyncio.sleep(10)
        assert len(bench.controller.asked) == asked, "a heartbeat would make the id taken again"
        assert bench.membership.status.serving, "until the process closes its listeners"

    bench.play(scene)


def test_a_leaving_broker_waits_for_its_release_until_the_deadline(bench: Bench) -> None:
    bench.controller.keeps_waiting = True

    async def scene(bench: Bench) -> None:
        await asyncio.sleep(1)
        first, second = await asyncio.gather(bench.membership.leave(5), bench.membership.leave(5))
        assert (first, second) == (False, False)
        assert bench.now_s == pytest.approx(6, abs=0.1)
        assert await bench.membership.leave(5) is False

    bench.play(scene)
    assert bench.membership.status.phase is Phase.GONE


def test_a_heartbeat_can_be_had_before_its_time_and_only_one(bench: Bench) -> None:
    async def scene(bench: Bench) -> None:
        await asyncio.sleep(0.5)
        before = bench.controller.count(BROKER_HEARTBEAT)
        bench.membership.beat_soon()
        await asyncio.sleep(0.5)
        assert bench.controller.count(BROKER_HEARTBEAT) == before + 1

    bench.play(scene)


def test_asking_for_a_heartbeat_does_not_hurry_a_registration(bench: Bench) -> None:
    async def scene(bench: Bench) -> None:
        for _ in range(50):
            bench.membership.beat_soon()
            await asyncio.sleep(0.1)

    bench.controller.refuse = lambda _key, _content: ErrorCode.BROKER_NOT_AVAILABLE
    bench.play(scene)
    assert bench.controller.count(BROKER_REGISTRATION) < 10


def test_a_second_signal_ends_the_waiting(bench: Bench) -> None:
    bench.controller.keeps_waiting = True

    async def scene(bench: Bench) -> None:
        await asyncio.sleep(1)
        leaving = asyncio.ensure_future(bench.membership.leave(20))
        await asyncio.sleep(1)
        bench.membership.wait_no_longer()
        assert await leaving is False
        assert bench.now_s == pytest.approx(2, abs=0.1)

    bench.play(scene)


def test_leaving_without_a_controller_does_not_wait_longer_than_the_session(bench: Bench) -> None:
    async def scene(bench: Bench) -> None:
        await asyncio.sleep(5)
        bench.controller.refuse = lambda _key, _content: ErrorCode.BROKER_NOT_AVAILABLE
        await bench.membership.leave(60)
        assert bench.now_s < 5 + TIMING.session_timeout_s

    bench.play(scene)


def test_leaving_before_it_is_registered_takes_no_time(bench: Bench) -> None:
    bench.controller.refuse = lambda _key, _content: ErrorCode.BROKER_NOT_AVAILABLE

    async def scene(bench: Bench) -> None:
        await asyncio.sleep(1)
        assert await bench.membership.leave(20)
        assert bench.now_s < 1.1

    bench.play(scene)


MOVED = [Endpoint("PLAINTEXT", "here", 9092), Endpoint("EXTERNAL", "there", 9094)]


def told_listeners(bench: Bench) -> list[list[object]]:
    """The names of listeners in each registration."""
    return [
        [listener["name"] for listener in content["listeners"]]  # type: ignore[attr-defined]
        for key, content in bench.controller.asked
        if key == BROKER_REGISTRATION
    ]


def test_changed_listeners_are_registered_at_once_by_the_same_incarnation(bench: Bench) -> None:
    async def scene(bench: Bench) -> None:
        await asyncio.sleep(1)
        bench.membership.reregister(MOVED)
        await asyncio.sleep(0.1)

    bench.play(scene)
    assert told_listeners(bench) == [["PLAINTEXT", "SECURE"], ["PLAINTEXT", "EXTERNAL"]]
    first, second = [content for key, content in bench.controller.asked if key == BROKER_REGISTRATION]
    assert second["incarnation_id"] == first["incarnation_id"]
    assert [reason for _, reason in bench.door] == ["open"]
    assert bench.vouched.epochs == [100]


def test_listeners_changed_before_the_broker_is_unfenced_are_registered_first(bench: Bench) -> None:
    bench.ready = False

    async def scene(bench: Bench) -> None:
        await asyncio.sleep(1)
        bench.membership.reregister(MOVED)
        bench.ready = True
        await asyncio.sleep(0.5)

    bench.play(scene)
    kinds = [key for key, content in bench.controller.asked if content.get("want_fence") is not True]
    assert kinds[:3] == [BROKER_REGISTRATION, BROKER_REGISTRATION, BROKER_HEARTBEAT]


def test_a_failed_reregistration_is_retried_while_heartbeats_continue(bench: Bench) -> None:
    async def scene(bench: Bench) -> None:
        await asyncio.sleep(1)
        bench.controller.refuse = lambda key, _content: (
            ErrorCode.REQUEST_TIMED_OUT if key == BROKER_REGISTRATION else ErrorCode.NONE
        )
        bench.membership.reregister(MOVED)
        await asyncio.sleep(20)
        assert bench.membership.status.serving
        bench.controller.refuse = lambda _key, _content: ErrorCode.NONE
        await asyncio.sleep(3)
        told = len(told_listeners(bench))
        await asyncio.sleep(10)
        assert len(told_listeners(bench)) == told, "once it is told it is told"

    bench.play(scene)
    assert told_listeners(bench)[-1] == ["PLAINTEXT", "EXTERNAL"]


def test_a_controller_that_has_forgotten_it_meanwhile_lets_it_in_anew(bench: Bench) -> None:
    async def scene(bench: Bench) -> None:
        await asyncio.sleep(1)
        bench.controller.epoch = 200
        bench.membership.reregister(MOVED)
        await asyncio.sleep(3)

    bench.play(scene)
    assert bench.membership.status.epoch == 200
    assert bench.vouched.epochs == [100, 200]
    assert [reason == "open" for _, reason in bench.door] == [True, False, True]
