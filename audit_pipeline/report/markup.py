"""HTML and SVG that is safe for any content: only Markup is inserted unchanged, other text is escaped. Pure."""

from collections.abc import Iterable
from html import escape
from typing import TypeAlias

from kafka_bytes.printable import printable

LONG = 90
"""Length in characters from which names are cut where they are shown."""
_VOID = frozenset({"br", "input", "link", "meta"})


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


Child: TypeAlias = "str | Iterable[Child] | None"
"""The content of an element. Iterables are inserted item by item; None is nothing."""


def tag(name: str, /, *children: Child, **attributes: str | float | bool | None) -> Markup:
    """Return an HTML element.

    The attribute `class_` is class, an underscore is a hyphen; None and False leave an attribute out.
    """
    opened = f"<{name}{''.join(_attribute(key, value) for key, value in attributes.items())}>"
    return Markup(opened if name in _VOID else f"{opened}{together(children)}</{name}>")


def together(*children: Child) -> Markup:
    return Markup("".join(_parts(children)))


def named(text: str) -> Markup:
    """Return a name that a user chose, isolated from the text around it, whatever its writing direction.

    A long name is cut to the available width, and shown in full when the pointer is on it.
    """
    return tag("bdi", text, class_="name long" if len(text) > LONG else "name")


def _parts(child: Child) -> Iterable[str]:
    if child is None:
        return
    if isinstance(child, Markup):
        yield child
    elif isinstance(child, str):
        yield escape(printable(child))
    else:
        for each in child:
            yield from _parts(each)


def _attribute(key: str, value: str | float | bool | None) -> str:
    if value is None or value is False:
        return ""
    name = key.rstrip("_").replace("_", "-")
    if value is True:
        return f" {name}"
    shown = value if isinstance(value, str) else f"{value:.6g}" if isinstance(value, float) else str(value)
    return f' {name}="{escape(printable(shown))}"'
