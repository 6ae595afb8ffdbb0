"""Authentication of simulated clients by SCRAM, sessions that end, and what no broker may do with them.

No broker handles a request under a session that has ended, or under another user's name. Nobody is authenticated by a
password that was never set, and no client becomes another user on the same connection.
"""

import asyncio
import hashlib
import random
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from broker_runtime.apis.sasl.frames import api_key_of
from broker_runtime.errors import ErrorCode
from broker_runtime.wire.handler import FrameHandler, ServedConnection
from broker_runtime.wire.reply import PendingReply, Reply
from broker_runtime.wire.versions import (
    ALTER_USER_SCRAM_CREDENTIALS,
    API_VERSIONS,
    METADATA,
    SASL_AUTHENTICATE,
    SASL_HANDSHAKE,
)
from kafka_bytes.sasl.scram import ITERATIONS_MIN, SCRAM_SHA_256, ScramExchange
from tests.simulation.cluster.connection import ALL_TOPICS, METADATA_VERSION, Address, Ask, Connection, Unanswered

if TYPE_CHECKING:
    from tests.simulation.cluster.cluster import Cluster

PORT = 9094
USERS = ("anna", "bert")
SESSION_MS = 1_500
KEYS = {
    "listener.security.protocol.map": (
        "PLAINTEXT:PLAINTEXT,REPLICATION:PLAINTEXT,CONTROLLER:PLAINTEXT,SECURE:SASL_PLAINTEXT"
    ),
    "sasl.enabled.mechanisms": SCRAM_SHA_256,
    "listener.name.secure.connections.max.reauth.ms": str(SESSION_MS),
}
_NUMBER = 1
"""Kafka's number of the mechanism."""
_USED_SHARE = 0.85
_WRONG = 0.05
"""Probability that a client tries a password that was never set, or to become another user."""
_TRIES = 20


class Passwords:
    """The passwords that the administrator has set, and those of which nobody knows whether they were set."""

    def __init__(self, cluster: "Cluster") -> None:
        self._cluster = cluster
        self._made = 0
        self.possible: dict[str, list[str]] = defaultdict(list)
        """By user: the last one that was certainly set, and each whose request had no answer and may still arrive."""
        self.replaced: dict[str, set[str]] = defaultdict(set)
        self._set: dict[str, str] = {}
        self._busy: set[str] = set()

    async def create(self) -> bool:
        for user in USERS:
            for _ in range(_TRIES):
                if await self.change(user):
                    break
                await asyncio.sleep(0.5)
            else:
                self._cluster.around.mistake(f"{user} gets no password")
                return False
        return True

    async def change(self, user: str) -> bool:
        """Set a new password, unless one is being set; return whether it is certain that it was set."""
        if user in self._busy:
            return False
        self._busy.add(user)
        try:
            return await self._change(user)
        finally:
            self._busy.discard(user)

    async def _change(self, user: str) -> bool:
        self._made += 1
        password = f"{user}-{self._made}"
        self.possible[user].append(password)
        salt = password.encode()
        salted = hashlib.pbkdf2_hmac("sha256", password.encode(), salt, ITERATIONS_MIN)
        upsertion = {
            "name": user,
            "mechanism": _NUMBER,
            "iterations": ITERATIONS_MIN,
            "salt": salt,
            "salted_password": salted,
        }
        content = {"deletions": (), "upsertions": (upsertion,)}
        answer = await self._cluster.admin.ask(ALTER_USER_SCRAM_CREDENTIALS, 0, content)
        if answer is None or ErrorCode(int(answer.results[0].error_code)) != ErrorCode.NONE:
            return False
        before = self._set.get(user)
        if before is not None:
            self.possible[user].remove(before)
            self.replaced[user].add(before)
        self._set[user] = password
        return True


@dataclass(frozen=True, slots=True)
class _Session:
    user: str
    ends_s: float


class Sessions:
    """The sessions that clients were granted, by their addresses, beside which the brokers' handlers are watched."""

    def __init__(self, now_s: Callable[[], float], mistake: Callable[[str], None]) -> None:
        self._now_s = now_s
        self._mistake = mistake
        self._known: dict[Address, _Session] = {}
        self.granted = 0
        self.renewed = 0
        self.refused = 0

    def grant(self, address: Address, user: str, lifetime_s: float) -> float:
        """Note what a broker has told a client. It counted from an earlier moment. Returns the end."""
        before = self._known.get(address)
        if before is None:
            self.granted += 1
        else:
            self.renewed += 1
            if before.user != user:
                self._mistake(f"{address} was {before.user} and has become {user}")
        self._known[address] = _Session(user, self._now_s() + lifetime_s)
        return self._known[address].ends_s

    def watching(self, inner: FrameHandler) -> FrameHandler:
        """Return a handler that checks the session of each request before `inner` handles it."""

        def handle(frame: memoryview, connection: ServedConnection) -> Reply | PendingReply:
            key = api_key_of(frame)
            session = self._known.get(connection.peer)
            if session is None:
                if key != API_VERSIONS:
                    self._mistake(f"{connection.peer} is not authenticated, and its API {key} is handled")
            elif self._now_s() > session.ends_s:
                self._mistake(f"API {key} of {session.user} is handled after the end of its session")
            elif connection.principal.name != session.user:
                self._mistake(f"API {key} of {session.user} is handled as that of {connection.principal}")
            return inner(frame, connection)

        return handle


class Login:
    """One client's user. `renews`: whether it authenticates again in time, as some clients do not."""

    def __init__(self, cluster: "Cluster", rng: random.Random, password: str = "") -> None:
        """With a `password` the client never uses another one."""
        self.user = rng.choice(USERS)
        self._sessions = cluster.sessions
        self._passwords = cluster.passwords
        self._mistake = cluster.around.mistake
        self._now_s = cluster.loop.time
        self._random = rng
        self._fixed = password
        self._renews = rng.random() < 0.5

    async def begin(self, ask: Ask, address: Address) -> float:
        """Authenticate a connection; return when it should do so again. Raises Unanswered if it is refused."""
        return await self._exchanged(ask, address, self.user)

    async def renew(self, ask: Ask, address: Address) -> float:
        """Authenticate again, or try to become another user."""
        others = [user for user in USERS if user != self.user]
        user = self._random.choice(others) if self._random.random() < _WRONG else self.user
        return await self._exchanged(ask, address, user)

    async def _exchanged(self, ask: Ask, address: Address, user: str) -> float:
        is_wrong = not self._fixed and self._random.random() < _WRONG
        password = "never set" if is_wrong else self._fixed or self._random.choice(self._passwords.possible[user])
        exchange = ScramExchange(SCRAM_SHA_256, user, password, f"{self._random.getrandbits(64):x}")
        answer = await ask(SASL_HANDSHAKE, 1, {"mechanism": SCRAM_SHA_256})
        token: bytes | None = exchange.first()
        while token is not None:
            answer = await ask(SASL_AUTHENTICATE, 2, {"auth_bytes": token})
            if int(answer.error_code) != 0:
                self._sessions.refused += 1
                raise Unanswered(f"refused: {answer.error_message}")
            if is_wrong and answer.auth_bytes.startswith(b"v="):
                self._mistake(f"{user} is authenticated by a password that was never set")
                raise Unanswered("authenticated by mistake")
            token = exchange.respond(answer.auth_bytes)
        lifetime_s = answer.session_lifetime.total_seconds()
        ends_s = self._sessions.grant(address, user, lifetime_s)
        return ends_s - (1 - _USED_SHARE) * lifetime_s if self._renews else float("inf")


async def judge(cluster: "Cluster") -> None:
    """Each broker accepts exactly one password of each user: the last one that was set, or one of unknown fate."""
    for user in USERS:
        for process in cluster.brokers:
            accepted = []
            for password in (*cluster.passwords.possible[user], *sorted(cluster.passwords.replaced[user])[-3:]):
                if await _is_accepted(cluster, process.host, user, password):
                    accepted.append(password)
            if len(accepted) != 1 or accepted[0] not in cluster.passwords.possible[user]:
                known = cluster.passwords.possible[user]
                cluster.around.mistake(f"{process.name} accepts {accepted} for {user}, and {known} may be right")


async def _is_accepted(cluster: "Cluster", host: str, user: str, password: str) -> bool:
    owner, _ = cluster.client(f"judge-{host}-{password}")
    login = Login(cluster, random.Random(0), password)
    login.user = user
    connection = Connection((host, PORT), login)

    async def ask() -> bool:
        try:
            await connection.ask(METADATA, METADATA_VERSION, ALL_TOPICS)
        except Unanswered:
            return False
        connection.close()
        return True

    accepted: bool = await cluster.loop.create_task(ask(), context=owner.context)
    return accepted
