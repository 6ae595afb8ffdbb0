"""The value of the key `sasl.jaas.config`: one login module and its options, in the syntax of JAAS. Pure.

For example `org.apache.kafka.common.security.plain.PlainLoginModule required username="admin" password="secret";`. An
error never contains a value, because a value may be a secret.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from kafka_bytes.errors import FormatError

_FLAGS = ("required", "requisite", "sufficient", "optional")
_TOKEN = re.compile(
    r"""\s*(?:(?P<comment>//[^\n]*|\#[^\n]*|/\*.*?\*/)
    |"(?P<double>(?:[^"\\]|\\.)*)"|'(?P<single>(?:[^'\\]|\\.)*)'
    |(?P<word>[\w.$@%+/*:<>!?&^~|\\,-]+)|(?P<sign>[=;{}]))""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}
_Token = tuple[str, str]
"""The kind and the text of a token."""


@dataclass(frozen=True, slots=True)
class LoginModule:
    """A login module of `sasl.jaas.config`: the last part of its class name, and its options. Options may be secret."""

    name: str
    options: Mapping[str, str] = field(repr=False)


def login_module(text: str, key: str = "sasl.jaas.config") -> LoginModule:
    """Return the only login module of `text`. Raises FormatError: its message names `key` and quotes no value."""
    tokens = _tokens(text, key)
    if len(tokens) < 3 or tokens[0][0] == "sign":
        raise _problem(key, 'is not `LoginModuleClass required option="value";`')
    module, flag = tokens[0][1], tokens[1][1]
    if flag.lower() not in _FLAGS:
        raise _problem(key, f"has no control flag after the class of the login module; use one of {', '.join(_FLAGS)}")
    if tokens[-1] != ("sign", ";"):
        raise _problem(key, "does not end with a semicolon")
    if ("sign", ";") in tokens[2:-1]:
        raise _problem(key, "has more than one login module, or text after its semicolon; exactly one is allowed")
    options: dict[str, str] = {}
    rest = tokens[2:-1]
    if len(rest) % 3:
        raise _problem(key, 'has an option that is not of the form name="value"; quote values with other characters')
    for at in range(0, len(rest), 3):
        (kind, name), sign, (value_kind, value) = rest[at : at + 3]
        if kind != "word" or sign != ("sign", "=") or value_kind == "sign":
            raise _problem(key, f'has an option that is not of the form name="value": option {at // 3 + 1}')
        if name in options:
            raise _problem(key, f"has the option {_named(name)} twice")
        options[name] = value
    return LoginModule(module.rpartition(".")[2], options)


def _named(name: str) -> str:
    """Return the name of an option for a message: that of a user's password names the user."""
    return name[:64]


def _tokens(text: str, key: str) -> list[_Token]:
    found: list[_Token] = []
    at, text = 0, text.rstrip()
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise _problem(key, f"cannot be read at character {at + 1}; quote values, and close each quotation mark")
        at = match.end()
        kind = match.lastgroup or ""
        if kind in ("double", "single"):
            found.append(("quoted", re.sub(r"\\(.)", lambda m: _ESCAPES.get(m[1], m[1]), match[kind], flags=re.DOTALL)))
        elif kind != "comment":
            found.append((kind, match[kind]))
    return found


def _problem(key: str, text: str) -> FormatError:
    return FormatError(f"{key} {text}")
