"""Nodes of the previous release become nodes of this one and go back, one by one, under traffic.

The order is that of docs/upgrade.md: upwards the controller first, downwards the brokers first. So brokers of the
previous release are followed by this one's and the reverse, and each controller serves brokers of the other release.

Traffic: an idempotent producer with acks=all, a consumer that reads everything, groups of all three protocols with two
members each, and a storm on a listener with a limit. docs/reference/compatibility.md says what is promised.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.support.obtain.previous_release import left_out, previous_release
from tests.support.processes.broker_process import ROOT, BrokerGroup, BrokerProcess
from tests.support.processes.clients.acknowledged import AcknowledgedWorkload, Partitions, create_topic
from tests.support.processes.clients.admitted import Admitted
from tests.support.processes.clients.broker_admin import effective_config, set_default_config, until
from tests.support.processes.clients.group_readers import GroupReaders, Protocol
from tests.support.processes.clients.reconnecting import Reconnecting

pytestmark = [pytest.mark.full, pytest.mark.skipif(left_out() is not None, reason=left_out() or "")]

TOPIC, PARTITIONS, REPLICAS = "kept", 4, 3
GROUPS: tuple[Protocol, ...] = ("classic", "consumer", "push")
LISTENER = "EXTERNAL"
PREFIX = f"listener.name.{LISTENER.lower()}."
RATE = 30
GAP_MAX_S = 2.0
"""The target is half a second (docs/upgrade.md has what was measured); this bound allows for a loaded machine."""
WINDOW_S = 5.0
ADMITTED_MAX = 3 * RATE + RATE / WINDOW_S
"""A broker that starts admits a second's worth at once, and one broker starts within a window."""
PROPERTIES = {
    "broker.session.timeout.ms": "9000",
    "broker.heartbeat.interval.ms": "500",
    "replica.lag.time.max.ms": "9000",
    # Kafka's average would admit ten seconds' worth after each restart.
    "connection.quota.strategy": "token-bucket",
    "group.min.session.timeout.ms": "100",
    "offsets.topic.num.partitions": "3",
    "offsets.topic.replication.factor": "3",
    "sluicegate.group.push.offsets.commit.interval.ms": "100",
}


@pytest.fixture
def cluster() -> Iterator[BrokerGroup]:
    """Three brokers and a controller of the previous release, with a limit of RATE connections a second for each."""
    with BrokerGroup(3, listeners=[LISTENER], properties=PROPERTIES, checkout=previous_release()) as group:
        create_topic(group.bootstrap, TOPIC, PARTITIONS, REPLICAS, min_insync_replicas="2")
        set_default_config(group.brokers[0], f"{PREFIX}max.connection.creation.rate", str(RATE))
        until(lambda: set(map(limit_of, group.brokers)) == {str(RATE)}, "the limit is active")
        await_in_sync(group)
        yield group


def limit_of(broker: BrokerProcess) -> str | None:
    return effective_config(broker, f"{PREFIX}max.connection.creation.rate")


def await_in_sync(group: BrokerGroup) -> None:
    seen = Partitions(group.bootstrap, TOPIC)
    until(lambda: seen.all_in_sync(REPLICAS), "all replicas are in sync")


def await_more(load: AcknowledgedWorkload) -> None:
    before = load.count
    until(lambda: load.count > before + 100, "records are acknowledged")


def await_state(state: str, broker: BrokerProcess, group: BrokerGroup) -> None:
    def is_reached() -> bool:
        return bool(group.controller.brokers().get(broker.node_id, {}).get("state") == state)

    until(is_reached, f"broker {broker.node_id} is {state}")


def replace(node: BrokerProcess, group: BrokerGroup, checkout: Path) -> None:
    """Stop a node, and start the other release on the same data."""
    assert node.stop() == 0
    node.use(checkout)
    node.start()
    await_in_sync(group)


def test_up_to_this_release_and_back_loses_nothing_and_lifts_no_limit(cluster: BrokerGroup) -> None:
    controller, brokers = cluster.controller, cluster.brokers
    with ExitStack() as running:
        admitted = running.enter_context(Admitted(brokers, LISTENER))
        for broker in brokers:
            running.enter_context(Reconnecting((broker.host, broker.port(LISTENER)), 20))
        groups = [
            running.enter_context(GroupReaders(cluster.bootstrap, TOPIC, f"of-{protocol}", protocol, PARTITIONS))
            for protocol in GROUPS
        ]
        with AcknowledgedWorkload(cluster.bootstrap, TOPIC, PARTITIONS, pause_s=0.004) as load:
            await_more(load)
            load.longest_gap_s = 0.0
            for checkout, nodes in (
                (ROOT, [controller, *brokers]),
                (previous_release(), [*brokers, controller]),
            ):
                for node in nodes:
                    replace(node, cluster, checkout)
                    await_more(load)
        load.check()
        ends = {index: max(found) + 1 for index, found in load.acknowledged.items()}
        for readers in groups:
            readers.wait_for(ends)
        most = admitted.most_per_s(WINDOW_S)
        print(f"{load.count} records, longest gap {load.longest_gap_s * 1000:.0f} ms, at most {most:.1f} connections/s")
        assert load.longest_gap_s < GAP_MAX_S
        assert 0.5 * ADMITTED_MAX < most < 1.2 * ADMITTED_MAX
        assert [limit_of(broker) for broker in brokers] == [str(RATE)] * len(brokers)


@pytest.mark.parametrize("is_controller_new", [True, False], ids=["new controller", "new brokers"])
def test_a_killed_broker_of_the_other_release_is_fenced_and_comes_back(is_controller_new: bool) -> None:
    mixed = BrokerGroup(3, properties=PROPERTIES | {"broker.session.timeout.ms": "2000"}, checkout=previous_release())
    for node in [mixed.controller] if is_controller_new else mixed.brokers:
        node.use(ROOT)
    with mixed as group:
        create_topic(group.bootstrap, TOPIC, PARTITIONS, REPLICAS, min_insync_replicas="2")
        await_in_sync(group)
        with AcknowledgedWorkload(group.bootstrap, TOPIC, PARTITIONS, pause_s=0.004) as load:
            await_more(load)
            for victim in group.brokers:
                victim.kill()
                await_state("Offline", victim, group)
                await_more(load)
                victim.start()
                await_state("Online", victim, group)
                await_in_sync(group)
        load.check()
