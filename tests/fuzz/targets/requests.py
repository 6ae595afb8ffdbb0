"""Frames of clients: the decoders of requests and answers, and all handlers of a complete node in memory."""

import asyncio
import random
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from broker_runtime.apis.request.context import ApiSpec
from broker_runtime.apis.table import BROKER_APIS, CONTROLLER_APIS
from broker_runtime.errors import ProtocolError
from broker_runtime.slicing.steps import at_once
from broker_runtime.wire.encoding.varint import skip_tagged_fields
from broker_runtime.wire.header import read_header
from broker_runtime.wire.limits import RequestLimits
from broker_runtime.wire.messages import (
    decode_request,
    decode_request_in_steps,
    decode_response,
    decode_response_in_steps,
    message_type,
)
from tests.fuzz.target import Cut, LivingTarget, Run, Target
from tests.simulation.node_in_memory import TOPICS, Frame, Node, node_in_memory
from tests.support.requests.calls import NotedConnection
from tests.support.requests.hostile_requests import hostile, well_formed
from tests.support.requests.random_answers import random_answer

_SEED = 20_261_129
_SIZE_BYTES = 4
_TEXTS = (*TOPICS, "__consumer_offsets", "", "ö" * 40)
_APIS: tuple[ApiSpec[Any], ...] = (*BROKER_APIS, *CONTROLLER_APIS)
_SERVED = {api.key: api for api in _APIS}
_LIMITS = RequestLimits(items_max=1_000)
_ON_CONTROLLER = 0x80
_INPUTS_OF_A_NODE = 2_000
"""Inputs until a node is replaced: its topics and groups become many."""


def _request(data: bytes) -> None:
    """A request is read at once and in steps with the same result."""
    frame = memoryview(data)
    with suppress(ProtocolError):
        key, version, _, _, at = read_header(frame)
        api = _SERVED.get(key)
        if api is None or not api.versions[0] <= version <= api.versions[1]:
            return
        if version >= api.flexible_from:
            at = skip_tagged_fields(frame, at, _LIMITS)
        entity = decode_request(key, version, frame[at:])
        with suppress(ProtocolError):
            assert repr(at_once(decode_request_in_steps(key, version, frame[at:], _LIMITS))) == repr(entity)


def _answer(data: bytes) -> None:
    """What another node of the cluster answers."""
    cut = Cut(data)
    api = _APIS[cut.number(len(_APIS))]
    version = api.versions[0] + cut.number(api.versions[1] - api.versions[0] + 1)
    body = memoryview(cut.rest())
    with suppress(ProtocolError):
        entity = decode_response(api.key, version, body)
        assert repr(at_once(decode_response_in_steps(api.key, version, body))) == repr(entity)


def _requests() -> Iterator[bytes]:
    rng = random.Random(_SEED)
    for api in _APIS:
        for version in {api.versions[0], api.versions[1]}:
            yield well_formed(api, version, rng, _TEXTS)[_SIZE_BYTES:]


def _answers() -> Iterator[bytes]:
    rng = random.Random(_SEED)
    for number, api in enumerate(_APIS):
        kind = message_type(api.key, api.versions[1], "Response")
        body = random_answer(kind, rng)[5 if kind.__flexible__ else 4 :]
        yield bytes((number, api.versions[1] - api.versions[0])) + body


@contextmanager
def _node() -> Iterator[Run]:
    """Give each input to a handler of a node: 0x80 in the first byte chooses the controller's."""
    node, ended = None, 0
    with _nodes() as nodes:

        def run(data: bytes) -> None:
            nonlocal node, ended
            if node is None or ended % _INPUTS_OF_A_NODE == 0:
                node = next(nodes)
            ended += 1
            cut = Cut(data)
            apis = CONTROLLER_APIS if cut.number(256) & _ON_CONTROLLER else BROKER_APIS
            node.run(_asked(node, node.handler(apis[0]), cut.rest()))

        yield run


@contextmanager
def _nodes() -> Iterator[Iterator[Node]]:
    """Yield nodes one after the other; each ends when the next is asked for."""

    def made() -> Iterator[Node]:
        while True:
            with node_in_memory() as node:
                yield node

    nodes = made()
    try:
        yield nodes
    finally:
        nodes.close()  # type: ignore[attr-defined]


async def _asked(node: Node, handler: object, frame: bytes) -> None:
    node.connection = connection = NotedConnection()
    async with asyncio.timeout(600):
        await node.ask(handler, Frame(frame))  # type: ignore[arg-type]
    connection.end()
    await asyncio.sleep(0)
    kinds = [kind for kind, _ in (*connection.refusals, *connection.noted)]
    assert "handler-failed" not in kinds, connection.refusals
    assert node.mistakes == [], node.mistakes


def _frames() -> Iterable[bytes]:
    rng = random.Random(_SEED)
    for first, apis in ((b"\x00", BROKER_APIS), (b"\x80", CONTROLLER_APIS)):
        for api in apis:
            for version in {api.versions[0], api.versions[1]}:
                yield first + well_formed(api, version, rng, _TEXTS)[_SIZE_BYTES:]
                yield first + next(hostile(api, version, rng))[_SIZE_BYTES:]


TARGETS = (
    Target("request", _request, _requests, 2_048),
    Target("node-answer", _answer, _answers, 2_048),
    LivingTarget("node", _node, _frames, 2_048),
)
