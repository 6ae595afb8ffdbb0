"""Rules that make a principal's name from the subject of a certificate: ssl.principal.mapping.rules (KIP-371). Pure."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from broker_runtime.errors import ConfigError

_KEY = "ssl.principal.mapping.rules"
_RULE = re.compile(r"(DEFAULT)(?=\s*(?:,|$))|RULE:((?:\\.|[^\\/])*)/((?:\\.|[^\\/])*)/([LU]?)(?=\s*(?:,|$))", re.DOTALL)
_BETWEEN = re.compile(r"[\s,]*")
_SPECIAL = re.compile(r"\\(.)|\$(\d+)", re.DOTALL)
"""An escaped character of a replacement, or a reference to a group."""


class NoRuleError(ValueError):
    """Error for a subject that no rule matches: its client has no name."""


@dataclass(frozen=True, slots=True)
class _Rule:
    pattern: re.Pattern[str]
    replacement: str
    case: str

    def name(self, subject: str) -> str | None:
        """Return the name, or None if the pattern does not match the whole subject."""
        if self.pattern.fullmatch(subject) is None:
            return None
        name = self.pattern.sub(self._replaced, subject)
        return name.lower() if self.case == "L" else name.upper() if self.case == "U" else name

    def _replaced(self, match: re.Match[str]) -> str:
        if self.pattern.groups == 0:
            return self.replacement
        return _SPECIAL.sub(lambda special: special[1] or self._group(match, special[2]), self.replacement)

    def _group(self, match: re.Match[str], digits: str) -> str:
        """Return the text of a reference: a number that is too large loses digits at its end until it fits."""
        if digits[0] == "0":
            return f"${digits}"
        for end in range(len(digits), 0, -1):
            number = int(digits[:end])
            if number <= self.pattern.groups:
                return (match[number] or "") + digits[end:]
        return f"${digits}"


class MappingRules:
    """The parsed rules that map the subject of a certificate to the name of a client.

    The rule DEFAULT, stored as None, takes the subject itself as the name.
    """

    __slots__ = ("_rules",)

    def __init__(self, text: str) -> None:
        """Parse the rules. Raises ConfigError if one is malformed."""
        self._rules: Sequence[_Rule | None] = _parsed(text)

    def name(self, subject: str) -> str:
        """Return the name of the client with this subject. Raises NoRuleError if no rule matches."""
        for rule in self._rules:
            name = subject if rule is None else rule.name(subject)
            if name is not None:
                return name
        raise NoRuleError(f"no rule of {_KEY} matches the subject {subject}")


def _parsed(text: str) -> Sequence[_Rule | None]:
    rules: list[_Rule | None] = []
    at = _end_of_blanks(text, 0)
    while at < len(text):
        match = _RULE.match(text, at)
        if match is None:
            raise ConfigError(
                f"{_KEY}: {text[at : at + 80]!r} is not a rule; write DEFAULT or RULE:pattern/replacement/, followed "
                "by nothing, L or U, with commas between the rules"
            )
        rules.append(None if match[1] else _rule(match))
        at = _end_of_blanks(text, match.end())
    return rules


def _end_of_blanks(text: str, at: int) -> int:
    blanks = _BETWEEN.match(text, at)
    return at if blanks is None else blanks.end()


def _rule(match: re.Match[str]) -> _Rule:
    pattern = match[2].replace("\\/", "/")
    try:
        return _Rule(re.compile(pattern), match[3].replace("\\/", "/"), match[4])
    except re.error as error:
        raise ConfigError(f"{_KEY}: {pattern!r} is not a regular expression: {error}") from None
