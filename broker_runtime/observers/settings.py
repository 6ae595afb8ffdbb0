"""Reads the configuration of a built-in observer: each key has a default, and unknown keys are rejected. Pure."""

from collections.abc import Mapping

from broker_runtime.errors import ConfigError


class ObserverSettings:
    """The parsed settings of one observer. Raises ConfigError with the key and the allowed values."""

    def __init__(self, values: Mapping[str, str]) -> None:
        self._values = values

    def text(self, key: str) -> str:
        return self._values[key]

    def items(self, key: str, allowed: tuple[str, ...]) -> tuple[str, ...]:
        found = tuple(item for item in map(str.strip, self._values[key].split(",")) if item)
        bad = next((item for item in found if item not in allowed), None)
        if bad is not None:
            raise ConfigError(f"{key}: {bad} is not one of {', '.join(allowed)}")
        return found

    def whole(self, key: str, low: int) -> int:
        text = self._values[key]
        if not (text.isascii() and text.isdecimal() and int(text) >= low):
            raise ConfigError(f"{key}: {text} must be a whole number of {low} or more")
        return int(text)

    def flag(self, key: str) -> bool:
        text = self._values[key].lower()
        if text not in ("true", "false"):
            raise ConfigError(f"{key}: {text} must be true or false")
        return text == "true"


def read_settings(config: Mapping[str, str], defaults: Mapping[str, str]) -> ObserverSettings:
    unknown = sorted(config.keys() - defaults.keys())
    if unknown:
        raise ConfigError(f"{unknown[0]} is not a key of this observer; its keys are {', '.join(sorted(defaults))}")
    return ObserverSettings({**defaults, **config})
