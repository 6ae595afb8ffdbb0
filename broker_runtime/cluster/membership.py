"""A broker's membership: it registers with the controller, heartbeats, and leaves by a controlled shutdown (KIP-631).

States are Kafka's BrokerState. The broker asks to be unfenced once its metadata has caught up; it is RUNNING with the
first heartbeat that says it is not fenced. A stale epoch (the controller lost or replaced the registration) leads to
a new registration under the same incarnation; Apache Kafka only logs it. Losing the controller changes nothing here
yet: self-fencing comes with replication.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from uuid import UUID

from broker_runtime.clock import Clock
from broker_runtime.cluster.link import ControllerClient
from broker_runtime.config import Endpoint
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.wire.messages import Entity
from broker_runtime.wire.versions import BROKER_HEARTBEAT, BROKER_REGISTRATION

log = logging.getLogger(__name__)

_REGISTRATION_VERSION = 4
_HEARTBEAT_VERSION = 1
_FAST_HEARTBEAT_S = 0.02
"""Between heartbeats while the broker waits to be unfenced or to be told to go, so that neither takes an interval."""
_RETRY_DELAY_S = 0.1
_RETRY_DELAY_MAX_S = 1.0
_PLAINTEXT = 0


class BrokerState(IntEnum):
    NOT_RUNNING = 0
    STARTING = 1
    RECOVERY = 2
    RUNNING = 3
    PENDING_CONTROLLED_SHUTDOWN = 6
    SHUTTING_DOWN = 7


class RegistrationTimeoutError(Exception):
    """The controller did not take the registration within initial.broker.registration.timeout.ms."""


@dataclass(frozen=True, slots=True)
class Identity:
    broker_id: int
    cluster_id: str
    incarnation: UUID
    rack: str | None
    endpoints: Sequence[Endpoint]


@dataclass(frozen=True, slots=True)
class Timing:
    heartbeat_interval_s: float
    session_timeout_s: float
    registration_timeout_s: float


class Membership:
    def __init__(
        self,
        identity: Identity,
        client: ControllerClient,
        timing: Timing,
        clock: Clock,
        progress: Callable[[], tuple[int, bool]],
    ) -> None:
        """`progress` tells the metadata offset of this broker and whether it has caught up."""
        self._identity = identity
        self._client = client
        self._timing = timing
        self._clock = clock
        self._progress = progress
        self._stopping = False
        self._wake = asyncio.Event()
        self._may_go = asyncio.Event()
        self.running = asyncio.Event()
        self.state = BrokerState.NOT_RUNNING
        self.epoch = -1
        self.fenced = True
        self.last_contact: float | None = None

    async def run(self) -> None:
        """Register, then heartbeat until cancelled. Raises RegistrationTimeoutError."""
        self.state = BrokerState.STARTING
        await self._register()
        while True:
            self._wake.clear()
            delay_s = await self._heartbeat()
            try:
                async with asyncio.timeout(delay_s):
                    await self._wake.wait()
            except TimeoutError:
                pass

    async def leave(self, deadline_s: float) -> bool:
        """Ask the controller to let this broker go; False when it has not said so by the deadline."""
        if self.epoch < 0:
            return False
        self._stopping = True
        self.state = BrokerState.PENDING_CONTROLLED_SHUTDOWN
        self._wake.set()
        try:
            async with asyncio.timeout(deadline_s):
                await self._may_go.wait()
        except TimeoutError:
            return False
        finally:
            self.state = BrokerState.SHUTTING_DOWN
        return True

    async def _register(self) -> None:
        give_up = self._clock.monotonic() + self._timing.registration_timeout_s
        delay_s = _RETRY_DELAY_S
        while True:
            try:
                answer = await self._client.request(BROKER_REGISTRATION, _REGISTRATION_VERSION, self._registration())
                _raise_for(answer)
            except KafkaError as error:
                if error.code == ErrorCode.INCONSISTENT_CLUSTER_ID:
                    raise RegistrationTimeoutError(f"this broker's data belongs to another cluster: {error}") from error
                if self._clock.monotonic() >= give_up:
                    raise RegistrationTimeoutError(
                        f"not registered within {self._timing.registration_timeout_s:g} s: {error}"
                    ) from error
                log.info("registration is tried again: %s", error)
                await asyncio.sleep(delay_s)
                delay_s = min(delay_s * 2, _RETRY_DELAY_MAX_S)
                continue
            self.epoch = answer.broker_epoch
            self.state = BrokerState.RECOVERY
            log.info("broker %d is registered with epoch %d", self._identity.broker_id, self.epoch)
            return

    def _registration(self) -> dict[str, object]:
        me = self._identity
        return {
            "broker_id": me.broker_id,
            "cluster_id": me.cluster_id,
            "incarnation_id": me.incarnation,
            "listeners": [
                {"name": e.listener, "host": e.host, "port": e.port, "security_protocol": _PLAINTEXT}
                for e in me.endpoints
            ],
            "features": [],
            "rack": me.rack,
            "is_migrating_zk_broker": False,
            "log_dirs": [],
            "previous_broker_epoch": self.epoch,
        }

    async def _heartbeat(self) -> float:
        """Send one heartbeat; returns how long to wait before the next."""
        offset, caught_up = self._progress()
        try:
            answer = await self._client.request(
                BROKER_HEARTBEAT,
                _HEARTBEAT_VERSION,
                {
                    "broker_id": self._identity.broker_id,
                    "broker_epoch": self.epoch,
                    "current_metadata_offset": offset,
                    "want_fence": not caught_up,
                    "want_shut_down": self._stopping,
                },
            )
            _raise_for(answer)
        except KafkaError as error:
            return await self._heartbeat_failed(error)
        self.last_contact = self._clock.monotonic()
        self.fenced = answer.is_fenced
        if answer.should_shut_down:
            self._may_go.set()
            return self._timing.heartbeat_interval_s
        if not self.fenced and self.state == BrokerState.RECOVERY:
            self.state = BrokerState.RUNNING
            self.running.set()
        waiting = self.state == BrokerState.RECOVERY or self._stopping
        return _FAST_HEARTBEAT_S if waiting else self._timing.heartbeat_interval_s

    async def _heartbeat_failed(self, error: KafkaError) -> float:
        log.warning("heartbeat failed: %s", error)
        if error.code == ErrorCode.STALE_BROKER_EPOCH and not self._stopping:
            await self._register()
            return 0
        return min(_RETRY_DELAY_S, self._timing.heartbeat_interval_s)


def _raise_for(answer: Entity) -> None:
    code = ErrorCode(int(answer.error_code))
    if code != ErrorCode.NONE:
        raise KafkaError(code)
