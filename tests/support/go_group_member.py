"""A member of a group with a Go client, franz-go: `python -m tests.support.go_group_member` has it built, once.

The program is the one that SLUICEGATE_GO_GROUP_MEMBER names, else in the cache, where Go builds it of group_member_go/
and of the modules that its go.sum pins. Tests only look for it: what is built is built before them.
"""

import os
import shutil
import subprocess
import sys
from hashlib import sha256
from pathlib import Path

from tests.support.cache import ObtainError, cache_root, main, obtained, show

SOURCE = Path(__file__).with_name("group_member_go")
PROGRAM_VARIABLE = "SLUICEGATE_GO_GROUP_MEMBER"
_BUILD_TIMEOUT_S = 900


def program() -> Path:
    """Raises ObtainError when it is not there."""
    found = _place()
    if not found.is_file():
        raise ObtainError(f"{found} is not there: `make go-client` builds it")
    return found


def obtain() -> Path:
    """The program, built when it is not there yet. Raises ObtainError."""
    if os.environ.get(PROGRAM_VARIABLE):
        return program()
    return obtained(_place(), Path.is_file, _build)


def _place() -> Path:
    given = os.environ.get(PROGRAM_VARIABLE)
    if given:
        return Path(given)
    content = b"".join(path.read_bytes() for path in sorted(SOURCE.iterdir()) if path.is_file())
    return cache_root() / f"go-group-member-{sha256(content).hexdigest()[:12]}" / "group-member"


def _build(fresh: Path) -> None:
    go = shutil.which("go")
    if go is None:
        raise ObtainError(
            f"the Go client is not in {_place()} and Go is not installed to build it; install Go, or let "
            f"{PROGRAM_VARIABLE} name the program"
        )
    show("go-client", "building a group member with franz-go ...")
    fresh.parent.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(
        [go, "build", "-trimpath", "-ldflags=-s -w", "-o", str(fresh), "."],
        cwd=SOURCE,
        env={**os.environ, "CGO_ENABLED": "0"},
        capture_output=True,
        text=True,
        timeout=_BUILD_TIMEOUT_S,
        check=False,
    )
    if done.returncode != 0:
        raise ObtainError(f"Go could not build the group member: {done.stderr[-800:]}")


if __name__ == "__main__":
    sys.exit(main(obtain))
