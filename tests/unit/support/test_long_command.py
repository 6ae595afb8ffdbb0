"""Set-up commands report progress while they print nothing, and end in a sentence that names what to repeat."""

import os
from pathlib import Path

import pytest

from tests.support.obtain import go_build, long_command
from tests.support.obtain.cache import ObtainError
from tests.support.obtain.long_command import LIMIT_VARIABLE, run_long


def silent_command(folder: Path) -> list[str]:
    """A command that prints one line and then waits for a writer of a pipe, which never comes."""
    os.mkfifo(folder / "pipe")
    return ["sh", "-c", f"echo half of it >&2; exec cat {folder / 'pipe'}"]


def test_a_silent_command_reports_progress_and_ends_at_the_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(long_command, "PROGRESS_INTERVAL_S", 0.05)
    monkeypatch.setenv(LIMIT_VARIABLE, "0.5")
    with pytest.raises(ObtainError) as refused:
        run_long("helm", "the build of Helm", silent_command(tmp_path), count=str.strip)
    assert str(refused.value) == (
        "the build of Helm did not end within 0.5 s; run `make helm` again, which continues from what is already built,"
        f" or set {LIMIT_VARIABLE} to more seconds"
    )
    progress = capsys.readouterr().err.splitlines()
    assert progress[0] == "[helm] the build of Helm ..."
    assert "[helm] the build of Helm: half of it, 0 s" in progress


def test_the_output_of_a_command_is_returned(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_long("kafka", "the download", ["echo", "42"], count=str.strip) == "42\n"
    assert capsys.readouterr().err.splitlines()[-1] == "[kafka] the download: done in 0 s"


def test_a_failed_command_shows_its_last_lines() -> None:
    with pytest.raises(ObtainError, match=r"the build failed:\nno such package\n"):
        run_long("helm", "the build", ["sh", "-c", "echo no such package >&2; exit 3"], count=str.strip)


def test_a_failed_command_without_error_lines_shows_its_output() -> None:
    with pytest.raises(ObtainError, match=r"the download failed:\n\[ERROR\] no such artifact\n"):
        run_long("kafka", "the download", ["sh", "-c", "echo '[ERROR] no such artifact'; exit 1"], count=str.strip)


@pytest.mark.parametrize("given", ["0", "-1", "soon"])
def test_a_limit_that_is_not_a_number_of_seconds_is_refused(given: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(LIMIT_VARIABLE, given)
    with pytest.raises(ObtainError, match=f"{LIMIT_VARIABLE} is '{given}'; set it to a number of seconds above 0"):
        run_long("helm", "the build", ["true"], count=str.strip)


def test_go_counts_downloaded_modules_and_compiled_packages() -> None:
    count = go_build.Counted()
    count("go: downloading helm.sh/helm/v3 v3.21.4\n")
    count("helm.sh/helm/v3/pkg/action\n")
    assert count("# a note of the linker\n") == "1 modules downloaded, 1 packages compiled"
