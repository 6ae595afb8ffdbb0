"""Assembles the attempts to connect from the recorded events of one boot of a broker. Pure; times are microseconds."""

from collections import deque
from collections.abc import Iterable, Sequence
from statistics import median_low
from typing import Final, NamedTuple

from audit_pipeline.what_if.attempts import ABANDONED, BACKLOG, Attempt, Course, Outcome, RecordedEvent, limit_of

_TIMES_OF_ADDRESS: Final = 15
_TIMES_OF_LISTENER: Final = 1_001


class EarlyConnection(NamedTuple):
    """A connection that was open before the first event: only its end is recorded."""

    listener: str
    address: str
    closed_us: int
    seq: int


class OpenTimes:
    """The times for which the last connections of each address, and of each listener, were open.

    The log has no such time for refused connections, and a replay may admit them.
    """

    def __init__(self) -> None:
        self._of_address: dict[tuple[str, str], deque[int]] = {}
        self._of_listener: dict[str, deque[int]] = {}

    def add(self, listener: str, address: str, open_us: int) -> None:
        place = listener, address
        if place not in self._of_address:
            self._of_address[place] = deque(maxlen=_TIMES_OF_ADDRESS)
        self._of_address[place].append(open_us)
        self._of_listener.setdefault(listener, deque(maxlen=_TIMES_OF_LISTENER)).append(open_us)

    def usual_us(self, listener: str, address: str) -> int:
        """Return the middle of the times of the address, or else of its listener; 0 without any."""
        found = self._of_address.get((listener, address)) or self._of_listener.get(listener)
        return median_low(found) if found else 0


class Recording(NamedTuple):
    """The connections that the audit log has recorded of one start of a broker.

    `attempts` are in the order of their arrival. `unasked` counts connections that the broker closed for other reasons
    than limits without asking the limiter, for example while it was fenced. `client_ids` has the client ID that most
    connections of an address had.
    """

    attempts: list[Attempt]
    early: list[EarlyConnection]
    client_ids: dict[str, str]
    unasked: int
    began_us: int
    ended_us: int
    open_times: OpenTimes


def recording_of(events: Iterable[RecordedEvent]) -> Recording:
    """Assemble the attempts of one boot; `events` are in the order of their numbers."""
    found = Assembly()
    for event in events:
        found.add(event)
    found.end_waits()
    attempts = found.take(len(found))
    return Recording(
        attempts, found.early, found.client_ids, found.unasked, found.began_us, found.ended_us, found.open_times
    )


_Place = tuple[str, str, int | None, int | None]


class Assembly:
    """The attempts that were not taken, and those that have not ended yet, while events are read.

    An attempt may be taken before its outcome or its end is read. `left` lists the attempts that were taken before and
    have left the line, `closed` those whose end was read after the replay received them; the caller empties both.
    """

    def __init__(self, early: Sequence[EarlyConnection] = ()) -> None:
        """`early` are the connections that are known to be open at the start; their ends are not early ones again."""
        self.early = list(early)
        self.open_times = OpenTimes()
        self.unasked = 0
        self.ended_us = 0
        self.left: list[Attempt] = []
        self.closed: list[Attempt] = []
        self._known_early = {one.seq for one in early}
        self._attempts: list[Attempt] = []
        self._waiting: dict[_Place, Attempt] = {}
        self._open: dict[int | None, Attempt] = {}
        self._client_ids: dict[str, dict[str, int]] = {}
        self._began_us: int | None = None

    def __len__(self) -> int:
        """Return the number of attempts that were not taken."""
        return len(self._attempts)

    @property
    def began_us(self) -> int:
        """Time of the first event or arrival."""
        return self._began_us or 0

    @property
    def client_ids(self) -> dict[str, str]:
        """The client ID that most connections of an address had."""
        return {address: max(sorted(counts), key=counts.__getitem__) for address, counts in self._client_ids.items()}

    def add(self, event: RecordedEvent) -> None:
        self.ended_us = max(self.ended_us, event.decided_us)
        if self._began_us is None:
            self._began_us = event.decided_us if event.arrived_us is None else event.arrived_us
        if event.event == "closed":
            self._closed(event)
            return
        place = event.listener, event.client_ip, event.client_port, event.arrived_us
        attempt = self._waiting.pop(place, None)
        is_new = attempt is None
        if attempt is None:
            attempt = Attempt(event)
        if event.event == "limited":
            self._waiting[place] = attempt
        elif not self._end(event, attempt, is_new=is_new):
            self.unasked += 1
            return
        if is_new:
            self._attempts.append(attempt)

    def _end(self, event: RecordedEvent, attempt: Attempt, *, is_new: bool) -> bool:
        """Record the outcome; return False if the connection was not to be admitted whatever the limits are."""
        outcome = Outcome.ACCEPTED
        if event.event == "refused":
            outcome = Outcome.REJECTED if event.limit_key is not None else Outcome.LEFT
        if outcome is Outcome.LEFT:
            has_waited = event.arrived_us is not None and event.arrived_us < event.decided_us
            if is_new and not has_waited and event.reason not in (ABANDONED, BACKLOG):
                return False
            attempt.is_by_client = event.reason == ABANDONED
        attempt.last_seq = attempt.close_seq = event.seq
        attempt.recorded = Course(outcome, event.decided_us, limit_of(event) or attempt.recorded.limit)
        if outcome is Outcome.ACCEPTED:
            self._open[event.connection_id] = attempt
        elif outcome is Outcome.LEFT and attempt.is_taken:
            self.left.append(attempt)
        return True

    def _closed(self, event: RecordedEvent) -> None:
        if event.client_id is not None:
            counts = self._client_ids.setdefault(event.client_ip, {})
            counts[event.client_id] = counts.get(event.client_id, 0) + 1
        attempt = self._open.pop(event.connection_id, None)
        if attempt is None:
            if event.seq not in self._known_early:
                self.early.append(EarlyConnection(event.listener, event.client_ip, event.decided_us, event.seq))
            return
        attempt.open_us = event.decided_us - attempt.recorded.at_us
        attempt.close_seq = event.seq
        self.open_times.add(event.listener, event.client_ip, attempt.open_us)
        if attempt.is_taken:
            self.closed.append(attempt)

    def end_waits(self) -> None:
        """Note that attempts without an outcome wait longer than the log, if they end at all."""
        for attempt in self._waiting.values():
            attempt.recorded = attempt.recorded._replace(at_us=self.ended_us + 1)

    def take(self, count: int) -> list[Attempt]:
        """Take the first attempts, in the order of their arrival."""
        self._attempts.sort(key=lambda attempt: (attempt.arrived_us, attempt.first_seq))
        taken, self._attempts = self._attempts[:count], self._attempts[count:]
        for attempt in taken:
            attempt.is_taken = True
        return taken
