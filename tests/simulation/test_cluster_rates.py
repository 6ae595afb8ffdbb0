"""One rate of the cluster in virtual time: never exceeded under faults, and soon used where the demand is."""

import random
from collections.abc import Callable
from contextlib import AbstractContextManager
from unittest import mock

import pytest

from connection_limits.cluster import ledger, members
from connection_limits.cluster.reports import THOUSANDTHS
from connection_limits.cluster.shares import Shares
from tests.support.limits.shared_rate_world import Broker, World

STORM = 1_000.0
_SEEDS = range(12)


def settled(seed: int, **options: object) -> World:
    """A cluster whose brokers serve, and have their shares."""
    world = World(seed, **options)  # type: ignore[arg-type]
    world.run(3)
    assert all(broker.serves for broker in world.brokers.values())
    return world


def move_demand(world: World, to: int) -> None:
    """Let all clients connect to one broker only; those that wait at others have gone."""
    for broker in world.brokers.values():
        broker.attempts_per_s = STORM if broker.id == to else 0.0
        if broker.id != to:
            broker.queue = 0


def check_never_exceeded(world: World) -> None:
    assert world.worst_used <= world.limit
    assert world.most_in(10) <= 1.1 * world.rate * 10


@pytest.mark.parametrize("seed", _SEEDS)
def test_the_rate_is_used_within_three_seconds_after_demand_has_moved(seed: int) -> None:
    world = settled(seed, clock_spread=0.001)
    for to in (1, 2, 3, 1):
        move_demand(world, to)
        begin_s = world.real_ms / 1000
        world.run(8)
        assert world.per_s(begin_s + 3, begin_s + 8) >= 0.9 * world.rate
    check_never_exceeded(world)


@pytest.mark.parametrize("rate", [5, 20, 5_000])
def test_small_and_large_rates_are_used_and_kept(rate: int) -> None:
    world = settled(1, rate=rate, clock_spread=0.001)
    for broker in world.brokers.values():
        broker.attempts_per_s = 2.0 * rate
    world.run(10)
    move_demand(world, 2)
    world.brokers[2].attempts_per_s = 2.0 * rate
    begin_s = world.real_ms / 1000
    world.run(23)
    assert world.per_s(begin_s + 3, begin_s + 23) >= 0.9 * rate
    check_never_exceeded(world)


def test_brokers_with_equal_demand_get_equal_shares() -> None:
    world = settled(3, clock_spread=0.001)
    for broker in world.brokers.values():
        broker.attempts_per_s = STORM
    world.run(10)
    by_broker = [sum(one == broker for at, one in world.accepted if at > 8_000) / 5 for broker in world.brokers]
    assert min(by_broker) >= 0.9 * max(by_broker)
    assert sum(by_broker) >= 0.9 * world.rate


def test_a_small_demand_is_met_beside_a_storm() -> None:
    world = settled(4, clock_spread=0.001)
    world.brokers[1].attempts_per_s = STORM
    world.run(5)
    world.brokers[2].attempts_per_s = 40.0
    world.run(12)
    of_second = sum(one == 2 for at, one in world.accepted if at > 12_000) / (world.real_ms / 1000 - 12)
    assert of_second == pytest.approx(40.0, rel=0.1)
    assert world.per_s(10, 18) >= 0.9 * world.rate


def test_a_broker_that_joins_a_storm_admits_its_first_clients_at_once() -> None:
    world = settled(5, clock_spread=0.001)
    for broker in (1, 2, 3):
        world.brokers[broker].attempts_per_s = STORM
    world.run(5)
    world.brokers[4] = Broker(world, 4, world._clock())
    world.brokers[4].attempts_per_s = STORM
    begin_s = world.real_ms / 1000
    world.run(5)
    first_s = next(at for at, one in world.accepted if one == 4) / 1000
    assert first_s - begin_s < 0.5
    assert sum(one == 4 for at, one in world.accepted if at > 1000 * (begin_s + 3)) >= 2 * 0.9 * world.rate / 4 * 0.9
    check_never_exceeded(world)


def test_the_share_of_a_killed_broker_returns_when_its_lease_ends() -> None:
    world = settled(6, clock_spread=0.001)
    move_demand(world, 1)
    world.run(5)
    world.brokers[1].kill()
    move_demand(world, 2)
    begin_s = world.real_ms / 1000
    world.run(20)
    check_never_exceeded(world)
    # A lease, and the quarter that the controller waits longer.
    assert world.per_s(begin_s + 6.5, begin_s + 9) >= 0.6 * world.rate
    assert world.per_s(begin_s + 13, begin_s + 20) >= 0.9 * world.rate


def test_a_broker_without_the_controller_keeps_its_share_then_a_reserve_then_nothing() -> None:
    world = settled(7, clock_spread=0.001)
    move_demand(world, 1)
    world.run(5)
    world.brokers[1].link_up = False
    begin_s = world.real_ms / 1000
    world.run(12)
    assert world.per_s(begin_s, begin_s + 3) >= 0.9 * world.rate
    assert world.per_s(begin_s + 5, begin_s + 7.5) == pytest.approx(world.rate / 3, rel=0.1)
    assert world.per_s(begin_s + 10, begin_s + 12) == 0
    check_never_exceeded(world)


def test_a_share_that_ends_before_a_broker_serves_again_is_not_used() -> None:
    world = settled(9)
    broker = world.brokers[1]
    broker.link_up = False
    world.run(12)
    assert not broker.serves
    broker.link_up, broker.heartbeats_up = True, False
    world.run(1.5)
    broker.reports_up = False
    world.run(5)
    broker.heartbeats_up = True
    for one in world.brokers.values():
        one.attempts_per_s = STORM
    world.run(5)
    assert broker.serves
    broker.reports_up = True
    world.run(10)
    check_never_exceeded(world)


def test_the_others_make_room_for_a_broker_whose_reports_are_lost_for_long() -> None:
    world = settled(10)
    move_demand(world, 3)
    world.run(5)
    world.brokers[1].reports_up = False
    world.run(5)
    # The demand of the third broker no longer changes, so its reports are empty.
    world.brokers[3].attempts_per_s = 0.0
    world.run(35)
    assert world.brokers[1].serves
    assert world.brokers[1].right == world.limit // 3
    check_never_exceeded(world)


def test_a_broker_whose_answers_are_lost_across_a_fail_over_takes_no_part_of_others() -> None:
    world = settled(11)
    move_demand(world, 3)
    world.run(5)
    world.brokers[1].answers_up = False
    world.run(12)
    world.brokers[1].reports_up = False
    world.fail_over()
    world.run(20)
    assert world.brokers[1].right == world.limit // 3
    check_never_exceeded(world)


@pytest.mark.parametrize("seed", range(4))
def test_a_rate_that_changes_on_one_broker_after_the_other_is_kept(seed: int) -> None:
    chance = random.Random(f"{seed}/rates")
    world = settled(seed)
    rates: dict[int, int | None] = dict.fromkeys(world.brokers, world.rate)
    for broker in world.brokers.values():
        broker.attempts_per_s = STORM
    for _ in range(20):
        # None: the limit is removed, and set again later.
        rate = chance.choice([10, 40, 300, 1_000, None])
        for broker_id in chance.sample(sorted(rates), len(rates)):
            world.run(chance.choice([0.0, 0.1, 1.0]))
            rates[broker_id] = rate
            world.brokers[broker_id].set_rate(rate)
            for _ in range(100):
                world.run(0.01)
                assert world.used <= max(one or 0 for one in rates.values()) * THOUSANDTHS


def test_brokers_take_equal_parts_of_a_controller_that_divides_no_rates() -> None:
    world = World(8)
    for broker in world.brokers.values():
        broker.distributes = False
        broker.attempts_per_s = STORM
    world.run(23)
    assert not world.accepted
    world.run(17)
    assert world.per_s(30, 40) == pytest.approx(world.rate, rel=0.1)
    check_never_exceeded(world)
    for broker in world.brokers.values():
        broker.distributes = True
    world.run(3)
    move_demand(world, 1)
    begin_s = world.real_ms / 1000
    world.run(8)
    assert world.per_s(begin_s + 3, begin_s + 8) >= 0.85 * world.rate
    check_never_exceeded(world)


def test_brokers_without_a_rate_of_the_cluster_report_nothing() -> None:
    shares = Shares(200, 4_000, 0)
    assert not any(shares.is_due(now_ms) for now_ms in range(0, 60_000, 100))


Fault = Callable[[World, random.Random], None]


def _cut(world: World, chance: random.Random) -> None:
    broker = chance.choice(list(world.brokers.values()))
    broker.link_up = not broker.link_up


def _pause(world: World, chance: random.Random) -> None:
    broker = chance.choice(list(world.brokers.values()))
    broker.paused = not broker.paused


def _kill_or_start(world: World, chance: random.Random) -> None:
    broker = chance.choice(list(world.brokers.values()))
    if broker.alive and not broker.paused:
        broker.kill()
    elif not broker.alive and world.registrations[broker.id].fenced:
        # Another process gets the id only after the session of the former one.
        broker.start()


def _pause_controller(world: World, chance: random.Random) -> None:
    del chance
    world.controller.paused = not world.controller.paused


def _fail_over(world: World, chance: random.Random) -> None:
    del chance
    world.fail_over()


def _slow(world: World, chance: random.Random) -> None:
    world.delay_ms = chance.choice([(1, 5), (50, 500), (200, 2_500)])


def _lose(world: World, chance: random.Random) -> None:
    world.loss = chance.choice([0.0, 0.05, 0.3])


def _cut_reports(world: World, chance: random.Random) -> None:
    broker = chance.choice(list(world.brokers.values()))
    broker.reports_up = not broker.reports_up


def _cut_heartbeats(world: World, chance: random.Random) -> None:
    broker = chance.choice(list(world.brokers.values()))
    broker.heartbeats_up = not broker.heartbeats_up


def _slow_steps(world: World, chance: random.Random) -> None:
    world.step_ms = chance.choice([0, 20, 300])


def _move(world: World, chance: random.Random) -> None:
    for broker in world.brokers.values():
        broker.attempts_per_s = chance.choice([0.0, 0.0, 30.0, STORM])


def _join(world: World, chance: random.Random) -> None:
    if len(world.brokers) < 6:
        broker_id = len(world.brokers) + 1
        world.brokers[broker_id] = Broker(world, broker_id, world._clock())
        _move(world, chance)


_FAULTS: tuple[Fault, ...] = (
    _cut,
    _cut,
    _pause,
    _kill_or_start,
    _kill_or_start,
    _pause_controller,
    _fail_over,
    _slow,
    _lose,
    _cut_reports,
    _cut_heartbeats,
    _slow_steps,
    _move,
    _move,
    _join,
)


def _heal(world: World) -> None:
    world.delay_ms, world.loss, world.step_ms = (1, 5), 0.0, 0
    world.controller.paused = False
    for broker in world.brokers.values():
        broker.link_up, broker.paused = True, False
        broker.reports_up = broker.heartbeats_up = True
    world.run(20)
    for broker in world.brokers.values():
        if not broker.alive:
            broker.start()


def run_with_faults(seed: int, faults_s: float = 60.0) -> World:
    """Run a cluster under random faults from the seed, and then until it is whole again."""
    chance = random.Random(f"{seed}/faults")
    world = World(seed, rate=chance.choice([40, 300, 1_000]))
    world.run(3)
    _move(world, chance)
    while world.real_ms < faults_s * 1000:
        world.run(chance.expovariate(1 / 1.5))
        chance.choice(_FAULTS)(world, chance)
    _heal(world)
    return world


@pytest.mark.parametrize("seed", _SEEDS)
def test_the_rate_is_never_exceeded_under_faults(seed: int) -> None:
    world = run_with_faults(seed)
    check_never_exceeded(world)
    world.run(5)
    for to in world.brokers:
        move_demand(world, to)
        begin_s = world.real_ms / 1000
        world.run(6)
        # Clocks run up to 5 % too slow here.
        assert world.per_s(begin_s + 3, begin_s + 6) >= 0.9 * world.rate * (1 - world.clock_spread)
    check_never_exceeded(world)


_note_serving = Shares.note_serving


def _note_only_serving(self: Shares, serves: bool, now_ms: int) -> None:
    if serves:
        _note_serving(self, serves, now_ms)


_BROKEN_RULES: dict[str, Callable[[], AbstractContextManager[object]]] = {
    "the controller waits no longer than brokers do": lambda: mock.patch.object(members, "_WAITS_LONGER", (1, 2)),
    "a new term grants before it knows all": lambda: mock.patch.object(members.Members, "all_known", True),
    "a share rises without asking what others use": lambda: mock.patch.object(ledger.Ledger, "_used", return_value=0),
    "a fenced broker keeps its shares": lambda: mock.patch.object(Shares, "note_serving", _note_only_serving),
}


@pytest.mark.full
@pytest.mark.parametrize("rule", _BROKEN_RULES)
def test_a_broken_rule_is_found(rule: str) -> None:
    with _BROKEN_RULES[rule]():
        found = any(world.worst_used > world.limit for world in map(run_with_faults, range(40)))
    assert found
