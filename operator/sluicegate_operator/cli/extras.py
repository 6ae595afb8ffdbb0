"""The extras of the distribution that commands need, and the sentence about one that is not installed.

`pip install sluicegate` brings what most commands need. The modules of an extra are checked before another program
starts, because that program would end with a traceback.
"""

import sys
from importlib.util import find_spec
from typing import NoReturn

DISTRIBUTION = "sluicegate"
BAD_USE = 2
EXTRAS = {
    "kubernetes": ("kubernetes",),
    "broker": ("cramjam", "jwt", "msgspec", "re2", "uvloop"),
    "landing": ("duckdb", "msgspec", "numpy", "pyarrow"),
    "audit": ("duckdb", "msgspec", "numpy", "pyarrow", "confluent_kafka", "pyspark"),
    "top": ("textual",),
    "operator": ("aiohttp", "cryptography", "kopf", "prometheus_client"),
}
"""The modules of each extra, without those of the distribution itself. The first extra with a module is the smallest.
"""


def is_missing(extra: str) -> bool:
    """Return whether a module of the extra is not installed."""
    return any(find_spec(module) is None for module in EXTRAS[extra])


def require(extra: str, command: str) -> None:
    """End the process with a sentence if the extra is not installed. `command` is what the user has called."""
    if is_missing(extra):
        refuse(extra, command)


def refuse(extra: str, command: str, code: int = BAD_USE) -> NoReturn:
    """End the process with the sentence about an extra that is not installed."""
    print(sentence(extra, command), file=sys.stderr)
    sys.exit(code)


def sentence(extra: str, command: str) -> str:
    return f"{command} needs the extra {extra}: pip install '{DISTRIBUTION}[{extra}]'"


def extra_of(module: str | None) -> str | None:
    """Return the smallest extra that brings the module; None if no extra does."""
    top = (module or "").partition(".")[0]
    return next((extra for extra, modules in EXTRAS.items() if top in modules), None)
