"""Who a client is, worked out once for each of its connections. Pure.

What goes into the log of addresses and principals is decided here, and so is who is left out: a request then costs one
look-up.
"""

from collections import deque
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from broker_runtime.apis.call import ClientSoftware
from broker_runtime.apis.observed import ANONYMOUS
from broker_runtime.blake2 import blake2b
from broker_runtime.wire.handler import ServedConnection

_HASH_HEX_DIGITS = 16
_CLIENT_ID_CHARS_MAX = 255
"""The rest is cut off: of 32,767, which a client may send, some thousand connections would take the broker's memory."""
_GONE_MAX = 1000
"""Connections that have ended and whose clients are still known."""

_UNTOLD = (None, None)


class ClientFacts(NamedTuple):
    """In the order of the schema's client_fields."""

    connection_id: int | None
    listener: str
    client_ip: str
    client_port: int | None
    principal: str
    client_id: str | None
    software_name: str | None
    software_version: str | None


class Client:
    """A connection with the client id of its requests. `facts` is None where it is to be left out.

    Compared by identity: it is looked up for each request. `requests` counts all of its connection.
    """

    __slots__ = ("client_id", "facts", "requests", "software")

    def __init__(self, client_id: str | None, software: object, facts: ClientFacts | None) -> None:
        self.client_id = client_id
        self.software = software
        self.facts = facts
        self.requests = 0


def keyed_hash(key: bytes, text: str) -> str:
    """The same text gives the same hash for as long as the key is the same; without the key nobody can try texts."""
    return blake2b(text.encode(), key=key, digest_size=_HASH_HEX_DIGITS // 2).hexdigest()


@dataclass(frozen=True, slots=True)
class ClientRules:
    """Whom to leave out, by exact names, and what to hash; `hash_key` may have up to 64 bytes, none hashes nothing."""

    excluded_listeners: frozenset[str] = frozenset()
    excluded_principals: frozenset[str] = frozenset()
    hash_key: bytes = b""

    def leave_out(self, listener: str) -> bool:
        """Whoever comes by this listener."""
        return listener in self.excluded_listeners or ANONYMOUS in self.excluded_principals

    def shown(self, text: str) -> str:
        return keyed_hash(self.hash_key, text) if self.hash_key else text


class Clients:
    """The clients of the connections that are open, and of the last that were, whose end may still have to be told."""

    def __init__(self, rules: ClientRules) -> None:
        self._rules = rules
        self.by_id: dict[int, Client] = {}
        """By the connection's id."""
        self._gone: deque[int] = deque()

    def of(self, connection: ServedConnection, client_id: str | None) -> Client:
        """Of a request that tells of its client otherwise than before, or for the first time."""
        before = self.by_id.get(connection.id)
        told = connection.state
        client_id = None if client_id is None else client_id[:_CLIENT_ID_CHARS_MAX]
        software = told if isinstance(told, ClientSoftware) else _UNTOLD
        facts = self._facts(connection.listener, *connection.peer[:2], connection.id, client_id, *software)
        client = Client(client_id, told, facts)
        self.by_id[connection.id] = client
        if before is None:
            connection.closed.add(partial(self._is_gone, connection.id))
        else:
            client.requests = before.requests
        return client

    def known(self, connection_id: int | None) -> Client | None:
        """As far as requests of this connection have told it."""
        return None if connection_id is None else self.by_id.get(connection_id)

    def stranger(self, listener: str, ip: str, port: int, connection_id: int | None = None) -> ClientFacts | None:
        """Of a client that has not asked for anything; None where it is to be left out."""
        return self._facts(listener, ip, port, connection_id, None, None, None)

    def _facts(
        self,
        listener: str,
        ip: str,
        port: int,
        connection_id: int | None,
        client_id: str | None,
        software_name: str | None,
        software_version: str | None,
    ) -> ClientFacts | None:
        rules = self._rules
        if rules.leave_out(listener):
            return None
        # The port of a hashed address would only help to guess it.
        shown_port = None if rules.hash_key else port
        who = rules.shown(ANONYMOUS)
        return ClientFacts(
            connection_id, listener, rules.shown(ip), shown_port, who, client_id, software_name, software_version
        )

    def _is_gone(self, connection_id: int) -> None:
        self._gone.append(connection_id)
        if len(self._gone) > _GONE_MAX:
            self.by_id.pop(self._gone.popleft(), None)
