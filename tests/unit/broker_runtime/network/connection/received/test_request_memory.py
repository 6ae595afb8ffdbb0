"""Shares of the memory for unfinished requests, and the one connection that may exceed its share."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_runtime.network.connection.received.request_memory import RequestMemory

MB = 1_000_000
NOW_S = 50.0
BAD, GOOD = "10.0.0.1", "10.0.0.2"


class Holders:
    """Connections that take all they may have; `held` by name."""

    def __init__(self, limit: int = 512 * MB, largest: int = 100 * MB) -> None:
        self.memory: RequestMemory[str] = RequestMemory(limit, largest, timeout_s=30.0)
        self.held: dict[str, int] = {}

    def offer(self, name: str, address: str, size: int, wanted: int | None = None) -> int:
        """Bytes that `name` has when no more of `wanted` bytes of a request of `size` may be taken."""
        wanted = size if wanted is None else wanted
        if name not in self.held:
            # The first bytes of a request are read before it can ask.
            self.memory.take(name, address, 1)
        held = self.held.get(name, 1)
        while held < wanted:
            room = self.memory.room(name, address, held, size - held, NOW_S)
            if not room:
                break
            taken = min(room, wanted - held)
            self.memory.take(name, address, taken)
            held += taken
        self.held[name] = held
        return held

    def end(self, name: str, address: str) -> None:
        self.memory.give_back(name, address, self.held.pop(name))


@pytest.mark.parametrize("address", [BAD, GOOD])
def test_many_half_sent_requests_leave_room_for_a_small_one(address: str) -> None:
    """Even a small request of the same address."""
    holders = Holders()
    for number in range(22):
        holders.offer(f"half {number}", BAD, 100 * MB, 50 * MB)
    assert holders.memory.total < 512 * MB
    assert holders.offer("small", address, MB) == MB


def test_a_single_client_may_send_the_largest_request() -> None:
    holders = Holders()
    assert holders.offer("large", GOOD, 100 * MB) == 100 * MB
    assert holders.memory.favoured is None


def test_a_thousand_clients_of_one_address_leave_the_others_half_of_the_memory() -> None:
    holders = Holders()
    for number in range(1_000):
        holders.offer(f"bad {number}", BAD, 100 * MB, 99 * MB)
    assert holders.memory.total < (512 - 100) // 2 * MB + 100 * MB
    assert holders.offer("good", GOOD, 30 * MB) == 30 * MB


def test_large_requests_that_wait_are_let_through_one_after_the_other_in_their_order() -> None:
    holders = Holders(limit=150 * MB)
    for number in range(5):
        holders.offer(f"{number}", f"10.0.0.{number}", 100 * MB)
    assert (holders.held["0"], holders.memory.favoured) == (100 * MB, "0")
    assert list(holders.memory.waiting) == ["1", "2", "3", "4"]
    # A connection that asks out of turn continues to wait.
    holders.end("0", "10.0.0.0")
    assert holders.offer("3", "10.0.0.3", 100 * MB) < 100 * MB
    for name in ("1", "2", "3", "4"):
        assert holders.offer(name, f"10.0.0.{name}", 100 * MB) == 100 * MB
        holders.end(name, f"10.0.0.{name}")
    assert (holders.memory.total, len(holders.memory), holders.memory.favoured) == (0, 0, None)


def test_a_favoured_request_has_time_for_one_megabyte_per_second() -> None:
    holders = Holders(limit=1 * MB)
    holders.offer("large", GOOD, 100 * MB, 10 * MB)
    assert holders.memory.favoured == "large"
    assert NOW_S + 30 + 95 < holders.memory.favoured_until_s <= NOW_S + 30 + 100


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 3), st.integers(1, 100), st.booleans()), max_size=60))
def test_the_sum_is_bounded_and_everything_is_given_back(steps: list[tuple[int, int, int, bool]]) -> None:
    holders = Holders(limit=300, largest=100)
    for number, address, wanted, ends in steps:
        name, at = f"{number}-{address}", f"10.0.0.{address}"
        if ends and name in holders.held:
            holders.end(name, at)
        else:
            holders.offer(name, at, 100, wanted)
        assert holders.memory.total == sum(holders.held.values()) <= 300 + len(holders.held)
    for name in list(holders.held):
        holders.end(name, f"10.0.0.{name[-1]}")
    assert (holders.memory.total, len(holders.memory), holders.memory.favoured) == (0, 0, None)
