"""Which controller's answer is used, if several answer over real sockets."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from sluicegate_operator.fleet.kafka.controllers import ControllerPlace, controller_view

Serve = Callable[..., Awaitable[ControllerPlace]]


def active(node_id: int, epoch: int, offset: int = 0) -> dict[str, Any]:
    return {
        "clusterId": "c",
        "controllerId": node_id,
        "controllerEpoch": epoch,
        "metadataOffset": offset,
        "brokers": [],
    }


def standby(active_id: int | None) -> dict[str, Any]:
    return {"error": "this controller is not the active one", "activeControllerId": active_id}


@pytest.fixture
async def serve() -> AsyncIterator[Serve]:
    servers: list[asyncio.Server] = []

    async def start(node_id: int, status: int, body: object) -> ControllerPlace:
        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            text = body if isinstance(body, str) else json.dumps(body)
            writer.write(f"HTTP/1.1 {status} X\r\n\r\n{text}".encode())
            await writer.drain()
            writer.close()

        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        servers.append(server)
        return ControllerPlace(node_id, "127.0.0.1", http_port=server.sockets[0].getsockname()[1])

    yield start
    for server in servers:
        server.close()
        await server.wait_closed()


async def test_the_active_controller_is_heard_and_the_standbys_are_not(serve: Serve) -> None:
    places = [await serve(1000, 503, standby(1001)), await serve(1001, 200, active(1001, 4))]
    view = await controller_view(places)
    assert view.overview is not None
    assert (view.overview.controller_id, view.active) == (1001, places[1])


async def test_of_two_that_think_they_are_active_the_newer_counts(serve: Serve) -> None:
    places = [await serve(1000, 200, active(1000, 4, 900)), await serve(1001, 200, active(1001, 5, 10))]
    view = await controller_view(places)
    assert view.active == places[1]


async def test_without_an_active_controller_each_says_why(serve: Serve) -> None:
    gone = await serve(1002, 200, "")
    places = [await serve(1000, 503, standby(None)), await serve(1001, 500, "broken"), gone]
    view = await controller_view([*places, ControllerPlace(1003, "127.0.0.1", http_port=1)])
    assert view.overview is None
    assert view.active is None
    for said in ("1000 is not active", "1001 answers 500", "1002", "1003"):
        assert said in view.unseen


async def test_a_document_that_is_not_understood_is_no_empty_cluster(serve: Serve) -> None:
    place = await serve(1000, 200, {**active(1000, 1), "brokers": [{"id": 1}]})
    view = await controller_view([place])
    assert view.overview is None
    assert "state: the field is missing" in view.unseen


async def test_a_controller_that_hangs_is_not_waited_for() -> None:
    async def hang(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    server = await asyncio.start_server(hang, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        async with asyncio.timeout(5):
            view = await controller_view([ControllerPlace(1000, "127.0.0.1", http_port=port)], timeout_s=0.05)
    assert view.unseen == "controller 1000 does not answer within 0.05 s"


async def test_no_address_is_said_as_well() -> None:
    assert (await controller_view([])).unseen == "no controller has an address yet"
