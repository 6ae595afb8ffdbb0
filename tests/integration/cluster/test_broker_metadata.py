"""BrokerMetadata of a real broker, in frames that are encoded and decoded here byte by byte."""

import json
import socket
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
import typer
from typer.testing import CliRunner

from sluicegate_operator.cli.fleets import brokers as command
from tests.support.processes.broker_process import BrokerGroup, BrokerProcess
from tests.support.processes.clients.wire_client import WireClient

BROKER_METADATA = 30_000
WAIT_S = 20.0


class Frames:
    """Requests without a library, on one connection."""

    def __init__(self, address: tuple[str, int]) -> None:
        self.socket = socket.create_connection(address, timeout=WAIT_S)
        self._correlation_id = 0

    def send(self, api_key: int, version: int, body: bytes) -> int:
        self._correlation_id += 1
        header = struct.pack(">hhih", api_key, version, self._correlation_id, 3) + b"raw"
        self.socket.sendall(struct.pack(">i", len(header + body)) + header + body)
        return self._correlation_id

    def receive(self) -> bytes:
        """Return a frame without its size, or no bytes if the broker closed the connection."""
        size = self._exactly(4)
        return self._exactly(struct.unpack(">i", size)[0]) if size else b""

    def _exactly(self, count: int) -> bytes:
        found = b""
        while len(found) < count:
            part = self.socket.recv(count - len(found))
            if not part:
                return b""
            found += part
        return found

    def brokers(self, *node_ids: int) -> dict[int, tuple[str, int, int, int, dict[str, str]]]:
        body = struct.pack(f">i{len(node_ids)}i", len(node_ids), *node_ids)
        correlation_id = self.send(BROKER_METADATA, 0, body)
        frame = self.receive()
        assert struct.unpack_from(">i", frame) == (correlation_id,)
        return read_brokers(frame[4:])


def read_brokers(body: bytes) -> dict[int, tuple[str, int, int, int, dict[str, str]]]:
    at = 0

    def number() -> int:
        nonlocal at
        at += 4
        return int(struct.unpack_from(">i", body, at - 4)[0])

    def text() -> str:
        nonlocal at
        (size,) = struct.unpack_from(">h", body, at)
        at += 2 + size
        return body[at - size : at].decode()

    found = {}
    for _ in range(number()):
        node_id, host, port, lowest, highest = number(), text(), number(), number(), number()
        found[node_id] = (host, port, lowest, highest, {text(): text() for _ in range(number())})
    assert at == len(body)
    return found


@contextmanager
def frames(broker: BrokerProcess) -> Iterator[Frames]:
    raw = Frames(("127.0.0.1", broker.port()))
    try:
        yield raw
    finally:
        raw.socket.close()


@pytest.fixture(scope="module")
def broker() -> Iterator[BrokerProcess]:
    with BrokerProcess(properties={"tag.rack": "r8a9", "message.max.bytes": "2000000"}) as process:
        yield process


def test_a_broker_describes_itself(broker: BrokerProcess) -> None:
    with frames(broker) as raw:
        everybody = raw.brokers()
        assert everybody == raw.brokers(-1) == raw.brokers(1)
        assert raw.brokers(77) == {}
    ((host, port, lowest, highest, tags),) = everybody.values()
    assert (host, port) == ("127.0.0.1", broker.port())
    assert 1 <= lowest <= highest
    assert tags["broker.id"] == "1"
    assert int(tags["broker.version.int"], 16) > 0
    assert tags["compression.codecs"] == "1=gzip,2=snappy,3=lz4,4=zstd"
    assert tags["message.max.bytes"] == "2000000"
    assert tags["endpoints"] == f"plaintext://127.0.0.1:{broker.port()}"
    assert tags["rack"] == "r8a9"


def alter(broker: BrokerProcess, of: str, **values: str) -> None:
    """Alter dynamic configuration. `of` is a broker's ID, or empty for all brokers. Keys have _ for dots."""
    configs = [{"name": name.replace("_", "."), "config_operation": 0, "value": text} for name, text in values.items()]
    resource = {"resource_type": 4, "resource_name": of, "configs": configs}
    with WireClient(("127.0.0.1", broker.port())) as client:
        answer = client.ask("incremental_alter_configs", 1, resources=[resource], validate_only=False)
    assert answer["responses"][0]["error_code"] == "none"


def until(holds: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + WAIT_S
    while not holds():
        assert time.monotonic() < deadline_s, "it does not happen"


def test_any_broker_tells_the_tags_of_each_also_while_that_is_away() -> None:
    with BrokerGroup(brokers=2, properties={"tag.rack": "r8a9"}) as group:
        first, second = group.brokers
        alter(first, str(second.node_id), tag_aws_zone="eu-central-1")
        with frames(first) as raw, frames(second) as other:
            until(lambda: all(one.brokers()[second.node_id][4].get("aws.zone") for one in (raw, other)))
            before = raw.brokers()
            assert other.brokers() == before
        assert before[second.node_id][4]["aws.zone"] == "eu-central-1"
        assert {number: told[4]["rack"] for number, told in before.items()} == dict.fromkeys(before, "r8a9")
        second.kill()
        with frames(first) as raw:
            assert raw.brokers() == before
            alter(first, "", tag_cluster="k3")
            until(lambda: all(told[4].get("cluster") == "k3" for told in raw.brokers().values()))


def test_an_unsupported_request_gets_an_empty_reply_while_this_is_configured(broker: BrokerProcess) -> None:
    with frames(broker) as raw:
        alter(broker, "", unsupported_request_reply="empty")
        until(lambda: answered_with_nothing(broker))
        for key, version in ((29_999, 0), (3, 99), (BROKER_METADATA, 1)):
            correlation_id = raw.send(key, version, b"whatever")
            assert raw.receive() == struct.pack(">i", correlation_id)
        assert raw.brokers(1).keys() == {1}, "the connection goes on"
        alter(broker, "", unsupported_request_reply="close")
        until(lambda: not answered_with_nothing(broker))
        raw.send(3, 99, b"whatever")
        assert raw.receive() == b""


def answered_with_nothing(broker: BrokerProcess) -> bool:
    with frames(broker) as raw:
        raw.send(29_999, 0, b"")
        return raw.receive() != b""


def test_the_command_shows_it(broker: BrokerProcess) -> None:
    app = typer.Typer()
    app.command()(command.brokers)
    asked = ["--bootstrap-server", broker.bootstrap]
    (told,) = json.loads(CliRunner().invoke(app, ["-o", "json", *asked]).stdout)["brokers"]
    with frames(broker) as raw:
        host, port, lowest, highest, tags = raw.brokers(1)[1]
    assert (told["host"], told["port"], told["tags"], told["serves"]) == (host, port, tags, True)
    assert (told["protocol_version_min"], told["protocol_version_max"]) == (lowest, highest)
    assert "r8a9" in CliRunner().invoke(app, ["1", "--tags", *asked]).stdout
