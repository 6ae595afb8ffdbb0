"""Lets decisions that write long records be made in steps. Pure."""

from typing import TypeVar

from broker_runtime.coordination.seam import Decided, Deciding
from broker_runtime.slicing.steps import Steps
from broker_runtime.transactions.ids.codec import is_long
from broker_runtime.transactions.ids.records import TransactionRecord

T = TypeVar("T")


def paced(decided: Decided[TransactionRecord, T]) -> Deciding[TransactionRecord, T]:
    """Return the decision, as steps if one of its records is long: then the runtime encodes it in steps, too."""
    return _in_steps(decided) if any(map(is_long, decided[0])) else decided


def _in_steps(decided: Decided[TransactionRecord, T]) -> Steps[Decided[TransactionRecord, T]]:
    yield
    return decided
