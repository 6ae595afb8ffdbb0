"""The events that are posted, counted and forgotten; a simulated API server and wall clock."""

import logging
import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from sluicegate_operator.kube.client.client import KubeClient
from sluicegate_operator.kube.client.events import KEYS_MAX, EventRecorder, RecentEvents
from sluicegate_operator.kube.http.errors import KubeError, KubeUnavailableError
from sluicegate_operator.kube.http.kinds import Kind

START = datetime(2026, 1, 1, tzinfo=UTC)
QUOTA = {"apiVersion": "sluicegate.dev/v1alpha1", "kind": "ConnectionQuota"}
QUOTA_META = {"name": "rate", "namespace": "default", "uid": "u1"}
INVOLVED: dict[str, Any] = {**QUOTA, "metadata": QUOTA_META}


class PlayedKube(KubeClient):
    """Remembers posted events; with `away` it answers nothing, and with `refusal` it refuses Events."""

    def __init__(self) -> None:
        self.away = False
        self.refusal: KubeError | None = None
        self.refused = 0
        self.posted: list[tuple[str, str, int]] = []
        self.events: dict[str, dict[str, Any]] = {}
        self.lists = 0

    async def list(
        self, kind: Kind, namespace: str | None, label_selector: str = "", *, field_selector: str = ""
    ) -> list[dict[str, Any]]:
        assert field_selector == "source=sluicegate-operator"
        self.lists += 1
        if self.away:
            raise KubeUnavailableError("the API server does not answer")
        return list(self.events.values())

    async def create(self, kind: Kind, namespace: str, manifest: Mapping[str, Any]) -> dict[str, Any]:
        return self._post("create", manifest)

    async def replace(
        self, kind: Kind, namespace: str | None, name: str, manifest: Mapping[str, Any]
    ) -> dict[str, Any]:
        assert name == manifest["metadata"]["name"]
        return self._post("replace", manifest)

    def _post(self, verb: str, manifest: Mapping[str, Any]) -> dict[str, Any]:
        if self.away:
            raise KubeUnavailableError("the API server does not answer")
        if self.refusal is not None:
            self.refused += 1
            raise self.refusal
        self.posted.append((verb, manifest["metadata"]["name"], manifest["count"]))
        self.events[manifest["metadata"]["name"]] = dict(manifest)
        return dict(manifest)


class Played:
    def __init__(self) -> None:
        self.now = START
        self.kube = PlayedKube()
        self.recorder = EventRecorder(self.kube, clock=lambda: self.now)

    async def record(self, message: str = "in force", after_s: float = 0) -> None:
        self.now += timedelta(seconds=after_s)
        await self.recorder.record(INVOLVED, "Normal", "LimitEnforced", message)

    @property
    def posted(self) -> list[tuple[str, int]]:
        return [(verb, count) for verb, _, count in self.kube.posted]


async def test_the_same_event_is_written_at_most_once_a_minute_and_counts() -> None:
    played = Played()
    for _ in range(13):
        await played.record(after_s=10)
    assert played.posted == [("create", 1), ("replace", 7), ("replace", 13)]
    assert len({name for _, name, _ in played.kube.posted}) == 1


async def test_after_ten_quiet_minutes_it_is_a_new_event() -> None:
    played = Played()
    await played.record()
    await played.record(after_s=600)
    assert played.posted == [("create", 1), ("create", 1)]
    assert len({name for _, name, _ in played.kube.posted}) == 2


async def test_another_message_is_another_event() -> None:
    played = Played()
    await played.record("50 in force")
    await played.record("60 in force")
    assert played.posted == [("create", 1), ("create", 1)]


async def test_what_could_not_be_posted_is_logged_and_tried_with_the_next(caplog: pytest.LogCaptureFixture) -> None:
    played = Played()
    played.kube.away = True
    with caplog.at_level(logging.WARNING):
        await played.record()
    assert "LimitEnforced of ConnectionQuota rate was not recorded" in caplog.text
    played.kube.away = False
    await played.record(after_s=1)
    assert played.posted == [("replace", 2)]


@pytest.mark.parametrize(
    "refusal",
    [KubeError("events is forbidden: exceeded quota", 403), KubeError("a webhook fails", 500, retriable=True)],
)
async def test_a_refused_event_is_tried_and_logged_at_most_once_a_minute(
    refusal: KubeError, caplog: pytest.LogCaptureFixture
) -> None:
    played = Played()
    played.kube.refusal = refusal
    with caplog.at_level(logging.WARNING):
        for _ in range(121):
            await played.record(after_s=1)
    assert played.kube.refused == len(caplog.records) == 3
    played.kube.refusal = None
    await played.record(after_s=59)
    assert played.posted == []
    await played.record(after_s=1)
    assert played.posted == [("replace", 123)]


@pytest.mark.parametrize("last", "a-.")
async def test_the_name_of_an_event_of_an_object_with_a_long_name_is_valid(last: str) -> None:
    played = Played()
    meta = {**QUOTA_META, "name": "a" * 199 + last + "b" * 20}
    await played.recorder.record({**QUOTA, "metadata": meta}, "Normal", "LimitEnforced", "in force")
    [(_, name, _)] = played.kube.posted
    label = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
    assert re.fullmatch(rf"{label}(\.{label})*", name)
    assert len(name) <= 253


@pytest.mark.parametrize(
    ("after_s", "expected"),
    [(30, []), (90, [("replace", 2)]), (700, [("create", 1)])],
)
async def test_a_new_term_does_not_post_again_what_the_one_before_has_posted(
    after_s: float, expected: list[tuple[str, int]]
) -> None:
    first = Played()
    await first.record()
    second = Played()
    second.kube, second.now = first.kube, first.now + timedelta(seconds=after_s)
    second.recorder = EventRecorder(second.kube, clock=lambda: second.now)
    for _ in range(2):
        await second.record()
    assert second.posted[1:] == expected
    if expected == [("replace", 2)]:
        assert len({name for _, name, _ in second.kube.posted}) == 1
    # Another event is not delayed.
    await second.record("another")
    assert second.posted[-1] == ("create", 1)


async def test_earlier_events_are_read_once_for_a_namespace_and_not_in_an_old_term() -> None:
    played = Played()
    await played.record()
    await played.record("another")
    assert played.kube.lists == 1
    old = Played()
    await old.record(after_s=600)
    assert old.kube.lists == 0


async def test_events_of_another_form_are_passed_over() -> None:
    played = Played()
    played.kube.events = {"odd": {"metadata": {"name": "odd"}}, "newer": {"eventTime": "x", "count": None}}
    await played.record()
    assert played.posted == [("create", 1)]


def test_memory_is_bounded_and_the_quietest_is_forgotten() -> None:
    recent = RecentEvents()
    for number in range(KEYS_MAX):
        recent.note((str(number),), START)
    assert recent.note(("0",), START).count == 2
    recent.note(("one more",), START)
    assert len(recent) == KEYS_MAX
    assert recent.note(("0",), START).count == 3
    assert recent.note(("1",), START).count == 1
