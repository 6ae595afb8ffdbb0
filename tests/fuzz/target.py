"""A fuzz target: one reader of foreign bytes, and the inputs that have been interesting so far.

`Target.run` gets any bytes. It returns if the reader accepts them, or refuses them with an error that its docstring
names. Any other exception is a fault. So is a wrong result, for which the target has assertions.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path

CORPUS = Path(__file__).with_name("corpus")
_COMMENT = "#"
Run = Callable[[bytes], None]


@dataclass(frozen=True, slots=True)
class Target:
    """A function to fuzz.

    `seeds` are valid inputs, made by the code that writes them. No input has more than `bytes_max` bytes.
    """

    name: str
    run: Run
    seeds: Callable[[], Iterable[bytes]]
    bytes_max: int = 4_096

    def opened(self) -> AbstractContextManager[Run]:
        """Return a context in which inputs may be run."""
        return nullcontext(self.run)


@dataclass(frozen=True, slots=True)
class LivingTarget:
    """A target whose reader lives on between inputs, and is begun and ended by `opened`."""

    name: str
    opened: Callable[[], AbstractContextManager[Run]]
    seeds: Callable[[], Iterable[bytes]]
    bytes_max: int = 4_096


AnyTarget = Target | LivingTarget


def corpus_file(name: str) -> Path:
    """Return the file with the kept inputs of a target: one in hexadecimal digits a line, and lines of comment."""
    return CORPUS / f"{name}.hex"


def kept(name: str) -> Iterator[bytes]:
    """Yield the kept inputs of a target."""
    file = corpus_file(name)
    if file.exists():
        for line in file.read_text().splitlines():
            if line and not line.startswith(_COMMENT):
                yield bytes.fromhex(line)


def inputs_of(target: AnyTarget) -> Sequence[bytes]:
    """Return the seeds and the kept inputs of a target."""
    return [*target.seeds(), *kept(target.name)]


class Cut:
    """Cuts an input into the arguments of a reader. An input that is too short yields zeros."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def number(self, below: int) -> int:
        """Return a number from one byte."""
        self._at += 1
        return self._data[self._at - 1] % below if self._at <= len(self._data) else 0

    def rest(self) -> bytes:
        return self._data[self._at :]

    def parts(self) -> Iterator[bytes]:
        """Yield the rest in parts, whose lengths are in the bytes before them."""
        while self._at < len(self._data):
            size = self._data[self._at]
            yield self._data[self._at + 1 : self._at + 1 + size]
            self._at += 1 + size


def text_of(data: bytes) -> str:
    """Return the text of a file, with replacement characters for what is not UTF-8."""
    return data.decode("utf-8", "replace")
