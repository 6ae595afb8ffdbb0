"""A class of values declares the keys that it reads, one line each, and the values are its typed attributes.

For example:

    class SomeConfig(Config):
        request_timeout_ms: Key[int] = static("request.timeout.ms", Type.INT, 30_000, "Longest wait.")

`SomeConfig.request_timeout_ms` is the key, `some.request_timeout_ms` an int. Type checkers report a name that is not
declared, so also a mistyped one. Pure.
"""

from collections.abc import Mapping
from typing import Any, ClassVar, Self, TypeVar, dataclass_transform

from broker_runtime.config.declaring.definition import ConfigKey, Key, Type, UpdateMode, Validator, Value

T = TypeVar("T")


def static(name: str, kind: Type, default: T, doc: str, validator: Validator | None = None) -> Key[T]:
    return Key(name, kind, default, doc, validator)


def dynamic(name: str, kind: Type, default: T, doc: str, validator: Validator | None = None) -> Key[T]:
    return Key(name, kind, default, doc, validator, UpdateMode.CLUSTER_WIDE)


@dataclass_transform(kw_only_default=True)
class Config:
    """Base class of configurations: a typed value for each declared key. A missing value is the default.

    An instance never changes. Raises TypeError for an argument that is not a key's attribute.
    """

    KEYS: ClassVar[Mapping[str, ConfigKey]] = {}
    """The declared keys by name, in the order of their declaration; those of the bases come first."""
    _DEFAULTS: ClassVar[Mapping[str, Value]] = {}
    """The defaults by attribute."""

    def __init_subclass__(cls) -> None:
        own = [key for key in vars(cls).values() if isinstance(key, Key)]
        declared = [*(key for base in cls.__bases__ for key in getattr(base, "KEYS", {}).values()), *own]
        cls.KEYS = keys_by_name(declared)
        cls._DEFAULTS = {key.attribute: key.default for key in declared}

    def __new__(cls, **_: Value) -> Self:
        config: Self = object.__new__(_with_slots(cls))
        return config

    def __init__(self, **values: Value) -> None:
        unknown = values.keys() - self._DEFAULTS.keys()
        if unknown:
            raise TypeError(f"{type(self).__name__} has no {', '.join(sorted(unknown))}")
        for attribute, value in {**self._DEFAULTS, **values}.items():
            object.__setattr__(self, attribute, value)

    @classmethod
    def from_values(cls, values: Mapping[str, Value]) -> Self:
        """Return a configuration of `values`, by the names of keys. Keys that the class does not have are ignored."""
        return cls(**{key.attribute: values[name] for name, key in cls.KEYS.items() if name in values})

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{type(self).__name__} has a fixed value: {name} cannot be set")


_SLOTTED: dict[type[Config], type[Any]] = {}


def _with_slots(declared: type[Config]) -> type[Any]:
    """Return the class of the instances of `declared`, with slots.

    With a dictionary, reading a value past the key in the class would take five times as long, and each request reads a
    dozen values.
    """
    if declared not in _SLOTTED:
        _SLOTTED[declared] = type(declared.__name__, (declared,), {"__slots__": tuple(declared._DEFAULTS)})
    return _SLOTTED[declared]


def keys_by_name(keys: list[ConfigKey]) -> Mapping[str, ConfigKey]:
    """Return the configuration keys by name. Raises TypeError for a key that is declared twice."""
    named = {key.name: key for key in keys}
    if len(named) != len(keys):
        raise TypeError("a configuration key is declared twice")
    return named
