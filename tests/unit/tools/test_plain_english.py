"""Which sentences the check of prose finds, and where it ends with an error."""

import subprocess
from pathlib import Path

import pytest

from tools.plain_english import main, read_text

CLUMSY = "Whoever waits is told of it."
PLAIN = "The broker completes pending requests with an error."


@pytest.mark.parametrize(
    ("sentence", "why"),
    [
        (PLAIN, ()),
        ("Of a group that ends the offsets stay.", ("begins with a pronoun or Of",)),
        ("What is landed is read again.", ("begins with What",)),
        ("The broker is told the rack.", ("an everyday verb for a technical act",)),
        ("The session of somebody ends.", ("a person for a part",)),
        ("The file is written anew.", ("an old word",)),
        ("It is no member of the group.", ("is no X",)),
        ("The topics that it is of are read.", ("a relative clause with of",)),
        ("word " * 33, ("more than 32 words",)),
        ("It prints `is told of` and nothing else.", ()),
    ],
)
def test_patterns_of_sentences(sentence: str, why: tuple[str, ...]) -> None:
    read = read_text("a.md", sentence)
    assert [one.why for one in read.findings] == ([why] if why else [])
    assert read.sentences == 1


def test_python_has_sentences_in_docstrings_and_comments_alone() -> None:
    source = f'''"""{PLAIN}"""

limit = 5
"""{CLUMSY}"""
text = "{CLUMSY}"
# {CLUMSY}
# {PLAIN}


def f() -> None:
    """{PLAIN} {CLUMSY}"""
'''
    read = read_text("a.py", source)
    assert (read.sentences, sorted(one.line for one in read.findings)) == (6, [4, 6, 11])


def test_code_blocks_and_links_of_markdown_have_no_sentences() -> None:
    read = read_text("a.md", f"```\n{CLUMSY}\n```\n\n[{PLAIN}](who-is-told-of-it.md)\n\n| {CLUMSY} | {PLAIN} |\n")
    assert (read.sentences, [one.line for one in read.findings]) == (3, [7])


def test_a_package_with_too_many_clumsy_sentences_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, text in (("good/a.md", PLAIN), ("bad/a.md", f"{PLAIN} {CLUMSY}")):
        Path(name).parent.mkdir()
        Path(name).write_text(text)
    listing = subprocess.CompletedProcess((), 0, stdout="good/a.md\nbad/a.md\n")
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: listing)
    assert main(["--most", "50"]) == 0
    for _ in range(2):
        assert main(["--most", "49", "--worst", "1"]) == 1
        out, error = capsys.readouterr()
        assert out.startswith("bad: 1 of 2 sentences (50.0 %)\n  bad/a.md:1: Whoever waits")
        assert error == "too many sentences have to be read twice in bad: at most 49 %\n"
