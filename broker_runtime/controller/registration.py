"""Broker registration, sessions and fencing (KIP-631, seed 004); the time comes as an argument.

Metadata is changed by records only. `Sessions` is soft state beside it, and decisions note there what they have heard
before their records are durable: a controller that cannot make them durable ends its term, and its sessions with it.

- States and the ways between them are the table in `broker_states`; here is what each way writes.
- A broker that is silent for longer than the session timeout is fenced. Sessions are soft state: a controller that
  starts gives every unfenced broker a fresh one.
- A second incarnation is refused while the first has a live session. Unlike Apache Kafka a clean stop ends the
  session, and so does a heartbeat that wants both to be fenced and to shut down (the operator's word that a pod is
  gone): the id is free at once.
- A new incarnation that cannot vouch for the data of the one before is not eligible to lead (KIP-966): it may have
  lost what it had acknowledged.
- Partition records come before the record of the broker: if a crash separates them, the rest is decided again.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from broker_runtime.controller import elections
from broker_runtime.controller.broker_states import BrokerState, Event, Guard, Way, ways
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.metadata.brokers import (
    BrokerEndpoint,
    BrokerInfo,
    FenceBroker,
    RegisterBroker,
    StopBroker,
    UnfenceBroker,
    UnregisterBroker,
)
from broker_runtime.metadata.image import MetadataImage
from broker_runtime.metadata.record import Record

_UNKNOWN_OFFSET = -1
_EPOCH_UNKNOWN = -1


@dataclass(slots=True)
class _Contact:
    epoch: int
    at_s: float
    metadata_offset: int
    beats: bool
    """False after the registration: that shows as a sign of life, but holds the id for nobody, as in Kafka."""


class Sessions:
    """When each (broker id, epoch) was last heard of, and how far its metadata was then."""

    def __init__(self, timeout_s: float) -> None:
        self.timeout_s = timeout_s
        self._contacts: dict[int, _Contact] = {}

    def registered(self, broker_id: int, epoch: int, now_s: float) -> None:
        self._contacts[broker_id] = _Contact(epoch, now_s, _UNKNOWN_OFFSET, beats=False)

    def touch(self, broker_id: int, epoch: int, now_s: float) -> None:
        """Also counts when the heartbeat cannot be handled in time."""
        self._contacts[broker_id] = _Contact(epoch, now_s, self.metadata_offset(broker_id, epoch), beats=True)

    def reached(self, broker_id: int, metadata_offset: int) -> None:
        """How far the broker's metadata is, by a heartbeat of it."""
        contact = self._contacts.get(broker_id)
        if contact is not None:
            contact.metadata_offset = metadata_offset

    def end(self, broker_id: int) -> None:
        self._contacts.pop(broker_id, None)

    def known_ids(self) -> frozenset[int]:
        return frozenset(self._contacts)

    def extend(self, by_s: float, now_s: float) -> None:
        """For time in which this controller could hear nobody."""
        for contact in self._contacts.values():
            contact.at_s = min(contact.at_s + by_s, now_s)

    def is_live(self, broker_id: int, epoch: int, now_s: float) -> bool:
        """Whether it holds the id against other incarnations."""
        known = self._contacts.get(broker_id)
        return known is not None and known.beats and known.epoch == epoch and now_s <= known.at_s + self.timeout_s

    def is_heard(self, broker_id: int, epoch: int, now_s: float) -> bool:
        """Whether there was a sign of life, the registration included, within the session timeout."""
        known = self._contacts.get(broker_id)
        return known is not None and known.epoch == epoch and now_s <= known.at_s + self.timeout_s

    def age(self, broker_id: int, now_s: float) -> float | None:
        """Seconds since its last heartbeat; None when it has no session."""
        known = self._contacts.get(broker_id)
        return None if known is None or not known.beats else max(0.0, now_s - known.at_s)

    def metadata_offset(self, broker_id: int, epoch: int | None = None) -> int:
        """By the last heartbeat (of this epoch, when one is given); -1 when it is not known."""
        known = self._contacts.get(broker_id)
        if known is None or (epoch is not None and known.epoch != epoch):
            return _UNKNOWN_OFFSET
        return known.metadata_offset

    def expired(self, image: MetadataImage, now_s: float) -> list[int]:
        """The unfenced brokers whose session has run out."""
        return [b.id for b in image.brokers.values() if not b.fenced and not self.is_live(b.id, b.epoch, now_s)]

    def renew_all(self, image: MetadataImage, now_s: float, *, but: int | None) -> None:
        """For a controller that starts. `but` is a broker that cannot be alive: it ran in this process before."""
        for broker in image.brokers.values():
            if not broker.fenced and broker.id != but:
                self.touch(broker.id, broker.epoch, now_s)


@dataclass(frozen=True, slots=True)
class Registration:
    broker_id: int
    cluster_id: str
    incarnation: UUID | None
    endpoints: tuple[BrokerEndpoint, ...]
    rack: str | None
    features: tuple[tuple[str, int, int], ...] = ()
    """(name, lowest, highest supported level)."""
    previous_epoch: int = -1
    """The newest broker epoch since which it has lost nothing; -1 when it does not know."""


@dataclass(frozen=True, slots=True)
class Heartbeat:
    broker_id: int
    epoch: int
    metadata_offset: int
    want_fence: bool
    want_shut_down: bool

    @property
    def event(self) -> Event:
        if self.want_shut_down:
            return Event.GO if self.want_fence else Event.STOP
        return Event.FENCE if self.want_fence else Event.SERVE


@dataclass(frozen=True, slots=True)
class HeartbeatAnswer:
    is_caught_up: bool
    is_fenced: bool
    should_shut_down: bool


def state_of(broker: BrokerInfo, sessions: Sessions, now_s: float) -> BrokerState:
    if broker.fenced:
        return BrokerState.FENCED if sessions.is_heard(broker.id, broker.epoch, now_s) else BrokerState.OFFLINE
    return BrokerState.ONLINE if broker.stopping_offset is None else BrokerState.STOPPING


def register(
    wanted: Registration, image: MetadataImage, sessions: Sessions, now_s: float
) -> tuple[Sequence[Record], int]:
    """The records, and the broker's epoch."""
    _check(wanted, image)
    known = image.brokers.get(wanted.broker_id)
    if known is None:
        return _new_incarnation(wanted, [], _EPOCH_UNKNOWN, image, sessions, now_s)
    way = _registration_way(wanted, known, sessions, now_s)
    if way.error is not None:
        raise KafkaError(
            way.error,
            f"Another broker is registered with that broker id {known.id}; its session has not ended yet",
        )
    if way.guard is Guard.SAME_INCARNATION:
        if not sessions.is_live(known.id, known.epoch, now_s):
            sessions.registered(known.id, known.epoch, now_s)
        again = _record(wanted, known.epoch, known.whole_since)
        return (() if again == known.registration else (again,)), known.epoch
    since = _whole_since(wanted, known)
    leaving = elections.leave(known.id, image, lossy=since == _EPOCH_UNKNOWN)
    return _new_incarnation(wanted, leaving, since, image, sessions, now_s)


def _whole_since(wanted: Registration, known: BrokerInfo) -> int:
    """The broker epoch since which nothing was lost, up to this registration; _EPOCH_UNKNOWN when something may be.

    A broker that was killed before it could note its epoch has the word of an earlier one only, and that holds as well:
    it was unfenced under none of those since. (Kafka asks for the last epoch itself.)
    """
    least = known.epoch if known.whole_since == _EPOCH_UNKNOWN else known.whole_since
    return wanted.previous_epoch if least <= wanted.previous_epoch <= known.epoch else _EPOCH_UNKNOWN


def _registration_way(wanted: Registration, known: BrokerInfo, sessions: Sessions, now_s: float) -> Way:
    if known.incarnation == wanted.incarnation:
        guard = Guard.SAME_INCARNATION
    else:
        guard = Guard.TAKEN if sessions.is_live(known.id, known.epoch, now_s) else Guard.FREE
    state = state_of(known, sessions, now_s)
    return next(way for way in ways(state, Event.REGISTER) if way.guard is guard)


def _new_incarnation(
    wanted: Registration, cleaning: list[Record], since: int, image: MetadataImage, sessions: Sessions, now_s: float
) -> tuple[Sequence[Record], int]:
    epoch = image.next_offset + len(cleaning)
    sessions.registered(wanted.broker_id, epoch, now_s)
    return [*cleaning, _record(wanted, epoch, since)], epoch


def _record(wanted: Registration, epoch: int, since: int) -> RegisterBroker:
    assert wanted.incarnation is not None
    return RegisterBroker(
        wanted.broker_id, wanted.incarnation, epoch, wanted.endpoints, wanted.rack, wanted.features, since
    )


def _check(wanted: Registration, image: MetadataImage) -> None:
    if wanted.cluster_id != image.cluster.id:
        raise KafkaError(
            ErrorCode.INCONSISTENT_CLUSTER_ID,
            f"Expected cluster ID {image.cluster.id}, but got cluster ID {wanted.cluster_id}",
        )
    if wanted.broker_id < 0:
        raise KafkaError(ErrorCode.INVALID_REGISTRATION, f"a broker id is 0 or more, not {wanted.broker_id}")
    if wanted.incarnation is None:
        raise KafkaError(ErrorCode.INVALID_REGISTRATION, "a broker needs an incarnation id")
    if not wanted.endpoints or len({e.listener for e in wanted.endpoints}) != len(wanted.endpoints):
        raise KafkaError(ErrorCode.INVALID_REGISTRATION, "a broker needs listeners, each with its own name")
    supported = {name: (lowest, highest) for name, lowest, highest in wanted.features}
    for name, level in image.cluster.features.items():
        lowest, highest = supported.get(name, (0, 0))
        if not lowest <= level <= highest:
            raise KafkaError(
                ErrorCode.UNSUPPORTED_VERSION,
                f"Unable to register because the broker does not support finalized version {level} of {name}. "
                f"The broker wants a version between {lowest} and {highest}, inclusive.",
            )


def heartbeat(
    beat: Heartbeat, image: MetadataImage, sessions: Sessions, now_s: float
) -> tuple[Sequence[Record], HeartbeatAnswer]:
    """The session is touched by the caller, before this is decided."""
    known = registered(beat.broker_id, beat.epoch, image)
    sessions.reached(known.id, beat.metadata_offset)
    state = state_of(known, sessions, now_s)
    way = next(w for w in ways(state, beat.event) if _GUARDS[w.guard](beat, known, image, sessions))
    records = _records(known, way, image)
    if way.shut_down:
        sessions.end(known.id)
    assert way.fenced is not None
    assert way.shut_down is not None
    return records, HeartbeatAnswer(_caught_up(beat, known), way.fenced, way.shut_down)


def _records(known: BrokerInfo, way: Way, image: MetadataImage) -> Sequence[Record]:
    if way.next is BrokerState.ONLINE and known.fenced:
        return unfence(known, image)
    if way.next is BrokerState.STOPPING and known.stopping_offset is None:
        return stop(known, image)
    if way.next in (BrokerState.FENCED, BrokerState.OFFLINE) and not known.fenced:
        return fence(known, image)
    return ()


_Condition = Callable[[Heartbeat, BrokerInfo, MetadataImage, Sessions], bool]


def _caught_up(beat: Heartbeat, known: BrokerInfo) -> bool:
    return beat.metadata_offset >= known.epoch


def _may_go(known: BrokerInfo, image: MetadataImage, sessions: Sessions) -> bool:
    """Nobody is sent to it any more: it leads nothing, and each broker that serves clients knows."""
    assert known.stopping_offset is not None
    if elections.leads_any(known.id, image):
        return False
    offsets = [sessions.metadata_offset(b.id, b.epoch) for b in image.brokers.values() if b.active]
    return not offsets or min(offsets) >= known.stopping_offset


_GUARDS: Mapping[Guard, _Condition] = {
    Guard.ALWAYS: lambda beat, known, image, sessions: True,
    Guard.CAUGHT_UP: lambda beat, known, image, sessions: _caught_up(beat, known),
    Guard.BEHIND: lambda beat, known, image, sessions: not _caught_up(beat, known),
    Guard.LEADS: lambda beat, known, image, sessions: elections.leads_any(known.id, image),
    Guard.LEADS_NONE: lambda beat, known, image, sessions: not elections.leads_any(known.id, image),
    Guard.MAY_GO: lambda beat, known, image, sessions: _may_go(known, image, sessions),
    Guard.MUST_WAIT: lambda beat, known, image, sessions: not _may_go(known, image, sessions),
}


def registered(broker_id: int, epoch: int, image: MetadataImage) -> BrokerInfo:
    known = image.brokers.get(broker_id)
    if known is None:
        raise KafkaError(ErrorCode.STALE_BROKER_EPOCH, f"No broker registration found for broker id {broker_id}")
    if known.epoch != epoch:
        raise KafkaError(
            ErrorCode.STALE_BROKER_EPOCH, f"Expected broker epoch {known.epoch}, but got broker epoch {epoch}"
        )
    return known


def fence(broker: BrokerInfo, image: MetadataImage) -> list[Record]:
    return [*elections.leave(broker.id, image), FenceBroker(broker.id, broker.epoch)]


def unfence(broker: BrokerInfo, image: MetadataImage) -> list[Record]:
    return [*elections.come_back(broker.id, image), UnfenceBroker(broker.id, broker.epoch)]


def stop(broker: BrokerInfo, image: MetadataImage) -> list[Record]:
    """A controlled shutdown begins; its offset is set once, however often the broker asks."""
    moved = elections.leave(broker.id, image)
    return [*moved, StopBroker(broker.id, broker.epoch, image.next_offset + len(moved))]


def unregister(broker_id: int, image: MetadataImage, sessions: Sessions) -> tuple[Sequence[Record], None]:
    """Also a live broker: it registers anew when it is still there."""
    known = image.brokers.get(broker_id)
    if known is None:
        raise KafkaError(ErrorCode.BROKER_ID_NOT_REGISTERED, f"Broker ID {broker_id} is not currently registered")
    sessions.end(broker_id)
    return [*elections.leave(broker_id, image, lossy=True), UnregisterBroker(broker_id, known.epoch)], None
