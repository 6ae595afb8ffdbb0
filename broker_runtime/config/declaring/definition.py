"""The definition of a configuration key: its type, its default, its allowed values and how it may change.

Pure. The keys themselves are in `broker`, `topic` and `unused`; the terms are those of Kafka's ConfigDef.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

from broker_runtime.config.declaring.allowed import ListOf, OneOf, Range
from broker_runtime.config.declaring.numbers import parse_double, parse_integer, render_double, trim
from broker_runtime.errors import ConfigError

INT_MAX = 2**31 - 1
LONG_MAX = 2**63 - 1
DOUBLE_MAX = 1.7976931348623157e308

Value = int | float | bool | str | tuple[str, ...] | None


class Type(IntEnum):
    """The type of a key's values, with the numbers of DescribeConfigs (KIP-569)."""

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
    """The way in which a broker key changes without a restart, if at all (KIP-226)."""

    READ_ONLY = "read-only"
    PER_BROKER = "per-broker"
    CLUSTER_WIDE = "cluster-wide"


Validator = Callable[[Value], str | None]
"""A function that returns a description of the allowed values for an invalid value, and None for a valid one."""


T = TypeVar("T")
_Owner = type[object]


@dataclass(frozen=True, slots=True)
class Key(Generic[T]):
    """The declaration of one key, whose values are of type T.

    `default` has that type; None means that the key may be absent.

    A key is declared as an attribute of a class of values (`Config`), under its own name with underscores for dots. On
    the class the attribute is the key, on an instance it is the key's value.

    `synonym` names the broker key with the default of a topic key. A `listener_only` key has no meaning without a
    listener's prefix. A key that is not `used` is Apache Kafka's: it may be set, so that Kafka's files work, and
    changes nothing.
    """

    name: str
    type: Type
    default: T
    doc: str
    validator: Validator | None = None
    mode: UpdateMode = UpdateMode.READ_ONLY
    listener_prefixed: bool = False
    listener_only: bool = False
    synonym: str | None = None
    sensitive: bool = False
    used: bool = True

    @property
    def attribute(self) -> str:
        return self.name.replace(".", "_")

    def __set_name__(self, owner: _Owner, attribute: str) -> None:
        if attribute != self.attribute:
            raise TypeError(f"{owner.__name__}.{attribute} must be called {self.attribute}: it declares {self.name}")

    if TYPE_CHECKING:
        # The types of the attribute, and of the constructor's argument of that name, for type checkers.
        @overload
        def __get__(self, config: None, owner: _Owner) -> "Key[T]": ...

        @overload
        def __get__(self, config: object, owner: _Owner) -> T: ...

        def __get__(self, config: object, owner: _Owner) -> "Key[T] | T": ...

        def __set__(self, config: object, value: T) -> None: ...

    def parse(self, text: str) -> Value:
        """Return the typed value of a configuration key from its text.

        Raises ConfigError with the key, the value and the allowed values.
        """
        text = trim(text)
        try:
            value = _PARSERS[self.type](text)
        except ValueError:
            raise self._refusal(text, f"must be {_DESCRIBED[self.type]}") from None
        problem = self._type_problem(value) or (self.validator(value) if self.validator else None)
        if problem:
            raise self._refusal(text, problem)
        return value

    def _type_problem(self, value: Value) -> str | None:
        """Return the allowed values, if a whole number needs more bits than the type has."""
        bits = _BITS.get(self.type)
        if bits is None or not isinstance(value, int):
            return None
        low, high = -(1 << (bits - 1)), (1 << (bits - 1)) - 1
        if low <= value <= high:
            return None
        allowed = self.validator if isinstance(self.validator, Range) else Range(low)
        return f"must lie between {allowed.low} and {high if allowed.high is None else allowed.high}"

    @property
    def allowed(self) -> str:
        """Return a short description of the allowed values.

        Empty if the type allows all of them, or if the description would be long.
        """
        return str(self.validator) if isinstance(self.validator, Range | OneOf | ListOf) else ""

    def _refusal(self, text: str, problem: str) -> ConfigError:
        if self.sensitive:
            text = "[hidden]"
        return ConfigError(f"Invalid value {text} for configuration {self.name}: Value {problem}")

    def render(self, value: Value) -> str | None:
        """Return the value in the form of the admin protocol."""
        if value is None:
            return None
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, tuple):
            return ",".join(value)
        if isinstance(value, float):
            return render_double(value)
        return str(value)


ConfigKey = Key[Any]
"""A key of any type, for tables of keys."""


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

_BITS: Mapping[Type, int] = {Type.INT: 32, Type.SHORT: 16, Type.LONG: 64}
