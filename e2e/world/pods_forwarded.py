"""A front of the API server that forwards requests to pods which are processes of this machine.

The API server itself refuses them: their addresses are loopback addresses (tests/contract/test_pod_proxy.py has the
real forwarding). Everything else goes to the API server.
"""

import asyncio
import re
from collections.abc import Callable

from tests.support.processes.proxies.api_proxy import ApiRequest

_POD = re.compile(r"/api/v1/namespaces/(?P<namespace>[^/]+)/pods/(?P<name>[^/:]+):(?P<port>\d+)/proxy(?P<path>/.*)")
UNAVAILABLE = b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/plain\r\nContent-Length: 7\r\n\r\nno pod\n"


class ForwardedPods:
    """The function `answer` for an ApiProxy. `address` returns the address of a pod, or an empty text."""

    def __init__(self, address: Callable[[str, str], str]) -> None:
        self._address = address
        self.paths: list[str] = []
        """The paths of requests to pods."""

    async def answer(self, request: ApiRequest) -> bytes | None:
        found = _POD.fullmatch(request.path)
        if found is None:
            return None
        self.paths.append(found["path"])
        address = self._address(found["namespace"], found["name"])
        target = found["path"] + (f"?{request.query}" if request.query else "")
        try:
            return _kept_open(await _get(address, int(found["port"]), target)) if address else UNAVAILABLE
        except OSError:
            return UNAVAILABLE


async def _get(host: str, port: int, target: str) -> bytes:
    reader, writer = await asyncio.open_connection(host, port)
    try:
        writer.write(f"GET {target} HTTP/1.1\r\nHost: {host}:{port}\r\nConnection: close\r\n\r\n".encode())
        return await reader.read(-1)
    finally:
        writer.close()


def _kept_open(answer: bytes) -> bytes:
    """Return an answer with its length and without the header that ends the connection."""
    head, _, body = answer.partition(b"\r\n\r\n")
    lines = [line for line in head.split(b"\r\n") if not line.lower().startswith((b"connection:", b"content-length:"))]
    return b"\r\n".join([*lines, b"Content-Length: %d" % len(body)]) + b"\r\n\r\n" + body
