"""One loaded observer, isolated: neither its exceptions nor its delays harm the broker or other observers. Pure."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

from broker_runtime.apis.request.call import Call
from broker_runtime.errors import ProtocolError
from broker_runtime.network.quotas.refusals import RefusalLog
from broker_runtime.observers.base import (
    CallObserver,
    ConfigurableObserver,
    ConnectionObserver,
    MeasuredObserver,
    NotingObserver,
    Observer,
    ReconfiguredObserver,
    RefusingObserver,
    UnansweredObserver,
)
from broker_runtime.observers.filters import Filter
from broker_runtime.observers.running.budget import Budget, ThreadUsage

LOG_INTERVAL_MS = 60_000
_REMARK_MAX = 200
_ERROR_CHARS_MAX = 500
_DROPPED_MAX = 2**63 - 1


class Readings(NamedTuple):
    """Measurements around an observer's calls: a monotonic clock in seconds, and the usage of the calling thread."""

    now: Callable[[], float]
    usage: Callable[[], ThreadUsage]


class ObserverMetrics:
    """Counts of an observer's calls and their outcomes. They begin at zero when the observer is loaded."""

    __slots__ = ("calls", "errors", "last_error", "over_budget", "skipped", "suspensions", "time_s")

    def __init__(self) -> None:
        self.calls = self.errors = self.over_budget = self.skipped = self.suspensions = 0
        self.time_s = 0.0
        self.last_error: str | None = None


class ObserverInService:
    """A loaded observer, with its counters and its budget. `instance` is the user's own object.

    The constructor reads once which methods the observer has. It raises whatever the attributes raise, which are the
    observer's code, too. `warn` is called with a line for the log, at most once a minute for one kind of problem.
    """

    def __init__(
        self,
        name: str,
        instance: ConfigurableObserver,
        wanted: Filter,
        budget: Budget,
        reads: Readings,
        warn: Callable[[str], None],
    ) -> None:
        self.name = name
        self.instance = instance
        self.filter = wanted
        self.budget = budget
        self.figures = ObserverMetrics()
        self._now, self._usage = reads
        self._warn = warn
        self._troubles = RefusalLog(LOG_INTERVAL_MS)
        self.sees_requests = isinstance(instance, Observer)
        self.record_request: Callable[..., object] = getattr(instance, "record_request", _nothing)
        self.record_response: Callable[..., object] = getattr(instance, "record_response", _nothing)
        self.record_no_response = instance.record_no_response if isinstance(instance, UnansweredObserver) else None
        self.record_connection = instance.record_connection if isinstance(instance, ConnectionObserver) else None
        self.record_call = instance.record_call if isinstance(instance, CallObserver) else None
        self.reconfigure = instance.reconfigure if isinstance(instance, ReconfiguredObserver) else None
        self.collect = instance.collect if isinstance(instance, MeasuredObserver) else None
        self.refuses: Callable[[Call], bool] | None = None
        if self.record_call is not None and isinstance(instance, RefusingObserver) and instance.rejects:
            self.refuses = instance.refuses
        self.note: Callable[[Call, memoryview, int], None] | None = None
        self.noted_apis: frozenset[int] = frozenset()
        if self.record_call is not None and isinstance(instance, NotingObserver):
            self.note, self.noted_apis = instance.note, frozenset(instance.noted_apis)

    def suspended(self, now_s: float) -> bool:
        """Return whether the observer must not be called now; count the skipped call."""
        if self.budget.resumes_s <= now_s:
            return False
        self.figures.skipped += 1
        return True

    def retire(self) -> None:
        """Stop calling the observer, even with the responses to requests that it has seen."""
        self.budget.resumes_s = math.inf

    @property
    def dropped(self) -> int | None:
        """Return how many items the observer reports as dropped from its full queue; None without a report."""
        try:
            lost = getattr(self.instance, "dropped", None)
            return min(int(lost), _DROPPED_MAX) if isinstance(lost, int) else None
        except BaseException as error:  # noqa: BLE001 - the user's property, as in `call`
            self.failed(error)
            return None

    @property
    def remark(self) -> str:
        """Return the observer's description of its own condition; empty without one."""
        try:
            text = getattr(self.instance, "remark", "")
            return _encodable(" ".join(text[:_REMARK_MAX].split())) if isinstance(text, str) else ""
        except BaseException as error:  # noqa: BLE001 - the user's property, as in `call`
            self.failed(error)
            return ""

    def call(self, method: Callable[..., object], *arguments: Any) -> None:
        """Call a method of the observer; catch every exception, and account for the time of the call."""
        figures, now = self.figures, self._now
        began_s = now()
        before = self._usage() if began_s < self.budget.watched_until_s else None
        try:
            method(*arguments)
        except BaseException as error:  # noqa: BLE001 - not even a plugin that wants to end the process harms a request
            self.failed(error)
        ended_s = now()
        spent_s = ended_s - began_s
        figures.calls += 1
        figures.time_s += spent_s
        if spent_s > self.budget.limit_s:
            self._late(spent_s, ended_s, before)

    def failed(self, error: BaseException) -> None:
        """Count an exception that the observer has raised.

        A ProtocolError is not counted: it is the client's mistake.
        """
        if isinstance(error, ProtocolError):
            return
        self.figures.errors += 1
        self.figures.last_error = first_line(error)
        self._log("raised", f"observer {self.name} raised {self.figures.last_error}")

    def _late(self, spent_s: float, now_s: float, before: ThreadUsage | None) -> None:
        self.figures.over_budget += 1
        suspended_s = self.budget.late(spent_s, now_s, before, None if before is None else self._usage())
        if suspended_s is not None:
            self.figures.suspensions += 1
            self._log(
                "suspended",
                f"observer {self.name} is suspended for {suspended_s:g} s: its calls keep taking longer than "
                f"{self.budget.limit_s * 1e6:.0f} us, the last one {spent_s * 1e6:.0f} us",
            )

    def _log(self, kind: str, text: str) -> None:
        line = self._troubles.note(kind, text, int(self._now() * 1000))
        if line is not None:
            self._warn(line)


def first_line(error: BaseException) -> str:
    """Return the class of an error and the first line of its text. `str` runs the observer's code, and may raise."""
    try:
        text = str(error)
    except BaseException as another:  # noqa: BLE001 - as in `call`
        text = f"its message raises {type(another).__name__}"
    return _encodable(f"{type(error).__name__}: {text}".splitlines()[0][:_ERROR_CHARS_MAX])


def _encodable(text: str) -> str:
    """Replace what UTF-8 cannot encode: the text appears in responses and on pages."""
    return text.encode(errors="replace").decode()


def _nothing(*_: object) -> None:
    """Stand-in for the methods of an observer that sees no requests."""
