"""The consumer library on a listener with SASL_SSL: it reads, authenticates again, and ends if it is refused."""

import asyncio
import logging
import ssl
import time
from collections.abc import Collection, Iterator
from dataclasses import replace

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion

from sluicegate_consumer import (
    AuthenticationError,
    Consumer,
    Listener,
    SaslPassword,
    SaslToken,
    Settings,
    SyncConsumer,
    TopicPartition,
)
from tests.support.processes.broker_process import BrokerProcess
from tests.support.requests.tokens import key_set, token
from tests.support.tls.authority import Authority
from tests.support.tls.secure_broker import LISTENER, PREFIX, TlsWorld

DEADLINE_S = 60
USER, PASSWORD = "anna", "hidden=password"
PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
REAUTHENTICATED = f'kafka_server_socket_server_successful_reauthentication_total{{listener="{LISTENER}"}}'
SESSION_MS = 3_000
RECORDS = 200


@pytest.fixture(scope="module")
def broker(world: TlsWorld) -> Iterator[BrokerProcess]:
    keys = world.folder / "keys.json"
    keys.write_bytes(key_set(0))
    properties = {
        **world.properties(connections_max_reauth_ms=str(SESSION_MS)),
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SECURE:SASL_SSL",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
        f"{PREFIX}oauthbearer.sasl.oauthbearer.jwks.endpoint.url": keys.as_uri(),
        f"{PREFIX}oauthbearer.sasl.oauthbearer.expected.audience": "kafka",
        f"{PREFIX}plain.sasl.jaas.config": f'{PLAIN_MODULE} required user_{USER}="{PASSWORD}";',
        "group.min.session.timeout.ms": "100",
        "offsets.topic.num.partitions": "2",
    }
    with BrokerProcess(listeners=[LISTENER], properties=properties) as process:
        admin = AdminClient({"bootstrap.servers": process.bootstrap})
        for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
            upsertion = UserScramCredentialUpsertion(USER, ScramCredentialInfo(mechanism, 4096), PASSWORD.encode())
            admin.alter_user_scram_credentials([upsertion])[USER].result(DEADLINE_S)
        yield process


def settings(world: TlsWorld, mechanism: str = "SCRAM-SHA-512", password: str = PASSWORD) -> Settings:
    context = ssl.create_default_context(cafile=str(world.trusted))
    return Settings(
        tls=context, sasl=SaslPassword(mechanism, USER, password), session_timeout_s=3.0, callback_timeout_s=1.0
    )


def bootstrap(broker: BrokerProcess) -> str:
    return f"{broker.host}:{broker.port(LISTENER)}"


def produce(broker: BrokerProcess, topic: str, first: int = 0) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for number in range(first, first + RECORDS):
        producer.produce(topic, b"%d" % number)
    assert producer.flush(DEADLINE_S) == 0


async def read(consumer: Consumer) -> list[int]:
    found: list[int] = []
    async with asyncio.timeout(DEADLINE_S):
        while len(found) < RECORDS:
            record = await anext(consumer)
            found.append(int(record.value or b""))
            record.acknowledge()
    return found


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
async def test_a_group_is_read_with_each_mechanism(broker: BrokerProcess, world: TlsWorld, mechanism: str) -> None:
    topic = f"read-{mechanism}"
    await asyncio.to_thread(produce, broker, topic)
    async with Consumer(bootstrap(broker), topic, topics=[topic], settings=settings(world, mechanism)) as consumer:
        assert await read(consumer) == list(range(RECORDS))
    await asyncio.to_thread(produce, broker, topic, RECORDS)
    async with Consumer(bootstrap(broker), topic, topics=[topic], settings=settings(world, mechanism)) as consumer:
        assert await read(consumer) == list(range(RECORDS, 2 * RECORDS))


async def test_a_function_returns_the_token_for_each_connection(broker: BrokerProcess, world: TlsWorld) -> None:
    asked: list[str] = []

    async def fresh() -> str:
        now_s = int(time.time())
        asked.append(token(0, sub="orders", iss="here", iat=now_s - 5, exp=now_s + 300))
        return asked[-1]

    await asyncio.to_thread(produce, broker, "tokens")
    with_tokens = replace(settings(world), sasl=SaslToken(fresh))
    async with Consumer(bootstrap(broker), "tokens", topics=["tokens"], settings=with_tokens) as consumer:
        assert await read(consumer) == list(range(RECORDS))
    assert len(asked) >= 3


def test_the_blocking_consumer_reads_too(broker: BrokerProcess, world: TlsWorld) -> None:
    produce(broker, "blocking")
    found: list[int] = []
    with SyncConsumer(
        lambda: Consumer(bootstrap(broker), "blocking", topics=["blocking"], settings=settings(world))
    ) as consumer:
        for record in consumer:
            found.append(int(record.value or b""))
            record.acknowledge()
            if len(found) == RECORDS:
                break
    assert found == list(range(RECORDS))


class Moves(Listener):
    """Notes what the consumer loses."""

    def __init__(self) -> None:
        self.gone: list[Collection[TopicPartition]] = []

    async def revoked(self, partitions: Collection[TopicPartition]) -> None:
        self.gone.append(partitions)

    async def lost(self, partitions: Collection[TopicPartition]) -> None:
        self.gone.append(partitions)


@pytest.mark.full
async def test_it_authenticates_again_and_loses_no_partition(
    broker: BrokerProcess, world: TlsWorld, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "sluicegate_consumer")
    await asyncio.to_thread(produce, broker, "long")
    before, moves = broker.metrics().get(REAUTHENTICATED, 0), Moves()
    async with Consumer(
        bootstrap(broker), "long", topics=["long"], listener=moves, settings=settings(world)
    ) as consumer:
        assert await read(consumer) == list(range(RECORDS))
        async with asyncio.timeout(DEADLINE_S):
            while (await asyncio.to_thread(broker.metrics)).get(REAUTHENTICATED, 0) < before + 3:  # noqa: ASYNC110
                await asyncio.sleep(0.1)
        await asyncio.to_thread(produce, broker, "long", RECORDS)
        assert await read(consumer) == list(range(RECORDS, 2 * RECORDS))
        assert moves.gone == []
    assert "cannot be read from" not in caplog.text


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
async def test_a_wrong_password_is_an_error_at_once(
    broker: BrokerProcess, world: TlsWorld, mechanism: str, caplog: pytest.LogCaptureFixture
) -> None:
    wrong = settings(world, mechanism, "wrong-secret")
    async with asyncio.timeout(DEADLINE_S), Consumer(bootstrap(broker), "g", topics=["t"], settings=wrong) as consumer:
        with pytest.raises(AuthenticationError, match="refused the credentials") as refused:
            await anext(consumer)
    assert mechanism in str(refused.value)
    assert "wrong-secret" not in str(refused.value) + caplog.text


def test_the_blocking_consumer_raises_the_same_error(broker: BrokerProcess, world: TlsWorld) -> None:
    wrong = settings(world, password="wrong-secret")
    with (
        SyncConsumer(lambda: Consumer(bootstrap(broker), "g", topics=["t"], settings=wrong)) as consumer,
        pytest.raises(AuthenticationError),
    ):
        next(consumer)


async def test_an_untrusted_broker_gets_no_password(broker: BrokerProcess, world: TlsWorld) -> None:
    other = ssl.create_default_context(cadata=Authority("Other CA").pem)
    distrustful = replace(settings(world, "PLAIN"), tls=other)
    async with (
        asyncio.timeout(DEADLINE_S),
        Consumer(bootstrap(broker), "g", topics=["t"], settings=distrustful) as consumer,
    ):
        with pytest.raises(AuthenticationError, match=r"certificate is not accepted for 127\.0\.0\.1"):
            await anext(consumer)
