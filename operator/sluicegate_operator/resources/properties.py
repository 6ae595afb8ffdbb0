"""server.properties as `java.util.Properties` writes it: a value is one line, whatever it holds, and never a key."""

import re
from collections.abc import Mapping

_NAMES = {"\t": "\\t", "\n": "\\n", "\r": "\\r", "\f": "\\f", "\\": "\\\\"}


def render_properties(properties: Mapping[str, str]) -> str:
    """In order of key, so that equal properties are equal files."""
    return "".join(f"{_escaped(key, '=:#! ')}={_escaped_value(value)}\n" for key, value in sorted(properties.items()))


def _escaped_value(value: str) -> str:
    """Blanks at its beginning would not be read as part of it, nor, by the broker, those at its end."""
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
