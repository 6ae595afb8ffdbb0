"""The I/O of the quota path with a cluster's brokers: send changes, ask each broker, send the rest, read back.

The operator and `sluicegate up` both use it. planning.limits.limits decides which limits differ. Nothing here restarts
a broker. A broker that is down is named in the result, and the others are still updated. Times are seconds of the event
loop's clock.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from sluicegate_operator.fleet.base import BrokerAddress
from sluicegate_operator.fleet.kafka.asking import BrokerPool, Unreachable
from sluicegate_operator.fleet.kafka.broker_limits import Failure, Questions, apply_actions, read_limits
from sluicegate_operator.kafka_admin.errors import is_refusal
from sluicegate_operator.planning.limits.connection_groups import CONNECTION_GROUP
from sluicegate_operator.planning.limits.limits import (
    IP,
    Action,
    DesiredLimits,
    Lifted,
    LimitKey,
    Missing,
    ObservedLimits,
    changes,
    changes_of,
    missing,
    missing_words,
)
from sluicegate_operator.planning.limits.order import in_phases, kept_back
from sluicegate_operator.quotas.kept_limits import KEEP_NOTHING, Keep, differing, keep_limits
from sluicegate_operator.quotas.model.quota_keys import config_limits, while_open
from sluicegate_operator.quotas.model.targets import Limits, TargetKey
from sluicegate_operator.quotas.state.ledger import LimitLedger

FIRST_PAUSE_S = 0.005
LONGEST_PAUSE_S = 0.1
WORDS_MAX = 10
"""Maximum number of lacking limits that a message names."""


class EnforcementState(StrEnum):
    """The progress of one broker with enforcing the wanted limits of ConnectionQuotas."""

    ENFORCED = "Enforced"
    LAGGING = "Lagging"
    UNREACHABLE = "Unreachable"


@dataclass(frozen=True, slots=True)
class BrokerEnforcement:
    """One broker's progress with the wanted limits; `detail` is the reason if it does not enforce all of them."""

    broker_id: int
    state: EnforcementState
    detail: str = ""
    enforced_at_s: float | None = None


@dataclass(frozen=True, slots=True)
class ListenerWishes:
    """The listeners' part of the wanted limits: limits of removed listeners, and the need for reports on open ones."""

    closing: Mapping[TargetKey, Limits] = field(default_factory=dict)
    """Limits of removed listeners; they are wanted while a broker still has the listener open."""
    always_read: bool = False
    """Whether brokers report their open listeners even if no key is requested."""


@dataclass(frozen=True, slots=True)
class WantedLimits:
    """The limits that one pass brings into force on the brokers of a cluster.

    `started_at_s` is when the operator learned of them, and `deadline_s` is how long brokers may take to show them.
    `changed` are the limits that differ from those of the last pass. `gives_way` returns whether another pass is due.
    """

    desired: DesiredLimits
    started_at_s: float
    deadline_s: float = 5.0
    changed: frozenset[LimitKey] = frozenset()
    ours: frozenset[LimitKey] | None = None
    """The limits that the operator set, on a cluster that other clients configure too: only these may be lifted.

    None on a cluster of which the operator sets all limits.
    """
    keep: Keep = KEEP_NOTHING
    listeners: ListenerWishes = field(default_factory=ListenerWishes)
    gives_way: Callable[[], bool] = lambda: False

    @property
    def released(self) -> frozenset[LimitKey]:
        """The limits of `ours` that brokers may lift when no ConnectionQuota asks for them any more."""
        return frozenset() if self.ours is None or self.keep.all else self.ours

    @property
    def entity_types(self) -> tuple[str, ...]:
        """Names of Kafka's entity types, such as `ip`, whose client quotas the operator sets on this cluster.

        Apache Kafka has no connection groups, and other clients configure it too.
        """
        return (IP, CONNECTION_GROUP) if self.desired.exclusive else (IP,)


@dataclass(frozen=True, slots=True)
class EnforcementResult:
    """The result of one pass over the brokers: each one's progress, the failures, and the changes that were sent.

    `drift` has the changes that undo those of another client, on brokers that had all limits before.
    """

    brokers: tuple[BrokerEnforcement, ...]
    started_at_s: float
    changes: tuple[Action, ...] = ()
    failures: tuple[Failure, ...] = ()
    drift: tuple[Action, ...] = ()

    @property
    def enforced(self) -> int:
        return sum(broker.state is EnforcementState.ENFORCED for broker in self.brokers)

    @property
    def is_complete(self) -> bool:
        return self.enforced == len(self.brokers) and not self.failures

    @property
    def lagging(self) -> tuple[BrokerEnforcement, ...]:
        return tuple(broker for broker in self.brokers if broker.state is not EnforcementState.ENFORCED)

    @property
    def enforced_at_s(self) -> float | None:
        """Time at which the last broker was seen to enforce all limits; None while a broker does not."""
        times = [broker.enforced_at_s for broker in self.brokers if broker.enforced_at_s is not None]
        return max(times) if times and self.is_complete else None

    @property
    def took_s(self) -> float | None:
        return None if self.enforced_at_s is None else self.enforced_at_s - self.started_at_s


async def enforce(pool: BrokerPool, wanted: WantedLimits, ledger: LimitLedger | None = None) -> EnforcementResult:
    """Bring the wanted limits into force on the brokers of a cluster, in one pass.

    `ledger` has the results of earlier passes, and is updated.

    Raises no error that a broker can cause: the result has the failures of each broker.
    """
    ledger = ledger if ledger is not None else LimitLedger()
    _bring_up_to_date(ledger, pool, wanted)
    in_doubt = ledger.doubts.keys
    due = ledger.doubts.take(ledger.silent, asyncio.get_running_loop().time())
    return await _Run(pool, wanted, ledger, in_doubt, due).enforce()


def _bring_up_to_date(ledger: LimitLedger, pool: BrokerPool, wanted: WantedLimits) -> None:
    """Tell the ledger what has changed since the last pass."""
    places = {broker.broker_id: (broker.host, broker.port) for broker in pool.brokers}
    ledger.keep(places, {broker.broker_id for broker in pool.brokers if broker.up})
    ledger.changed(wanted.changed)
    if wanted.keep.any or ledger.kept_any:
        # Brokers lack the wanted values of the limits that they kept, and no later change contains these limits.
        ledger.read_all()


class _Run:
    """One pass. `in_doubt` are the limits that were in doubt before it, and `due` those that it reads again."""

    def __init__(
        self,
        pool: BrokerPool,
        wanted: WantedLimits,
        ledger: LimitLedger,
        in_doubt: frozenset[LimitKey],
        due: frozenset[LimitKey],
    ) -> None:
        self._pool = pool
        self._wanted = wanted
        self._ledger = ledger
        self._places = {broker.broker_id: (broker.host, broker.port) for broker in pool.brokers}
        self._in_doubt = in_doubt
        self._due = due
        self._through = pool.doubting({b: Unreachable(b, "") for b in ledger.silent})
        """The brokers to send changes through; any of them accepts a change."""
        self._desired = while_open(wanted.desired, wanted.listeners.closing, ledger.open_somewhere({}))
        self._closing = frozenset(
            key for at, limits in wanted.listeners.closing.items() for key in config_limits(at, limits)
        )
        self._failures: list[Failure] = []
        self._sent: list[Action] = []
        self._until_s = asyncio.get_running_loop().time() + wanted.deadline_s

    async def enforce(self) -> EnforcementResult:
        wanted, ledger = self._wanted, self._ledger
        if ledger.any_whole and not wanted.keep.any:
            # It is known what brokers have, so the changes are sent before the brokers are asked.
            await self._send(changes(self._desired, wanted.changed))
        told = frozenset(key for action in self._sent for key in action.keys)
        clean = {b for b, standing in ledger.brokers.items() if not standing.lacks - wanted.changed}
        keys = self._closing | self._due
        asked = {b.broker_id: ledger.asks(b.broker_id, keys) for b in self._pool.brokers}
        seen = await self._read(asked)
        answers = {b: answer for b, answer in seen.items() if isinstance(answer, ObservedLimits)}
        self._through = self._through.doubting(seen)
        self._desired = while_open(wanted.desired, wanted.listeners.closing, ledger.open_somewhere(answers))
        kept = frozenset[LimitKey]()
        if wanted.keep.any:
            stated, self._desired = self._desired, keep_limits(self._desired, answers, wanted.keep, wanted.ours)
            kept = differing(stated, self._desired)
        lacking: dict[int, Missing] = {}
        for broker_id, answer in answers.items():
            lacking[broker_id] = self._judge(broker_id, asked[broker_id], answer)
            # Other tasks run in between: thousands of limits take milliseconds for each broker.
            await asyncio.sleep(0)
        untold = {b: Missing(lacks.limits - told, lacks.own) for b, lacks in lacking.items() if lacks}
        await self._send(changes_of(self._desired, untold))
        unasked_for = {b: self._unasked_for(untold[b]) for b in clean & untold.keys() if not ledger.kept_any}
        drift = changes_of(self._desired, unasked_for)
        ledger.kept_any = wanted.keep.any
        brokers = await asyncio.gather(
            *(self._until_enforced(b, seen[b.broker_id], lacking) for b in self._pool.brokers)
        )
        ledger.kept = kept
        self._note_refusals()
        ordered = tuple(sorted(brokers, key=lambda broker: broker.broker_id))
        return EnforcementResult(ordered, wanted.started_at_s, tuple(self._sent), tuple(self._failures), tuple(drift))

    def _unasked_for(self, lacks: Missing) -> Missing:
        """Return the limits that another client has changed: without those of this pass, and without those in doubt."""
        return Missing(lacks.limits - self._wanted.changed - self._closing - self._in_doubt, lacks.own)

    def _judge(self, broker_id: int, asked: frozenset[LimitKey] | None, seen: ObservedLimits) -> Missing:
        released = self._wanted.released | self._wanted.changed | self._due
        standing = self._ledger.brokers.get(broker_id)
        # The operator set limits that the broker lacked before.
        released |= standing.lacks if standing is not None else frozenset()
        if self._wanted.ours is not None:
            # Limits that are not ours may belong to other clients now, or combine entries of both.
            released &= self._wanted.ours
        lifted = Lifted(self._desired.exclusive, released)
        lacks = missing(self._desired, seen, lifted, asked)
        self._ledger.answered(broker_id, self._places[broker_id], asked, lacks, seen)
        return lacks

    async def _send(self, actions: Sequence[Action]) -> None:
        sent: list[Action] = []
        failures: list[Failure] = []
        for phase in in_phases(actions):
            # Creating thousands of actions took time.
            await asyncio.sleep(0)
            refused = {key for failure in failures for key in failure.action.keys}
            kept = kept_back(phase, sent, refused) if refused else frozenset()
            failures += [Failure(one, failures[0].error) for one in phase if not one.keys.isdisjoint(kept)]
            made = [one for one in phase if one.keys.isdisjoint(kept)] if kept else phase
            failures += await apply_actions(self._through, made, self._note_doubt)
            sent += made
        self._failures += failures
        self._sent += sent
        await asyncio.sleep(0)

    def _note_doubt(self, broker_id: int, keys: Iterable[LimitKey]) -> None:
        self._ledger.doubts.note(broker_id, keys, asyncio.get_running_loop().time())

    async def _read(
        self, asked: Mapping[int, frozenset[LimitKey] | None], broker: BrokerAddress | None = None
    ) -> dict[int, ObservedLimits | Unreachable]:
        wanted = self._wanted
        total = len(self._desired.quotas)
        one = None if broker is None else [broker]
        listeners = wanted.listeners.always_read
        return await read_limits(self._pool, Questions(asked, total, wanted.entity_types, listeners), one)

    async def _until_enforced(
        self, broker: BrokerAddress, seen: ObservedLimits | Unreachable, lacking: Mapping[int, Missing]
    ) -> BrokerEnforcement:
        """Ask one broker for the limits that it lacks until it has them, does not answer, or the deadline passes.

        The loop does not wait for refused limits.
        """
        loop = asyncio.get_running_loop()
        broker_id, pause_s = broker.broker_id, FIRST_PAUSE_S
        lacks = lacking.get(broker_id, Missing())
        failed = frozenset(key for failure in self._failures for key in failure.action.keys)
        while True:
            if isinstance(seen, Unreachable):
                self._ledger.fell_silent(broker_id)
                return BrokerEnforcement(broker_id, EnforcementState.UNREACHABLE, seen.reason)
            now_s = loop.time()
            if not lacks:
                return BrokerEnforcement(broker_id, EnforcementState.ENFORCED, enforced_at_s=now_s)
            if now_s >= self._until_s or lacks.keys <= failed or self._wanted.gives_way():
                words = missing_words(self._desired, lacks)
                detail = "; ".join(words[:WORDS_MAX] + ["..."] * (len(words) > WORDS_MAX))
                return BrokerEnforcement(broker_id, EnforcementState.LAGGING, detail)
            await asyncio.sleep(min(pause_s, self._until_s - now_s))
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
            seen = (await self._read({broker_id: lacks.keys}, broker))[broker_id]
            if isinstance(seen, ObservedLimits):
                lacks = self._judge(broker_id, lacks.keys, seen)

    def _note_refusals(self) -> None:
        refused = self._ledger.refused
        for failure in self._failures:
            if is_refusal(failure.error):
                refused.update(dict.fromkeys(failure.action.keys, str(failure.error)))
        lacked = frozenset().union(*self._ledger.lacked().values())
        for key in refused.keys() - lacked:
            del refused[key]
