"""The interface of the console's sources."""

from collections.abc import Sequence
from typing import Protocol

from sluicegate_operator.cli.asking.why_report import AddressAnswers
from sluicegate_operator.cli.top.model.look import Look


class SourceError(Exception):
    """Error of a source that has no answer. The message says what to do."""


class TopSource(Protocol):
    """A source of looks. Every method has a deadline, so that the console never waits for a broker without end."""

    @property
    def title(self) -> str:
        """Where the looks come from, in a few words."""

    async def look(self) -> Look:
        """Return the answers of this moment. Raises SourceError."""

    async def settle(self) -> None:
        """Wait until slow questions were asked once, with or without an answer."""

    async def why(self, address: str) -> Sequence[AddressAnswers]:
        """Return the brokers' answers about an address. Raises SourceError."""
