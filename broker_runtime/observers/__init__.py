"""The public names for authors of observers (docs/reference/observers.md); see `base` for the interface.

Each name is imported on first use: a broker without observers imports none of their modules.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from broker_runtime.network.connection.connection_notices import ConnectionNotice, NoticeKind
    from broker_runtime.observers.background import Background
    from broker_runtime.observers.base import ConnectionObserver, NoResponse, Observer, UnansweredObserver
    from broker_runtime.observers.context import RequestContext
    from broker_runtime.observers.source import OutlivedError
    from broker_runtime.observers.view import Array, ReadOnlyError, Records, Struct, UnknownFieldError

__all__ = [
    "Array",
    "Background",
    "ConnectionNotice",
    "ConnectionObserver",
    "NoResponse",
    "NoticeKind",
    "Observer",
    "OutlivedError",
    "ReadOnlyError",
    "Records",
    "RequestContext",
    "Struct",
    "UnansweredObserver",
    "UnknownFieldError",
]

_MODULES = {
    "broker_runtime.network.connection.connection_notices": ("ConnectionNotice", "NoticeKind"),
    "broker_runtime.observers.background": ("Background",),
    "broker_runtime.observers.base": ("ConnectionObserver", "NoResponse", "Observer", "UnansweredObserver"),
    "broker_runtime.observers.context": ("RequestContext",),
    "broker_runtime.observers.source": ("OutlivedError",),
    "broker_runtime.observers.view": ("Array", "ReadOnlyError", "Records", "Struct", "UnknownFieldError"),
}
_PLACES = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_PLACES[name]), name)
