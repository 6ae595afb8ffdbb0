"""RE2 for client metrics subscriptions: imported with the first pattern, as most brokers have none (decision 45).

The import takes 3 ms of the event loop, once.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from broker_runtime.config.declaring.patterns import Pattern

PATTERNS = "broker_runtime.config.declaring.patterns"


def compile_pattern(text: str) -> "Pattern":
    """Compile a regular expression within the usual limits. Raises ConfigError."""
    found: Pattern = import_module(PATTERNS).compile_pattern(text)
    return found
