"""Subscriptions by a regular expression, which the coordinator looks for topics by (KIP-848). Pure.

RE2 matches in time linear to the name, whatever the expression: no client can hold the coordinator up with one. To
compile one takes less than 5 ms within the limits below. So they are no configuration: larger ones would hold the event
loop, and with smaller ones a coordinator that takes over would refuse what another has taken.
"""

import re

import re2

from broker_runtime.errors import ErrorCode, KafkaError

LENGTH_MAX = 4096
"""Characters: sixteen names of topics of the greatest length."""
MEMORY_MAX_BYTES = 1 << 18
"""Of one compiled expression, with what matching keeps; one that needs more is refused."""
UNICODE_CLASSES_MAX = 16
"""Each takes RE2 a tenth of a millisecond, before it looks at the memory. Names of topics are ASCII."""
REPEATED_MAX = 1_000
"""By how much an expression may be longer with its repetitions written out, which RE2 does before it looks at the
memory: hundreds of thousands of characters would take it a tenth of a second. It repeats nothing more often by itself.
"""
_UNICODE_CLASS = re.compile(r"\\[pP]")
_REPETITION = re.compile(r"\{([0-9]*)(?:,([0-9]*))?\}")
_CLASS = re.compile(r"\[\^?\]?(?:\[:[^]]*:\]|\\.|[^]\\])*\]?", re.DOTALL)
_QUOTED = re.compile(r"\\Q.*?(?:\\E|$)", re.DOTALL)
_NUMBER_DIGITS = 6
"""Of a repetition; longer ones are too large anyway."""
_SHOWN = 100


class TopicRegex:
    """One expression, compiled. It matches whole names, as in Apache Kafka."""

    __slots__ = ("_compiled", "text")

    def __init__(self, text: str, compiled: re2._Regexp) -> None:
        self.text = text
        self._compiled = compiled

    def matches(self, name: str) -> bool:
        return self._compiled.fullmatch(name) is not None


def compile_topic_regex(
    text: str, length_max: int = LENGTH_MAX, memory_max_bytes: int = MEMORY_MAX_BYTES
) -> TopicRegex:
    """Raises KafkaError (INVALID_REGULAR_EXPRESSION)."""
    if len(text) > length_max:
        raise _invalid(f"the regular expression has {len(text)} characters, and {length_max} are allowed")
    classes = len(_UNICODE_CLASS.findall(text))
    if classes > UNICODE_CLASSES_MAX:
        raise _invalid(
            f"the regular expression has {classes} classes of Unicode, and {UNICODE_CLASSES_MAX} are allowed"
        )
    written_out = _written_out(text)
    if written_out > len(text) + REPEATED_MAX:
        raise _invalid(f"the regular expression repeats too much: {written_out} characters, if they were written out")
    options = re2.Options()
    options.max_mem = memory_max_bytes
    options.never_capture = True
    options.log_errors = False  # It would write to stderr.
    try:
        compiled = re2.compile(text, options)
    except re2.error as error:
        reason = error.args[0].decode(errors="replace")
        raise _invalid(f"{text[:_SHOWN]!r} is no regular expression of RE2: {reason[:_SHOWN]}") from error
    except UnicodeEncodeError as error:
        raise _invalid("the regular expression is no valid Unicode") from error
    # The module's own cache would keep expressions whose groups are gone.
    re2.purge()
    return TopicRegex(text, compiled)


def _written_out(text: str) -> int:
    """How long it is with its repetitions written out; about, and for what is no expression anything."""
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


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REGULAR_EXPRESSION, message)
