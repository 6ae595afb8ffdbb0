"""Nodes and clients are killed while TLS, SASL, ACLs and sessions that end are in force: nothing acknowledged is lost.

Clients use SASL_SSL with SCRAM, nodes use TLS with certificates. SLUICEGATE_KILL_ROUNDS is the number of rounds, of
which `make soak` does twenty; SLUICEGATE_KILL_SEED selects what is killed.
"""

import json
import os
import random
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from tests.support.processes.broker_process import BrokerGroup
from tests.support.processes.clients.acknowledged import AcknowledgedWorkload, Partitions, create_topic
from tests.support.processes.clients.broker_admin import until
from tests.support.tls.secure_broker import LISTENER, TlsWorld

pytestmark = pytest.mark.full

ROUNDS = int(os.environ.get("SLUICEGATE_KILL_ROUNDS", "4"))
SEED = int(os.environ.get("SLUICEGATE_KILL_SEED", "0"))
TOPIC, OF_KILLED, PARTITIONS = "kept", "kept-killed", 4
USER, PASSWORD, MECHANISM = "anna", "hidden=password", "SCRAM-SHA-512"
REAUTHENTICATED = f'kafka_server_socket_server_successful_reauthentication_total{{listener="{LISTENER}"}}'
PATIENCE_S = 60


def properties(world: TlsWorld) -> Mapping[str, str]:
    """The listener PLAINTEXT is for the test's own questions; its user may do everything, as the nodes may."""
    return {
        "listener.security.protocol.map": f"PLAINTEXT:PLAINTEXT,{LISTENER}:SASL_SSL,INTERNAL:SSL,CONTROLLER:SSL",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(world.broker.store),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(world.trusted),
        # As in Kafka, listeners with SASL ignore it.
        "ssl.client.auth": "required",
        "sasl.enabled.mechanisms": MECHANISM,
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:CN=broker,O=Sluice;User:ANONYMOUS",
        "broker.session.timeout.ms": "1500",
        "broker.heartbeat.interval.ms": "200",
        "replica.lag.time.max.ms": "1500",
        "replica.fetch.backoff.ms": "200",
    }


@pytest.fixture(scope="module")
def group(world: TlsWorld) -> Iterator[BrokerGroup]:
    of_brokers = {
        "inter.broker.listener.name": "INTERNAL",
        "listener.name.secure.connections.max.reauth.ms": "2000",
    }
    made = BrokerGroup(3, listeners=[LISTENER, "INTERNAL"], properties=properties(world), of_brokers=of_brokers)
    with made as group:
        admin = AdminClient({"bootstrap.servers": group.bootstrap})
        info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
        upsertion = UserScramCredentialUpsertion(USER, info, PASSWORD.encode())
        admin.alter_user_scram_credentials([upsertion])[USER].result(PATIENCE_S)
        for resource, name in ((ResourceType.TOPIC, TOPIC), (ResourceType.GROUP, "unused")):
            acl = AclBinding(
                resource,
                name,
                ResourcePatternType.PREFIXED,
                f"User:{USER}",
                "*",
                AclOperation.ALL,
                AclPermissionType.ALLOW,
            )
            admin.create_acls([acl])[acl].result(PATIENCE_S)
        yield group


def security(world: TlsWorld) -> dict[str, str]:
    login = {"sasl.mechanism": MECHANISM, "sasl.username": USER, "sasl.password": PASSWORD}
    return world.confluent() | {"security.protocol": "SASL_SSL"} | login


def secured(group: BrokerGroup) -> str:
    return ",".join(f"{broker.host}:{broker.port(LISTENER)}" for broker in group.brokers)


class KilledProducer:
    """A process that produces until it is killed. Its lines are what was acknowledged."""

    def __init__(self, settings: Mapping[str, str], file: Path, prefix: str) -> None:
        self._file = file
        command = [sys.executable, "-m", "tests.support.tls.secured_producer"]
        with file.open("wb") as output:
            self._process = subprocess.Popen(
                [*command, json.dumps(dict(settings)), OF_KILLED, str(PARTITIONS), prefix], stdout=output
            )

    def acknowledged(self) -> list[list[str]]:
        """The complete lines: a killed process may leave half of one."""
        return [line.split() for line in self._file.read_text().splitlines(keepends=True) if line.endswith("\n")]

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()


def kill_nodes(group: BrokerGroup, victim: str, drawn: random.Random) -> None:
    brokers = {"broker": [drawn.choice(group.brokers)], "controller": [], "brokers": group.brokers}
    killed = brokers.get(victim, [group.controller, drawn.choice(group.brokers)])
    for node in [group.controller] if victim == "controller" else killed:
        node.kill()
    for node in [group.controller] if victim == "controller" else killed:
        node.start(wait=False)
    for node in group.nodes:
        node.wait_ready()


@pytest.mark.timeout(300 + 90 * ROUNDS)
def test_nothing_acknowledged_is_lost(group: BrokerGroup, world: TlsWorld, tmp_path: Path) -> None:
    for topic in (TOPIC, OF_KILLED):
        create_topic(group.bootstrap, topic, PARTITIONS, 3, min_insync_replicas="2")
    partitions = Partitions(group.bootstrap, TOPIC)
    drawn = random.Random(SEED)
    victims = ["broker", "controller and broker", "brokers", "controller"]
    settings = security(world) | {"bootstrap.servers": secured(group)}
    ended: list[KilledProducer] = []
    reauthenticated = 0.0

    def reauthentications() -> float:
        return sum(broker.metrics().get(REAUTHENTICATED, 0) for broker in group.brokers)

    with AcknowledgedWorkload(secured(group), TOPIC, PARTITIONS, security=security(world)) as work:
        for number in range(ROUNDS):
            until(lambda: partitions.all_in_sync(3), "all replicas are in sync")
            client = KilledProducer(settings, tmp_path / f"producer-{number}", f"{number}")
            try:
                before = work.count
                until(lambda: work.count > before + 200, "the producer goes on")  # noqa: B023 - called at once
                until(lambda: len(client.acknowledged()) > 200, "the other producer goes on")  # noqa: B023
                kill_nodes(group, victims[number % len(victims)], drawn)
                after = work.count
                until(lambda: work.count > after + 200, "the producer goes on after the kill")  # noqa: B023
                until(lambda: reauthentications() > 0, "clients authenticate again")
                reauthenticated += reauthentications()
            finally:
                client.kill()
            ended.append(client)
        until(lambda: partitions.all_in_sync(3), "all replicas are in sync")
    work.check(raw=group.bootstrap)
    counted = judge(group, ended)
    print(f"{work.count} and {counted} acknowledged, {reauthenticated:g} sessions renewed, seed {SEED}")
    assert PASSWORD not in "".join(node.log() for node in group.nodes)


def judge(group: BrokerGroup, ended: list[KilledProducer]) -> int:
    """Check what was acknowledged to producers that were killed, and return how much that is."""
    found = AcknowledgedWorkload(group.bootstrap, OF_KILLED, PARTITIONS).read_back(group.bootstrap)
    count = 0
    for producer in ended:
        lines = producer.acknowledged()
        assert not [line for line in lines if line[0] == "error"]
        places = [
            (int(partition), None if offset == "None" else int(offset), value) for partition, offset, value in lines
        ]
        lost = [place for place in places if not is_there(found[place[0]], place[1], place[2].encode())]
        assert not lost, f"{len(lost)} of {len(lines)} acknowledged records are lost or moved: {lost[:5]}"
        count += len(lines)
    return count


def is_there(records: Mapping[int, bytes], offset: int | None, value: bytes) -> bool:
    """Whether the record is at its offset. librdkafka names none for records that a later acknowledgement confirms."""
    return value in records.values() if offset is None else records.get(offset) == value
