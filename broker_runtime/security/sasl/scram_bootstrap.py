"""The credentials that a new cluster begins with, in the syntax of `kafka-storage format --add-scram` (KIP-900). Pure.

One credential a line, such as `SCRAM-SHA-256=[name=alice,password=secret]`. Errors name the line and quote no secret.
"""

import re
from base64 import b64decode
from binascii import Error
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from broker_runtime.errors import ConfigError
from broker_runtime.security.sasl.mechanism import SCRAM_SHA_256, SCRAM_SHA_512
from broker_runtime.security.sasl.scram_keys import ITERATIONS_MAX, ITERATIONS_MIN, ScramHash, ScramKeys

CREDENTIALS_MAX = 100
_LINE = re.compile(r"(?P<mechanism>[A-Z0-9-]+)=\[(?P<options>.*)\]")
_OPTIONS = ("name", "salt", "iterations", "password", "saltedpassword")
_OPTION = re.compile(rf"(?P<key>{'|'.join(_OPTIONS)})=(?:\"(?P<quoted>[^\"]*)\"|(?P<plain>[^,]*))(?:,|$)")


@dataclass(frozen=True, slots=True)
class FirstCredential:
    """The first SCRAM credential of a user: the user, the mechanism, and the keys."""

    name: str
    mechanism: str
    keys: ScramKeys


def first_credentials(text: str, key: str, salt: Callable[[], bytes]) -> Iterator[FirstCredential]:
    """Yield the SCRAM credentials of a file; each takes some milliseconds. Raises ConfigError, which names `key`.

    `salt` makes the salt for a line without one.
    """
    lines = [(number, line.strip()) for number, line in enumerate(text.splitlines(), 1)]
    given = [(number, line) for number, line in lines if line and not line.startswith("#")]
    if len(given) > CREDENTIALS_MAX:
        raise ConfigError(f"{key}: the file has more than {CREDENTIALS_MAX} credentials")
    for number, line in given:
        try:
            yield _credential(line, salt)
        except ValueError as error:
            raise ConfigError(f"{key}: line {number}: {error}") from None


def _credential(line: str, salt: Callable[[], bytes]) -> FirstCredential:
    found = _LINE.fullmatch(line)
    if found is None or found["mechanism"] not in (SCRAM_SHA_256, SCRAM_SHA_512):
        raise ValueError(f"use {SCRAM_SHA_256}=[name=...,password=...], or {SCRAM_SHA_512}")
    options = _options(found["options"])
    name, password, salted = options.get("name"), options.get("password"), options.get("saltedpassword")
    if not name:
        raise ValueError("name is missing")
    if (password is None) == (salted is None):
        raise ValueError("either password or saltedpassword is needed")
    iterations = int(options.get("iterations", ITERATIONS_MIN))
    if not ITERATIONS_MIN <= iterations <= ITERATIONS_MAX:
        raise ValueError(f"iterations must lie between {ITERATIONS_MIN} and {ITERATIONS_MAX}")
    scram = ScramHash(found["mechanism"])
    if salted is not None:
        if "salt" not in options:
            raise ValueError("saltedpassword needs its salt")
        return FirstCredential(name, scram.mechanism, scram.keys(_bytes(salted), _bytes(options["salt"]), iterations))
    used = _bytes(options["salt"]) if "salt" in options else salt()
    assert password is not None
    keys = scram.keys(scram.salted_password(password, used, iterations), used, iterations)
    return FirstCredential(name, scram.mechanism, keys)


def _options(text: str) -> dict[str, str]:
    options: dict[str, str] = {}
    at = 0
    while at < len(text):
        found = _OPTION.match(text, at)
        if found is None or found["key"] in options:
            raise ValueError(f"an option is unknown, or given twice; the options are {', '.join(_OPTIONS)}")
        quoted = found["quoted"]
        options[found["key"]] = found["plain"] if quoted is None else quoted
        at = found.end()
    if "iterations" in options and not options["iterations"].isdecimal():
        raise ValueError("iterations must be a number")
    return options


def _bytes(text: str) -> bytes:
    try:
        return b64decode(text, validate=True)
    except Error:
        raise ValueError("salt and saltedpassword must be base64") from None
