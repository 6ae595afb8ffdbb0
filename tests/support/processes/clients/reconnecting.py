"""Clients that connect to a listener, get one answer, hang up and connect again, in a thread of this process."""

import asyncio
import socket
import threading
from contextlib import suppress
from typing import Self

from tests.support.requests.request_frames import encode_request

_API_VERSIONS = 18
_REQUEST = encode_request(_API_VERSIONS, 0, 1, {})
_PAUSE_S = 0.02
"""A client that is refused tries again after this time."""


class Reconnecting:
    """So many clients at a time of one listener. They begin with the `with` block, and hang up at its end."""

    def __init__(self, address: tuple[str, int], clients: int = 60) -> None:
        self._address = address
        self._clients = clients
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run)
        self._tasks: list[asyncio.Task[None]] = []

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._end)
        self._thread.join()

    def _run(self) -> None:
        self._tasks = [self._loop.create_task(self._connect_again_and_again()) for _ in range(self._clients)]
        self._loop.run_until_complete(asyncio.gather(*self._tasks, return_exceptions=True))
        self._loop.close()

    def _end(self) -> None:
        for task in self._tasks:
            task.cancel()

    async def _connect_again_and_again(self) -> None:
        while True:
            with socket.socket() as client, suppress(OSError):
                client.setblocking(False)
                await self._loop.sock_connect(client, self._address)
                await self._loop.sock_sendall(client, _REQUEST)
                if await self._loop.sock_recv(client, 1024):
                    continue
            await asyncio.sleep(_PAUSE_S)
