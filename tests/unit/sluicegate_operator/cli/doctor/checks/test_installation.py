"""Release, Python, extras and open files of the command's own installation."""

from dataclasses import replace

import pytest

from broker_runtime.node.process.open_files import replicas_for
from sluicegate_operator.cli.doctor.checks.installation import (
    Installation,
    installation_results,
    packages_of_extras,
)
from sluicegate_operator.cli.doctor.checks.results import Outcome

WHOLE = Installation("0.2.0", (3, 12), ">=3.11", {"broker": (), "operator": (), "audit": ("pyspark",)}, 65_536)


def outcomes(found: Installation, *, runs_brokers: bool = True) -> dict[str, tuple[Outcome, str]]:
    results = installation_results(found, runs_brokers=runs_brokers)
    return {one.check.name: (one.outcome, one.sentence) for one in results}


def test_a_whole_installation_is_fine() -> None:
    assert outcomes(WHOLE) == {
        "version": (Outcome.OK, "sluicegate 0.2.0"),
        "python": (Outcome.OK, "Python 3.12"),
        "extras": (
            Outcome.OK,
            "installed: broker, operator; not installed: audit for `sluicegate audit build` on Spark (pyspark)",
        ),
        "open files": (Outcome.OK, "the hard limit is 65,536, with which a broker may have 16,384 replicas"),
    }


@pytest.mark.parametrize(
    ("found", "check", "outcome"),
    [
        (replace(WHOLE, release=None), "version", Outcome.WARNING),
        (replace(WHOLE, python=(3, 10)), "python", Outcome.PROBLEM),
        (replace(WHOLE, python_wanted=""), "python", Outcome.OK),
        (replace(WHOLE, missing={"broker": ("uvloop",)}), "extras", Outcome.WARNING),
        (replace(WHOLE, open_files=None), "open files", Outcome.OK),
        (replace(WHOLE, open_files=4096), "open files", Outcome.OK),
        (replace(WHOLE, open_files=1024), "open files", Outcome.WARNING),
        (replace(WHOLE, open_files=256), "open files", Outcome.PROBLEM),
    ],
)
def test_what_is_missing_is_reported(found: Installation, check: str, outcome: Outcome) -> None:
    assert outcomes(found)[check][0] is outcome


def test_brokers_in_kubernetes_need_nothing_of_this_machine() -> None:
    found = replace(WHOLE, missing={"broker": ("uvloop",)})
    assert outcomes(found, runs_brokers=False)["extras"][0] is Outcome.OK
    few = outcomes(replace(WHOLE, open_files=256), runs_brokers=False)["open files"]
    assert few == (Outcome.OK, "the hard limit is 256; brokers in Kubernetes have those of their nodes")


def test_a_package_without_metadata_has_no_extras() -> None:
    assert "extras" not in outcomes(replace(WHOLE, missing={}))


@pytest.mark.parametrize("limit", [256, 1024, 4096, 65_536, 1_000_000])
def test_the_number_of_replicas_is_that_of_the_broker(limit: int) -> None:
    words = outcomes(replace(WHOLE, open_files=limit))["open files"][1]
    assert words.endswith(f"a broker may have {replicas_for(limit):,} replicas")


def test_the_extras_are_read_from_requirements() -> None:
    lines = [
        "uvloop; extra == 'broker'",
        "pyjwt[crypto]; extra == 'broker'",
        "kopf==1.45.2; extra == 'operator'",
        "atheris==3.0.0; (sys_platform == 'linux' and python_version < '3.14') and extra == 'audit'",
        "mypy; extra == 'dev'",
        "packaging",
    ]
    assert packages_of_extras(lines) == {"broker": ("uvloop", "pyjwt"), "operator": ("kopf",)}
