"""Observers of the end of a connection: each is notified once, in order, unless it has unregistered."""

import pytest

from broker_runtime.network.sockets.closed_observers import ClosedObservers, TooManyObserversError


class Observer:
    def __init__(self, name: str, told: list[str]) -> None:
        self.name, self.told = name, told

    def __call__(self) -> None:
        self.told.append(self.name)


def test_each_is_told_once_and_in_order() -> None:
    told: list[str] = []
    observers = ClosedObservers(10)
    first, second, third = (Observer(name, told) for name in "abc")
    for observer in (first, second, third, first):
        observers.add(observer)
    observers.remove(second)
    observers.remove(second)
    for _ in range(2):
        for taken in observers.taken():
            taken()
    assert told == ["a", "c"]


def test_an_observer_removed_by_another_one_meanwhile_is_not_notified() -> None:
    told: list[str] = []
    observers = ClosedObservers(10)
    other = Observer("other", told)
    observers.add(lambda: observers.remove(other))
    observers.add(other)
    for taken in observers.taken():
        taken()
    assert told == []


def test_an_observer_added_after_the_end_is_notified_at_once() -> None:
    told: list[str] = []
    observers = ClosedObservers(10)
    assert list(observers.taken()) == []
    observers.add(Observer("late", told))
    assert told == ["late"]


def test_there_is_a_limit() -> None:
    observers = ClosedObservers(2)
    kept = [Observer(str(number), []) for number in range(2)]
    for observer in (*kept, *kept):
        observers.add(observer)
    with pytest.raises(TooManyObserversError, match=r"sluicegate\.connection\.observers\.max"):
        observers.add(Observer("one too many", []))
