"""A broker's own connection to the controllers, over real sockets: one of them hangs, and another one is active."""

import asyncio

from broker_runtime.cluster.links.link import ControllerClient
from broker_runtime.cluster.links.socket_link import SocketLink
from broker_runtime.config import ServerAddress
from broker_runtime.errors import ErrorCode
from broker_runtime.network.connection.outgoing.client_connection import ClientConnector
from broker_runtime.network.settings import ClientLimits
from broker_runtime.network.sockets.dialling import SocketDialler
from broker_runtime.wire.messages import encode_response
from broker_runtime.wire.versions import BROKER_HEARTBEAT

PATIENCE_S = 60.0
UNFENCED = {"error_code": ErrorCode.NONE, "is_caught_up": True, "is_fenced": False, "should_shut_down": False}


class Controller:
    """Reads requests, and answers them unless it hangs."""

    def __init__(self, *, hangs: bool) -> None:
        self.hangs = hangs
        self.asked = asyncio.Event()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                size = int.from_bytes(await reader.readexactly(4), "big")
                correlation_id = int.from_bytes((await reader.readexactly(size))[4:8], "big")
                self.asked.set()
                if not self.hangs:
                    writer.write(encode_response(BROKER_HEARTBEAT, 1, correlation_id, UNFENCED))
        except (asyncio.IncompleteReadError, ConnectionResetError):
            writer.close()


async def test_pending_requests_move_from_a_hung_controller_to_the_active_one() -> None:
    hung, active = Controller(hangs=True), Controller(hangs=False)
    async with (
        await asyncio.start_server(hung.serve, "127.0.0.1", 0) as one,
        await asyncio.start_server(active.serve, "127.0.0.1", 0) as other,
    ):
        ring = [ServerAddress(*server.sockets[0].getsockname()) for server in (one, other)]
        connector = ClientConnector(SocketDialler(asyncio.get_running_loop()), ClientLimits(1_000_000, 10, PATIENCE_S))
        link = SocketLink(ring, connector)
        client = ControllerClient(link, PATIENCE_S)
        elsewhere = ControllerClient(SocketLink(ring[::-1], connector), PATIENCE_S)
        async with asyncio.timeout(PATIENCE_S / 2):
            waiting = [asyncio.create_task(client.forward(BROKER_HEARTBEAT, 1, memoryview(b""))) for _ in range(3)]
            await hung.asked.wait()
            assert not active.asked.is_set()
            client.follow(elsewhere)
            assert len(await asyncio.gather(*waiting)) == 3
            assert link.server == ring[1]
            await client.forward(BROKER_HEARTBEAT, 1, memoryview(b""))
        client.close()
        while len(asyncio.all_tasks()) > 1:
            await asyncio.wait(asyncio.all_tasks() - {asyncio.current_task()}, timeout=PATIENCE_S)
