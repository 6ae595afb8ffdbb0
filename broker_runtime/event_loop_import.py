"""Import asyncio and uvloop without Python's ssl module, which costs every process 6 MB with OpenSSL (decision 45).

Both import ssl for TLS on their event loops, which a broker does not use. While they are imported, another module
replaces it. Afterwards `import ssl` returns Python's own module, so TLS works in threads and on loops of asyncio.
uvloop keeps the module that it has imported: TLS over one of its loops raises RuntimeError.
"""

import sys
from importlib import import_module
from types import ModuleType
from typing import Any, NoReturn

_LOOPS = ("asyncio.base_events", "asyncio.selector_events", "asyncio.sslproto")
"""Modules of asyncio that refer to ssl."""
_REFUSAL = "this process has started without TLS on its event loop; use TLS in a thread, or on an asyncio loop"


def _refuse(*_: object, **__: object) -> NoReturn:
    raise RuntimeError(_REFUSAL)


class _Refusing(type):
    """Metaclass of the replacements of ssl's classes: `isinstance` raises RuntimeError."""

    def __instancecheck__(cls, instance: object) -> NoReturn:
        _refuse()


class _SSLContext(metaclass=_Refusing):
    """Replaces ssl.SSLContext."""


class _Error(OSError):
    """Replaces the errors of ssl, which nothing raises without TLS."""


def _placeholder_ssl() -> ModuleType:
    """Create a module with the attributes of ssl that asyncio and uvloop read when they are imported."""
    made = ModuleType("ssl")
    errors = ("SSLError", "SSLWantReadError", "SSLSyscallError", "SSLZeroReturnError", "CertificateError")
    vars(made).update(dict.fromkeys(errors, _Error))
    vars(made).update(SSLContext=_SSLContext, MemoryBIO=_refuse, create_default_context=_refuse)
    vars(made).update(SSL_ERROR_WANT_READ=2, SSL_ERROR_WANT_WRITE=3, SSL_ERROR_SYSCALL=5)
    return made


class _OnDemand(ModuleType):
    """Replaces ssl in asyncio's modules: imports ssl when asyncio reads an attribute."""

    def __getattr__(self, name: str) -> Any:
        ssl = import_module("ssl")
        for loop in _LOOPS:
            vars(sys.modules[loop])["ssl"] = ssl
        vars(sys.modules["asyncio.sslproto"])["SSLAgainErrors"] = (ssl.SSLWantReadError, ssl.SSLSyscallError)
        return getattr(ssl, name)


def import_event_loop() -> None:
    """Import asyncio and uvloop.

    Do nothing else if ssl, asyncio or uvloop was imported before.
    """
    if not {"ssl", "asyncio", "uvloop"} & sys.modules.keys():
        sys.modules["ssl"] = _placeholder_ssl()
        try:
            import_module("uvloop")
        finally:
            del sys.modules["ssl"]
        on_demand = _OnDemand("ssl")
        for loop in _LOOPS:
            vars(sys.modules[loop])["ssl"] = on_demand
