"""Producers, coordinators, brokers and faults of one seeded run."""

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass, field
from random import Random
from typing import Any

from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.replication.leader import LeaderReplica
from broker_runtime.slicing.slices import Slices
from broker_runtime.transactions.broker_links import BrokerLinks
from broker_runtime.transactions.leaders import NO_LEADER
from broker_runtime.transactions.markers.dispatch import MarkerDispatch
from broker_runtime.transactions.markers.local_markers import LocalMarkers
from broker_runtime.transactions.markers.queues import MarkerLimits
from broker_runtime.transactions.markers.requests import PartitionsOfMarker
from broker_runtime.transactions.seam import TopicPartition
from kafka_bytes.control import Marker
from tests.simulation.markers.network import SimulatedLink
from tests.simulation.markers.partition import SimulatedPartition
from tests.simulation.markers.terms import PARTITION, Decided, Term
from tests.support.fakes.manual_clock import ManualClock
from tests.support.fakes.virtual_time import run

BROKERS = (1, 2, 3)
PLACES: tuple[TopicPartition, ...] = tuple((topic, index) for topic in ("bills", "orders") for index in range(4))
DELETED: TopicPartition = ("deleted", 0)
PRODUCERS = 6
FAULTS_S = 15.0
HEAL_S = 300.0
_V2 = 2


@dataclass(slots=True)
class Outcome:
    """The result of one run."""

    problems: list[str] = field(default_factory=list)
    transactions: int = 0
    terms: int = 0


async def _no_groups(index: int, marker: Marker) -> None:
    raise AssertionError("no transaction here has offsets")


class MarkerWorld:
    """The world of one run. `faulty` says whether faults still happen."""

    def __init__(self, seed: int, clock: ManualClock) -> None:
        self.random = Random(seed)
        self.clock = clock
        self.faulty = True
        self.down: set[int] = set()
        self.slow: set[int] = set()
        self.places = {place: SimulatedPartition(self.random.choice(BROKERS)) for place in (*PLACES, DELETED)}
        self.loop = asyncio.get_running_loop()
        self.slices = Slices(clock.monotonic)
        self.local = {broker_id: self._local(broker_id) for broker_id in BROKERS}
        self.open: list[Decided] = []
        """Decided transactions that are not complete."""
        self.committed: set[tuple[str, int]] = set()
        self.outcome = Outcome()
        self.terms: list[Term] = []
        self._tasks: set[asyncio.Task[None]] = set()

    def _local(self, broker_id: int) -> LocalMarkers:
        def led(topic: str, index: int) -> LeaderReplica:
            place = self.places.get((topic, index))
            if place is None or place.leader != broker_id:
                code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if place is None else ErrorCode.NOT_LEADER_OR_FOLLOWER
                raise KafkaError(code, "")
            return place.replica

        return LocalMarkers(led, _no_groups, self.slices, self.loop.call_later, 5.0)

    def leader_of(self, place: TopicPartition) -> int | None:
        found = self.places.get(place)
        if found is None:
            return None
        return NO_LEADER if found.leader in self.down else found.leader

    def begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = self.loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def run_later(self, delay_s: float, markers: list[PartitionsOfMarker], broker_id: int) -> None:
        async def late() -> None:
            await asyncio.sleep(delay_s)
            await self.local[broker_id].write(markers)

        self.begin(late())

    @property
    def term(self) -> Term:
        return self.terms[-1]

    def elect(self) -> None:
        """Begin the next term, on a broker that runs: it sends all markers again that are not complete."""
        if self.terms:
            self.term.is_latest = False
        broker_id = self.random.choice([each for each in BROKERS if each not in self.down])
        links = BrokerLinks(lambda to: SimulatedLink(self, to), 4.0, self.slices)
        limits = MarkerLimits(self.random.choice((2, 100)), 0.02, 0.5)
        dispatch = MarkerDispatch(
            broker_id,
            self.leader_of,
            limits,
            self.local[broker_id],
            links,
            self.slices,
            self.clock,
        )
        self.terms.append(Term(broker_id, len(self.terms), dispatch))
        for decided in list(self.open):
            self.term.send(decided)

    async def depose(self) -> None:
        """Elect another coordinator. The former one learns it a while later, and sends on until then."""
        former = self.term
        self.elect()
        await asyncio.sleep(self.random.uniform(0, 3))
        former.dispatch.drop(PARTITION)
        await asyncio.sleep(self.random.uniform(0, 3))
        await former.dispatch.close()

    async def kill(self, broker_id: int) -> None:
        """Stop a broker with its coordinator and its leaderships, and start it again later."""
        if len(self.down) > 1 or broker_id in self.down:
            return
        self.down.add(broker_id)
        if self.term.broker_id == broker_id:
            former = self.term
            self.elect()
            await former.dispatch.close()
        await asyncio.sleep(self.random.uniform(0, 1))
        for place in self.places.values():
            if place.leader == broker_id and self.random.random() < 0.7:
                place.move(self.random.choice([each for each in BROKERS if each not in self.down]))
        await asyncio.sleep(self.random.uniform(0, 5))
        self.down.discard(broker_id)

    async def slow_down(self, broker_id: int) -> None:
        self.slow.add(broker_id)
        await asyncio.sleep(self.random.uniform(0, 6))
        self.slow.discard(broker_id)

    async def faults(self) -> None:
        """Let faults happen for a while, then heal everything."""
        end_s = self.loop.time() + FAULTS_S
        while self.loop.time() < end_s:
            await asyncio.sleep(self.random.expovariate(2.0))
            kind = self.random.choice(("depose", "kill", "slow", "move", "move", "delete"))
            if kind == "depose":
                self.begin(self.depose())
            elif kind == "kill":
                self.begin(self.kill(self.random.choice(BROKERS)))
            elif kind == "slow":
                self.begin(self.slow_down(self.random.choice(BROKERS)))
            elif kind == "move":
                self.places[self.random.choice(PLACES)].move(self.random.choice(BROKERS))
            elif self.random.random() < 0.1:
                self.places.pop(DELETED, None)
        self.faulty = False

    async def produce(self, number: int) -> None:
        """Write transactions until the faults have ended."""
        name, producer_id, version = f"producer {number}", 100 + number, self.random.choice((0, _V2))
        epoch, sequences = 0, dict.fromkeys((*PLACES, DELETED), 0)
        count = 0
        while self.faulty:
            count += 1
            transaction = name, count
            chosen = self.random.sample(PLACES, self.random.randint(1, 4))
            if DELETED in self.places and self.random.random() < 0.2:
                chosen.append(DELETED)
            for place in chosen:
                if place in self.places:
                    value = f"{number}/{count}/{place[0]}-{place[1]}".encode()
                    self.places[place].write(value, transaction, producer_id, epoch, sequences[place])
                    sequences[place] += 1
                await asyncio.sleep(self.random.uniform(0, 0.05))
            is_commit = self.random.random() < 0.6
            if version >= _V2:
                epoch += 1
                sequences = dict.fromkeys(sequences, 0)
            await self.end(transaction, Marker(producer_id, epoch, is_commit, 0, version), frozenset(chosen))

    async def end(self, name: tuple[str, int], marker: Marker, partitions: frozenset[TopicPartition]) -> None:
        """Decide the end of a transaction, and wait until it is complete."""
        decided = Decided(name, marker, partitions)
        self.open.append(decided)
        self.outcome.transactions += 1
        if marker.is_commit:
            self.committed.add(name)
        self.term.send(decided)
        await decided.complete.wait()
        self.open.remove(decided)

    async def judged(self) -> Outcome:
        """Run the world, and return what went wrong."""
        self.elect()
        producers = [self.loop.create_task(self.produce(number)) for number in range(PRODUCERS)]
        await self.faults()
        outcome = self.outcome
        _, late = await asyncio.wait(producers, timeout=HEAL_S)
        for task in late:
            task.cancel()
        outcome.problems += [f"{decided.name} is not complete" for decided in self.open]
        while self._tasks:
            await asyncio.wait(self._tasks)
        for task in producers:
            if task not in late:
                task.result()
        for (topic, index), place in self.places.items():
            outcome.problems += place.problems(f"{topic}-{index}", self.committed)
        outcome.terms = len(self.terms)
        await self.term.dispatch.close()
        return outcome


def simulate(seed: int) -> Outcome:
    """Return the outcome of the run with this seed."""
    clock = ManualClock()

    async def world() -> Outcome:
        return await MarkerWorld(seed, clock).judged()

    return run(world(), clock)
