"""Properties files in Kafka's format, the line format of `java.util.Properties`, read and written. Pure.

Lines are `key=value`, `key: value` or `key value`; `#` and `!` begin comments. A backslash at the end of a line
continues it in the next one. Elsewhere it removes the special meaning of the next character or, with t, n, r, f and
uXXXX, names a character. Two rules differ from Java's. Blanks at the end of a value are dropped unless they are
escaped, since Kafka trims them later anyway. A line with only a key is an error.
"""

import re
from collections.abc import Iterator, Mapping

from kafka_bytes.errors import FormatError

_BLANKS = " \t\f"
_LINE_END = re.compile(r"\r\n|\r|\n")
_LINE = re.compile(r"((?:\\.|[^\\=: \t\f])*)([ \t\f]*[=:][ \t\f]*|[ \t\f]+)?(.*)", re.DOTALL)
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_NAMED = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_NAMES = {character: f"\\{name}" for name, character in _NAMED.items()} | {"\\": "\\\\"}


def parse_properties(text: str, source: str) -> dict[str, str]:
    """Return the values of a properties file by key.

    Raises FormatError with `source` and the line when a line has no key, no value or half an escape.
    """
    values: dict[str, str] = {}
    for number, line in _logical_lines(text, source):
        where = f"{source}, line {number}"
        parts = _LINE.fullmatch(line)
        assert parts is not None, "a logical line must not end with a single backslash"
        key, separator, value = parts.groups()
        if not key or separator is None:
            raise FormatError(f"{where}: {line.strip()!r} does not have the form key=value")
        values[_unescaped(key, where)] = _unescaped(_without_blanks_at_the_end(value), where)
    return values


def render_properties(values: Mapping[str, str]) -> str:
    """Return the text of a properties file, which `parse_properties` and Java read back unchanged.

    Keys and values may have any characters.
    """
    return "".join(f"{_escaped(key, '=:#! ')}={_escaped_value(value)}\n" for key, value in values.items())


def _logical_lines(text: str, source: str) -> Iterator[tuple[int, str]]:
    """Yield (number of its last line, text) of each logical line, without comments and blank lines."""
    begun: str | None = None
    for number, natural in enumerate(_LINE_END.split(text), 1):
        line = natural.lstrip(_BLANKS)
        if not begun and (not line or line[0] in "#!"):
            begun = None
            continue
        line = (begun or "") + line
        if _ends_with_escape(line):
            begun = line[:-1]
            continue
        begun = None
        yield number, line
    if begun is not None:
        raise FormatError(f"{source}: the last line ends with a continuation")


def _ends_with_escape(text: str) -> bool:
    return (len(text) - len(text.rstrip("\\"))) % 2 == 1


def _without_blanks_at_the_end(value: str) -> str:
    kept = value.rstrip(_BLANKS)
    return value[: len(kept) + 1] if _ends_with_escape(kept) else kept


def _unescaped(text: str, where: str) -> str:
    def character(escape: re.Match[str]) -> str:
        name = escape[1]
        if name == "u":
            raise FormatError(f"{where}: \\u must be followed by four hexadecimal digits")
        return chr(int(name[1:], 16)) if len(name) > 1 else _NAMED.get(name, name)

    if "\\" not in text:
        return text
    # A character beyond 16 bits is two escapes, as in UTF-16.
    try:
        return _ESCAPE.sub(character, text).encode("utf-16", "surrogatepass").decode("utf-16")
    except UnicodeDecodeError:
        raise FormatError(f"{where}: an escaped surrogate lacks its other half") from None


def _escaped_value(value: str) -> str:
    text = _escaped(value, "")
    if value.endswith(" "):
        text = f"{text[:-1]}\\ "
    return f"\\{text}" if value.startswith(" ") and value != " " else text


def _escaped(text: str, special: str) -> str:
    return "".join(_NAMES.get(character) or _escaped_character(character, special) for character in text)


def _escaped_character(character: str, special: str) -> str:
    if character in special:
        return f"\\{character}"
    if " " <= character <= "~":
        return character
    # Java reads such files as Latin-1.
    return re.sub("....", r"\\u\g<0>", character.encode("utf-16-be", "surrogatepass").hex())
