"""The push protocol with three real brokers: processes of brokers and consumers are killed, stopped and cut off.

Each consumer is a process that reports what it reads. Every record must be read, and no partition by two consumers at a
time. Sessions are short, so that a loss is noticed quickly.
"""

import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, Producer
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from kafka_bytes import own_keys
from kafka_bytes.own_keys import START_FETCHER, STOP_FETCHER
from kafka_bytes.push import layouts
from kafka_bytes.push.messages import PartitionOffset, PingResponse, RegisterConsumerRequest, StartFetcherResponse
from tests.support.groups.groups_at_work import GroupProducer, address, coordinator_of
from tests.support.groups.push_readers import Place, PushReader, overlaps
from tests.support.processes.broker_process import BrokerGroup, BrokerProcess
from tests.support.processes.clients.broker_admin import until
from tests.support.processes.clients.wire_client import WireClient
from tests.support.processes.proxies.held_proxy import END, HeldProxy, Passing

PARTITIONS = 6
SESSION_MS = 1_500
SESSION_S = SESSION_MS / 1000
SILENT_S = SESSION_S * 4 / 3
"""Time from the coordinator's last message until a silent consumer is removed.

It may have answered one more ping since.
"""
SOON_S = 1.0
"""Seconds from the end of a consumer's connection until another consumer reads its records: shorter than a session."""
TAKEOVER_MAX_S = 10.0
"""The sessions of a broker and of a consumer, and as much again for a loaded machine."""
PATIENCE_S = 30.0
"""Ten times the usual duration."""
BACKLOG = 5_000
"""Existing records of each partition: more than are delivered between two polls."""
OUT_OF_SYNC = "kafka_server_replica_manager_under_replicated_partitions"
PROPERTIES = {
    "group.min.session.timeout.ms": "100",
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "3",
    "min.insync.replicas": "2",
    "broker.session.timeout.ms": "1500",
    "broker.heartbeat.interval.ms": "200",
    # Otherwise the coordinator would move again, some time after a broker has returned.
    "auto.leader.rebalance.enable": "false",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,PROXIED:PLAINTEXT,CONTROLLER:PLAINTEXT",
}


class Cluster:
    """The brokers and their proxies.

    `proxies` are in front of the listener PROXIED of each broker, which advertises them to clients that bootstrap
    there.
    """

    def __init__(self, group: BrokerGroup, proxies: Sequence[HeldProxy]) -> None:
        self.brokers, self.proxies = group.brokers, proxies
        self.bootstrap = group.bootstrap
        self.proxied = ",".join(f"127.0.0.1:{proxy.port}" for proxy in proxies)
        self.admin = AdminClient({"bootstrap.servers": group.bootstrap, "log_level": 2})

    def coordinator(self, group: str) -> BrokerProcess:
        found: list[int] = []

        def knows() -> bool:
            answer = coordinator_of([address(each) for each in self.bootstrap.split(",")], group)
            found.extend([] if answer is None else [answer["node_id"]])
            return bool(found)

        until(knows, f"a coordinator of {group}")
        return self.brokers[found[-1]]

    def heal(self) -> None:
        """Restart all brokers, and wait until all replicas are in sync."""
        for broker in self.brokers:
            if not broker.is_running:
                broker.start(wait=False)
        for broker in self.brokers:
            broker.wait_ready()
            until(lambda broker=broker: broker.metrics()[OUT_OF_SYNC] == 0, "all replicas are in sync")  # type: ignore[misc]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with ExitStack() as stack:
        proxies = [stack.enter_context(HeldProxy()) for _ in range(3)]
        group = BrokerGroup(brokers=3, listeners=("PROXIED",), properties=PROPERTIES)
        for broker, proxy in zip(group.brokers, proxies, strict=True):
            proxy.target = broker.port("PROXIED")
            broker.advertise(f"PLAINTEXT://{broker.bootstrap},PROXIED://127.0.0.1:{proxy.port}")
        yield Cluster(stack.enter_context(group), proxies)


@dataclass
class Scene:
    """One group with its topics, which are named after it, and with a constant flow of records."""

    cluster: Cluster
    name: str
    stack: ExitStack
    readers: list[PushReader] = field(default_factory=list)
    producers: list[GroupProducer] = field(default_factory=list)
    read_by_others: set[tuple[str, bytes]] = field(default_factory=set)
    """Records read by members of the group that use other protocols."""

    def topic(self, suffix: str, partitions: int = PARTITIONS) -> list[Place]:
        topic = f"{self.name}-{suffix}"
        for made in self.cluster.admin.create_topics([NewTopic(topic, partitions, 3)]).values():
            made.result(60)
        self.producers.append(self.stack.enter_context(GroupProducer(self.cluster.bootstrap, topic, partitions)))
        return [(topic, number) for number in range(partitions)]

    def fill(self, places: Sequence[Place], count: int) -> None:
        """Produce `count` more records to each partition at once."""
        producer = Producer({"bootstrap.servers": self.cluster.bootstrap, "acks": "all", "log_level": 2})
        for topic, partition in places:
            for _ in range(count):
                producer.produce(topic, b"more", partition=partition)
            assert producer.flush(60) == 0

    def reader(self, name: str, *, proxied: bool = False, family: str = "library") -> PushReader:
        bootstrap = self.cluster.proxied if proxied else self.cluster.bootstrap
        pattern = f"{self.name}-[a-z]+"
        reader = PushReader(name, bootstrap, group=self.name, pattern=pattern, session_ms=SESSION_MS, family=family)
        self.readers.append(self.stack.enter_context(reader))
        return reader

    def shared(self, *readers: PushReader, of: Sequence[Place]) -> None:
        """Wait until these consumers own all partitions, each at least one, and read them."""

        def are() -> bool:
            owned = [reader.owned for reader in readers]
            return sorted(place for places in owned for place in places) == sorted(of) and all(owned)

        try:
            until(are, f"{len(readers)} consumers share {len(of)} partitions", PATIENCE_S)
        except AssertionError as error:
            told = {reader.name: reader.events[-8:] for reader in readers}
            logs = "\n".join(line for broker in self.cluster.brokers for line in broker.log().splitlines()[-15:])
            raise AssertionError(f"{error}: {told}\n{logs}") from None
        self.reading(*readers, of=of)

    def reading(self, *readers: PushReader, of: Sequence[Place], since_s: float | None = None) -> float:
        """Wait until each of these partitions was read after that moment; return when the last one was."""
        since_s = time.monotonic() if since_s is None else since_s
        firsts: dict[Place, float] = {}

        def are() -> bool:
            for reader in readers:
                for place, at_s in reader.firsts_since(since_s).items():
                    firsts[place] = min(at_s, firsts.get(place, at_s))
            return firsts.keys() >= set(of)

        until(are, "all partitions are read")
        return max(firsts[place] for place in of)

    def committed(self) -> dict[Place, int]:
        """Return the committed offsets, as tools show them."""
        asked = self.cluster.admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(self.name)])
        found = asked[self.name].result(60).topic_partitions
        return {(each.topic, each.partition): each.offset for each in found}

    @contextmanager
    def member(self, protocol: str) -> Iterator[Consumer]:
        """A member of this group that uses another protocol."""
        settings = {
            "bootstrap.servers": self.cluster.bootstrap,
            "group.id": self.name,
            "group.protocol": protocol,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "log_level": 2,
        }
        consumer = Consumer(settings)
        consumer.subscribe([producer.topic for producer in self.producers])
        try:
            yield consumer
        finally:
            consumer.close()

    def read_on(self, protocol: str, ends: Mapping[Place, int]) -> dict[Place, int]:
        """Continue from the ends of others: read some of each partition, commit and leave; return the new ends."""
        at = dict(ends)
        with self.member(protocol) as consumer:

            def has_read() -> bool:
                for each in consumer.consume(100, 0.1):
                    assert each.error() is None, each.error()
                    place = each.topic(), each.partition()
                    assert each.offset() == at[place], "the first goes on where others ended, and none is left out"
                    at[place] += 1
                    self.read_by_others.add((each.topic(), each.value()))
                return all(at[place] > end for place, end in ends.items())

            until(has_read, f"a member of the {protocol} protocol reads all partitions")
            consumer.commit(asynchronous=False)
        return at

    def finish(self) -> None:
        """Check that every record was read, and never by two consumers at a time."""
        for producer in self.producers:
            producer.stop()
            assert not producer.failures, producer.failures[:3]
        wanted = {(each.topic, value) for each in self.producers for value in each.acknowledged}
        until(lambda: not wanted - self.records(), "every record that was acknowledged has been read", 20)
        assert not overlaps(self.readers)

    def records(self) -> set[tuple[str, bytes]]:
        return self.read_by_others.union(*[reader.records() for reader in self.readers])


@pytest.fixture
def scene(cluster: Cluster, request: pytest.FixtureRequest) -> Iterator[Scene]:
    with ExitStack() as stack:
        stack.callback(cluster.heal)
        for proxy in cluster.proxies:
            stack.callback(proxy.release)
        made = Scene(cluster, re.sub("[^a-z]+", "-", request.node.name), stack)
        yield made
        made.finish()


def test_a_killed_consumer(scene: Scene) -> None:
    places = scene.topic("one")
    first, second, third = scene.reader("a"), scene.reader("b"), scene.reader("c", family="plain")
    scene.shared(first, second, third, of=places)
    had = list(second.owned)
    killed_s = time.monotonic()
    second.kill()
    took_s = scene.reading(first, third, of=had, since_s=killed_s) - killed_s
    print(f"read by others {took_s:.3f} s after the kill")
    # The end of its connection notifies the coordinator at once.
    assert took_s < SOON_S
    scene.shared(first, third, of=places)


def test_a_killed_coordinator(scene: Scene) -> None:
    """Consumers find the next one, and continue from the committed offsets."""
    places = scene.topic("one")
    first, second = scene.reader("a", family="plain"), scene.reader("b")
    scene.shared(first, second, of=places)
    old = scene.cluster.coordinator(scene.name)
    before = scene.committed()
    killed_s = time.monotonic()
    old.kill()
    took_s = go_on_elsewhere(scene, first, second, places=places, since_s=killed_s)
    print(f"all read again {took_s:.3f} s after the kill")
    assert scene.cluster.coordinator(scene.name) is not old
    began_at = first.began_at | second.began_at
    assert all(began_at[place] >= offset for place, offset in before.items())


@pytest.mark.full
def test_a_killed_coordinator_and_a_killed_consumer(scene: Scene) -> None:
    places = scene.topic("one")
    first, second, third = scene.reader("a"), scene.reader("b"), scene.reader("c", family="plain")
    scene.shared(first, second, third, of=places)
    killed_s = time.monotonic()
    scene.cluster.coordinator(scene.name).kill()
    third.kill()
    took_s = go_on_elsewhere(scene, first, second, places=places, since_s=killed_s)
    print(f"all read again {took_s:.3f} s after the kill")


def go_on_elsewhere(scene: Scene, *readers: PushReader, places: Sequence[Place], since_s: float) -> float:
    """Wait until the next coordinator has started every consumer, and they share all partitions.

    Return the seconds until all partitions were read.
    """
    until(lambda: all(reader.said("started", since_s) for reader in readers), "all have been started again")
    again_s = min(reader.said("started", since_s)[0][0] for reader in readers)
    scene.shared(*readers, of=places)
    took_s = scene.reading(*readers, of=places, since_s=again_s) - since_s
    assert took_s < TAKEOVER_MAX_S
    return took_s


@pytest.mark.full
def test_a_consumer_that_hangs(scene: Scene) -> None:
    """The consumer delivers no fetched record any more after it continues, and registers again."""
    places = scene.topic("one")
    first = scene.reader("a", family="plain")
    scene.shared(first, of=places)
    scene.fill(places, BACKLOG)
    second = scene.reader("b")
    until(lambda: bool(second.read), "it has begun to read")
    paused_s = time.monotonic()
    second.pause()
    until(lambda: len(first.owned) == len(places), "the other has everything")
    took_s = scene.reading(first, of=places, since_s=first.said("started")[-1][0]) - paused_s
    print(f"read by the other {took_s:.3f} s after SIGSTOP")
    assert took_s > SESSION_S
    resumed_s = time.monotonic()
    second.resume()
    scene.shared(first, second, of=places)
    back_s = second.said("started", resumed_s)[0][0]
    late = [each for each in second.read if resumed_s < each.at_s < back_s]
    assert len(late) <= 1, "but for what was in its hands"
    assert second.said("lost", resumed_s), "it noticed by itself"


@pytest.mark.full
def test_a_coordinator_that_hangs(scene: Scene) -> None:
    """The coordinator hangs after all consumers have stopped.

    When it continues, it receives their answers but not the ends of their connections, and starts no consumer, because
    another coordinator has taken over.
    """
    places = scene.topic("one")
    first, second = scene.reader("a", proxied=True, family="plain"), scene.reader("b", proxied=True)
    scene.shared(first, second, of=places)
    old = scene.cluster.coordinator(scene.name)
    proxy = scene.cluster.proxies[old.node_id]
    proxy.holds = lambda passing: passing.kind == STOP_FETCHER and passing.to_broker
    third = scene.reader("c", proxied=True)
    until(lambda: proxy.held == 2, "both say that they have stopped")
    paused_s = time.monotonic()
    old.pause()
    scene.stack.callback(old.resume)
    called: list[Passing] = []

    def hold_ends(passing: Passing) -> bool:
        if not passing.to_broker:
            called.append(passing)
        return passing.to_broker and passing.is_push and passing.kind == END

    proxy.holds = hold_ends
    took_s = go_on_elsewhere(scene, first, second, third, places=places, since_s=paused_s)
    print(f"all read again {took_s:.3f} s after SIGSTOP")
    resumed_s = time.monotonic()
    old.resume()
    until(lambda: old.metrics()[OUT_OF_SYNC] == 0, "the old coordinator is back")
    # By then a consumer that it called last would have been removed.
    until(lambda: time.monotonic() > resumed_s + SESSION_S, "a session has gone by")
    scene.reading(first, second, third, of=places)
    assert scene.cluster.coordinator(scene.name) is not old
    assert START_FETCHER not in {passing.kind for passing in called}
    assert [event for reader in scene.readers for event in reader.events if event[0] > resumed_s] == []


@pytest.mark.parametrize("ways", [(True, False), (True,), (False,)], ids=["both-ways", "to-broker", "to-consumer"])
def test_half_open(scene: Scene, ways: Sequence[bool]) -> None:
    """Neither side is notified that the connection is cut; both detect it, and reconnect."""
    places = scene.topic("one")
    near, far = scene.reader("near"), scene.reader("far", proxied=True)
    scene.shared(near, far, of=places)
    proxies = scene.cluster.proxies
    cut_s = time.monotonic()
    for proxy in proxies:
        proxy.holds = lambda passing: passing.is_push and passing.to_broker in ways
    until(lambda: len(near.owned) == len(places), "the other has everything")
    took_s = scene.reading(near, of=places, since_s=near.said("started")[-1][0]) - cut_s
    print(f"read by the other {took_s:.3f} s after the cut")
    for proxy in proxies:
        proxy.cut()
        proxy.release()
    scene.shared(near, far, of=places)


@pytest.mark.full
def test_a_coordinator_killed_between_commit_and_start(scene: Scene) -> None:
    """All have stopped, and their reported offsets are committed: the next coordinator starts them there."""
    places = scene.topic("one")
    first = scene.reader("a", proxied=True)
    scene.shared(first, of=places)
    for proxy in scene.cluster.proxies:
        proxy.holds = lambda passing: passing.kind == START_FETCHER and not passing.to_broker
    second = scene.reader("b", proxied=True)
    until(lambda: any(proxy.held for proxy in scene.cluster.proxies), "a StartFetcher is on its way")
    old = scene.cluster.coordinator(scene.name)
    killed_s = time.monotonic()
    old.kill()
    for proxy in scene.cluster.proxies:
        proxy.cut()
        proxy.release()
    took_s = go_on_elsewhere(scene, first, second, places=places, since_s=killed_s)
    print(f"all read again {took_s:.3f} s after the kill")
    stopped_at = {turn.place: turn.ended_s for turn in first.turns}
    assert stopped_at.keys() == set(places)
    ends = {each.place: each.offset + 1 for each in first.read if each.at_s <= stopped_at[each.place]}
    assert first.began_at | second.began_at == ends


def test_topics_and_partitions_come(scene: Scene) -> None:
    places = scene.topic("one")
    first, second = scene.reader("a", family="plain"), scene.reader("b")
    scene.shared(first, second, of=places)
    places += scene.topic("two", 2)
    scene.shared(first, second, of=places)
    (topic, _) = places[0]
    for made in scene.cluster.admin.create_partitions([NewPartitions(topic, PARTITIONS + 2)]).values():
        made.result(60)
    scene.producers[0].partitions += 2
    scene.shared(first, second, of=[*places, (topic, PARTITIONS), (topic, PARTITIONS + 1)])


@pytest.mark.full
def test_a_group_changes_to_other_protocols_and_back(scene: Scene) -> None:
    """The group keeps its offsets, at which a new member continues.

    Other protocols are refused while the group has members.
    """
    places = scene.topic("one")
    with scene.reader("a") as first:
        scene.shared(first, of=places)
        described = scene.cluster.admin.describe_consumer_groups([scene.name])[scene.name].result(60)
        (member,) = described.members
        assert {(part.topic, part.partition) for part in member.assignment.topic_partitions} == set(places)
        with scene.member("consumer") as stranger:
            refused = stranger.poll(60)
            assert refused is not None
            assert "Inconsistent group protocol" in refused.error().str()
        first.leave()
    read = {each.place: each.offset + 1 for each in first.read}
    assert scene.committed() == read, "what it had delivered last, and nothing else"
    for protocol in ("classic", "consumer"):
        read = scene.read_on(protocol, read)
        assert scene.committed() == read
    second = scene.reader("b")
    scene.shared(second, of=places)
    assert second.began_at == read


@pytest.mark.full
def test_offsets_beyond_the_ends_of_logs_are_not_committed_whoever_leads_them(scene: Scene) -> None:
    """A consumer that sends them twice loses its registration, and others continue where the group was."""
    places = scene.topic("one")
    until(lambda: bool(scene.producers[0].acknowledged), "records are there")
    host, port = scene.cluster.coordinator(scene.name).bootstrap.split(":")
    began_s = time.monotonic()
    with WireClient((host, int(port))) as client:
        asked = RegisterConsumerRequest(scene.name, "faulty", f'{{"{places[0][0]}": 1}}', True, "smallest", SESSION_MS)
        client.send(layouts.REGISTER_CONSUMER_REQUEST.write(asked))
        client.receive()
        told: tuple[PartitionOffset, ...] = ()
        while (frame := client.receive()) is not None:
            if own_keys.type_of(memoryview(frame)) == START_FETCHER:
                told = tuple(PartitionOffset(topic, str(number), 10**15) for topic, number in places)
                client.send(layouts.START_FETCHER_RESPONSE.write(StartFetcherResponse(0, "faulty")))
            else:
                client.send(layouts.PING_RESPONSE.write(PingResponse(0, "faulty", told)))
    print(f"given up after {time.monotonic() - began_s:.3f} s")
    assert scene.committed() == {}
    (line,) = [
        line
        for line in scene.cluster.coordinator(scene.name).log().splitlines()
        if scene.name in line and "not committed" in line
    ]
    assert "OFFSET_OUT_OF_RANGE: it sent offset 1000000000000000 of" in line
    good = scene.reader("good")
    scene.shared(good, of=places)
    assert set(good.began_at.values()) == {0}
