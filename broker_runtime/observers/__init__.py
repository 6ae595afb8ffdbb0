"""What whoever writes an observer imports (docs/reference/observers.md); see `base` for its interface."""

from broker_runtime.network.connection_notices import ConnectionNotice, NoticeKind
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
