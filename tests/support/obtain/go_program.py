"""A program that Go builds once, for tests: in the cache, unless an environment variable names an existing one."""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from tests.support.obtain.cache import ObtainError, cache_root, obtained
from tests.support.obtain.go_build import build
from tests.support.obtain.go_module import GoModule

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
    make_source: Callable[[Path], None] | None = None
    """Makes the folder in which Go runs, at that path, if the folder exists during the build only."""

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
        source = self.source
        if self.make_source is not None:
            source = fresh.with_name("source")
            self.make_source(source)
        build(
            self.target,
            self.what,
            self.command(fresh),
            without_go=f"install it, or let {self.variable} name the program",
            cwd=source,
            env={"GOBIN": str(fresh.parent)},
        )


@dataclass(frozen=True, slots=True)
class Edit:
    """Replaces one text in one file of published sources."""

    file: str
    old: str
    new: str

    def apply(self, source: Path) -> None:
        """Edit the file in the folder `source`. Raises ObtainError unless the file has the old text exactly once."""
        path = source / self.file
        text = path.read_text(encoding="utf-8")
        if text.count(self.old) != 1:
            raise ObtainError(f"{path} has `{self.old}` {text.count(self.old)} times, and once was expected")
        path.write_text(text.replace(self.old, self.new), encoding="utf-8")


def of_folder(source: Path, name: str, what: str, *, target: str, variable: str, cached_as: str) -> GoProgram:
    """A program built from the Go sources of one folder; `name` is that of its file."""
    cached = Path(f"{cached_as}-{_digest(source)}", name)
    return GoProgram(what, target, variable, cached, lambda at: ("build", *_FLAGS, "-o", str(at), "."), source)


def of_tests(source: Path, package: str, name: str, what: str, *, target: str, variable: str) -> GoProgram:
    """The tests of a published package as a program; go.mod and go.sum of the folder `source` pin its module."""
    cached = Path(f"{name}-{_digest(source)}", name)
    command = ("test", "-c", *_FLAGS)
    return GoProgram(what, target, variable, cached, lambda at: (*command, "-o", str(at), package), source)


def of_edited_tests(
    module: GoModule, tag: str, edit: Edit, name: str, what: str, *, target: str, variable: str
) -> GoProgram:
    """The tests of a published module that have this build tag, as a program; its sources are edited before the build.

    The module's own go.mod and go.sum pin all that the tests need.
    """

    def make_source(at: Path) -> None:
        module.copy(at, target=target)
        edit.apply(at)

    digest = sha256("\0".join((module.sum, edit.file, edit.old, edit.new)).encode()).hexdigest()[:12]
    cached = Path(f"{name}-{digest}", name)
    command = ("test", "-c", *_FLAGS, "-tags", tag)
    return GoProgram(what, target, variable, cached, lambda at: (*command, "-o", str(at), "."), make_source=make_source)


def of_module(
    module: str, version: str, what: str, *, target: str, variable: str, cached_as: str | None = None
) -> GoProgram:
    """A program built from a published module; its file has the name of the last part."""
    name = module.rpartition("/")[2]
    cached = Path(f"{cached_as or name}-{version}", name)
    return GoProgram(what, target, variable, cached, lambda _: ("install", *_FLAGS, f"{module}@{version}"))


def _digest(source: Path) -> str:
    """The start of a digest of the Go sources of a folder and of the modules that they pin."""
    content = b"".join(path.read_bytes() for path in sorted(source.iterdir()) if path.suffix in (".go", ".mod", ".sum"))
    return sha256(content).hexdigest()[:12]
