"""Numbers are what Java reads as numbers, no more."""

import math

import pytest

from broker_runtime.config import broker_settings
from broker_runtime.config.declaring.definition import Key, Type
from broker_runtime.config.declaring.numbers import parse_double, parse_integer, render_double, trim
from broker_runtime.errors import ConfigError


@pytest.mark.parametrize(("text", "value"), [("0", 0), ("+7", 7), ("-07", -7), ("2147483648", 2**31)])
def test_whole_numbers(text: str, value: int) -> None:
    assert parse_integer(text) == value


@pytest.mark.parametrize(
    "text", ["", "1_000_000", "1 000", "1,5", "1.0", "0x10", "١٢", "²", "--1", "+", "1e3", "\u00a05"]
)
def test_texts_that_java_does_not_parse_as_an_integer_are_rejected(text: str) -> None:
    with pytest.raises(ValueError, match="is not a whole number"):
        parse_integer(text)


@pytest.mark.parametrize(("text", "value"), [("1", 1.0), (".5", 0.5), ("1.", 1.0), ("-2.5e-3", -0.0025), ("3d", 3.0)])
def test_doubles(text: str, value: float) -> None:
    assert parse_double(text) == value


def test_doubles_that_are_no_ordinary_numbers() -> None:
    assert parse_double("Infinity") == math.inf
    assert math.isnan(parse_double("NaN"))


@pytest.mark.parametrize("text", ["", "1_0.5", "inf", "nan", "infinity", "1,5", "e5", ".", "٣"])
def test_an_invalid_double_is_rejected(text: str) -> None:
    with pytest.raises(ValueError, match="is not a number"):
        parse_double(text)


def test_blanks_around_are_javas_blanks() -> None:
    assert trim(" \t\x00 5\r\n") == "5"
    assert trim("\u00a05") == "\u00a05"


@pytest.mark.parametrize(("text", "value"), [("TRUE", True), (" False ", False)])
def test_booleans_are_in_letters_of_either_case(text: str, value: bool) -> None:
    assert Key("flag", Type.BOOLEAN, None, "").parse(text) is value


def test_lists_leave_out_what_is_empty() -> None:
    assert Key("list", Type.LIST, None, "").parse(" a ,,b ") == ("a", "b")


@pytest.mark.parametrize(
    ("key", "value"),
    [("num.partitions", "1_000"), ("log.retention.ms", "١"), ("listeners", "PLAINTEXT://h:٩٠٩٢"), ("node.id", "²")],
)
def test_a_properties_file_has_kafkas_spellings_only(key: str, value: str) -> None:
    with pytest.raises(ConfigError, match=key):
        broker_settings({"node.id": "1", key: value})


@pytest.mark.parametrize(
    "text",
    ["0.0", "0.5", "1.0", "9999999.0", "1.0E7", "1.5E-4", "-2.25E10", "1.7976931348623157E308", "Infinity", "NaN"],
)
def test_doubles_are_shown_as_java_shows_them(text: str) -> None:
    assert render_double(parse_double(text)) == text
