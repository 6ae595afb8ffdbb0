"""Brokers' sessions with the active controller (KIP-631). Pure: the time comes as an argument."""

from dataclasses import dataclass

from broker_runtime.metadata.image import MetadataImage

_UNKNOWN_OFFSET = -1


@dataclass(slots=True)
class _Contact:
    epoch: int
    at_s: float
    metadata_offset: int
    beats: bool
    """False after the registration: it counts as a sign of life, but does not reserve the id, as in Kafka."""


class Sessions:
    """The sessions of brokers: time and metadata offset of the last contact of each (broker id, epoch).

    Soft state: a controller that becomes active begins with `renew_all`. Times are seconds of the monotonic clock.
    """

    def __init__(self, timeout_s: float) -> None:
        self.timeout_s = timeout_s
        self._contacts: dict[int, _Contact] = {}

    def registered(self, broker_id: int, epoch: int, now_s: float) -> None:
        self._contacts[broker_id] = _Contact(epoch, now_s, _UNKNOWN_OFFSET, beats=False)

    def touch(self, broker_id: int, epoch: int, now_s: float) -> None:
        """Record a heartbeat of a broker.

        A heartbeat that arrives in time counts, even if the controller handles it late.
        """
        self._contacts[broker_id] = _Contact(epoch, now_s, self.metadata_offset(broker_id, epoch), beats=True)

    def reached(self, broker_id: int, metadata_offset: int) -> None:
        """Record the broker's metadata offset, as a heartbeat reports it."""
        contact = self._contacts.get(broker_id)
        if contact is not None:
            contact.metadata_offset = metadata_offset

    def end(self, broker_id: int) -> None:
        self._contacts.pop(broker_id, None)

    def extend(self, by_s: float, now_s: float) -> None:
        """Extend all sessions by the time in which this controller could not receive heartbeats."""
        for contact in self._contacts.values():
            contact.at_s = min(contact.at_s + by_s, now_s)

    def is_live(self, broker_id: int, epoch: int, now_s: float) -> bool:
        """Return whether the broker's session reserves its id against other incarnations."""
        known = self._contacts.get(broker_id)
        return known is not None and known.beats and known.epoch == epoch and now_s <= known.at_s + self.timeout_s

    def is_heard(self, broker_id: int, epoch: int, now_s: float) -> bool:
        """Return whether the broker sent a heartbeat or registered within the session timeout."""
        known = self._contacts.get(broker_id)
        return known is not None and known.epoch == epoch and now_s <= known.at_s + self.timeout_s

    def age(self, broker_id: int, now_s: float) -> float | None:
        """Return the seconds since the broker's last heartbeat; None for a broker without a session."""
        known = self._contacts.get(broker_id)
        return None if known is None or not known.beats else max(0.0, now_s - known.at_s)

    def metadata_offset(self, broker_id: int, epoch: int | None = None) -> int:
        """Return the metadata offset in the broker's last heartbeat; -1 if it is unknown.

        With `epoch`, only a heartbeat of this broker epoch counts.
        """
        known = self._contacts.get(broker_id)
        if known is None or (epoch is not None and known.epoch != epoch):
            return _UNKNOWN_OFFSET
        return known.metadata_offset

    def expired(self, image: MetadataImage, now_s: float) -> list[int]:
        """Return the unfenced brokers whose session has expired."""
        return [b.id for b in image.brokers.values() if not b.fenced and not self.is_live(b.id, b.epoch, now_s)]

    def renew_all(self, image: MetadataImage, now_s: float, *, but: int | None) -> None:
        """Begin the sessions of a term: discard all, and give each unfenced broker a fresh one.

        `but` is a broker that cannot be alive: it ran in this process before.
        """
        self._contacts.clear()
        for broker in image.brokers.values():
            if not broker.fenced and broker.id != but:
                self.touch(broker.id, broker.epoch, now_s)
