"""Write server.properties like `java.util.Properties`: a value is always one line, and never becomes a key."""

import re
from collections.abc import Mapping

_NAMES = {"\t": "\\t", "\n": "\\n", "\r": "\\r", "\f": "\\f", "\\": "\\\\"}


def render_properties(properties: Mapping[str, str]) -> str:
    """Return the file's text in order of key, so that equal properties are equal files."""
    return "".join(f"{_escaped(key, '=:#! ')}={_escaped_value(value)}\n" for key, value in sorted(properties.items()))


def _escaped_value(value: str) -> str:
    """Escape a value. Unescaped blanks at its beginning, and for the broker at its end, would be dropped."""
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
    # Java reads such files as Latin-1; a character beyond 16 bits is two escapes, as in UTF-16.
    return re.sub("....", r"\\u\g<0>", character.encode("utf-16-be", "surrogatepass").hex())
