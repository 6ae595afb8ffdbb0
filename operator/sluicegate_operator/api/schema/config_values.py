"""The allowed keys and values of a `config`, once for the API server (CEL) and once in Python.

Values are texts, as in Kafka's own files. The types are Kafka's, with the bounds of each key. Both forms accept the
same texts, and no text that the broker refuses. Several texts may stand for one value ("3" and "03"): `canonical`
returns the same text for all of them.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from sluicegate_operator.api.schema.metadata import INT_MAX
from sluicegate_operator.api.schema.rules import Rule

LONG_MAX = 2**63 - 1
VALUE_REFUSED = "config contains a value that is not allowed"
_SHORT_NUMBER = "^[+-]?[0-9]{1,18}$"
_LONG_NUMBER = "^[1-9][0-9]{18}$"


class ConfigValue(Protocol):
    """The rule for the values of one configuration key, in Python and in CEL."""

    @property
    def must(self) -> str:
        """Return the rest of a sentence about the allowed values. The sentence begins with the key."""

    def accepts(self, text: str) -> bool: ...

    def cel(self, text: str) -> str:
        """Return a CEL expression that is true if the string expression `text` is accepted."""

    def canonical(self, text: str) -> str:
        """Return the same text for all texts of one value; `text` itself if it is not accepted."""


@dataclass(frozen=True, slots=True)
class WholeNumber:
    """The rule for whole numbers from `low` to `high`, both included."""

    low: int
    high: int = INT_MAX

    @property
    def must(self) -> str:
        return f"must be a whole number from {self.low} to {self.high}"

    def accepts(self, text: str) -> bool:
        is_number = any(re.fullmatch(pattern, text) for pattern in (_SHORT_NUMBER, _LONG_NUMBER))
        return is_number and self.low <= int(text) <= self.high

    def cel(self, text: str) -> str:
        is_number = f"{text}.matches('{_SHORT_NUMBER}')"
        if self.high == LONG_MAX:
            # CEL's int() fails above its range; texts of the same length compare like their numbers.
            is_number = f"({is_number} || ({text}.matches('{_LONG_NUMBER}') && {text} <= '{LONG_MAX}'))"
        return f"{is_number} && int({text}) >= {self.low} && int({text}) <= {self.high}"

    def canonical(self, text: str) -> str:
        return str(int(text)) if self.accepts(text) else text


Meaning = Literal["text", "word", "number", "list", "set", "counts", "principals"]
"""The way in which texts are compared.

In the order of the names: letter by letter, ignoring case, as numbers, item by item, as items in any order, as
NAME:count pairs in any order, as items between semicolons in any order.
"""


@dataclass(frozen=True, slots=True)
class Matching:
    """The allowed values of a key: texts that match a pattern. `pattern` means the same to RE2 and to Python."""

    pattern: str
    must: str
    meaning: Meaning = "text"

    def accepts(self, text: str) -> bool:
        return re.fullmatch(self.pattern, text) is not None

    def cel(self, text: str) -> str:
        return f"{text}.matches('{self.pattern}')"

    def canonical(self, text: str) -> str:
        if not self.accepts(text):
            return text
        match self.meaning:
            case "word":
                return text.lower()
            case "number":
                return repr(float(text)).removesuffix(".0")
            case "list" | "set":
                items = dict.fromkeys(item.strip() for item in text.split(","))
                return ",".join(sorted(items) if self.meaning == "set" else items)
            case "counts":
                return _canonical_counts(text)
            case "principals":
                return ";".join(sorted({item.strip() for item in text.split(";") if item.strip()}))
        return text


def _canonical_counts(text: str) -> str:
    """Return the pairs in order of their names. The last count of a name applies."""
    pairs = (item.strip().partition(":") for item in text.split(",") if item.strip())
    return ",".join(f"{name}:{count}" for name, count in sorted({name: int(count) for name, _, count in pairs}.items()))


def any_case(*words: str) -> str:
    """Return a pattern for these words of the letters a to z, ignoring case.

    `(?i:...)` also matches letters beyond a to z: the long s for an s, and in Python the dotless i for an i.
    """
    return "|".join("".join(f"[{letter}{letter.upper()}]" for letter in word) for word in words)


SHARE = Matching(r"^(0([.][0-9]+)?|1([.]0+)?)$", "must be a number from 0 to 1", "number")
RATE = Matching(r"^[1-9][0-9]{0,17}([.][0-9]+)?$", "must be a number from 1 to 999999999999999999", "number")
FLAG = Matching(f"^({any_case('true', 'false')})$", "must be true or false", "word")


def long(low: int) -> WholeNumber:
    return WholeNumber(low, LONG_MAX)


def one_of(*allowed: str) -> Matching:
    return Matching(f"^({'|'.join(allowed)})$", f"must be one of {', '.join(allowed)}")


def list_of(*allowed: str, meaning: Literal["list", "set"] = "set") -> Matching:
    item = f"({'|'.join(allowed)})"
    return Matching(f"^{item}( *, *{item})*$", f"must be a comma-separated list of {', '.join(allowed)}", meaning)


def config_value_rules(values: Mapping[str, ConfigValue]) -> tuple[Rule, ...]:
    """Return rules about values for a model with a `config`: one rule for each type of value.

    A rule's message names the first key with a bad value.
    """
    keys_of: dict[ConfigValue, list[str]] = {}
    for key, value in values.items():
        keys_of.setdefault(value, []).append(key)
    return tuple(_rule(value, tuple(keys)) for value, keys in keys_of.items())


def _rule(value: ConfigValue, keys: tuple[str, ...]) -> Rule:
    def wrong(model: Any) -> list[str]:
        config = model.config or {}
        return [key for key in keys if key in config and not value.accepts(config[key])]

    # Iterates over the known keys, not over the map: the API server limits the cost of a rule.
    is_wrong = f"k in self.config && !({value.cel('self.config[k]')})"
    return Rule(
        cel=f"!has(self.config) || !{cel_list(keys)}.exists(k, {is_wrong})",
        message=f"{VALUE_REFUSED}: it {value.must}",
        allows=lambda model: not wrong(model),
        field="config",
        message_cel=f"{cel_list(keys)}.filter(k, {is_wrong})[0] + ' {value.must}'",
        message_of=lambda model: f"{wrong(model)[0]} {value.must}",
    )


def config_key_rule(refused_cel: str, refused: Callable[[str], bool], problem: str, advice: str) -> Rule:
    """Return the rule that a model's `config` has no refused key `k`. Its message has the first refused key."""

    def first(model: Any) -> str | None:
        return next((key for key in model.config or {} if refused(key)), None)

    return Rule(
        cel=f"!has(self.config) || !self.config.exists(k, {refused_cel})",
        message=f"config contains {problem}; {advice}",
        allows=lambda model: first(model) is None,
        field="config",
        message_cel=f"'config contains {problem}: ' + self.config.filter(k, {refused_cel})[0] + '; {advice}'",
        message_of=lambda model: f"config contains {problem}: {first(model)}; {advice}",
    )


@dataclass(frozen=True, slots=True)
class OthersKeys:
    """Keys that a `config` may not have because they are set elsewhere.

    `what` describes the keys, `advice` says what to do instead.
    """

    what: str
    advice: str
    keys: tuple[str, ...] = ()
    prefix: str = ""

    def allows(self, key: str) -> bool:
        return key in self.keys or (self.prefix != "" and key.startswith(self.prefix))

    @property
    def cel(self) -> str:
        """Return a CEL expression that is true if `k` is one of these keys."""
        listed = [f"k in {cel_list(self.keys)}"] if self.keys else []
        return " || ".join([*listed, *([f"k.startsWith('{self.prefix}')"] if self.prefix else [])])

    def sentence(self, key: str) -> str:
        return f"config contains {self.what}: {key}; {self.advice}"

    @property
    def sentence_cel(self) -> str:
        return f"'config contains {self.what}: ' + k + '; {self.advice}'"


def config_keys_rule(known: tuple[str, ...], others: tuple[OthersKeys, ...], unknown: OthersKeys) -> Rule:
    """Return the rule of a model with a `config` that each key is `known`.

    The message about the first unknown key says where that key is set. One rule covers all keys, because the list of
    all keys is long and occurs in it twice.
    """

    def first(model: Any) -> str | None:
        return next((key for key in model.config or {} if key not in known), None)

    def sentence(model: Any) -> str:
        key = first(model) or ""
        return next((one for one in others if one.allows(key)), unknown).sentence(key)

    is_unknown = f"!(k in {cel_list(known)})"
    message_cel = "".join(f"{one.cel} ? {one.sentence_cel} : " for one in others) + unknown.sentence_cel
    return Rule(
        cel=f"!has(self.config) || !self.config.exists(k, {is_unknown})",
        message=f"config contains {', or '.join(one.what for one in (*others, unknown))}; {unknown.advice}",
        allows=lambda model: first(model) is None,
        field="config",
        message_cel=f"self.config.filter(k, {is_unknown}).map(k, {message_cel})[0]",
        message_of=sentence,
    )


def cel_list(keys: tuple[str, ...]) -> str:
    """Return a list literal of the Common Expression Language."""
    return "[" + ", ".join(f"'{key}'" for key in keys) + "]"
