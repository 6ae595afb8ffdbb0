"""A broker's membership: it registers with the controller, heartbeats, and leaves by a controlled shutdown (KIP-631).

The shell around lifecycle.py: requests and waits. `membership_status` has the resulting state. One request is in flight
at a time. After a lost registration the broker registers again under the same incarnation; Apache Kafka only logs it.
This broker fences itself even if the controller cannot be reached: a task beside the requests watches the session.
"""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from broker_runtime.clock import Clock
from broker_runtime.cluster.lifecycle import LifecycleEvent, Phase
from broker_runtime.cluster.links.link import ControllerClient
from broker_runtime.cluster.membership_status import ClientDoor, MembershipStatus
from broker_runtime.cluster.registration import (
    BrokerIdentity,
    RegistrationTimeoutError,
    check_not_final,
    explained,
    replaced,
)
from broker_runtime.config import Endpoint
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.wire.messages import Entity
from broker_runtime.wire.versions import BROKER_HEARTBEAT, BROKER_REGISTRATION

log = logging.getLogger(__name__)

_REGISTRATION_VERSION = 4
_HEARTBEAT_VERSION = 1
_FAST_HEARTBEAT_S = 0.02
"""Time between heartbeats while the broker waits to be unfenced or released, so that neither takes an interval."""
_RETRY_DELAY_S = 0.1
_RETRY_DELAY_MAX_S = 1.0
"""Apache Kafka's back-off grows to the session timeout; a short one takes an id soon after it is free."""
_LOST = (ErrorCode.STALE_BROKER_EPOCH, ErrorCode.BROKER_ID_NOT_REGISTERED)


@dataclass(frozen=True, slots=True)
class Timing:
    """The interval of heartbeats, and the timeouts of answers and of the registration, in seconds."""

    heartbeat_interval_s: float
    session_timeout_s: float
    registration_timeout_s: float


class Survival(Protocol):
    """The survival of the data that earlier incarnations of this broker have written (storage.disk.run_record)."""

    @property
    def epoch(self) -> int:
        """Return the newest broker epoch since which nothing was lost; -1 if the epoch is unknown."""
        ...

    def registered(self, epoch: int) -> None:
        """Store the broker epoch that the controller has assigned.

        Raises OSError: then the process must end before it is unfenced.
        """
        ...


class Membership:
    """The membership of one broker, from its registration to the end of its controlled shutdown.

    The controller assigns and stores the broker epoch; the state here starts from scratch with each process.
    """

    def __init__(
        self,
        identity: BrokerIdentity,
        client: ControllerClient,
        timing: Timing,
        clock: Clock,
        door: ClientDoor,
        survival: Survival,
    ) -> None:
        """`client` times out well within a session."""
        self._identity = identity
        self._client = client
        self._timing = timing
        self._clock = clock
        self._door = door
        self._survival = survival
        self.status = MembershipStatus(identity.broker_id, timing.session_timeout_s, door, self._end)
        self._failures = 0
        self._wake = asyncio.Event()
        self._gone = asyncio.Event()
        self._released = False
        self._leave_by_s: float | None = None
        self._is_news = False
        """Whether the listeners have changed since they were sent to the controller."""

    def _end(self) -> None:
        """Stop waiting: the broker has left its cluster, or was replaced."""
        self._gone.set()
        self._wake.set()

    async def run(self) -> None:
        """Register the broker, then heartbeat until the broker has left. Raises MembershipError."""
        self.status.on(LifecycleEvent.START)
        await self._register()
        tasks = [asyncio.create_task(self._beat()), asyncio.create_task(self._watch_silence())]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def leave(self, deadline_s: float) -> bool:
        """Ask the controller to release this broker; return False if the release does not come by the deadline.

        A second call waits for the outcome of the first.
        """
        if self._leave_by_s is None:
            self._leave_by_s = self._clock.monotonic() + deadline_s
            self.status.on(LifecycleEvent.LEAVE)
            # A broker that is not registered, cut off or replaced has nothing to hand over.
            self._released = self.status.phase is not Phase.STOPPING
            self._wake.set()
        try:
            async with asyncio.timeout(max(self._leave_by_s - self._clock.monotonic(), 0)):
                await self._gone.wait()
        except TimeoutError:
            self.status.on(LifecycleEvent.DEADLINE)
        return self._released

    def beat_soon(self) -> None:
        """Send a heartbeat soon.

        The shutdown of another broker waits until this broker's metadata includes the beginning of that shutdown.
        """
        if self.status.phase is Phase.RUNNING:
            self._wake.set()

    def wait_no_longer(self) -> None:
        """End a controlled shutdown that is in progress, after a second SIGTERM."""
        if self._leave_by_s is not None:
            self.status.on(LifecycleEvent.DEADLINE)

    def reregister(self, endpoints: Sequence[Endpoint]) -> None:
        """Register these listeners for clients, in a second registration of the same incarnation."""
        self._identity = replace(self._identity, endpoints=endpoints)
        self._is_news = True
        self._wake.set()

    async def _beat(self) -> None:
        while self.status.phase is not Phase.GONE:
            self._wake.clear()
            if self._is_news:
                await self._register_listeners()
            delay_s = await self._heartbeat()
            if self.status.phase is Phase.REJOINING:
                await self._register()
                continue
            await self._sleep(delay_s)

    async def _sleep(self, delay_s: float) -> None:
        """Wait; return early if the broker is to leave."""
        try:
            async with asyncio.timeout(delay_s):
                await self._wake.wait()
        except TimeoutError:
            pass

    async def _watch_silence(self) -> None:
        """Detect the end of the session independently of requests, because an unanswered one must not hide it."""
        while True:
            cut_off_s = self.status.lifecycle.cut_off_s
            now_s = self._clock.monotonic()
            if cut_off_s is not None and now_s >= cut_off_s:
                self.status.on(LifecycleEvent.SILENCE)
                continue
            # While silence has no effect, checking each quarter of a session is often enough to detect the next one in
            # time.
            await asyncio.sleep(self._timing.session_timeout_s / 4 if cut_off_s is None else cut_off_s - now_s)

    async def _register(self) -> None:
        give_up_s = self._clock.monotonic() + self._timing.registration_timeout_s
        delay_s = _RETRY_DELAY_S
        warned: ErrorCode | None = None
        while self.status.phase is not Phase.GONE:
            self._wake.clear()
            try:
                self._is_news = False
                answer = await self._ask_to_register()
            except KafkaError as error:
                self._registration_refused(error, give_up_s)
                if error.code != warned:
                    warned = error.code
                    log.warning("the registration failed; retrying until it succeeds: %s", self._explained(error))
                await self._sleep(delay_s)
                delay_s = min(delay_s * 2, _RETRY_DELAY_MAX_S)
                continue
            self._has_epoch(answer.broker_epoch)
            return

    async def _register_listeners(self) -> None:
        """Register the listeners before a heartbeat, after which clients may connect. The next retries a failure."""
        self._is_news = False
        try:
            answer = await self._ask_to_register()
        except KafkaError as error:
            self._is_news = True
            log.warning(
                "this broker's listeners could not be registered with the controller; the next heartbeat retries: %s",
                self._explained(error),
            )
            return
        if answer.broker_epoch != self.status.epoch:
            # The controller has lost this broker's registration meanwhile.
            self.status.on(LifecycleEvent.REGISTRATION_LOST)
            self._has_epoch(answer.broker_epoch)

    async def _ask_to_register(self) -> Entity:
        content = self._identity.registration(self._survival.epoch)
        return await self._request(BROKER_REGISTRATION, _REGISTRATION_VERSION, content)

    def _has_epoch(self, epoch: int) -> None:
        # Stored before a heartbeat can let this broker acknowledge anything under this epoch.
        self._survival.registered(epoch)
        self.status.registered(epoch)

    def _registration_refused(self, error: KafkaError, give_up_s: float) -> None:
        """Raise MembershipError if another attempt would fail as well."""
        me = self._identity.broker_id
        check_not_final(error, me)
        if error.code == ErrorCode.DUPLICATE_BROKER_REGISTRATION and self.status.phase is Phase.REJOINING:
            # The registration was lost, and not by a restart of the controller: another live process has this id.
            self.status.on(LifecycleEvent.REPLACED)
            raise replaced(me) from error
        if self.status.phase is Phase.STARTING and self._clock.monotonic() >= give_up_s:
            raise RegistrationTimeoutError(
                f"not registered within {self._timing.registration_timeout_s:g} s "
                f"(initial.broker.registration.timeout.ms): {self._explained(error)}"
            ) from error

    def _explained(self, error: KafkaError) -> str:
        return explained(error, self._identity.broker_id, self._timing.session_timeout_s)

    async def _heartbeat(self) -> float:
        """Send one heartbeat; return the time to wait before the next."""
        offset, ready = self._door.progress()
        sent_s = self._clock.monotonic()
        try:
            answer = await self._request(
                BROKER_HEARTBEAT,
                _HEARTBEAT_VERSION,
                {
                    "broker_id": self._identity.broker_id,
                    "broker_epoch": self.status.epoch,
                    "current_metadata_offset": offset,
                    "want_fence": self.status.lifecycle.wants_fence(ready),
                    "want_shut_down": self.status.lifecycle.wants_shut_down,
                },
            )
        except KafkaError as error:
            return self._heartbeat_failed(error)
        if self._failures:
            log.info("the controller answers heartbeats again, after %d failures", self._failures)
            self._failures = 0
        self._released = self._released or answer.should_shut_down
        # This broker may have fenced itself since it sent the heartbeat, and its readiness at that time is obsolete.
        # And the answer arrives before the record that it reports. A client let in meanwhile would get metadata
        # without any broker or leader, and a client that then discards all its brokers never reconnects.
        is_ready = ready and self._door.progress()[1] and self._door.knows_unfenced(self.status.epoch)
        self.status.heartbeat_answered(
            sent_s, self._clock.monotonic(), fenced=answer.is_fenced, released=answer.should_shut_down, ready=is_ready
        )
        running = self.status.phase is Phase.RUNNING
        return self._timing.heartbeat_interval_s if running else _FAST_HEARTBEAT_S

    def _heartbeat_failed(self, error: KafkaError) -> float:
        if not self._failures:
            log.warning("heartbeats fail; retrying: %s", error)
        self._failures += 1
        if error.code in _LOST:
            self.status.on(LifecycleEvent.REGISTRATION_LOST)
        delay_s = _RETRY_DELAY_S * (1 << min(self._failures - 1, 10))
        return min(delay_s, _RETRY_DELAY_MAX_S, self._timing.heartbeat_interval_s)

    async def _request(self, api_key: int, version: int, content: dict[str, object]) -> Entity:
        """Send a request. Raises KafkaError, also for an answer with an error code."""
        answer = await self._client.request(api_key, version, content)
        code = ErrorCode(int(answer.error_code))
        if code != ErrorCode.NONE:
            raise KafkaError(code)
        return answer
