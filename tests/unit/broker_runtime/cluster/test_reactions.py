"""Steps that fail: the others go on, and they are done again."""

from collections.abc import Callable

import pytest

from broker_runtime.cluster.reactions import Reactions


class Timers:
    """As a loop's call_later; `due` runs the last one."""

    def __init__(self) -> None:
        self.set: list[tuple[float, Callable[[], None]]] = []
        self.cancelled = 0

    def __call__(self, delay_s: float, callback: Callable[[], None]) -> "Timers":
        self.set.append((delay_s, callback))
        return self

    def cancel(self) -> None:
        self.cancelled += 1

    def due(self) -> float:
        delay_s, callback = self.set.pop()
        callback()
        return delay_s


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
    timers, step = Timers(), Step(failures=12)
    reactions = Reactions(timers)
    reactions.run("topic a", step)
    reactions.run("topic b", other := Step(failures=0))
    assert (other.done, reactions.failing) == (1, ["topic a"])
    delays = [timers.due() for _ in range(12)]
    assert delays == sorted(delays)
    assert 1.0 < delays[-1] <= 30.0
    assert (step.done, reactions.failing, timers.set) == (1, [], [])
    assert caplog.text.count("RuntimeError: a mistake") == 1, "said once, as nothing has changed"


def test_a_newer_change_comes_before_its_turn_and_takes_the_place_of_the_old_one() -> None:
    timers, old, new = Timers(), Step(failures=1), Step(failures=0)
    reactions = Reactions(timers)
    reactions.run("topic a", old)
    reactions.run("topic a", new)
    assert (old.done, new.done, timers.cancelled, reactions.failing) == (0, 1, 1, [])


def test_nothing_is_done_again_after_the_end() -> None:
    timers = Timers()
    reactions = Reactions(timers)
    reactions.run("topic a", Step(failures=1))
    reactions.close()
    assert (timers.cancelled, reactions.failing) == (1, [])
