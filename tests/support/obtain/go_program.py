"""A program that Go builds once, for tests: in the cache, unless an environment variable names an existing one."""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from tests.support.obtain.cache import ObtainError, cache_root, obtained
from tests.support.obtain.go_build import build

_FLAGS = ("-trimpath", "-ldflags=-s -w")


@dataclass(frozen=True, slots=True)
class GoProgram:
    """A Go program that a set-up step builds by `obtain`; tests find it by `program` and build nothing."""

    what: str
    """The program's name in messages."""
    target: str
    """The `make` target that obtains it."""
    variable: str
    """Environment variable with the path of an existing program."""
    cached: Path
    """Path below the cache; it differs if the sources differ."""
    command: Callable[[Path], Sequence[str]]
    """Returns Go's arguments that make the program at that path, which is in GOBIN."""
    source: Path | None = None
    """Folder in which Go runs; None if Go fetches all that it builds."""

    def program(self) -> Path:
        """Path of the program. Raises ObtainError if it is missing."""
        found = self._place()
        if not found.is_file():
            raise ObtainError(f"{found} is not there: `make {self.target}` builds {self.what}")
        return found

    def obtain(self) -> Path:
        """Path of the program; build it if it is missing. Raises ObtainError."""
        if os.environ.get(self.variable):
            return self.program()
        return obtained(self._place(), Path.is_file, self._build)

    def _place(self) -> Path:
        return Path(os.environ.get(self.variable) or cache_root() / self.cached)

    def _build(self, fresh: Path) -> None:
        build(
            self.target,
            self.what,
            self.command(fresh),
            without_go=f"install it, or let {self.variable} name the program",
            cwd=self.source,
            env={"GOBIN": str(fresh.parent)},
        )


def of_folder(source: Path, name: str, what: str, *, target: str, variable: str, cached_as: str) -> GoProgram:
    """A program built from the Go sources of one folder; `name` is that of its file."""
    cached = Path(f"{cached_as}-{_digest(source)}", name)
    return GoProgram(what, target, variable, cached, lambda at: ("build", *_FLAGS, "-o", str(at), "."), source)


def of_tests(source: Path, package: str, name: str, what: str, *, target: str, variable: str) -> GoProgram:
    """The tests of a published package as a program; go.mod and go.sum of the folder `source` pin its module."""
    cached = Path(f"{name}-{_digest(source)}", name)
    command = ("test", "-c", *_FLAGS)
    return GoProgram(what, target, variable, cached, lambda at: (*command, "-o", str(at), package), source)


def of_module(module: str, version: str, what: str, *, target: str, variable: str) -> GoProgram:
    """A program built from a published module; its file has the name of the last part."""
    name = module.rpartition("/")[2]
    cached = Path(f"{name}-{version}", name)
    return GoProgram(what, target, variable, cached, lambda _: ("install", *_FLAGS, f"{module}@{version}"))


def _digest(source: Path) -> str:
    """The start of a digest of the Go sources of a folder and of the modules that they pin."""
    content = b"".join(path.read_bytes() for path in sorted(source.iterdir()) if path.suffix in (".go", ".mod", ".sum"))
    return sha256(content).hexdigest()[:12]
