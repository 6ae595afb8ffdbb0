"""Users without Java get instructions, before Spark starts."""

from pathlib import Path

import pytest

from audit_pipeline.errors import BadUseError
from audit_pipeline.jobs.java import require_java


def java(folder: Path, release: str) -> Path:
    """A program that prints the version of a Java of that release."""
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{release}\" 2025-04-15' >&2\n")
    program.chmod(0o755)
    return program


def test_a_java_that_is_new_enough_is_taken_from_the_path_or_from_java_home(tmp_path: Path) -> None:
    program = java(tmp_path / "new", "17.0.15")
    require_java({"PATH": str(program.parent)})
    require_java({"JAVA_HOME": str(tmp_path / "new"), "PATH": ""})
    require_java({"PATH": str(java(tmp_path / "newer", "25").parent)})


def test_a_missing_or_old_java_is_reported_with_instructions(tmp_path: Path) -> None:
    with pytest.raises(BadUseError, match="java is not on the PATH; on Debian and Ubuntu: apt-get install"):
        require_java({"PATH": str(tmp_path)})
    with pytest.raises(BadUseError, match="which has no bin/java"):
        require_java({"JAVA_HOME": str(tmp_path), "PATH": "/usr/bin"})
    old = java(tmp_path / "old", "11.0.2")
    with pytest.raises(BadUseError, match=r"but .*java is 11\.0\.2"):
        require_java({"PATH": str(old.parent)})


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "Exec format error"),
        (b"\x7fELF of another machine", "Exec format error"),
        (b"#!/nowhere/sh\n", "No such file"),
        (b"#!/bin/sh\necho 'Error: could not find libjli.so' >&2\nexit 1\n", "could not find libjli.so"),
        (b"#!/bin/sh\nexit 127\n", "exit code 127"),
        (b"#!/bin/sh\n", "it does not report its version"),
    ],
)
def test_the_error_for_a_broken_java_has_the_reason(tmp_path: Path, content: bytes, why: str) -> None:
    program = java(tmp_path, "17")
    program.write_bytes(content)
    with pytest.raises(BadUseError, match=rf"java does not run \(.*{why}.*\); on Debian and Ubuntu: apt-get install"):
        require_java({"PATH": str(program.parent)})
