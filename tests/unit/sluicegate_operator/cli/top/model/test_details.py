"""The details of a row, the help, and the text for the clipboard."""

import io
from typing import Any

import pytest
from rich.console import Console, RenderableType

from sluicegate_operator.cli.top.model.columns import Screen
from sluicegate_operator.cli.top.model.details import address_of, copied, details, help_of, title_of
from sluicegate_operator.cli.top.model.recorder import Recorder
from sluicegate_operator.cli.top.model.screens import SCREENS
from tests.support.fakes.synthetic_console import SyntheticSource

RECORDER, SOURCE = Recorder(), SyntheticSource()
RECORDER.view(SOURCE.look_at(5))
VIEW = RECORDER.view(SOURCE.look_at(6))


def printed(parts: list[RenderableType]) -> str:
    out = io.StringIO()
    for part in parts:
        Console(file=out, width=80).print(part)
    return out.getvalue()


def row(key: str, at: int = 0) -> Any:
    return SCREENS[key].rows(VIEW)[at]


@pytest.mark.parametrize("screen", SCREENS.values(), ids=SCREENS.keys())
def test_details_have_every_figure_with_its_meaning(screen: Screen) -> None:
    text = printed(details(screen, row(screen.key), VIEW))
    for column in screen.columns:
        assert column.heading in text
    assert "…" not in text


def test_a_broker_has_its_limits_and_its_problem() -> None:
    assert "listener EXTERNAL" in printed(details(SCREENS["brokers"], row("brokers"), VIEW))
    assert "no answer within 3 s" in printed(details(SCREENS["brokers"], row("brokers", 2), VIEW))
    assert title_of(SCREENS["brokers"], row("brokers", 2)) == "Broker 2, cluster shop"


def test_a_limit_and_a_storm_have_a_row_for_each_broker() -> None:
    limit = next(line for line in VIEW.limits if line.target == "listener EXTERNAL")
    storm = next(line for line in VIEW.storms if line.target == "listener EXTERNAL")
    for key, line in (("limits", limit), ("storms", storm)):
        text = printed(details(SCREENS[key], line, VIEW))
        assert text.count("listener EXTERNAL") >= 1
        assert "Connection quotas" in text


def test_a_group_has_members_and_offsets() -> None:
    text = printed(details(SCREENS["groups"], row("groups"), VIEW))
    assert "billing-0" in text
    assert "Offsets of billing" in text


def test_addresses_and_limits_on_addresses_have_an_address() -> None:
    assert address_of(row("addresses")) == "10.0.0.0"
    found = {line.target: address_of(line) for line in VIEW.limits}
    assert (found["ip 10.0.0.3"], found["broker"], found["listener EXTERNAL"]) == ("10.0.0.3", None, None)
    assert address_of(row("groups")) is None


def test_the_help_has_keys_and_columns() -> None:
    text = printed(help_of(SCREENS["storms"]))
    assert "clipboard" in text
    assert "Connections a second that limits delay or reject." in text


def test_a_copied_row_has_headings_and_whole_values() -> None:
    headings, values = copied(SCREENS["limits"], row("limits", 1)).splitlines()
    pairs = dict(zip(headings.split("\t"), values.split("\t"), strict=True))
    assert (pairs["target"], pairs["limit/s"]) == ("listener EXTERNAL", "50")
    assert copied(SCREENS["brokers"], row("brokers", 2)).endswith("no answer within 3 s\n")
