"""Apache Kafka 4.3.0 and this project's broker answer frames of SASL and requests for credentials alike."""

import struct
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.integration.differential.conftest import Pair
from tests.support.processes.apache_kafka import ApacheKafka
from tests.support.processes.broker_process import BrokerProcess
from tests.support.processes.clients.wire_client import CLOSED, ConnectionEnded, WireClient

pytestmark = pytest.mark.full

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
COMMON = {
    "listener.name.secure.sasl.enabled.mechanisms": ",".join(MECHANISMS),
    "listener.name.secure.plain.sasl.jaas.config": f'{PLAIN} required user_alice="secret" user_bob="secret";',
    "listener.name.secure.scram-sha-256.sasl.jaas.config": f"{SCRAM} required;",
    "listener.name.secure.scram-sha-512.sasl.jaas.config": f"{SCRAM} required;",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SECURE:SASL_PLAINTEXT",
    "offsets.topic.replication.factor": "1",
}
RIGHT, WRONG = b"\0alice\0secret", b"\0alice\0wrong"
Node = ApacheKafka | BrokerProcess
Played = list[Any]
Exchange = Callable[[WireClient], Iterator[Any]]


@pytest.fixture(scope="module")
def nodes() -> Iterator[Pair]:
    kafka = ApacheKafka(listeners=["SECURE"], properties=COMMON)
    ours = BrokerProcess(listeners=["SECURE"], properties=COMMON)
    with kafka, ours:
        yield Pair(kafka, ours)


def handshake(client: WireClient, mechanism: str = "PLAIN", version: int = 1) -> Any:
    answer = client.ask("sasl_handshake", version, mechanism=mechanism)
    return answer | {"mechanisms": sorted(answer["mechanisms"])}


def token(client: WireClient, data: bytes, version: int = 2) -> Any:
    return client.ask("sasl_authenticate", version, auth_bytes=data)


def metadata(client: WireClient) -> Any:
    client.ask("metadata", 4, topics=[], allow_auto_topic_creation=False)
    return "served"


def of_tokens(data: bytes, version: int = 2, mechanism: str = "PLAIN") -> Exchange:
    def play(client: WireClient) -> Iterator[Any]:
        yield handshake(client, mechanism)
        yield token(client, data, version)
        yield metadata(client)

    return play


def raw_tokens(data: bytes) -> Exchange:
    def play(client: WireClient) -> Iterator[Any]:
        yield handshake(client, version=0)
        client.send(struct.pack(">i", len(data)) + data)
        yield client.receive()
        yield metadata(client)

    return play


def other_mechanism(client: WireClient) -> Iterator[Any]:
    yield handshake(client, "OAUTHBEARER")
    yield handshake(client)


def request_first(client: WireClient) -> Iterator[Any]:
    yield metadata(client)


def request_between(client: WireClient) -> Iterator[Any]:
    yield handshake(client)
    yield client.ask("heartbeat", 3, group_id="g", generation_id=1, member_id="m", group_instance_id=None)
    yield metadata(client)


def versions_twice(client: WireClient) -> Iterator[Any]:
    client.ask("api_versions", 0)
    yield "answered"
    client.ask("api_versions", 0)
    yield "answered again"


def versions_of_bad_software(client: WireClient) -> Iterator[Any]:
    yield client.ask("api_versions", 3, client_software_name="-", client_software_version="1")["error_code"]
    yield handshake(client)


def again_afterwards(client: WireClient) -> Iterator[Any]:
    yield handshake(client)
    yield token(client, RIGHT)
    yield handshake(client) | {"mechanisms": []}
    yield token(client, RIGHT)["error_code"]
    yield metadata(client)


def too_large(client: WireClient) -> Iterator[Any]:
    yield handshake(client)
    yield token(client, bytes(600 * 1024))


EXCHANGES: Mapping[str, Exchange] = {
    "plain, version 0": of_tokens(RIGHT, 0),
    "plain, version 1": of_tokens(RIGHT, 1),
    "plain, version 2": of_tokens(RIGHT),
    "plain, wrong password": of_tokens(WRONG),
    "plain, unknown user": of_tokens(b"\0carol\0secret"),
    "plain, no user": of_tokens(b"\0\0secret"),
    "plain, no password": of_tokens(b"\0alice\0"),
    "plain, other authorization id": of_tokens(b"bob\0alice\0secret"),
    "plain, own authorization id": of_tokens(b"alice\0alice\0secret"),
    "plain, two parts": of_tokens(b"alice\0secret"),
    "plain, four parts": of_tokens(b"\0alice\0secret\0"),
    "plain, nothing": of_tokens(b""),
    "raw plain": raw_tokens(RIGHT),
    "raw plain, wrong password": raw_tokens(WRONG),
    "scram, nonsense": of_tokens(b"nonsense", mechanism="SCRAM-SHA-256"),
    "scram, channel binding": of_tokens(b"y,,n=alice,r=abc", mechanism="SCRAM-SHA-512"),
    "other mechanism": other_mechanism,
    "request first": request_first,
    "request between": request_between,
    "versions twice": versions_twice,
    "versions of bad software": versions_of_bad_software,
    "again afterwards": again_afterwards,
    "too large": too_large,
}


def played(exchange: Exchange, node: Node) -> Played:
    found: Played = []
    with WireClient((node.host, node.port("SECURE"))) as client:
        try:
            found.extend(exchange(client))
        except (ConnectionEnded, ConnectionError):
            found.append(CLOSED)
    return found


def both(nodes: Pair, act: Callable[[Node], Any]) -> tuple[Any, Any]:
    with ThreadPoolExecutor(2) as threads:
        kafka, ours = threads.submit(act, nodes.kafka), threads.submit(act, nodes.ours)
        return kafka.result(), ours.result()


@pytest.mark.parametrize("name", EXCHANGES)
def test_exchanges_are_answered_alike(nodes: Pair, name: str) -> None:
    kafka, ours = both(nodes, lambda node: played(EXCHANGES[name], node))
    assert ours == kafka


UPSERTION: dict[str, Any] = {"mechanism": 1, "iterations": 4096, "salt": b"salt", "salted_password": b"salted"}


def credentials(node: Node) -> Played:
    with WireClient((node.host, node.port())) as client:

        def altered(*upsertions: dict[str, Any], deletions: tuple[tuple[str, int], ...] = ()) -> Any:
            removed = [{"name": name, "mechanism": mechanism} for name, mechanism in deletions]
            answer = client.ask(
                "alter_user_scram_credentials", 0, deletions=removed, upsertions=[UPSERTION | one for one in upsertions]
            )
            return sorted(answer["results"], key=lambda result: str(result["user"]))

        def described(*names: str) -> Any:
            users = [{"name": name} for name in names] if names else None
            answer = client.ask("describe_user_scram_credentials", 0, users=users)
            for result in answer["results"]:
                result["credential_infos"].sort(key=lambda info: info["mechanism"])
            return answer | {"results": sorted(answer["results"], key=lambda result: str(result["user"]))}

        def wait_for(name: str, error: str) -> None:
            """Wait until the node knows the change: it answers before its own image has it."""
            deadline = time.monotonic() + 10
            while described(name)["results"][0]["error_code"] != error:
                assert time.monotonic() < deadline, f"credentials of {name}: {error}"

        changed = [
            altered(),
            altered({"name": "a"}, {"name": "b", "mechanism": 2, "iterations": 16_384}),
            altered({"name": "a"}, {"name": "a", "mechanism": 2}, {"name": "c"}),
            altered({"name": ""}, {"name": "d", "mechanism": 3}, {"name": "e", "iterations": 4095}),
            altered({"name": "f", "iterations": 16_385}, deletions=(("nobody", 1), ("a", 2), ("b", 0))),
        ]
        wait_for("c", "none")
        changed += [described(), described("a", "b", "nobody", "a"), altered(deletions=(("a", 1),))]
        wait_for("a", "resource_not_found")
        return [*changed, described("a")]


def test_credentials_are_changed_and_described_alike(nodes: Pair) -> None:
    kafka, ours = both(nodes, credentials)
    for number, (theirs, mine) in enumerate(zip(kafka, ours, strict=True)):
        assert mine == theirs, number
