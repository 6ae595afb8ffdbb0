"""Broker registration, sessions and fencing (KIP-631, seed 004); the time comes as an argument.

Metadata is changed by records only. `Sessions` is soft state beside it. Decisions update it before their records are
durable: a controller that cannot make them durable ends its term, and its sessions with it.

- The table in `broker_states` defines the states and transitions; this module defines what each transition writes.
- A broker that is silent for longer than the session timeout is fenced. Sessions are soft state: a controller that
  starts gives every unfenced broker a fresh one.
- A second incarnation is refused while the first has a live session. Unlike in Apache Kafka a clean stop ends the
  session. So does a heartbeat that wants both to be fenced and to shut down, with which the operator reports that a pod
  is gone. The id is then free at once.
- A new incarnation that cannot prove that it has the data of the previous one is not eligible to lead (KIP-966): it may
  have lost what it had acknowledged.
- Partition records come before the record of the broker: if a crash separates them, the rest is decided again.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from broker_runtime.config.keys.tags import TAGS_MAX, tag_key
from broker_runtime.controller.broker_states import BrokerControlState, BrokerEvent, Guard, Transition, transitions
from broker_runtime.controller.partitions import elections
from broker_runtime.controller.sessions import Sessions
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.metadata.areas.brokers import (
    UNTOLD,
    BrokerEndpoint,
    BrokerInfo,
    FenceBroker,
    RegisterBroker,
    StopBroker,
    UnfenceBroker,
    UnregisterBroker,
)
from broker_runtime.metadata.areas.configs import ConfigRecord, ResourceType
from broker_runtime.metadata.image import MetadataImage
from broker_runtime.metadata.record import MetadataRecord
from broker_runtime.slicing.steps import Steps

_EPOCH_UNKNOWN = -1
_TAGS_MAX = 2 * TAGS_MAX
"""Maximum number of tags of a broker: those of its file, and as many that the broker sets itself."""
_TAG_CHARACTERS_MAX = _TAGS_MAX * 512
_TEXT_BYTES_MAX = 0x7FFF
"""Maximum length of a text.

A registration can contain longer ones, but responses in versions that are not flexible cannot: one would break all.
"""


@dataclass(frozen=True, slots=True)
class Registration:
    """A broker's request to register."""

    broker_id: int
    cluster_id: str
    incarnation: UUID | None
    endpoints: tuple[BrokerEndpoint, ...]
    rack: str | None
    features: tuple[tuple[str, int, int], ...] = ()
    """Features of the broker: (name, lowest, highest supported level)."""
    previous_epoch: int = -1
    """The newest broker epoch since which the broker has lost nothing; -1 if the broker does not know."""
    protocol_versions: tuple[int, int] = UNTOLD
    tags: tuple[tuple[str, str], ...] = ()
    """The broker's description of itself: (name, value) of each tag."""


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """A broker's periodic report. `metadata_offset` is the offset of the last record that the broker has applied."""

    broker_id: int
    epoch: int
    metadata_offset: int
    want_fence: bool
    want_shut_down: bool

    @property
    def event(self) -> BrokerEvent:
        if self.want_shut_down:
            return BrokerEvent.GO if self.want_fence else BrokerEvent.STOP
        return BrokerEvent.FENCE if self.want_fence else BrokerEvent.SERVE


@dataclass(frozen=True, slots=True)
class HeartbeatAnswer:
    """The controller's answer to a heartbeat."""

    is_caught_up: bool
    is_fenced: bool
    should_shut_down: bool


def state_of(broker: BrokerInfo, sessions: Sessions, now_s: float) -> BrokerControlState:
    if broker.fenced:
        return (
            BrokerControlState.FENCED
            if sessions.is_heard(broker.id, broker.epoch, now_s)
            else BrokerControlState.OFFLINE
        )
    return BrokerControlState.ONLINE if broker.stopping_offset is None else BrokerControlState.STOPPING


def register(
    wanted: Registration, image: MetadataImage, sessions: Sessions, now_s: float
) -> Steps[tuple[Sequence[MetadataRecord], int]]:
    """Decide a registration: return the records, and the broker's epoch. Raises KafkaError."""
    _check(wanted, image)
    known = image.brokers.get(wanted.broker_id)
    if known is None:
        return _new_incarnation(wanted, [], _EPOCH_UNKNOWN, image, sessions, now_s)
    transition = _on_registration(wanted, known, sessions, now_s)
    if transition.error is not None:
        raise KafkaError(
            transition.error,
            f"Another broker is registered with that broker id {known.id}; its session has not ended yet",
        )
    if transition.guard is Guard.SAME_INCARNATION:
        if not sessions.is_live(known.id, known.epoch, now_s):
            sessions.registered(known.id, known.epoch, now_s)
        again = _record(wanted, known.epoch, known.whole_since)
        return (() if again == known.registration else (again,)), known.epoch
    since = _whole_since(wanted, known)
    leaving = yield from elections.leave(known.id, image, unclean_shutdown=since == _EPOCH_UNKNOWN)
    return _new_incarnation(wanted, leaving, since, image, sessions, now_s)


def _whole_since(wanted: Registration, known: BrokerInfo) -> int:
    """Return the broker epoch since which no data was lost; _EPOCH_UNKNOWN if some may be lost.

    A broker that was killed before it could store its epoch can prove only an earlier one. That suffices, because it
    was not unfenced under any epoch since. (Kafka requires the last epoch itself.)
    """
    least = known.epoch if known.whole_since == _EPOCH_UNKNOWN else known.whole_since
    return wanted.previous_epoch if least <= wanted.previous_epoch <= known.epoch else _EPOCH_UNKNOWN


def _on_registration(wanted: Registration, known: BrokerInfo, sessions: Sessions, now_s: float) -> Transition:
    if known.incarnation == wanted.incarnation:
        guard = Guard.SAME_INCARNATION
    else:
        guard = Guard.TAKEN if sessions.is_live(known.id, known.epoch, now_s) else Guard.FREE
    state = state_of(known, sessions, now_s)
    return next(transition for transition in transitions(state, BrokerEvent.REGISTER) if transition.guard is guard)


def _new_incarnation(
    wanted: Registration,
    cleaning: list[MetadataRecord],
    since: int,
    image: MetadataImage,
    sessions: Sessions,
    now_s: float,
) -> tuple[Sequence[MetadataRecord], int]:
    epoch = image.next_offset + len(cleaning)
    sessions.registered(wanted.broker_id, epoch, now_s)
    return [*cleaning, _record(wanted, epoch, since)], epoch


def _record(wanted: Registration, epoch: int, since: int) -> RegisterBroker:
    assert wanted.incarnation is not None
    return RegisterBroker(
        wanted.broker_id,
        wanted.incarnation,
        epoch,
        wanted.endpoints,
        wanted.rack,
        wanted.features,
        since,
        wanted.protocol_versions,
        wanted.tags,
    )


def _check(wanted: Registration, image: MetadataImage) -> None:
    if wanted.cluster_id != image.cluster.id:
        raise KafkaError(
            ErrorCode.INCONSISTENT_CLUSTER_ID,
            f"Expected cluster ID {image.cluster.id}, but got cluster ID {wanted.cluster_id}",
        )
    if wanted.broker_id < 0:
        raise KafkaError(ErrorCode.INVALID_REGISTRATION, f"a broker id must be 0 or more, not {wanted.broker_id}")
    if wanted.incarnation is None:
        raise KafkaError(ErrorCode.INVALID_REGISTRATION, "a broker needs an incarnation id")
    if not wanted.endpoints or len({e.listener for e in wanted.endpoints}) != len(wanted.endpoints):
        raise KafkaError(ErrorCode.INVALID_REGISTRATION, "a broker needs listeners, each with its own name")
    _check_texts(wanted)
    _check_tags(wanted)
    supported = {name: (lowest, highest) for name, lowest, highest in wanted.features}
    for name, level in image.cluster.features.items():
        lowest, highest = supported.get(name, (0, 0))
        if not lowest <= level <= highest:
            raise KafkaError(
                ErrorCode.UNSUPPORTED_VERSION,
                f"Unable to register because the broker does not support finalized version {level} of {name}. "
                f"The broker wants a version between {lowest} and {highest}, inclusive.",
            )


def _check_texts(wanted: Registration) -> None:
    places = [text for endpoint in wanted.endpoints for text in (endpoint.listener, endpoint.host)]
    texts = (*places, wanted.rack or "", *(text for tag in wanted.tags for text in tag))
    longest = max(len(text.encode()) for text in texts)
    if longest > _TEXT_BYTES_MAX:
        raise KafkaError(
            ErrorCode.INVALID_REGISTRATION,
            f"each text of a registration may have at most {_TEXT_BYTES_MAX} bytes, not {longest}",
        )


def _check_tags(wanted: Registration) -> None:
    """Limit the tags, because each broker has to send them to every client that asks."""
    if len(wanted.tags) > _TAGS_MAX or sum(len(name) + len(value) for name, value in wanted.tags) > _TAG_CHARACTERS_MAX:
        raise KafkaError(
            ErrorCode.INVALID_REGISTRATION,
            f"a broker may have at most {_TAGS_MAX} tags with {_TAG_CHARACTERS_MAX} characters in total",
        )


def heartbeat(
    beat: Heartbeat, image: MetadataImage, sessions: Sessions, now_s: float
) -> Steps[tuple[Sequence[MetadataRecord], HeartbeatAnswer]]:
    """Decide a heartbeat: return the records, and the answer.

    The caller has already renewed the session. Raises KafkaError.
    """
    known = registered(beat.broker_id, beat.epoch, image)
    sessions.reached(known.id, beat.metadata_offset)
    state = state_of(known, sessions, now_s)
    transition = next(
        each for each in transitions(state, beat.event) if _GUARDS[each.guard](beat, known, image, sessions)
    )
    records = yield from _records(known, transition, image)
    if transition.shut_down:
        sessions.end(known.id)
    assert transition.fenced is not None
    assert transition.shut_down is not None
    return records, HeartbeatAnswer(_caught_up(beat, known), transition.fenced, transition.shut_down)


def _records(known: BrokerInfo, transition: Transition, image: MetadataImage) -> Steps[Sequence[MetadataRecord]]:
    if transition.next is BrokerControlState.ONLINE and known.fenced:
        return (yield from unfence(known, image))
    if transition.next is BrokerControlState.STOPPING and known.stopping_offset is None:
        return (yield from stop(known, image))
    if transition.next in (BrokerControlState.FENCED, BrokerControlState.OFFLINE) and not known.fenced:
        return (yield from fence(known, image))
    return ()


_Condition = Callable[[Heartbeat, BrokerInfo, MetadataImage, Sessions], bool]


def _caught_up(beat: Heartbeat, known: BrokerInfo) -> bool:
    return beat.metadata_offset >= known.epoch


def _may_go(known: BrokerInfo, image: MetadataImage, sessions: Sessions) -> bool:
    """Whether the broker leads nothing, and each broker that serves clients knows that it stops."""
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


def fence(broker: BrokerInfo, image: MetadataImage) -> Steps[list[MetadataRecord]]:
    return [*(yield from elections.leave(broker.id, image)), FenceBroker(broker.id, broker.epoch)]


def unfence(broker: BrokerInfo, image: MetadataImage) -> Steps[list[MetadataRecord]]:
    return [*(yield from elections.come_back(broker.id, image)), UnfenceBroker(broker.id, broker.epoch)]


def stop(broker: BrokerInfo, image: MetadataImage) -> Steps[list[MetadataRecord]]:
    """Return the records that begin a controlled shutdown.

    Its offset is set once, however often the broker asks.
    """
    moved = yield from elections.leave(broker.id, image)
    return [*moved, StopBroker(broker.id, broker.epoch, image.next_offset + len(moved))]


def unregister(
    broker_id: int, image: MetadataImage, sessions: Sessions
) -> Steps[tuple[Sequence[MetadataRecord], None]]:
    """Return the records that remove a broker's registration. A live broker registers again.

    For a fenced broker the tags of its own dynamic configuration are deleted, too: they describe this broker, and its
    id may pass to another. The rest of that configuration is kept, as in Kafka.
    """
    known = image.brokers.get(broker_id)
    if known is None:
        raise KafkaError(ErrorCode.BROKER_ID_NOT_REGISTERED, f"Broker ID {broker_id} is not currently registered")
    sessions.end(broker_id)
    leaving = yield from elections.leave(broker_id, image, unclean_shutdown=True)
    if known.fenced:
        own = sorted(key for key in image.configs.of_broker(broker_id) if tag_key(key) is not None)
        leaving += [ConfigRecord(int(ResourceType.BROKER), str(broker_id), key, None) for key in own]
    return [*leaving, UnregisterBroker(broker_id, known.epoch)], None
