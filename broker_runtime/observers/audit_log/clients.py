"""The identity of a client, determined once for each of its connections. Pure.

This module decides which addresses and principals go into the log, and which clients are excluded. A request then costs
one dict access.
"""

from collections import deque
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from broker_runtime.apis.request.call import ClientSoftware
from broker_runtime.blake2 import blake2b
from broker_runtime.security.principal import ANONYMOUS, Principal
from broker_runtime.wire.handler import ServedConnection

_HASH_HEX_DIGITS = 16
_CLIENT_ID_CHARS_MAX = 255
"""Maximum length of a recorded client ID; longer ones are truncated.

A client may send 32,767 characters: some thousand such connections would exhaust the broker's memory.
"""
_GROUP_ID_CHARS_MAX = 255
"""Maximum length of a recorded group ID."""
_GONE_MAX = 1000
"""Maximum number of closed connections whose clients are still known."""

_UNTOLD = (None, None)


class ClientFacts(NamedTuple):
    """Facts about a client, in the order of the schema's client_fields."""

    connection_id: int | None
    listener: str
    client_ip: str
    client_port: int | None
    principal: str
    client_id: str | None
    software_name: str | None
    software_version: str | None


class AuditedClient:
    """A connection with the client ID of its requests. `facts` is None for an excluded client.

    Compared by identity, because each request looks it up. `requests` counts the requests of the whole connection.
    `told` is what a block has about the client: its facts, and the group of its requests.
    """

    __slots__ = ("_in_group", "client_id", "facts", "principal", "requests", "software", "told")

    def __init__(
        self, client_id: str | None, software: object, principal: Principal, facts: ClientFacts | None
    ) -> None:
        self.client_id = client_id
        self.principal = principal
        self.software = software
        self.facts = facts
        self.told: tuple[object, ...] | None = facts
        self.requests = 0
        self._in_group: tuple[str, AuditedClient] | None = None

    def in_group(self, group_id: str) -> "AuditedClient":
        """Return the same client with the group of a request. Most connections have one group only."""
        known = self._in_group
        if known is not None and known[0] == group_id:
            return known[1]
        member = AuditedClient(self.client_id, self.software, self.principal, self.facts)
        member.told = (*(self.facts or ()), group_id[:_GROUP_ID_CHARS_MAX])
        self._in_group = group_id, member
        return member


def keyed_hash(key: bytes, text: str) -> str:
    """Return a hash that is the same for the same text and key. Without the key, texts cannot be tried out."""
    return blake2b(text.encode(), key=key, digest_size=_HASH_HEX_DIGITS // 2).hexdigest()


@dataclass(frozen=True, slots=True)
class ClientRules:
    """The rules for clients in the audit log: whom it leaves out, by exact names, and the key for hashing names.

    `hash_key` has up to 64 bytes; without one nothing is hashed.
    """

    excluded_listeners: frozenset[str] = frozenset()
    excluded_principals: frozenset[str] = frozenset()
    hash_key: bytes = b""

    def leave_out(self, listener: str, principal: Principal) -> bool:
        """Return whether clients of this listener, or of this principal, are excluded."""
        return listener in self.excluded_listeners or str(principal) in self.excluded_principals

    def shown(self, text: str) -> str:
        return keyed_hash(self.hash_key, text) if self.hash_key else text


class Clients:
    """The clients of the open connections, and of those last closed, whose end may still have to be recorded."""

    def __init__(self, rules: ClientRules) -> None:
        self._rules = rules
        self.by_id: dict[int, AuditedClient] = {}
        """Clients by the ID of their connection."""
        self._gone: deque[int] = deque()

    def of(self, connection: ServedConnection, client_id: str | None) -> AuditedClient:
        """Create the client of a connection whose request describes it for the first time, or differently."""
        before = self.by_id.get(connection.id)
        told = connection.state
        client_id = None if client_id is None else client_id[:_CLIENT_ID_CHARS_MAX]
        software = told if isinstance(told, ClientSoftware) else _UNTOLD
        described = (connection.principal, client_id, *software)
        facts = self._facts(connection.listener, *connection.peer[:2], connection.id, *described)
        client = AuditedClient(client_id, told, connection.principal, facts)
        self.by_id[connection.id] = client
        if before is None:
            connection.closed.add(partial(self._is_gone, connection.id))
        else:
            client.requests = before.requests
        return client

    def known(self, connection_id: int | None) -> AuditedClient | None:
        """Return the client as described by this connection's requests so far; None before the first request."""
        return None if connection_id is None else self.by_id.get(connection_id)

    def stranger(self, listener: str, ip: str, port: int, connection_id: int | None = None) -> ClientFacts | None:
        """Return the facts of a client that has sent no request; None for an excluded client."""
        return self._facts(listener, ip, port, connection_id, ANONYMOUS, None, None, None)

    def _facts(
        self,
        listener: str,
        ip: str,
        port: int,
        connection_id: int | None,
        principal: Principal,
        client_id: str | None,
        software_name: str | None,
        software_version: str | None,
    ) -> ClientFacts | None:
        rules = self._rules
        if rules.leave_out(listener, principal):
            return None
        # The port of a hashed address would only help to guess it.
        shown_port = None if rules.hash_key else port
        who = rules.shown(str(principal))
        return ClientFacts(
            connection_id, listener, rules.shown(ip), shown_port, who, client_id, software_name, software_version
        )

    def _is_gone(self, connection_id: int) -> None:
        self._gone.append(connection_id)
        if len(self._gone) > _GONE_MAX:
            self.by_id.pop(self._gone.popleft(), None)
