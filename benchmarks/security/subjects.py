"""The two brokers with TLS: one listener for a client, one for storms, and one without TLS."""

from collections.abc import Callable, Mapping
from pathlib import Path

from benchmarks.brokers.rows import MESSAGE_MAX, production_python
from tests.support.processes.apache_kafka import CONTROLLER_LISTENER, ApacheKafka
from tests.support.processes.broker_process import CLIENT_LISTENER, BrokerProcess
from tests.support.tls.secure_broker import TlsWorld

SECURE, STORM = "SECURE", "STORM"
Broker = BrokerProcess | ApacheKafka
Maker = Callable[[], Broker]


def tls_properties(world: TlsWorld, listeners: tuple[str, ...] = (SECURE, STORM)) -> Mapping[str, str]:
    """Return the properties of listeners with TLS; the keys are those of every listener."""
    protocols = {CLIENT_LISTENER: "PLAINTEXT", CONTROLLER_LISTENER: "PLAINTEXT"} | dict.fromkeys(listeners, "SSL")
    return {
        **MESSAGE_MAX,
        "listener.security.protocol.map": ",".join(f"{name}:{protocol}" for name, protocol in protocols.items()),
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(world.broker.store),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(world.trusted),
    }


def ours(checkout: Path, world: TlsWorld, listeners: tuple[str, ...] = (SECURE, STORM)) -> Maker:
    """Return the function that makes this project's broker with TLS."""
    return lambda: BrokerProcess(
        listeners=listeners,
        properties=tls_properties(world, listeners),
        python=production_python(checkout),
        checkout=checkout,
    )


def ours_without_tls(checkout: Path) -> Maker:
    return lambda: BrokerProcess(
        listeners=(STORM,), properties=MESSAGE_MAX, python=production_python(checkout), checkout=checkout
    )


def theirs(world: TlsWorld, listeners: tuple[str, ...] = (SECURE, STORM)) -> Maker:
    """Return the function that makes Apache Kafka with the JDK's TLS."""
    return lambda: ApacheKafka(listeners=listeners, properties=tls_properties(world, listeners), heap_mb=1024)
