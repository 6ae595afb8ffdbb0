"""The memory of answers: what is counted, which packing pauses, and whose connection is closed."""

from dataclasses import dataclass, field
from functools import partial

from hypothesis import given
from hypothesis import strategies as st

from broker_runtime.wire.answer_memory import READ_AHEAD_BYTES, AnswerMemory, SharedBytes
from broker_runtime.wire.reply import FileRegion

MB = 1_000_000


class _NoFile:
    """A file that is never read."""

    def fileno(self) -> int:
        raise OSError

    def pread(self, size: int, offset: int) -> bytes:
        raise AssertionError(size, offset)


@dataclass
class Owner:
    """Owner of the connections; closes those that the memory names, as `Connections` does."""

    memory: AnswerMemory
    now_s: float = 0.0
    closed: list[int] = field(default_factory=list)
    asked: int = 0

    def __post_init__(self) -> None:
        self.memory.on_short = self.ask

    def ask(self) -> None:
        self.asked += 1

    def relieve(self) -> list[int]:
        """Close connections until memory suffices, and return them."""
        found = self.memory.slowest(100, self.now_s)
        for each in found:
            self.memory.sent(each)
        self.closed += found
        return found


def owner(limit: int) -> Owner:
    return Owner(AnswerMemory(limit))


def test_memory_is_counted_until_the_client_has_read_everything() -> None:
    memory = AnswerMemory(10 * MB)
    memory.hold(1, [bytes(MB), b"more"], 0.0)
    memory.hold_more(1, [bytes(7)])
    memory.took(1, MB, 0.0)
    assert (memory.used, memory.unread) == (MB + 11, 1)
    memory.sent(1)
    memory.sent(1)
    assert (memory.used, memory.unread_bytes, memory.unread) == (0, 0, 0)


def test_the_rest_of_a_chunk_counts_as_the_whole_chunk_that_it_keeps_in_memory() -> None:
    memory = AnswerMemory(10 * MB)
    memory.hold(1, [memoryview(bytes(MB))[MB - 1 :]], 0.0)
    assert memory.used == MB


def test_regions_of_files_count_as_far_as_they_are_read_in_advance() -> None:
    memory = AnswerMemory(10 * MB)
    memory.hold(1, [FileRegion(_NoFile(), 0, 50 * MB)], 0.0)
    assert memory.used == 0
    memory.hold(2, [FileRegion(_NoFile(), 0, 1000)], 0.0)
    assert memory.used == 1000
    memory.hold(3, [FileRegion(_NoFile(), 0, 30_000)] * 1000, 0.0)
    assert memory.used == 1000 + READ_AHEAD_BYTES


def test_bytes_that_many_answers_share_count_once() -> None:
    memory = AnswerMemory(10 * MB)
    metadata = SharedBytes(bytes(MB))
    for number in range(100):
        memory.hold(number, [b"head", metadata], 0.0)
    assert memory.used == MB + 400
    assert not memory.is_short
    for number in range(100):
        memory.sent(number)
    assert memory.used == 0


def test_clients_that_make_no_progress_are_closed_first() -> None:
    world = owner(30 * MB)
    memory = world.memory
    for number in range(3):
        memory.hold(number, [bytes(10 * MB)], float(number))
    world.now_s = 10.0
    memory.took(0, 5 * MB, 10.0)
    for _ in range(100):
        memory.took(1, 1, 10.0)
    assert not memory.is_short
    assert world.relieve() == []
    memory.hold(3, [bytes(2 * MB)], 10.0)
    assert world.asked
    assert world.relieve() == [1], "a byte now and then does not count"
    assert not memory.is_short


def test_much_that_waits_for_long_is_closed_before_little_or_what_waits_for_a_moment() -> None:
    world = owner(10 * MB)
    memory = world.memory
    memory.hold(1, [bytes(MB)], 0.0)
    memory.hold(2, [bytes(5 * MB)], 5.0)
    memory.hold(3, [bytes(5 * MB)], 8.0)
    world.now_s = 10.0
    assert world.relieve() == [2]


def test_a_client_has_time_to_read_unless_memory_is_much_too_short() -> None:
    world = owner(10 * MB)
    memory = world.memory
    memory.hold(1, [bytes(6 * MB)], 0.0)
    memory.hold(2, [bytes(6 * MB)], 0.0)
    world.now_s = 0.05
    assert world.relieve() == []
    memory.took(1, MB, world.now_s)
    world.now_s = 0.12
    assert world.relieve() == [2]
    memory.hold(3, [bytes(7 * MB)], world.now_s)
    assert memory.is_urgent
    assert world.relieve() == [3], "the one that was served last"


def test_clients_that_read_much_in_drops_are_closed_and_not_the_clients_that_pause_for_a_moment() -> None:
    """An attacker holds the memory with few connections; a consumer that processes records does not read meanwhile."""
    world = owner(50 * MB)
    memory = world.memory
    for number in range(9):
        memory.hold(number, [bytes(6 * MB)], 0.0)
    for tick in range(1, 50):
        world.now_s = tick / 50
        for number in range(9):
            if number not in world.closed:
                memory.took(number, 16_000, world.now_s)
        memory.hold(100 + tick, [bytes(MB // 10)], world.now_s)
        if tick > 20:
            memory.sent(80 + tick)
        world.relieve()
    assert world.closed
    assert max(world.closed) < 9, "only the attacker's"
    assert not memory.is_short


def test_many_small_answers_do_not_make_a_common_one_large() -> None:
    world = owner(10 * MB)
    memory = world.memory
    memory.hold(1, [bytes(MB // 10)], 0.0)
    for number in range(2, 1000):
        memory.hold(number, [bytes(1)], 0.0)
    memory.hold(1000, [bytes(10 * MB)], 0.2)
    for tick in range(1, 100):
        world.now_s = 0.2 + tick / 50
        if 1000 not in world.closed:
            memory.took(1000, 16_000, world.now_s)
        world.relieve()
    assert world.closed == [1000]


def test_enough_connections_are_closed_that_others_are_not_compared_again_at_once() -> None:
    world = owner(10 * MB)
    for number in range(101):
        world.memory.hold(number, [bytes(MB // 10)], float(number))
    world.now_s = 200.0
    assert world.relieve() == list(range(11))


def test_packing_pauses_beyond_the_limit_except_that_of_the_oldest_answer() -> None:
    memory = AnswerMemory(MB)
    resumed: list[str] = []
    memory.grown("first", MB // 2)
    memory.grown("second", MB // 2)
    assert not memory.has_to_pause("second")
    memory.grown("second", MB)
    memory.grown("third", MB // 2)
    assert not memory.has_to_pause("first")
    for call in ("second", "third"):
        assert memory.has_to_pause(call)
        memory.pause(call, partial(resumed.append, call))
    assert memory.paused == 2
    memory.packed("first")
    assert resumed == ["second"], "it is the oldest now, and memory is still short"
    memory.packed("second")
    assert resumed == ["second", "third"]
    memory.packed("third")
    assert (memory.used, memory.paused) == (0, 0)


def test_an_answer_that_is_given_up_resumes_so_that_its_steps_can_end() -> None:
    memory = AnswerMemory(MB)
    resumed: list[str] = []
    memory.grown("first", MB)
    memory.grown("second", MB)
    assert memory.has_to_pause("second")
    memory.pause("second", partial(resumed.append, "second"))
    memory.packed("second")
    assert resumed == ["second"]
    memory.packed("first")
    assert resumed == ["second"]


def test_packing_waits_for_clients_that_read_and_not_for_those_that_do_not() -> None:
    world = owner(10 * MB)
    memory = world.memory
    memory.hold(1, [bytes(4 * MB)], 0.0)
    memory.hold(2, [bytes(4 * MB)], 0.0)
    world.now_s = 2.0
    memory.grown("call", 6 * MB)
    assert world.relieve() == [], "packing can wait"
    world.now_s = 6.0
    memory.took(1, 2 * MB, 5.0)
    assert world.asked == 1
    assert world.relieve() == [2]
    memory.grown("call", 9 * MB)
    assert memory.is_short
    assert world.relieve() == [], "the other one reads"


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["hold", "took", "sent", "grown", "packed", "relieve"]),
            st.integers(0, 5),
            st.integers(1, 900),
        ),
        max_size=60,
    )
)
def test_every_byte_is_released_and_no_answer_pauses_for_ever(events: list[tuple[str, int, int]]) -> None:
    world = owner(1_000)
    memory = world.memory
    held: set[int] = set()
    packing: dict[str, int] = {}
    paused: set[str] = set()
    for number, (event, who, size) in enumerate(events):
        world.now_s = number / 2
        call = f"call {who}"
        if event == "hold" and who not in held:
            held.add(who)
            memory.hold(who, [bytes(size)], world.now_s)
        elif event == "took" and who in held:
            memory.took(who, size, world.now_s)
        elif event == "sent":
            held.discard(who)
            memory.sent(who)
        elif event == "grown" and call not in paused:
            packing[call] = packing.get(call, 0) + size
            memory.grown(call, packing[call])
            if memory.has_to_pause(call):
                memory.pause(call, partial(paused.discard, call))
                paused.add(call)
        elif event == "packed":
            packing.pop(call, None)
            memory.packed(call)
        elif event == "relieve":
            held -= set(world.relieve())
            assert memory.unread_bytes <= memory.limit * 1.25
        assert memory.paused == len(paused)
        assert len(paused) < max(len(packing), 1), "one answer always makes progress"
    for who in range(6):
        memory.sent(who)
        memory.packed(f"call {who}")
    assert (memory.used, memory.unread_bytes, memory.unread, memory.paused) == (0, 0, 0, 0)
    assert not paused
