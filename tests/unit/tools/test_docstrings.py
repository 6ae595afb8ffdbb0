"""Which docstrings the check finds: those whose first sentence does not name its object."""

import subprocess
from pathlib import Path

import pytest

from tools.docstrings import first_sentence, main, open_objects

CLAUSE, PRONOUN = "a clause in place of a noun", "a pronoun without a noun"


def why(source: str) -> list[tuple[str, ...]]:
    return [found.why for found in open_objects(source)]


@pytest.mark.parametrize(
    ("text", "reasons"),
    [
        ("Return what it has.", [(CLAUSE,)]),
        ("Return where to cut the log.", [(CLAUSE,)]),
        ("Yield who waits.", [(CLAUSE,)]),
        ("Return how the container ended.", [(CLAUSE,)]),
        ("Return how many bytes were sent.", []),
        ("Return why the log is offline.", []),
        ("Return its size.", [(PRONOUN,)]),
        ("Whether it is synced.", [(PRONOUN,)]),
        ("Number of its replicas.", [(PRONOUN,)]),
        ("Return those that are left.", [(PRONOUN,)]),
        ("It takes a system call.", [(PRONOUN,)]),
        ("These are the limits.", [(PRONOUN,)]),
        ("Return these limits.", []),
        ("Return the log and its size.", []),
        ("Kafka numbers its tags from 0.", []),
        ("Return the limits of the broker. It has a few.", []),
        ("`limit` is the greatest number.", [("a function begins with a parameter",)]),
    ],
)
def test_docstrings_of_functions(text: str, reasons: list[tuple[str, ...]]) -> None:
    assert why(f'def f():\n    """{text}"""\n') == reasons


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("Whether a log accepts records.", "a class begins with a clause"),
        ("How nodes are restarted.", "a class begins with a clause"),
        ("`limit` is the greatest number.", "a class begins with a field"),
        ("Owns the connections.", "a class begins with a verb of its parts"),
        ("Implements `Log`.", "a class begins with a verb of its parts"),
        ("The connections of a broker.", None),
        ("Reads the segments of a log.", None),
    ],
)
def test_docstrings_of_classes(text: str, reason: str | None) -> None:
    assert why(f'class C:\n    """{text}"""\n') == ([(reason,)] if reason else [])


@pytest.mark.parametrize(
    ("text", "is_found"),
    [
        ("None before the start.", True),
        ("None: no limit.", True),
        ("-1 if unknown.", True),
        ("The limit; None before the start.", False),
        ("3 brokers at least.", False),
    ],
)
def test_docstrings_of_attributes(text: str, is_found: bool) -> None:
    assert why(f'limit = None\n"""{text}"""\n') == ([("an attribute begins with a value",)] if is_found else [])


def test_a_constructor_may_describe_its_parameters() -> None:
    assert why('class C:\n    def __init__(self, a):\n        """`a` is the greatest number."""\n') == []


def test_strings_that_are_no_docstrings_are_not_read() -> None:
    assert why('"""It is a module."""\nf("""It is an argument.""")\nif a:\n    """It is an expression."""\n') == []


def test_the_first_sentence_ends_before_the_next_capital_letter_or_code() -> None:
    assert first_sentence("Return 0.5 of\n    the limit. `a` is it.\n\n    More.") == "Return 0.5 of the limit."


def test_findings_are_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("good.py").write_text('def f():\n    """Return the size."""\n')
    listing = subprocess.CompletedProcess((), 0, stdout="good.py\ngone.py\nREADME.md\n")
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: listing)
    assert main([]) == 0
    Path("good.py").write_text('def f():\n    """Return its size."""\n')
    assert main([]) == 1
    out, error = capsys.readouterr()
    assert out == f"good.py:2: Return its size. ({PRONOUN})\n"
    assert error == "1 docstrings do not name their object in the first sentence: write its noun\n"
