"""Filters of what an observer sees: by API, listener, principal and topic. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from broker_runtime.errors import ConfigError
from broker_runtime.wire.versions import FORMATS

PREFIX = "filter."
_API_KEYS = {module.module.replace("_", ""): key for key, module in FORMATS.items()}


@dataclass(frozen=True, slots=True)
class Filter:
    """The filter of an observer. An empty field accepts everything; `topics` are prefixes of names."""

    api_keys: frozenset[int] = frozenset()
    listeners: frozenset[str] = frozenset()
    principals: frozenset[str] = frozenset()
    topics: tuple[str, ...] = ()

    @classmethod
    def of(cls, config: Mapping[str, str]) -> Self:
        """Parse the keys of an observer that begin with `filter.`. Raises ConfigError."""
        known = {"api.keys", "listeners", "principals", "topic.prefixes"}
        given = {key.removeprefix(PREFIX): _items(text) for key, text in config.items() if key.startswith(PREFIX)}
        unknown = sorted(given.keys() - known)
        if unknown:
            raise ConfigError(f"{PREFIX}{unknown[0]} is not a filter; the filters are {', '.join(sorted(known))}")
        return cls(
            frozenset(map(_api_key, given.get("api.keys", ()))),
            frozenset(name.upper() for name in given.get("listeners", ())),
            frozenset(given.get("principals", ())),
            given.get("topic.prefixes", ()),
        )

    def lets_in(self, listener: str, principal: str) -> bool:
        if self.listeners and listener not in self.listeners:
            return False
        return not self.principals or principal in self.principals


def _items(text: str) -> tuple[str, ...]:
    return tuple(item for item in map(str.strip, text.split(",")) if item)


def _api_key(text: str) -> int:
    """Parse an API key: its number, or its name as Kafka writes it: `Produce`, `LIST_OFFSETS`."""
    if text.isascii() and text.isdecimal() and int(text) in FORMATS:
        return int(text)
    key = _API_KEYS.get(text.replace("_", "").lower())
    if key is None:
        raise ConfigError(
            f"{PREFIX}api.keys: {text} is not an API of this broker, such as Produce, Fetch, Metadata or 0"
        )
    return key
