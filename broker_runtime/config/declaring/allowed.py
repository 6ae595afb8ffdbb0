"""The values that a key allows: each class checks a value, and its text is for messages and the reference. Pure."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Range:
    """The allowed numbers from `low` to `high`, both included. None stands for the limit of the key's type."""

    low: float
    high: float | None = None

    def __call__(self, value: object) -> str | None:
        fits = isinstance(value, int | float) and self.low <= value and (self.high is None or value <= self.high)
        return None if fits else f"must be {self}"

    def __str__(self) -> str:
        return f"at least {self.low}" if self.high is None else f"between {self.low} and {self.high}"


@dataclass(frozen=True, slots=True)
class OneOf:
    """The allowed texts, in exactly this spelling or in any case.

    With `any_case`, `items` are in lower case.
    """

    items: tuple[str, ...]
    any_case: bool = False

    def __call__(self, value: object) -> str | None:
        fits = (value.lower() if self.any_case and isinstance(value, str) else value) in self.items
        return None if fits else f"must be {self}"

    def __str__(self) -> str:
        return f"one of: {', '.join(self.items)}" + (", in capitals or not" if self.any_case else "")


@dataclass(frozen=True, slots=True)
class ListOf:
    """The rule for a configuration value that is a list: a non-empty list of these texts."""

    items: tuple[str, ...]

    def __call__(self, value: object) -> str | None:
        fits = isinstance(value, tuple) and value and all(item in self.items for item in value)
        return None if fits else f"must be {self}"

    def __str__(self) -> str:
        return f"a list of: {', '.join(self.items)}"


def at_least(low: float) -> Range:
    return Range(low)


def between(low: float, high: float) -> Range:
    return Range(low, high)


def one_of(*items: str) -> OneOf:
    return OneOf(items)


def each_of(*items: str) -> ListOf:
    return ListOf(items)
