"""Reads constraints.txt: the version of each Python package, and the SHA-256 sums of its files, which pip checks.

The comments `# via` name the packages that need a package. So the packages of an environment follow from its
requirements, and pip installs them without resolving anything. Imports the standard library only, because environments
are made with it.
"""

import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
PINS = ROOT / "constraints.txt"
BUILDERS = ("setuptools", "wheel")
"""The packages that build packages published without a wheel."""

_PIN = re.compile(r"(?P<name>[A-Za-z0-9._-]+)==(?P<version>[^\s;\\]+)(?:\s*;\s*(?P<marker>[^\\]+?))?\s*\\?")
_HASH = re.compile(r"    --hash=sha256:(?P<sum>[0-9a-f]{64})(?: \\)?")
_VIA = re.compile(r"    #(?: via)?(?:\s+(?P<by>\S.*))?")
_REQUIREMENT_NAME = re.compile(r"[A-Za-z0-9._-]+")


class PinsError(Exception):
    """Error for pins of packages that cannot be read, or that lack a package. The message says what to do."""


@dataclass(frozen=True, slots=True)
class Pin:
    """A pinned package. `marker` limits it to some platforms; `needed_by` are normalized names of other packages."""

    name: str
    version: str
    marker: str
    sums: tuple[str, ...]
    needed_by: frozenset[str]

    def requirement(self) -> str:
        """Return the package as a line of a requirements file, with its sums."""
        condition = f" ; {self.marker}" if self.marker else ""
        return f"{self.name}=={self.version}{condition}" + "".join(f" --hash=sha256:{each}" for each in self.sums)


def normalized(name: str) -> str:
    """Return the name in the form in which indexes compare names."""
    return re.sub(r"[-_.]+", "-", name).lower()


def parse(text: str) -> dict[str, Pin]:
    """Parse a file of pinned packages, by normalized name. Raises PinsError."""
    found: dict[str, Pin] = {}
    for number, block in _blocks(text):
        pin = _pin(number, block)
        name = normalized(pin.name)
        if name in found:
            raise PinsError(f"constraints.txt has {pin.name} twice; {_RENEW}")
        found[name] = pin
    return found


_RENEW = "renew the file by `make pins`"


def _blocks(text: str) -> Iterable[tuple[int, list[str]]]:
    """Yield the lines of each package with the number of the first. Comments of the file's own are left out."""
    lines = [(number, line) for number, line in enumerate(text.splitlines(), 1) if line and not line.startswith("#")]
    starts = [at for at, (_, line) in enumerate(lines) if not line.startswith(" ")]
    for begin, end in zip(starts, [*starts[1:], len(lines)], strict=True):
        yield lines[begin][0], [line for _, line in lines[begin:end]]


def _pin(number: int, block: Sequence[str]) -> Pin:
    first = _PIN.fullmatch(block[0])
    if first is None:
        raise PinsError(f"constraints.txt line {number} has no NAME==VERSION; {_RENEW}")
    sums: list[str] = []
    needed_by: set[str] = set()
    for line in block[1:]:
        if found := _HASH.fullmatch(line):
            sums.append(found["sum"])
        elif found := _VIA.fullmatch(line):
            if found["by"] and (by := _REQUIREMENT_NAME.fullmatch(found["by"])):
                needed_by.add(normalized(by[0]))
        else:
            raise PinsError(f"constraints.txt: {first['name']} has a line that is neither a hash nor `# via`; {_RENEW}")
    if not sums:
        raise PinsError(f"constraints.txt: {first['name']} has no --hash=sha256:...; {_RENEW}")
    return Pin(first["name"], first["version"], first["marker"] or "", tuple(sums), frozenset(needed_by))


def needed(pins: Mapping[str, Pin], requirements: Iterable[str]) -> list[Pin]:
    """Return the pins of `requirements` and of everything that they need, by name. Raises PinsError."""
    names = {name for each in requirements for name in (required_name(each),)}
    lacking = sorted(names - pins.keys())
    if lacking:
        raise PinsError(f"constraints.txt lacks {', '.join(lacking)}; {_RENEW}")
    waiting = list(names)
    while waiting:
        by = waiting.pop()
        more = {name for name, pin in pins.items() if by in pin.needed_by} - names
        names |= more
        waiting += more
    return [pins[name] for name in sorted(names)]


def required_name(requirement: str) -> str:
    """Return the normalized name of the package in a requirement such as `pyjwt[crypto]>=2`."""
    name = _REQUIREMENT_NAME.match(requirement)
    if name is None:
        raise PinsError(f"{requirement!r} in pyproject.toml does not begin with a package's name")
    return normalized(name[0])


def of_extras(project: Mapping[str, Any], extras: Iterable[str]) -> list[str]:
    """Return the requirements of `extras` in pyproject.toml's [project], with this project's own extras resolved."""
    name, wanted, found, seen = project["name"], list(extras), set(project["dependencies"]), set()
    while wanted:
        extra = wanted.pop()
        if extra in seen:
            continue
        seen.add(extra)
        for requirement in project["optional-dependencies"][extra]:
            if requirement.startswith(f"{name}["):
                wanted += [inner.strip() for inner in requirement[len(name) + 1 : -1].split(",")]
            else:
                found.add(requirement)
    return sorted(found)


def builders(pyproject: Mapping[str, Any]) -> list[str]:
    """Return the packages that are needed to build this project and packages that have no wheel."""
    return [*pyproject["build-system"]["requires"], *BUILDERS]


def read_pyproject(root: Path = ROOT) -> dict[str, Any]:
    return tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
