"""Regular expressions of clients, by RE2. Pure.

RE2 matches in time linear to the text, whatever the expression: no client can block the event loop with one. Compiling
takes less than 5 ms within the limits below. The limits are not configurable: larger ones would block the event loop,
and a broker with smaller ones would reject what another has accepted.
"""

import re

import re2

from broker_runtime.errors import ConfigError

LENGTH_MAX = 4096
"""Maximum number of characters of an expression: sixteen topic names of the greatest length."""
MEMORY_MAX_BYTES = 1 << 18
"""Limit for the memory of one compiled expression, with its matches; an expression that needs more is rejected."""
UNICODE_CLASSES_MAX = 16
"""Maximum number of Unicode classes in an expression.

RE2 needs a tenth of a millisecond for each, before it checks the memory. Topic names are ASCII.
"""
REPEATED_MAX = 1_000
"""Limit for the characters that expanding the repetitions may add to an expression.

RE2 expands them before it checks the memory: hundreds of thousands of characters would take a tenth of a second. RE2
itself rejects more repetitions than this.
"""
_UNICODE_CLASS = re.compile(r"\\[pP]")
_REPETITION = re.compile(r"\{([0-9]*)(?:,([0-9]*))?\}")
_CLASS = re.compile(r"\[\^?\]?(?:\[:[^]]*:\]|\\.|[^]\\])*\]?", re.DOTALL)
_QUOTED = re.compile(r"\\Q.*?(?:\\E|$)", re.DOTALL)
_NUMBER_DIGITS = 6
"""Digits of a repetition that are read; a longer number is too large anyway."""
_SHOWN = 100


class Pattern:
    """One compiled expression, which matches whole texts, as in Apache Kafka."""

    __slots__ = ("_compiled", "size", "text")

    def __init__(self, text: str, size: int, compiled: re2._Regexp) -> None:
        self.text = text
        self.size = size
        """Number of characters after expanding the repetitions. A match takes at most some nanoseconds for each of them
        and each character of the matched text. During a match other threads run."""
        self._compiled = compiled

    def matches(self, name: str) -> bool:
        return self._compiled.fullmatch(name) is not None


def compile_pattern(text: str, length_max: int = LENGTH_MAX, memory_max_bytes: int = MEMORY_MAX_BYTES) -> Pattern:
    """Compile a regular expression within these limits. Raises ConfigError."""
    if len(text) > length_max:
        raise ConfigError(f"the regular expression has {len(text)} characters; at most {length_max} are allowed")
    classes = len(_UNICODE_CLASS.findall(text))
    if classes > UNICODE_CLASSES_MAX:
        raise ConfigError(
            f"the regular expression has {classes} classes of Unicode; at most {UNICODE_CLASSES_MAX} are allowed"
        )
    written_out = _written_out(text)
    if written_out > len(text) + REPEATED_MAX:
        raise ConfigError(
            f"the regular expression repeats too much: {written_out} characters after expanding its repetitions"
        )
    options = re2.Options()
    options.max_mem = memory_max_bytes
    options.never_capture = True
    options.log_errors = False  # It would write to stderr.
    try:
        compiled = re2.compile(text, options)
    except re2.error as error:
        reason = error.args[0].decode(errors="replace")
        raise ConfigError(f"{text[:_SHOWN]!r} is not a regular expression of RE2: {reason[:_SHOWN]}") from error
    except UnicodeEncodeError as error:
        raise ConfigError("the regular expression is not valid Unicode") from error
    # The module's own cache would keep expressions whose groups are deleted.
    re2.purge()
    return Pattern(text, written_out, compiled)


def _written_out(text: str) -> int:
    """Approximate length of the expression after expanding its repetitions. Any value for an invalid expression."""
    groups, last, at = [0], 0, 0
    while at < len(text):
        char, step = text[at], 1
        if char == "{" and (repeats := _REPETITION.match(text, at)) is not None:
            times = max(int((number or "1")[:_NUMBER_DIGITS]) for number in repeats.groups())
            groups[-1] += last * (max(times, 1) - 1)
            last, step = last * max(times, 1), repeats.end() - at
        elif char == "(":
            groups.append(0)
        elif char == ")" and len(groups) > 1:
            last = groups.pop()
            groups[-1] += last
        elif char not in "*+?":
            whole = _QUOTED.match(text, at) or _CLASS.match(text, at)
            step = whole.end() - at if whole is not None else 2 if char == "\\" else 1
            last = 1
            groups[-1] += 1
        at += step
    return sum(groups)
