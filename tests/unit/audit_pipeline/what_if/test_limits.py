"""A document with limits to try is read, or refused in one sentence: users may edit it before a build reads it."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from audit_pipeline.errors import BadUseError
from audit_pipeline.what_if.limits import limits_in, read_limits

GOOD: dict[str, Any] = {
    "configs": {
        "max.connections": "5",
        "max.connection.creation.rate": "7",
        "connection.quota.strategy": "token-bucket",
        "max.connections.per.ip.overrides": "10.0.0.1:5",
        "listener.name.external.max.connections": "4",
        "quota.window.num": "11",
    },
    "quotas": [
        {"entity": {"ip": "10.0.0.1"}, "key": "connection_creation_rate", "value": 5},
        {"entity": {"connection-group": "a/b"}, "key": "connection_creation_rate", "value": 5},
        {"entity": {"connection-group": "a/b", "ip": "10.0.0.0/8"}, "key": "member", "value": 1},
    ],
    "names": [{"key": "max.connections", "entity": None, "quota": "a/b"}],
    "notes": ["a note"],
}
Path = tuple[Any, ...]


def paths(document: Any, path: Path = ()) -> Iterator[Path]:
    yield path
    parts = (
        document.items() if isinstance(document, dict) else enumerate(document) if isinstance(document, list) else ()
    )
    for key, part in parts:
        yield from paths(part, (*path, key))


def changed(path: Path, value: Any) -> Any:
    document = json.loads(json.dumps(GOOD))
    if not path:
        return value
    *before, last = path
    place = document
    for key in before:
        place = place[key]
    place[last] = value
    return document


@pytest.mark.parametrize("value", [None, -1, 1e400, float("nan"), "x", [], {}, [1], True, 10**30, "9" * 5_000])
def test_a_changed_value_is_read_or_refused_in_one_sentence(value: Any) -> None:
    refusals: list[str] = []
    for path in paths(GOOD):
        try:
            limits_in(json.dumps(changed(path, value)))
        except BadUseError as error:
            refusals.append(str(error))
    assert len(refusals) > 3
    assert not any("\n" in refusal for refusal in refusals)


@pytest.mark.parametrize("text", ["", "[", "[]", "5", "null", "{}", "NaN", "[" * 100_000])
def test_other_json_is_refused(text: str) -> None:
    with pytest.raises(BadUseError, match="the limits to try "):
        limits_in(text)


@pytest.mark.parametrize(
    ("path", "value", "sentence"),
    [
        (("configs", "max.connections"), "-1", "max.connections must be at least 0, not -1"),
        (("configs", "quota.window.num"), "0", "quota.window.num must be at least 1, not 0"),
        (("quotas", 2, "entity", "ip"), "10.0.0.999", "10.0.0.999"),
        (("quotas", 0, "value"), -5, "must be 0 or more"),
    ],
)
def test_a_limit_that_brokers_would_refuse_is_refused(path: Path, value: Any, sentence: str) -> None:
    with pytest.raises(BadUseError, match=sentence):
        read_limits(changed(path, value))


def test_the_usual_document_is_read() -> None:
    found = read_limits(GOOD)
    assert found.listener_limits == {"external": (4, None)}
    assert found.members == {"a/b": ["10.0.0.0/8"]}
