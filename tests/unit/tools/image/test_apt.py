import os
import subprocess
from pathlib import Path

import pytest

from tools.image.apt import LISTS_AGE_MAX_S, Apt, closure
from tools.image.errors import ImageError

DEPENDS = """python3
  PreDepends: python3-minimal
  Depends: libssl
 |Depends: debconf
  Depends: <debconf-2.0>
    cdebconf
    debconf
libssl
  Depends: libc6
 |Depends: first-choice
  Depends: second-choice
  Depends: dpkg
python3-minimal
libc6
<debconf-2.0>
first-choice
second-choice
dpkg
  Depends: tar
tar
"""


def test_closure_adds_dependencies_and_the_first_alternative() -> None:
    found = closure(DEPENDS, ["python3"], frozenset({"dpkg", "debconf"}))
    assert found == ["first-choice", "libc6", "libssl", "python3", "python3-minimal"]


def test_what_only_something_left_out_depends_on_is_left_out_too() -> None:
    assert "tar" in closure(DEPENDS, ["python3"], frozenset())
    assert "tar" not in closure(DEPENDS, ["python3"], frozenset({"dpkg"}))


class Sources:
    """The sources of `apt-get update`; like apt-get, it treats silence as a fault only with an option for that."""

    def __init__(self) -> None:
        self.answer = True
        self.asked = 0

    def run(self, command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        self.asked += 1
        if self.answer:
            [lists] = [word.partition("=")[2] for word in command if word.startswith("-oDir::State::lists=")]
            (Path(lists) / "debian_main_Packages").touch()
        fails = not self.answer and "-oAPT::Update::Error-Mode=any" in command
        return subprocess.CompletedProcess(command, 100 if fails else 0, "", "no way to them" if fails else "")


@pytest.fixture
def sources(monkeypatch: pytest.MonkeyPatch) -> Sources:
    made = Sources()
    monkeypatch.setattr(subprocess, "run", made.run)
    return made


def test_packages_of_another_architecture_have_lists_of_their_own(tmp_path: Path, sources: Sources) -> None:
    apt = Apt(tmp_path, "arm64")
    apt.update()
    assert {"-oAPT::Architecture=arm64", "-oAPT::Architectures=arm64"} <= set(apt._options)


def test_lists_are_read_once_a_day(tmp_path: Path, sources: Sources) -> None:
    apt = Apt(tmp_path)
    apt.update()
    apt.update()
    assert sources.asked == 1
    apt.update(now_s=(tmp_path / "read").stat().st_mtime + LISTS_AGE_MAX_S + 1)
    assert sources.asked == 2


def test_sources_that_do_not_answer_are_a_fault_and_are_asked_again(tmp_path: Path, sources: Sources) -> None:
    sources.answer = False
    with pytest.raises(ImageError, match="no way to them"):
        Apt(tmp_path).update()
    sources.answer = True
    Apt(tmp_path).update()
    assert sources.asked == 2


def test_lists_of_yesterday_do_where_none_can_be_read(tmp_path: Path, sources: Sources) -> None:
    apt = Apt(tmp_path)
    apt.update()
    os.utime(tmp_path / "read", (0, 0))
    sources.answer = False
    apt.update()
    apt.update()
    assert sources.asked == 3
