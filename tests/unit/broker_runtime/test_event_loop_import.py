"""The available TLS in a process that has imported its event loop without it."""

import subprocess
import sys

import pytest

BEGIN = """
import sys
from broker_runtime.event_loop_import import import_event_loop
import_event_loop()
import asyncio, uvloop
assert "ssl" not in sys.modules and "_hashlib" not in sys.modules
"""
OF_ASYNCIO = """
import ssl
from asyncio import base_events, selector_events, sslproto
assert sslproto.ssl.MemoryBIO is ssl.MemoryBIO
assert sslproto.ssl is base_events.ssl is selector_events.ssl is ssl
assert sslproto.SSLAgainErrors == (ssl.SSLWantReadError, ssl.SSLSyscallError)
"""
OF_A_THREAD = """
import ssl
ssl.create_default_context().wrap_bio(ssl.MemoryBIO(), ssl.MemoryBIO(), server_hostname="example.org")
"""
OF_UVLOOP = """
import ssl
context = ssl.create_default_context()
async def refused(attempt):
    try:
        await attempt
    except RuntimeError as error:
        assert "use TLS in a thread" in str(error), error
    else:
        raise AssertionError("it was taken")
async def main():
    plain = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
    port = plain.sockets[0].getsockname()[1]
    await refused(asyncio.start_server(lambda *_: None, "127.0.0.1", 0, ssl=context))
    for tls in (context, True):
        await refused(asyncio.open_connection("127.0.0.1", port, ssl=tls))
    plain.close()
uvloop.run(main())
"""
PLAIN = """
async def main():
    server = await asyncio.start_server(lambda reader, writer: writer.close(), "127.0.0.1", 0)
    reader, _ = await asyncio.open_connection(*server.sockets[0].getsockname())
    assert await reader.read() == b""
    server.close()
uvloop.run(main())
assert "ssl" not in sys.modules
asyncio.run(main())
"""
WITH_TLS_BEFORE = """
import ssl, sys
from broker_runtime.event_loop_import import import_event_loop
import_event_loop()
assert sys.modules["ssl"] is ssl
"""


@pytest.mark.parametrize(
    "script",
    [BEGIN + OF_ASYNCIO, BEGIN + OF_A_THREAD, BEGIN + OF_UVLOOP, BEGIN + PLAIN, WITH_TLS_BEFORE],
    ids=["asyncio", "a thread", "uvloop", "plain", "TLS before"],
)
def test_tls_is_where_it_can_be_and_is_refused_elsewhere(script: str) -> None:
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
