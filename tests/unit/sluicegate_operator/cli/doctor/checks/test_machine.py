"""The data folder of `sluicegate up` and its disk."""

from dataclasses import replace
from typing import Any

import pytest

from sluicegate_operator.cli.doctor.checks.machine import FolderSeen, folder_results, up_results
from sluicegate_operator.cli.doctor.checks.results import Outcome, Unread
from sluicegate_operator.cli.doctor.checks.space import DiskSpace, claims_space, space_results

GIB = 1 << 30
SEEN = FolderSeen("/data", exists=True, refusal="", space=DiskSpace("disk of /data", 50 * GIB, 100 * GIB))


def outcomes(folder: FolderSeen) -> list[tuple[str, Outcome, str]]:
    return [(one.check.name, one.outcome, one.sentence) for one in folder_results(folder)]


def test_a_folder_that_can_be_written_and_has_space() -> None:
    assert outcomes(SEEN) == [
        ("data folder", Outcome.OK, "/data can be written"),
        ("free space", Outcome.OK, "disk of /data: 50.0 GiB of 100.0 GiB are free (50%)"),
    ]


def test_a_folder_that_does_not_exist_yet_and_one_that_is_refused() -> None:
    [first, _] = outcomes(replace(SEEN, exists=False))
    assert first[1:] == (Outcome.OK, "/data does not exist yet, and can be created")
    [first, second] = outcomes(replace(SEEN, refusal="this user may not write into /", space=Unread("denied")))
    assert first[1:] == (Outcome.PROBLEM, "/data: this user may not write into /")
    assert second[1] is Outcome.SKIPPED


@pytest.mark.parametrize(
    ("free", "total", "outcome"),
    [
        (11.0, 100.0, Outcome.OK),
        (9.9, 100.0, Outcome.WARNING),
        (4.9, 100.0, Outcome.PROBLEM),
        (0.9, 2.0, Outcome.PROBLEM),
        (1.1, 2.0, Outcome.OK),
        (0.0, 0.0, Outcome.PROBLEM),
    ],
)
def test_little_free_space(free: float, total: float, outcome: Outcome) -> None:
    [one] = space_results([DiskSpace("a disk", int(free * GIB), int(total * GIB))])
    assert one.outcome is outcome


def test_the_fullest_of_several_good_disks_is_named() -> None:
    disks = [DiskSpace(f"volume {part}", part * GIB, 100 * GIB) for part in (60, 20, 3)]
    assert [(one.outcome, one.sentence) for one in space_results(disks)] == [
        (Outcome.PROBLEM, "volume 3: 3.0 GiB of 100.0 GiB are free (3%)"),
        (Outcome.OK, "volume 20: 20.0 GiB of 100.0 GiB are free (20%), the least of 2 volumes"),
    ]


def test_the_statistics_of_kubelets_have_the_space_of_claims() -> None:
    def volume(name: str, namespace: str = "kafka", **sizes: int) -> dict[str, object]:
        return {"pvcRef": {"name": name, "namespace": namespace}, **sizes}

    sizes: dict[str, Any] = {"availableBytes": 3, "capacityBytes": 8}
    summary = {
        "pods": [
            {"volume": [{"name": "tmp", **sizes}, volume("data-0", **sizes), volume("others", **sizes)]},
            {"volume": [volume("data-1", "other", **sizes), volume("data-2")]},
            {},
        ]
    }
    found = claims_space([summary, Unread("no")], "kafka", {"data-0", "data-1", "data-2"})
    assert found == [DiskSpace("volume data-0", 3, 8)]


def test_up_that_does_not_run_is_no_problem_and_an_unreadable_state_is() -> None:
    assert [one.outcome for one in up_results(["shop"])] == [Outcome.OK]
    assert [one.outcome for one in up_results(Unread("no up runs"))] == [Outcome.SKIPPED]
    assert [one.outcome for one in up_results(Unread("state.json"), is_damaged=True)] == [Outcome.PROBLEM]
