"""Quotas on ranges, on changing sets of addresses and observed ones, from their manifests to a running broker."""

import asyncio
import socket
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from datetime import UTC, datetime
from typing import Any

import pytest

from sluicegate_operator.api import BrokerCluster, BrokerListener, ConnectionQuota, parse_resource
from sluicegate_operator.fleet.base import BrokerAddress
from sluicegate_operator.fleet.kafka.asking import BrokerPool
from sluicegate_operator.kafka_admin.client import AdminClient
from sluicegate_operator.planning.limits.connection_groups import number_of_pod
from sluicegate_operator.quotas.brokers import EnforcementResult, WantedLimits, enforce
from sluicegate_operator.quotas.state.ledger import LimitLedger
from tests.support.manifests.bad_manifests import cluster, listener, quota
from tests.support.manifests.quota_manifests import of_pods
from tests.support.oracles.limits_model import group_of, listed
from tests.support.processes.broker_process import BrokerProcess
from tests.support.worlds.planned_quotas import PlannedQuotas

NOW = datetime(2026, 1, 1, tzinfo=UTC)
LISTENER = "EXTERNAL"
SECONDS = 20.0


@pytest.fixture(scope="module")
def broker() -> Iterator[BrokerProcess]:
    with BrokerProcess(listeners=[LISTENER]) as running:
        yield running


class Governed:
    """The operator's state of the broker's quotas between passes."""

    def __init__(self, broker: BrokerProcess) -> None:
        self.planner = PlannedQuotas()
        self.ledger = LimitLedger()
        self._broker = broker
        self._generation = 0

    def enforce(
        self, *quotas: tuple[str, dict[str, Any], dict[str, Any]], **selected: Mapping[str, str]
    ) -> EnforcementResult:
        """Enforce quotas given by name, target and other fields.

        `selected`: by quota, the addresses of pods and their uids.
        """
        self._generation += 1
        meta = {"generation": self._generation}
        documents = [
            quota(target, **said) | {"metadata": meta | {"name": name, "uid": name}} for name, target, said in quotas
        ]
        resources = [parse_resource(document) for document in (cluster(), listener(), *documents)]
        clusters = [one for one in resources if isinstance(one, BrokerCluster)]
        listeners = [one for one in resources if isinstance(one, BrokerListener)]
        wanted = [one for one in resources if isinstance(one, ConnectionQuota)]
        self.planner.select(
            {name: {ip: number_of_pod(uid) for ip, uid in pods.items()} for name, pods in selected.items()}
        )
        for _ in self.planner.update(clusters[0], listeners, wanted, NOW):
            pass
        changed = frozenset(self.planner.changed_keys)
        self.planner.changed_keys.clear()

        async def run() -> EnforcementResult:
            broker = self._broker
            async with AdminClient([(broker.host, broker.port())]) as admin:
                pool = BrokerPool(admin, (BrokerAddress(broker.node_id, broker.host, broker.port()),))
                began_s = asyncio.get_running_loop().time()
                return await enforce(
                    pool, WantedLimits(self.planner.plan.desired, began_s, changed=changed), self.ledger
                )

        return asyncio.run(run())


@pytest.fixture
def governed(broker: BrokerProcess) -> Iterator[Governed]:
    governed = Governed(broker)
    yield governed
    assert governed.enforce().is_complete


def served(broker: BrokerProcess, stack: ExitStack, source: str, count: int) -> int:
    """Return how many of `count` simultaneous connections from one address are served."""
    clients = []
    for _ in range(count):
        client = socket.create_connection((broker.host, broker.port(LISTENER)), SECONDS, source_address=(source, 0))
        clients.append(stack.enter_context(client))
        # ApiVersions, version 0, correlation ID 7, no client ID.
        client.sendall(bytes.fromhex("0000000a0012000000000007ffff"))
    answers = 0
    for client in clients:
        try:
            answers += bool(client.recv(1))
        except ConnectionResetError:
            continue
    return answers


def test_each_address_of_a_range_has_the_limit_and_the_longest_prefix_decides(
    broker: BrokerProcess, governed: Governed
) -> None:
    result = governed.enforce(
        ("range", {"cidr": "127.0.4.0/24"}, {"maxConnections": 2}),
        ("part", {"cidr": "127.0.4.128/25"}, {"maxConnections": 3}),
        ("one", {"ip": "127.0.4.200"}, {"maxConnectionCreationRate": 1000}),
    )
    assert result.is_complete
    with ExitStack() as stack:
        assert served(broker, stack, "127.0.4.1", 4) == 2
        assert served(broker, stack, "127.0.4.2", 4) == 2
        assert served(broker, stack, "127.0.4.129", 4) == 3
        assert served(broker, stack, "127.0.4.200", 6) == 6
        assert served(broker, stack, "127.0.5.1", 6) == 6


def test_a_range_that_shares_its_limit_has_it_once(broker: BrokerProcess, governed: Governed) -> None:
    shared = ("range", {"cidr": "127.0.4.0/24"}, {"maxConnections": 3, "limitIs": "Shared"})
    assert governed.enforce(shared).is_complete
    with ExitStack() as stack:
        assert served(broker, stack, "127.0.4.1", 2) == 2
        assert served(broker, stack, "127.0.4.2", 2) == 1


def test_each_added_or_removed_address_changes_one_entity(broker: BrokerProcess, governed: Governed) -> None:
    pods = ("pods", of_pods(), {"maxConnections": 1})
    assert governed.enforce(pods, pods={"127.0.6.1": "a", "127.0.6.2": "b"}).is_complete
    result = governed.enforce(pods, pods={"127.0.6.2": "b", "127.0.6.3": "c"})
    assert result.is_complete
    sent = {key for action in result.changes for key in action.keys}
    assert sent == {*listed("default/pods", "127.0.6.1", "127.0.6.3")}
    with ExitStack() as stack:
        assert served(broker, stack, "127.0.6.1", 3) == 3
        assert served(broker, stack, "127.0.6.2", 3) == 1
        assert served(broker, stack, "127.0.6.3", 3) == 1
    assert governed.enforce(pods).changes == (), "nothing has changed"


def test_a_pod_that_has_the_address_of_another_one_pays_for_none_of_its_connections(
    broker: BrokerProcess, governed: Governed
) -> None:
    """The address is in both quotas before and after, and connections of the deleted pod are still open."""
    each = ("pods", of_pods(), {"maxConnections": 2, "maxConnectionCreationRate": 1000})
    shared = ("all", of_pods(), {"maxConnections": 3, "limitIs": "Shared"})
    first, second = (dict.fromkeys(("127.0.6.1", "127.0.6.2"), uid) for uid in ("gone", "new"))
    assert governed.enforce(each, shared, pods=first, all=first).is_complete
    with ExitStack() as gone, ExitStack() as stack:
        assert served(broker, gone, "127.0.6.1", 4) == 2
        assert served(broker, gone, "127.0.6.2", 4) == 1
        result = governed.enforce(each, shared, pods=second, all=second)
        assert result.is_complete
        assert len(result.changes) == 4
        assert served(broker, stack, "127.0.6.1", 4) == 2
        assert served(broker, stack, "127.0.6.2", 4) == 1
    assert governed.enforce(each, shared).changes == (), "brokers have the numbers that are wanted"


def test_an_observed_limit_holds_nothing(broker: BrokerProcess, governed: Governed) -> None:
    observed = ("what-if", {"cidr": "127.0.7.0/24"}, {"maxConnections": 1, "mode": "Observe"})
    assert governed.enforce(observed).is_complete
    with ExitStack() as stack:
        assert served(broker, stack, "127.0.7.1", 4) == 4


def test_a_restarted_operator_keeps_existing_limits_and_lifts_unwanted_ones(
    broker: BrokerProcess, governed: Governed
) -> None:
    kept = ("range", {"cidr": "127.0.4.0/24"}, {"maxConnections": 2})
    assert governed.enforce(kept, ("gone", {"cidr": "2001:db8::/32"}, {"maxConnections": 2})).is_complete
    again = Governed(broker)
    result = again.enforce(kept)
    assert result.is_complete
    assert {group_of(key) for action in result.changes for key in action.keys} == {"default/gone"}
    assert Governed(broker).enforce(kept).changes == ()
