"""`sluicegate up` with observers: applied, changed, broken and removed while the same brokers serve clients."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from tests.support.processes.local_fleet import LocalUp, copy_quickstart, edit

PLUGIN = """
apiVersion: sluicegate.dev/v1alpha1
kind: ObserverPlugin
metadata:
  name: noting
spec:
  clusterRef:
    name: shop
  class: tests.support.requests.plugin_observers.Noting
  filter:
    apiKeys: [Produce]
  config:
    path: {path}
    word: first
"""


@pytest.fixture
def up(tmp_path: Path) -> Iterator[LocalUp]:
    with LocalUp(copy_quickstart(tmp_path, brokers=2), tmp_path / "data") as running:
        yield running


def says(up: LocalUp) -> dict[str, Any]:
    resources: list[dict[str, Any]] = up.state()["clusters"]["shop"]["resources"]
    return next((one for one in resources if one["kind"] == "ObserverPlugin"), {})


def await_said(up: LocalUp, ready: bool, message: str) -> None:
    up.wait_until(lambda: says(up).get("ready") is ready and message in says(up)["message"], message)


def produce(up: LocalUp) -> None:
    producer = Producer({"bootstrap.servers": up.external(), "message.timeout.ms": 60000})
    errors: list[object] = []
    producer.produce("orders", b"x" * 100, on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(60) == 0
    assert errors == [None]


def words(path: Path) -> list[str]:
    """Return the observer's configured word, once for each Produce request that it recorded."""
    lines = path.read_text().splitlines() if path.exists() else []
    return [line[-1] for line in map(json.loads, lines) if line[0] == "produce"]


@pytest.mark.full
def test_an_observer_is_added_changed_broken_and_removed_without_a_broker_restart(up: LocalUp, tmp_path: Path) -> None:
    before, notes, manifest = up.pids(), tmp_path / "notes", up.manifests / "observer.yaml"
    manifest.write_text(PLUGIN.format(path=notes))
    await_said(up, True, "loaded by all 2 brokers")
    produce(up)
    assert words(notes) == ["first"]

    edit(manifest, "word: first", "word: second")
    up.wait_until(lambda: _produced_as("second", up, notes), "the observer is configured anew")

    edit(manifest, r"plugin_observers\.Noting", "plugin_observers.Nobody")
    await_said(up, False, "module tests.support.requests.plugin_observers has no class Nobody".removeprefix("module "))
    produce(up)

    edit(manifest, "  class: .*\n", "  builtIn: prometheus\n")
    edit(manifest, "(?s)  config:.*", "")
    await_said(up, True, "loaded by all 2 brokers")

    manifest.unlink()
    up.wait_until(lambda: not says(up), "the observer is gone")
    seen = len(words(notes))
    produce(up)
    assert len(words(notes)) == seen
    assert up.pids() == before


def _produced_as(word: str, up: LocalUp, notes: Path) -> bool:
    produce(up)
    return words(notes)[-1] == word
