"""The page of closed connections lists each kind of refusal and each other reason for the end of a connection."""

import ast
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

from broker_runtime.network.connection import connection_notices
from broker_runtime.network.connection.connection_states import ConnectionEvent
from broker_runtime.network.quotas.refusals import MAX_KINDS
from broker_runtime.network.sockets.proxy_header import MEANING_OF_REFUSAL

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "reference" / "closed-connections.md"
OUTGOING = ROOT / "broker_runtime" / "network" / "connection" / "outgoing"
KIND = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
TAKE_A_KIND = re.compile(
    r"ProtocolError|RequestTooLargeError|ResponseTooLargeError|refuse|_refuse|refuse_in|record_refusal|_unsupported|_end"
)
"""Calls with a kind among their first two arguments."""
COUNT_A_KIND = re.compile(r"warn|note")
"""Calls in the network layer with a kind as their first argument; elsewhere these names have other meanings."""


def kinds_of(path: Path) -> Iterator[str]:
    """Yield the kinds of refusals in a module of the broker."""
    module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
    in_network = module.startswith("broker_runtime.network.")
    for call in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not isinstance(call, ast.Call):
            continue
        name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
        if TAKE_A_KIND.fullmatch(name) or name == "__init__":
            taken = call.args[:3] if name == "_refuse" else call.args[:2]
        elif in_network and COUNT_A_KIND.fullmatch(name):
            taken = call.args[:1]
        else:
            continue
        for argument in taken:
            yield from (text for text in texts_of(argument, module) if KIND.fullmatch(text))


def texts_of(argument: ast.expr, module: str) -> Iterator[str]:
    """Yield the texts that an argument may have: a literal, a constant of the module, or a choice of these."""
    if isinstance(argument, ast.Constant):
        found = argument.value
    elif isinstance(argument, ast.Name) and argument.id.isupper():
        found = getattr(import_module(module), argument.id)
    elif isinstance(argument, ast.IfExp):
        yield from texts_of(argument.body, module)
        yield from texts_of(argument.orelse, module)
        return
    else:
        return
    if isinstance(found, str):
        yield found


def listed(heading: str) -> set[str]:
    """Return the first column of the page's table under a heading."""
    section = PAGE.read_text(encoding="utf-8").partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    return set(re.findall(r"^\| `([^`]+)` \|", section, re.MULTILINE))


def test_each_kind_of_refusal_is_on_the_page_and_no_other() -> None:
    modules = [path for path in (ROOT / "broker_runtime").rglob("*.py") if OUTGOING not in path.parents]
    kinds = {kind for path in modules for kind in kinds_of(path)}
    kinds |= {f"proxy-{outcome}" for outcome in MEANING_OF_REFUSAL}
    assert listed("Kinds of refusals") == kinds
    assert len(kinds) < MAX_KINDS, "further kinds would be counted as other"


def test_each_other_reason_is_on_the_page_and_no_other() -> None:
    constants = {text for name, text in vars(connection_notices).items() if name.isupper() and isinstance(text, str)}
    by_event = {connection_notices.reason_of(event) for event in (None, *ConnectionEvent)}
    assert listed("Other reasons") == constants | by_event
