"""Judge the installation of this command: release, Python, extras, limit of open files. Pure."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from sluicegate_operator.cli.doctor.checks.catalogue import EXTRAS, OPEN_FILES, PYTHON, VERSION
from sluicegate_operator.cli.doctor.checks.results import CheckResult, listed

NOT_FOR_USERS = ("dev", "docs", "pins")
"""Extras for work on the package itself."""
NEEDED_BY = {
    "broker": "`sluicegate broker` and `up`",
    "landing": "`sluicegate audit`",
    "audit": "`sluicegate audit build` on Spark",
    "consumer": "the consumer for Python",
    "kubernetes": "commands that ask a Kubernetes cluster",
    "operator": "the operator",
    "top": "the console of `sluicegate top`",
}
"""The commands that need an extra, by its name."""
FILES_PER_REPLICA, FILES_KEPT_MIN, FILES_KEPT_PART = 3, 256, 4
"""The broker's rule for `sluicegate.broker.replicas.max`, in broker_runtime/node/process/open_files.py."""
REPLICAS_WARNING, REPLICAS_PROBLEM = 1000, 100
_REQUIREMENT = re.compile(r"""([A-Za-z0-9._-]+)[^;]*; *extra == ['"]([a-z-]+)['"] *""")


@dataclass(frozen=True, slots=True)
class Installation:
    """The installation of this command, as its own process sees it.

    - `release`: None if the package is not installed.
    - `python_wanted`: the requirement of the package, for example >=3.11; empty if unknown.
    - `missing`: the packages that are not installed, by extra. An extra without missing packages has an empty tuple.
    - `open_files`: the hard limit; None without a limit.
    """

    release: str | None
    python: tuple[int, int]
    python_wanted: str
    missing: Mapping[str, tuple[str, ...]]
    open_files: int | None


def packages_of_extras(requirements: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Return the packages of each extra, from lines of the form `NAME; extra == 'EXTRA'`.

    Lines with another condition are left out: their packages depend on the platform.
    """
    found: dict[str, list[str]] = {}
    for line in requirements:
        if match := _REQUIREMENT.fullmatch(line):
            found.setdefault(match[2], []).append(match[1])
    return {extra: tuple(names) for extra, names in found.items() if extra not in NOT_FOR_USERS}


def installation_results(found: Installation, *, runs_brokers: bool) -> Iterator[CheckResult]:
    """Yield the results that every call has. `runs_brokers`: brokers of `sluicegate up` run on this machine."""
    if found.release is None:
        yield VERSION.warning("the package sluicegate is not installed: the release of this command is unknown")
    else:
        yield VERSION.ok(f"sluicegate {found.release}")
    yield _python(found)
    if found.missing:
        yield _extras(found, runs_brokers=runs_brokers)
    yield _open_files(found.open_files, runs_brokers=runs_brokers)


def _python(found: Installation) -> CheckResult:
    version = ".".join(map(str, found.python))
    wanted = re.fullmatch(r">=(\d+)\.(\d+)", found.python_wanted)
    if wanted is not None and found.python < (int(wanted[1]), int(wanted[2])):
        return PYTHON.problem(f"Python {version}, and this release requires {found.python_wanted}")
    return PYTHON.ok(f"Python {version}")


def _extras(found: Installation, *, runs_brokers: bool) -> CheckResult:
    whole = sorted(extra for extra, missing in found.missing.items() if not missing)
    partial = sorted((extra, missing) for extra, missing in found.missing.items() if missing)
    sentence = f"installed: {', '.join(whole) or 'none'}"
    for extra, missing in partial:
        use = f" for {NEEDED_BY[extra]}" if extra in NEEDED_BY else ""
        sentence += f"; not installed: {extra}{use} ({listed(missing)})"
    if runs_brokers and found.missing.get("broker"):
        return EXTRAS.warning(sentence)
    return EXTRAS.ok(sentence)


def _open_files(limit: int | None, *, runs_brokers: bool) -> CheckResult:
    if limit is None:
        return OPEN_FILES.ok("no limit")
    replicas = max((limit - max(FILES_KEPT_MIN, limit // FILES_KEPT_PART)) // FILES_PER_REPLICA, 1)
    sentence = f"the hard limit is {limit:,}, with which a broker may have {replicas:,} replicas"
    if not runs_brokers:
        return OPEN_FILES.ok(f"the hard limit is {limit:,}; brokers in Kubernetes have those of their nodes")
    if replicas < REPLICAS_PROBLEM:
        return OPEN_FILES.problem(sentence)
    return OPEN_FILES.warning(sentence) if replicas < REPLICAS_WARNING else OPEN_FILES.ok(sentence)
