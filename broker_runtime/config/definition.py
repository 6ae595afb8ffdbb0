"""What a configuration key is: its type, its default, what it allows and how it may change.

Pure. The tables of keys are `broker_keys` and `topic_keys`; the vocabulary is Kafka's ConfigDef.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum, StrEnum

from broker_runtime.config.numbers import parse_double, parse_integer, trim
from broker_runtime.errors import ConfigError

INT_MAX = 2**31 - 1
LONG_MAX = 2**63 - 1

Value = int | float | bool | str | tuple[str, ...] | None


class Type(IntEnum):
    """Numbers as DescribeConfigs (KIP-569) sends them."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class UpdateMode(StrEnum):
    """KIP-226: whether and at which level a broker key changes without a restart."""

    READ_ONLY = "read-only"
    PER_BROKER = "per-broker"
    CLUSTER_WIDE = "cluster-wide"


Validator = Callable[[Value], str | None]
"""Returns what is allowed when the value is not; None when it is fine."""


@dataclass(frozen=True, slots=True)
class ConfigKey:
    """One key. `default` is already of the key's type; None means that there is none (the key may be absent).

    One that is not `used` is Apache Kafka's and may be set, so that what was written for it works; it changes nothing.
    """

    name: str
    type: Type
    default: Value
    doc: str
    validator: Validator | None = None
    mode: UpdateMode = UpdateMode.READ_ONLY
    listener_prefixed: bool = False
    sensitive: bool = False
    used: bool = True

    def parse(self, text: str) -> Value:
        """The typed value of `text`; raises ConfigError naming key, value and what is allowed."""
        text = trim(text)
        try:
            value = _PARSERS[self.type](text)
        except ValueError:
            raise self._refusal(text, f"must be {_DESCRIBED[self.type]}") from None
        problem = _BOUNDS.get(self.type, _no_bound)(value) or (self.validator(value) if self.validator else None)
        if problem:
            raise self._refusal(text, problem)
        return value

    def _refusal(self, text: str, problem: str) -> ConfigError:
        return ConfigError(f"Invalid value {text} for configuration {self.name}: Value {problem}")

    def render(self, value: Value) -> str | None:
        """The value as the admin protocol shows it."""
        if value is None:
            return None
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, tuple):
            return ",".join(value)
        return str(value)


def _boolean(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError(text)
    return text.lower() == "true"


def _items(text: str) -> tuple[str, ...]:
    return tuple(item for item in map(trim, text.split(",")) if item)


_PARSERS: Mapping[Type, Callable[[str], Value]] = {
    Type.BOOLEAN: _boolean,
    Type.STRING: str,
    Type.INT: parse_integer,
    Type.SHORT: parse_integer,
    Type.LONG: parse_integer,
    Type.DOUBLE: parse_double,
    Type.LIST: _items,
    Type.CLASS: str,
    Type.PASSWORD: str,
}

_DESCRIBED: Mapping[Type, str] = {
    Type.BOOLEAN: "either true or false",
    Type.STRING: "a string",
    Type.INT: "a number of type INT",
    Type.SHORT: "a number of type SHORT",
    Type.LONG: "a number of type LONG",
    Type.DOUBLE: "a number of type DOUBLE",
    Type.LIST: "a comma-separated list",
    Type.CLASS: "the name of a class",
    Type.PASSWORD: "a password",
}


def _no_bound(_: Value) -> str | None:
    return None


def _within(bits: int) -> Validator:
    limit = 1 << (bits - 1)

    def check(value: Value) -> str | None:
        fits = isinstance(value, int) and -limit <= value < limit
        return None if fits else f"must lie between {-limit} and {limit - 1}"

    return check


_BOUNDS: Mapping[Type, Validator] = {Type.INT: _within(32), Type.SHORT: _within(16), Type.LONG: _within(64)}


def at_least(low: float) -> Validator:
    return lambda value: None if isinstance(value, int | float) and value >= low else f"must be at least {low}"


def between(low: float, high: float) -> Validator:
    def check(value: Value) -> str | None:
        inside = isinstance(value, int | float) and low <= value <= high
        return None if inside else f"must be between {low} and {high}"

    return check


def one_of(*allowed: str) -> Validator:
    return lambda value: None if value in allowed else f"must be one of: {', '.join(allowed)}"


def each_of(*allowed: str) -> Validator:
    def check(value: Value) -> str | None:
        fits = isinstance(value, tuple) and value and all(item in allowed for item in value)
        return None if fits else f"must be a list of: {', '.join(allowed)}"

    return check


def table(keys: Sequence[ConfigKey]) -> Mapping[str, ConfigKey]:
    named = {key.name: key for key in keys}
    if len(named) != len(keys):
        raise ValueError("a configuration key is defined twice")
    return named
