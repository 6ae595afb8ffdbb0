"""Steps that fail are run again, and others continue. Steps in pieces: bounded time slices, in order, none lost."""

import asyncio
from collections.abc import Callable, Iterator

import pytest

from broker_runtime.cluster.reactions import Reactions
from broker_runtime.storage.disk.disk import Pause
from tests.support.fakes.manual_clock import ManualClock


class Loop:
    """An event loop. `due` runs the timer that was set last, `time_slice` the callbacks of the next iteration."""

    def __init__(self) -> None:
        self.set: list[tuple[float, Callable[[], None]]] = []
        self.soon: list[Callable[[], None]] = []
        self.cancelled = 0

    def call_later(self, delay: float, callback: Callable[[], None]) -> "Loop":
        self.set.append((delay, callback))
        return self

    def call_soon(self, callback: Callable[[], None]) -> None:
        self.soon.append(callback)

    def cancel(self) -> None:
        self.cancelled += 1

    def due(self) -> float:
        delay_s, callback = self.set.pop()
        callback()
        return delay_s

    def time_slice(self) -> bool:
        """Run the callbacks; return whether there were any."""
        callbacks, self.soon = self.soon, []
        for callback in callbacks:
            callback()
        return bool(callbacks)


class Step:
    def __init__(self, failures: int) -> None:
        self.failures = failures
        self.done = 0

    def __call__(self) -> None:
        if self.failures:
            self.failures -= 1
            raise RuntimeError("a mistake")
        self.done += 1


def test_a_step_that_fails_is_done_again_less_and_less_often(caplog: pytest.LogCaptureFixture) -> None:
    timers, step = Loop(), Step(failures=12)
    reactions = Reactions(timers, ManualClock().monotonic)
    reactions.run("topic a", step)
    reactions.run("topic b", other := Step(failures=0))
    assert (other.done, reactions.failing) == (1, ["topic a"])
    delays = [timers.due() for _ in range(12)]
    assert delays == sorted(delays)
    assert 1.0 < delays[-1] <= 30.0
    assert (step.done, reactions.failing, timers.set) == (1, [], [])
    assert caplog.text.count("RuntimeError: a mistake") == 1, "said once, as nothing has changed"


def test_a_newer_change_replaces_the_older_one_and_runs_at_once() -> None:
    timers, old, new = Loop(), Step(failures=1), Step(failures=0)
    reactions = Reactions(timers, ManualClock().monotonic)
    reactions.run("topic a", old)
    reactions.run("topic a", new)
    assert (old.done, new.done, timers.cancelled, reactions.failing) == (0, 1, 1, [])


def test_nothing_is_done_again_after_the_end() -> None:
    timers = Loop()
    reactions = Reactions(timers, ManualClock().monotonic)
    reactions.run("topic a", Step(failures=1))
    reactions.close()
    assert (timers.cancelled, reactions.failing) == (1, [])


class Scene:
    """Steps over time slices; a piece takes a millisecond, a time slice has two of them."""

    def __init__(self) -> None:
        self.loop, self.clock = Loop(), ManualClock()
        self.reactions = Reactions(self.loop, self.clock.monotonic)
        self.log: list[str] = []

    def add(self, name: str, pieces: int = 2, fails_at: int | None = None, says: str = "") -> None:
        def step() -> Iterator[None]:
            for number in range(pieces):
                self.clock.advance(0.001)
                if number == fails_at:
                    raise RuntimeError("a mistake")
                self.log.append(f"{says or name}{number}")
                yield

        self.reactions.run_over_slices(name, step)

    def done(self) -> list[str]:
        while self.loop.time_slice():
            pass
        return self.taken()

    def taken(self) -> list[str]:
        log, self.log = self.log, []
        return log


def test_the_oldest_step_and_the_newest_have_time_slices_alternately_which_end_in_time() -> None:
    scene = Scene()
    scene.add("a", pieces=3)
    scene.add("b", pieces=2)
    assert scene.log == [], "the caller's time slice is not theirs"
    slices = []
    while scene.loop.time_slice():
        slices.append(scene.taken())
    assert slices[:2] == [["a0", "a1"], ["b0", "b1"]]
    assert slices[2] == ["a2"]
    assert scene.reactions.lengths.longest_s(scene.clock.monotonic()) < 0.0031


def test_a_later_change_takes_the_place_of_one_that_waits() -> None:
    scene = Scene()
    scene.add("a", says="old")
    scene.add("b")
    scene.add("a", says="new")
    assert scene.done() == ["new0", "new1", "b0", "b1"]


def test_a_change_of_what_is_under_way_is_done_after_it() -> None:
    scene = Scene()
    scene.add("a", pieces=4, says="old")
    scene.add("b")
    scene.loop.time_slice()
    scene.add("a", says="new")
    assert scene.done() == ["old0", "old1", "b0", "b1", "old2", "old3", "new0", "new1"]


def test_a_small_change_is_in_force_soon_however_much_an_earlier_one_has_left() -> None:
    scene = Scene()
    scene.add("long", pieces=1_000)
    scene.add("too", pieces=1_000)
    for _ in range(10):
        scene.loop.time_slice()
    scene.taken()
    scene.add("small")
    for _ in range(2):
        scene.loop.time_slice()
    assert {"small0", "small1"} < set(scene.taken())


def test_many_small_changes_leave_half_of_the_time_to_a_long_one() -> None:
    scene = Scene()
    scene.add("long", pieces=100)
    for number in range(100):
        scene.add(f"small {number}", pieces=10)
    for _ in range(100):
        scene.loop.time_slice()
    assert "long99" in scene.taken()


def test_a_callback_waits_for_its_long_step_even_if_later_steps_end_first() -> None:
    scene = Scene()
    scene.add("long", pieces=10)
    scene.reactions.when_done("first", lambda: scene.log.append("long is in force"))
    scene.add("small")
    scene.reactions.when_done("second", lambda: scene.log.append("small is in force"))
    done = scene.done()
    assert done.index("small1") < done.index("long9")
    assert done[-2:] == ["long is in force", "small is in force"]


def test_a_failing_callback_is_called_again() -> None:
    scene = Scene()
    scene.add("a")
    scene.reactions.when_done("telling", told := Step(failures=1))
    scene.add("b")
    assert scene.done()[-1] == "b1"
    assert (told.done, scene.reactions.failing) == (0, ["telling"])
    scene.loop.due()
    assert told.done == 1


def test_a_step_that_fails_midway_is_repeated_and_does_not_stop_others() -> None:
    scene = Scene()
    scene.add("a", fails_at=1)
    scene.add("b")
    assert scene.done() == ["a0", "b0", "b1"]
    assert scene.reactions.failing == ["a"]
    scene.loop.due()
    assert scene.done() == ["a0"]
    scene.add("a", says="new")
    assert scene.done() == ["new0", "new1"]
    assert scene.reactions.failing == []
    scene.loop.set.clear()


def test_callbacks_run_in_order_also_after_a_failed_step() -> None:
    scene = Scene()
    scene.reactions.when_done("who waits", lambda: scene.log.append("nothing waits"))
    assert scene.taken() == ["nothing waits"]
    scene.add("a")
    scene.reactions.when_done("who waits", lambda: scene.log.append("a is done"))
    scene.add("b", fails_at=0)
    scene.add("a", says="again")
    scene.reactions.when_done("who waits", lambda: scene.log.append("all are done"))
    assert scene.done() == ["again0", "again1", "a is done", "all are done"]


@pytest.mark.virtual_time
async def test_a_stop_waits_no_longer_than_it_may_and_afterwards_nothing_is_done(
    caplog: pytest.LogCaptureFixture,
) -> None:
    scene = Scene()
    scene.add("a", pieces=100)
    scene.loop.time_slice()
    await scene.reactions.finish(1.0)
    assert "the next start applies the remaining" in caplog.text
    scene.reactions.close()
    scene.taken()
    assert scene.done() == []


async def test_a_stop_that_waits_goes_on_when_everything_is_done() -> None:
    loop = asyncio.get_running_loop()
    reactions, log = Reactions(loop, loop.time), list[int]()

    def step() -> Iterator[None]:
        for number in range(100):
            log.append(number)
            yield

    reactions.run_over_slices("a", step)
    await reactions.finish(60.0)
    assert len(log) == 100


def test_a_paused_step_lets_others_continue_and_ends_after_it_is_resumed() -> None:
    scene = Scene()
    resume: list[Callable[[], None]] = []

    def pausing() -> Iterator[Pause | None]:
        scene.log.append("begun")
        yield resume.append
        scene.log.append("over")

    scene.reactions.run_over_slices("a", pausing)
    scene.reactions.when_done("told", lambda: scene.log.append("told"))
    scene.add("b")
    assert scene.done() == ["begun", "b0", "b1"]
    scene.reactions.run_over_slices("a", pausing)
    assert scene.done() == [], "it waits for the one of its name"
    resume.pop()()
    assert scene.done() == ["over", "told", "begun"]
    scene.reactions.close()
    resume.pop()()
    assert scene.done() == []


def test_a_pause_that_is_over_at_once_is_none() -> None:
    scene = Scene()

    def pausing() -> Iterator[Pause | None]:
        yield lambda resume: resume()
        scene.log.append("over")

    scene.reactions.run_over_slices("a", pausing)
    assert scene.done() == ["over"]


def test_a_callback_waits_for_steps_added_by_its_step() -> None:
    scene = Scene()

    def adding() -> Iterator[None]:
        for name in ("first", "second"):
            scene.add(name)
            yield

    scene.reactions.run_over_slices("adding", adding)
    scene.reactions.when_done("told", lambda: scene.log.append("told"))
    scene.add("later")
    done = scene.done()
    assert done.index("told") > max(done.index("first1"), done.index("second1"))


def test_a_step_that_waits_already_becomes_a_part_of_the_older_step_that_adds_it_again() -> None:
    scene = Scene()

    def adding() -> Iterator[None]:
        scene.add("added", says="again")
        yield

    scene.reactions.run_over_slices("adding", adding)
    scene.reactions.when_done("older", lambda: scene.log.append("older is done"))
    scene.add("added")
    scene.reactions.when_done("newer", lambda: scene.log.append("newer is done"))
    assert scene.done() == ["again0", "again1", "older is done", "newer is done"]
