"""Connects to the addresses of listeners by TCP. Each attempt ends after `CONNECT_TIMEOUT_S`."""

import asyncio
import socket
from collections.abc import Iterable
from contextlib import suppress
from threading import Thread

from sluicegate_operator.cli.asking.addresses import AddressError, parse_address
from sluicegate_operator.cli.doctor.checks.addresses import Attempt, ListenerAddress

CONNECT_TIMEOUT_S = 2.0
TRIED_AT_A_TIME = 32


async def tried(addresses: Iterable[ListenerAddress]) -> dict[ListenerAddress, Attempt]:
    """Connect to all addresses, several at a time."""
    slots = asyncio.Semaphore(TRIED_AT_A_TIME)

    async def one(at: ListenerAddress) -> Attempt:
        async with slots:
            return await attempt(at.address)

    wanted = list(addresses)
    return dict(zip(wanted, await asyncio.gather(*map(one, wanted)), strict=True))


async def attempt(address: str) -> Attempt:
    try:
        host, port = parse_address(address, "address")
    except AddressError as error:
        return Attempt(str(error), resolved=False)
    try:
        async with asyncio.timeout(CONNECT_TIMEOUT_S):
            found = await _resolved(host, port)
    except TimeoutError:
        return Attempt(f"no answer of DNS within {CONNECT_TIMEOUT_S:g} s", resolved=False)
    if isinstance(found, OSError):
        return Attempt(found.strerror or str(found), resolved=False)
    return await _connected(found, port)


async def _connected(hosts: list[str], port: int) -> Attempt:
    error = ""
    for host in hosts:
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT_S):
                _, writer = await asyncio.open_connection(host, port)
        except TimeoutError:
            error = f"no answer of {host} within {CONNECT_TIMEOUT_S:g} s"
        except OSError as refused:
            error = f"{host}: {refused.strerror or refused}"
        else:
            writer.close()
            return Attempt()
    return Attempt(error)


async def _resolved(host: str, port: int) -> list[str] | OSError:
    """Return the addresses of a host, or the error.

    A daemon thread asks DNS: the end of the process does not wait for it.
    """
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[list[str] | OSError] = loop.create_future()

    def note(found: list[str] | OSError) -> None:
        if not answer.done():
            answer.set_result(found)

    def look() -> None:
        found: list[str] | OSError
        try:
            found = list(
                dict.fromkeys(str(one[4][0]) for one in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))
            )
        except (OSError, UnicodeError) as error:
            # A name that DNS cannot have, such as one with an empty label, is a UnicodeError.
            found = error if isinstance(error, OSError) else OSError(str(error))
        with suppress(RuntimeError):
            # The loop may be closed.
            loop.call_soon_threadsafe(note, found)

    Thread(target=look, name="dns", daemon=True).start()
    return await answer
