"""The arrays of requests, by their path: the limits on items apply to them."""

from collections.abc import Iterator
from dataclasses import fields
from typing import Any, Literal, get_args, get_origin, get_type_hints

from broker_runtime.apis.request.call import Api
from broker_runtime.apis.request.context import ApiSpec
from broker_runtime.apis.table import BROKER_APIS, CONTROLLER_APIS
from broker_runtime.wire.encoding.primitives import is_struct, without_none
from broker_runtime.wire.messages import message_type

Role = Literal["broker", "controller"]
"""The role of the node that serves an API."""
Path = tuple[str, ...]
"""The place of an array in a message: field names from the outermost to the array itself."""


def arrays_in(kind: type[Any], path: Path = ()) -> Iterator[Path]:
    """Yield the path of every array of a message, the outer ones first."""
    hints = get_type_hints(kind)
    for field in fields(kind):
        here = (*path, field.name)
        inner, _ = without_none(hints[field.name])
        if get_origin(inner) is tuple:
            yield here
            inner, _ = without_none(get_args(inner)[0])
        if is_struct(inner):
            yield from arrays_in(inner, here)


def arrays_of(api: Api) -> dict[Path, int]:
    """Return every array in requests of this API, with the newest version that has it."""
    found: dict[Path, int] = {}
    oldest, newest = api.versions
    for version in range(newest, oldest - 1, -1):
        for path in arrays_in(message_type(api.key, version, "Request")):
            found.setdefault(path, version)
    return found


def served_apis() -> Iterator[tuple[Role, ApiSpec[Any]]]:
    """Yield every API once, with the role of the node that serves it: "broker", or "controller" for the rest."""
    brokers = {api.key for api in BROKER_APIS}
    for api in BROKER_APIS:
        yield "broker", api
    for each in CONTROLLER_APIS:
        if each.key not in brokers:
            yield "controller", each
