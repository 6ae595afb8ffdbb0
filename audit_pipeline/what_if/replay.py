"""Replays the attempts of one boot of a broker under other limits, in virtual time. Pure.

The events of virtual time are arrivals, questions to the limiter, clients that leave, and ends of connections. Events
of one microsecond keep the order of their numbers in the log.
"""

from collections.abc import Iterable
from heapq import heappop, heappush
from typing import Any, Final

from audit_pipeline.what_if.attempts import Attempt, Course, EarlyConnection, Limit, Outcome, Recording
from audit_pipeline.what_if.limits import LimitsToTry
from audit_pipeline.what_if.listener_line import LATENESS_US, TIMER_US, ListenerLine, asked_us
from connection_limits.accept_decision import AcceptDecision, AcceptOutcome
from connection_limits.limit_met import limit_met
from connection_limits.quotas import ConnectionQuotas
from connection_limits.settings import QuotaSettings

_LEAVE, _ASK, _MAY_END, _ASK_AGAIN, _CLOSE = range(5)
_WARM_UP_MS: Final = 2 * 3_600_000
"""Connections that were open before the log count in no rate: they are admitted so long before."""

_WAITS: Final = (AcceptOutcome.WAIT_UNTIL, AcceptOutcome.WAIT_FOR_SLOT)


def replay(recording: Recording, limits: LimitsToTry, listeners: Iterable[str] = ()) -> ConnectionQuotas:
    """Store in each attempt what the limits do to it, and return the limiter as it is at the end.

    `listeners` names listeners of the broker that have no attempt. Raises InvalidLimitError.
    """
    names = {attempt.listener for attempt in recording.attempts} | {early.listener for early in recording.early}
    run = _Replay(limits, sorted(names.union(listeners)), recording)
    run.until_the_end(recording)
    return run.quotas


class _Replay:
    """Owns the limiter, the lines of all listeners, and the events that are to come."""

    def __init__(self, limits: LimitsToTry, listeners: list[str], recording: Recording) -> None:
        began_ms = recording.began_us // 1000
        self._lines = {name: ListenerLine(name) for name in listeners}
        self._woken: list[str] = []
        self._agenda: list[tuple[int, int, int, int, Any]] = []
        """Events as time, number in the log, kind, a number that no other entry has, and the kind's details."""
        self._entries = 0
        self._late: set[str] = set()
        """Listeners whose waiting client is asked about later than possible, if it has a slot until then."""
        self.quotas = self._limiter(limits, listeners, recording.early, began_ms)

    def _limiter(
        self, limits: LimitsToTry, listeners: list[str], early: Iterable[EarlyConnection], began_ms: int
    ) -> ConnectionQuotas:
        """Return a limiter in which the early connections are open."""
        settings = limits.settings_for(listeners)
        without_limits = QuotaSettings(
            quota_window_num=settings.quota_window_num,
            quota_window_size_s=settings.quota_window_size_s,
            strategy=settings.strategy,
            inter_broker_listener=settings.inter_broker_listener,
        )
        long_ago_ms = began_ms - _WARM_UP_MS
        quotas = ConnectionQuotas(without_limits, long_ago_ms, self._woken.append)
        for name in listeners:
            quotas.add_listener(name, long_ago_ms)
        for one in early:
            quotas.on_accepted(one.listener, one.address, long_ago_ms)
            self._plan(one.closed_us, one.seq, _CLOSE, (one.listener, one.address, long_ago_ms))
        limits.enforce(quotas, listeners, began_ms)
        return quotas

    def _plan(self, at_us: int, seq: int, kind: int, about: Any) -> None:
        self._entries += 1
        heappush(self._agenda, (at_us, seq, kind, self._entries, about))

    def until_the_end(self, recording: Recording) -> None:
        agenda, lines = self._agenda, self._lines
        for attempt in recording.attempts:
            key = attempt.arrived_us, attempt.first_seq
            while agenda and agenda[0] < key:
                self._next()
            self._arrive(lines[attempt.listener], attempt)
        while agenda and agenda[0][0] <= recording.ended_us:
            self._next()
        for attempt in recording.attempts:
            if attempt.replayed is None:
                attempt.replayed = Course(Outcome.WAITING, recording.ended_us)
            elif attempt.replayed.outcome is Outcome.WAITING:
                attempt.replayed = attempt.replayed._replace(at_us=recording.ended_us)

    def _next(self) -> None:
        at_us, _, kind, _, about = heappop(self._agenda)
        if kind == _CLOSE:
            listener, address, accepted_ms = about
            self.quotas.on_closed(listener, address, at_us // 1000, accepted_ms)
            self._serve_woken(at_us)
        elif kind == _ASK:
            line, attempt = about
            if line.waiting is None and line.behind and line.behind[0] is attempt:
                self._ask(line, attempt, at_us)
                self._ask_next(line, at_us)
        elif kind == _ASK_AGAIN:
            line, number = about
            if line.number == number and line.waiting is not None:
                self._ask_again(line, line.waiting, at_us)
        elif kind == _MAY_END:
            line, number = about
            if line.number == number and line.waiting is not None:
                self._wait_may_end(line, line.waiting, at_us, at_us + TIMER_US)
        else:
            self._leave(about, at_us)

    def _arrive(self, line: ListenerLine, attempt: Attempt) -> None:
        if attempt.recorded.outcome is Outcome.LEFT:
            self._plan(attempt.recorded.at_us, attempt.last_seq, _LEAVE, attempt)
        is_first = not line.is_busy
        line.behind.append(attempt)
        if is_first:
            self._ask_next(line, attempt.arrived_us)
        elif line.limit is not None:
            attempt.replayed = Course(Outcome.WAITING, attempt.arrived_us, line.limit)

    def _ask_next(self, line: ListenerLine, possible_us: int) -> None:
        """Ask about the next clients, each as soon as the broker does."""
        while line.behind and line.waiting is None:
            attempt = line.behind[0]
            # A broker asks at once about a client that finds the line empty.
            had_to_line_up = possible_us > attempt.arrived_us
            at_us = asked_us(possible_us, attempt.first_us, possible_us) if had_to_line_up else possible_us
            is_leaving = not attempt.was_asked and attempt.recorded.at_us == at_us
            if at_us > possible_us or is_leaving:
                # A client that hangs up at this time leaves before.
                self._plan(at_us, attempt.first_seq, _ASK, (line, attempt))
                return
            self._ask(line, attempt, at_us)

    def _ask(self, line: ListenerLine, attempt: Attempt, at_us: int) -> None:
        line.behind.popleft()
        decision = self.quotas.on_accepted(line.name, attempt.address, at_us // 1000)
        self._carry_out(line, attempt, decision, at_us)

    def _ask_again(self, line: ListenerLine, attempt: Attempt, at_us: int) -> None:
        self._late.discard(line.name)
        decision = self.quotas.on_wait_over(line.name, attempt.address, at_us // 1000)
        if decision.outcome in _WAITS:
            # It waits for a slot now; the limiter wakes its listener.
            return
        line.end_wait()
        self._carry_out(line, attempt, decision, at_us)
        self._ask_next(line, at_us)

    def _carry_out(self, line: ListenerLine, attempt: Attempt, decision: AcceptDecision, at_us: int) -> None:
        outcome = decision.outcome
        before = attempt.replayed.limit if attempt.replayed is not None else None
        if outcome is AcceptOutcome.ADMIT:
            attempt.replayed = Course(Outcome.ACCEPTED, at_us, before)
            self._plan_end(line, attempt, at_us)
            self._slot_taken()
            return
        limit = self._limit(line, decision, attempt)
        if outcome in _WAITS:
            deadline_us = decision.at_ms * 1000 if outcome is AcceptOutcome.WAIT_UNTIL else None
            attempt.replayed = Course(Outcome.WAITING, at_us, limit)
            line.begin_wait(attempt, deadline_us, limit)
            if deadline_us is not None:
                self._plan(deadline_us, attempt.last_seq, _MAY_END, (line, line.number))
        else:
            attempt.replayed = Course(Outcome.REJECTED, at_us, limit)

    def _plan_end(self, line: ListenerLine, attempt: Attempt, at_us: int) -> None:
        end_us = None if attempt.open_us is None else at_us + attempt.open_us
        if attempt.recorded.outcome is Outcome.LEFT:
            end_us = max(at_us, attempt.recorded.at_us)
        if end_us is not None:
            self._plan(end_us, attempt.close_seq, _CLOSE, (line.name, attempt.address, at_us // 1000))

    def _wait_may_end(self, line: ListenerLine, attempt: Attempt, at_us: int, otherwise_us: int) -> None:
        """Plan a question about the waiting client, which may be admitted from now on.

        If the log has the same wait, the broker asks at the recorded time. If the client still waits long after that
        according to the log, another one takes the slot.
        """
        recorded_us = attempt.recorded.at_us
        ask_us = asked_us(at_us, recorded_us, otherwise_us)
        line.number += 1
        if line.is_as_recorded and recorded_us > ask_us:
            if not self._has_slot(line.name):
                return
            ask_us = at_us + LATENESS_US
            self._late.add(line.name)
        self._plan(ask_us, attempt.last_seq, _ASK_AGAIN, (line, line.number))

    def _has_slot(self, listener: str) -> bool:
        return self.quotas.has_slot(self.quotas.listeners[listener])

    def _slot_taken(self) -> None:
        """Do not ask about clients whose slot is taken; the limiter wakes their listeners when there is another."""
        for name in [name for name in self._late if not self._has_slot(name)]:
            self._late.remove(name)
            self._lines[name].number += 1

    def _serve_woken(self, at_us: int) -> None:
        while self._woken:
            line = self._lines[self._woken.pop(0)]
            if line.waiting is not None and at_us >= line.deadline_us and line.name not in self._late:
                self._wait_may_end(line, line.waiting, at_us, at_us)

    def _leave(self, attempt: Attempt, at_us: int) -> None:
        """Let a client leave the line, if it still is in it. The next one takes over the wait of one that hung up."""
        before = attempt.replayed
        if before is not None and before.outcome is not Outcome.WAITING:
            return
        line = self._lines[attempt.listener]
        attempt.replayed = Course(Outcome.LEFT, at_us, None if before is None else before.limit)
        if line.waiting is not attempt:
            if line.remove(attempt) and line.waiting is None:
                self._ask_next(line, at_us)
            return
        self._late.discard(line.name)
        if attempt.is_by_client and line.behind:
            heir = line.pass_on()
            if at_us < line.deadline_us:
                self._plan(line.deadline_us, heir.last_seq, _MAY_END, (line, line.number))
            else:
                self._wait_may_end(line, heir, at_us, at_us)
        else:
            self.quotas.on_wait_abandoned(line.name, at_us // 1000, by_client=attempt.is_by_client)
            line.end_wait()
            self._ask_next(line, at_us)

    def _limit(self, line: ListenerLine, decision: AcceptDecision, attempt: Attempt) -> Limit:
        met = limit_met(self.quotas, line.name, decision, attempt.address)
        return Limit(met.key, met.entity, met.quota)
