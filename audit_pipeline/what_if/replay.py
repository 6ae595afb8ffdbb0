"""Replays the attempts of one boot of a broker under other limits, in virtual time. Pure.

The events of virtual time are arrivals, questions to the limiter, clients that leave, changes of limits, and ends of
connections. Events of one microsecond keep the order of their numbers in the log.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from audit_pipeline.what_if.agenda import Agenda, Happening
from audit_pipeline.what_if.attempts import Attempt, Course, Limit, Outcome
from audit_pipeline.what_if.limits import LimitsToTry
from audit_pipeline.what_if.limits_in_force import Change, LimitsInForce
from audit_pipeline.what_if.listener_line import LATENESS_US, TIMER_US, ListenerLine, asked_us
from audit_pipeline.what_if.recording import EarlyConnection, OpenTimes, Recording
from connection_limits.accept_decision import AcceptDecision, AcceptOutcome
from connection_limits.limit_met import limit_met
from connection_limits.quotas import RATES, ConnectionQuotas
from connection_limits.recorded.rows import LimitEvent, RateKind
from connection_limits.settings import QuotaSettings

_LEAVE, _ASK, _MAY_END, _ASK_AGAIN, _CLOSE, _CHANGE = range(6)
_WARM_UP_MS: Final = 2 * 3_600_000
"""Connections that were open before the log count in no rate: they are admitted so long before."""

_WAITS: Final = (AcceptOutcome.WAIT_UNTIL, AcceptOutcome.WAIT_FOR_SLOT)


Limits = LimitsToTry | LimitsInForce


def replay(recording: Recording, limits: Limits, listeners: Iterable[str] = ()) -> ConnectionQuotas:
    """Store in each attempt the outcome under the limits, and return the limiter in its last state.

    `listeners` names listeners of the broker that have no attempt. Raises InvalidLimitError.
    """
    names = {attempt.listener for attempt in recording.attempts} | {early.listener for early in recording.early}
    run = Replay(limits, sorted(names.union(listeners)), recording.early, recording.began_us, recording.open_times)
    run.feed(recording.attempts)
    run.finish(recording.ended_us)
    for attempt in recording.attempts:
        if attempt.replayed is None:
            attempt.replayed = Course(Outcome.WAITING, recording.ended_us)
        elif attempt.replayed.outcome is Outcome.WAITING:
            attempt.replayed = attempt.replayed._replace(at_us=recording.ended_us)
    return run.quotas


def _ignore(attempt: Attempt) -> None:
    del attempt


class Replay:
    """The replay of one boot: the limiter, the lines of all listeners, and the events that are to come.

    `decided` is called with each attempt whose outcome is final. `early` connections are open at the start.
    """

    def __init__(
        self,
        limits: Limits,
        listeners: Sequence[str],
        early: Sequence[EarlyConnection],
        began_us: int,
        open_times: OpenTimes,
        decided: Callable[[Attempt], None] = _ignore,
    ) -> None:
        self._limits = limits
        self._open_times = open_times
        self._decided = decided
        self._lines = {name: ListenerLine(name) for name in listeners}
        self._woken: list[str] = []
        self._agenda = Agenda()
        self._now_us = began_us = limits.begin_us(began_us)
        self.late = 0
        """Attempts that were fed after the time of their arrival."""
        self._late: set[str] = set()
        """Listeners whose waiting client is asked about later than possible, if it has a slot until then."""
        began_ms = began_us // 1000
        self.quotas = _limiter(limits, listeners, early, began_ms, self._woken.append)
        for one in early:
            about = one.listener, one.address, began_ms - _WARM_UP_MS
            self._agenda.plan(one.closed_us, one.seq, _CLOSE, about)
        for change in limits.changes:
            self._agenda.plan(change.at_us, change.seq, _CHANGE, change)

    def feed(self, attempts: Iterable[Attempt]) -> None:
        """Replay until these attempts have arrived, in the order of their arrival."""
        for attempt in attempts:
            for happening in self._agenda.before((attempt.arrived_us, attempt.first_seq)):
                self._carry_on(happening)
            self.late += attempt.arrived_us < self._now_us
            self._now_us = max(self._now_us, attempt.arrived_us)
            self._arrive(self._line(attempt.listener), attempt)

    def left(self, attempts: Iterable[Attempt]) -> None:
        """Note that attempts have left the line whose outcome was not known when they were fed."""
        for attempt in attempts:
            self._agenda.plan(max(attempt.recorded.at_us, self._now_us), attempt.last_seq, _LEAVE, attempt)

    def closed(self, attempts: Iterable[Attempt]) -> None:
        """Note that the ends of attempts are known which are admitted already."""
        for attempt in attempts:
            course = attempt.replayed
            if course is not None and course.outcome is Outcome.ACCEPTED and attempt.open_us is not None:
                end_us = max(course.at_us + attempt.open_us, self._now_us)
                about = attempt.listener, attempt.address, course.at_us // 1000
                self._agenda.plan(end_us, attempt.close_seq, _CLOSE, about)

    def finish(self, ended_us: int) -> None:
        """Replay until the end of the log."""
        for happening in self._agenda.before((ended_us + 1,)):
            self._carry_on(happening)

    def _line(self, name: str) -> ListenerLine:
        """Return the line of a listener, and open the listener if the replay does not know it yet."""
        line = self._lines.get(name)
        if line is None:
            line = self._lines[name] = ListenerLine(name)
            if name not in self.quotas.listeners:
                self.quotas.add_listener(name, self._now_us // 1000)
                self._limits.listener_found(self.quotas, list(self._lines), self._now_us // 1000)
        return line

    def _carry_on(self, happening: Happening) -> None:
        at_us, _, kind, _, about = happening
        self._now_us = max(self._now_us, at_us)
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
        elif kind == _CHANGE:
            self._change(about, at_us)
        else:
            self._leave(about, at_us)

    def _change(self, change: Change, at_us: int) -> None:
        for row in change.rows:
            if row.event is LimitEvent.CLOSED and row.listener in self._lines:
                # The broker has closed the client that waited; if the replay delays another one, it closes that.
                line = self._lines[row.listener]
                if line.waiting is not None:
                    self.quotas.on_wait_abandoned(line.name, at_us // 1000)
                    line.end_wait()
        self._limits.apply(change, self.quotas, at_us // 1000)
        if any(row.kind is RateKind.SHARE for row in change.rows):
            for line in self._lines.values():
                wait = self.quotas.listeners[line.name].waiting if line.waiting is not None else None
                if wait is not None and wait.limit in RATES:
                    self._wait_longer(line, wait.deadline_ms)
        self._serve_woken(at_us)

    def _wait_longer(self, line: ListenerLine, deadline_ms: int) -> None:
        """Let the waiting client wait until another time, because the share of a rate of the cluster is another one."""
        if line.waiting is not None:
            line.deadline_us = deadline_ms * 1000
            line.number += 1
            self._agenda.plan(max(line.deadline_us, self._now_us), line.waiting.last_seq, _MAY_END, (line, line.number))

    def _arrive(self, line: ListenerLine, attempt: Attempt) -> None:
        if attempt.recorded.outcome is Outcome.LEFT:
            self._agenda.plan(attempt.recorded.at_us, attempt.last_seq, _LEAVE, attempt)
        is_first = not line.is_busy
        line.behind.append(attempt)
        if is_first:
            self._ask_next(line, self._now_us)
        elif line.limit is not None:
            attempt.replayed = Course(Outcome.WAITING, attempt.arrived_us, line.limit)

    def _ask_next(self, line: ListenerLine, possible_us: int) -> None:
        """Ask about the next clients, each as soon as the broker does."""
        while line.behind and line.waiting is None:
            attempt = line.behind[0]
            # A broker asks at once about a client that finds the line empty, unless it only disconnects it.
            is_later = possible_us > attempt.arrived_us or (self._limits.are_recorded and not attempt.was_asked)
            at_us = _asked_us(self._limits, possible_us, attempt.first_us, possible_us) if is_later else possible_us
            is_leaving = not attempt.was_asked and attempt.recorded.at_us == at_us
            if at_us > possible_us or is_leaving:
                # A client that hangs up at this time leaves before.
                self._agenda.plan(at_us, attempt.first_seq, _ASK, (line, attempt))
                return
            self._ask(line, attempt, at_us)

    def _ask(self, line: ListenerLine, attempt: Attempt, at_us: int) -> None:
        line.behind.popleft()
        decision = self.quotas.on_accepted(line.name, attempt.address, at_us // 1000)
        self._carry_out(line, attempt, decision, at_us)

    def _ask_again(self, line: ListenerLine, attempt: Attempt, at_us: int) -> None:
        self._late.discard(line.name)
        decision = self.quotas.on_wait_over(line.name, attempt.address, at_us // 1000)
        if decision.outcome is AcceptOutcome.WAIT_UNTIL:
            self._wait_longer(line, decision.at_ms)
            return
        if decision.outcome is AcceptOutcome.WAIT_FOR_SLOT:
            # The limiter wakes its listener.
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
            self._slot_taken(at_us)
            self._decided(attempt)
            return
        limit = _limit(self.quotas, line, decision, attempt)
        if outcome in _WAITS:
            deadline_us = decision.at_ms * 1000 if outcome is AcceptOutcome.WAIT_UNTIL else None
            attempt.replayed = Course(Outcome.WAITING, at_us, limit)
            line.begin_wait(attempt, deadline_us, limit)
            if deadline_us is not None:
                self._agenda.plan(deadline_us, attempt.last_seq, _MAY_END, (line, line.number))
        else:
            attempt.replayed = Course(Outcome.REJECTED, at_us, limit)
            self._decided(attempt)

    def _plan_end(self, line: ListenerLine, attempt: Attempt, at_us: int) -> None:
        end_us = None if attempt.open_us is None else at_us + attempt.open_us
        if attempt.recorded.outcome is Outcome.REJECTED:
            end_us = at_us + self._open_times.usual_us(attempt.listener, attempt.address)
        elif attempt.recorded.outcome is Outcome.LEFT:
            end_us = max(at_us, attempt.recorded.at_us)
        if end_us is not None:
            self._agenda.plan(end_us, attempt.close_seq, _CLOSE, (line.name, attempt.address, at_us // 1000))

    def _wait_may_end(self, line: ListenerLine, attempt: Attempt, at_us: int, otherwise_us: int) -> None:
        """Plan a question about the waiting client, which may be admitted from now on.

        If the log has the same wait, the broker asks at the recorded time. If the client still waits long after that
        according to the log, another one takes the slot.
        """
        recorded_us = attempt.recorded.at_us
        if self._limits.are_recorded and not _has_slot(self.quotas, line.name):
            self._wait_for_slot(line, attempt, at_us)
            return
        ask_us = _asked_us(self._limits, at_us, recorded_us, otherwise_us)
        line.number += 1
        if line.is_as_recorded and recorded_us > ask_us:
            if not _has_slot(self.quotas, line.name):
                return
            ask_us = at_us + LATENESS_US
            self._late.add(line.name)
        self._agenda.plan(ask_us, attempt.last_seq, _ASK_AGAIN, (line, line.number))

    def _wait_for_slot(self, line: ListenerLine, attempt: Attempt, at_us: int) -> None:
        """Let the limiter know that the rate allows the client, but no slot is free: then shares do not delay it."""
        decision = self.quotas.on_wait_over(line.name, attempt.address, at_us // 1000)
        if decision.outcome is AcceptOutcome.WAIT_UNTIL:
            self._wait_longer(line, decision.at_ms)

    def _slot_taken(self, at_us: int) -> None:
        """Do not ask about clients whose slot is taken; the limiter wakes their listeners when there is another."""
        for name in [name for name in self._late if not _has_slot(self.quotas, name)]:
            self._late.remove(name)
            self._lines[name].number += 1
        if self._limits.are_recorded:
            for line in self._lines.values():
                if line.waiting is not None and at_us >= line.deadline_us and not _has_slot(self.quotas, line.name):
                    self._wait_for_slot(line, line.waiting, at_us)

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
        self._decided(attempt)
        if line.waiting is not attempt:
            if line.remove(attempt) and line.waiting is None:
                self._ask_next(line, at_us)
            return
        self._late.discard(line.name)
        if attempt.is_by_client and line.behind:
            heir = line.pass_on()
            if at_us < line.deadline_us:
                self._agenda.plan(line.deadline_us, heir.last_seq, _MAY_END, (line, line.number))
            else:
                self._wait_may_end(line, heir, at_us, at_us)
        else:
            self.quotas.on_wait_abandoned(line.name, at_us // 1000, by_client=attempt.is_by_client)
            line.end_wait()
            self._ask_next(line, at_us)


def _limiter(
    limits: Limits,
    listeners: Sequence[str],
    early: Iterable[EarlyConnection],
    began_ms: int,
    wake: Callable[[str], None],
) -> ConnectionQuotas:
    """Return a limiter with the limits at the start, in which the early connections are open."""
    settings = limits.settings_for(listeners)
    without_limits = QuotaSettings(
        quota_window_num=settings.quota_window_num,
        quota_window_size_s=settings.quota_window_size_s,
        strategy=settings.strategy,
        inter_broker_listener=settings.inter_broker_listener,
    )
    long_ago_ms = began_ms - _WARM_UP_MS
    quotas = ConnectionQuotas(without_limits, long_ago_ms, wake)
    for name in limits.open_at_start(listeners):
        quotas.add_listener(name, long_ago_ms)
    for one in early:
        quotas.on_accepted(one.listener, one.address, long_ago_ms)
    limits.enforce(quotas, listeners, began_ms)
    return quotas


def _has_slot(quotas: ConnectionQuotas, listener: str) -> bool:
    return quotas.has_slot(quotas.listeners[listener])


def _asked_us(limits: Limits, possible_us: int, recorded_us: int, otherwise_us: int) -> int:
    """Return the time of a question to the limiter: that of the log, if a broker could ask then under the limits."""
    if limits.are_recorded:
        return recorded_us if recorded_us >= possible_us else otherwise_us
    return asked_us(possible_us, recorded_us, otherwise_us)


def _limit(quotas: ConnectionQuotas, line: ListenerLine, decision: AcceptDecision, attempt: Attempt) -> Limit:
    met = limit_met(quotas, line.name, decision, attempt.address)
    return Limit(met.key, met.entity, met.quota)
