"""The keys of observers: `observer.<name>.<key>`, most of which only the observer itself knows. Pure."""

import re

from broker_runtime.config.declaring.allowed import at_least
from broker_runtime.config.declaring.definition import ConfigKey, Key, Type, UpdateMode, Validator, Value
from broker_runtime.remembering import remembered

OBSERVER_PREFIX = "observer."
OBSERVERS_MAX = 16
BUILT_IN_OBSERVERS = ("audit-log", "json-log", "prometheus")
_NAME = re.compile("[A-Za-z0-9_-]{1,64}")
_CLASS = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)+", re.ASCII)
_SECRETS = ("password", "secret", "token", "hash.key")


def split_observer_key(name: str) -> tuple[str, str] | None:
    """Split `observer.orders.filter.topics` into ("orders", "filter.topics"). Return None for other keys."""
    if not name.startswith(OBSERVER_PREFIX):
        return None
    observer, _, key = name.removeprefix(OBSERVER_PREFIX).partition(".")
    return (observer, key) if key and observer != "class" and _NAME.fullmatch(observer) else None


def is_class_name(text: str) -> bool:
    return _CLASS.fullmatch(text) is not None


def observer_name(item: str) -> str:
    """Return the name of an observer in observer.class.names: for a class the part after its last dot."""
    return item.rpartition(".")[2]


def observer_names_problem(value: Value) -> str | None:
    """Return the fault of observer.class.names, for the table of keys; None for a valid value."""
    items = value if isinstance(value, tuple) else ()
    bad = next((item for item in items if not (_NAME.fullmatch(item) or is_class_name(item))), None)
    if bad is not None:
        return f"must be names or package.module.Class, separated by commas; {bad} is neither"
    names = [observer_name(item) for item in items]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        return f"must have each name once; {twice} occurs twice (the name of a class is the part after the last dot)"
    return f"must be {OBSERVERS_MAX} observers at most" if len(items) > OBSERVERS_MAX else None


def _class_problem(value: Value) -> str | None:
    known = is_class_name(str(value)) or value in BUILT_IN_OBSERVERS
    return None if known else "must be package.module.Class, or the name of a built-in observer"


def _filter(doc: str) -> tuple[Type, str, Validator | None]:
    return Type.LIST, f"{doc}; all if it is empty.", None


_KNOWN: dict[str, tuple[Type, str, Validator | None]] = {
    "class": (
        Type.CLASS,
        "The class of this observer, as package.module.Class, or the name of a built-in one.",
        _class_problem,
    ),
    "budget.us": (
        Type.INT,
        "Microseconds that one call of this observer may take; overrides sluicegate.observer.budget.us.",
        at_least(1),
    ),
    "filter.api.keys": _filter("APIs that this observer sees, by name (Produce) or number"),
    "filter.listeners": _filter("Listeners whose requests and connections this observer sees"),
    "filter.principals": _filter("Principals whose requests this observer sees, such as User:ANONYMOUS"),
    "filter.topic.prefixes": _filter(
        "Prefixes of topic names: this observer sees requests and responses that name such a topic"
    ),
}


@remembered(1_000)
def observer_key(name: str) -> ConfigKey | None:
    """Return the key of an observer by its name. A key that only the observer knows is a string."""
    found = split_observer_key(name)
    if found is None:
        return None
    observer, key = found
    kind, doc, validator = _KNOWN.get(key, (Type.STRING, f"The observer {observer} receives it as {key}.", None))
    sensitive = key not in _KNOWN and key.endswith(_SECRETS)
    kind = Type.PASSWORD if sensitive else kind
    return Key(name, kind, None, doc, validator, UpdateMode.CLUSTER_WIDE, sensitive=sensitive)
