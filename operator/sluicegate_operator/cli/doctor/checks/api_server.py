"""Judge the version of the API server, and its clock beside that of this machine. Pure."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Any

from sluicegate_operator.api.crd import KUBERNETES_MIN
from sluicegate_operator.cli.doctor.checks.catalogue import API_SERVER, CLOCK
from sluicegate_operator.cli.doctor.checks.results import CheckResult

APART_WARNING_S, APART_PROBLEM_S = 2.0, 60.0
DATE_STEP_S = 1.0
"""A Date header has whole seconds."""


@dataclass(frozen=True, slots=True)
class ServerSeen:
    """The answer to GET /version: its document, its Date header, and when this machine sent and received it."""

    version: Mapping[str, Any]
    date: str
    asked: datetime
    answered: datetime


def version_result(seen: ServerSeen) -> CheckResult:
    found = seen.version.get("gitVersion") or "an unknown version"
    numbers = re.match(r"v?(\d+)\.(\d+)", str(found))
    if numbers is None:
        return API_SERVER.problem(f"the answer to /version names {found}: it is not that of an API server")
    if (int(numbers[1]), int(numbers[2])) < tuple(map(int, KUBERNETES_MIN.split("."))):
        return API_SERVER.problem(
            f"it is Kubernetes {found}, and refuses the CRDs: they need {KUBERNETES_MIN} or later",
            f"upgrade Kubernetes to {KUBERNETES_MIN} or later",
        )
    return API_SERVER.ok(f"it answers, and is Kubernetes {found}")


def clock_ahead(seen: ServerSeen) -> tuple[timedelta, timedelta] | None:
    """Return by how much this machine's clock is ahead of the API server's, and the error of that figure.

    None without a Date header.
    """
    try:
        date = parsedate_to_datetime(seen.date)
    except ValueError:
        return None
    date = date if date.tzinfo is not None else date.replace(tzinfo=UTC)
    took = seen.answered - seen.asked
    step = timedelta(seconds=DATE_STEP_S)
    return seen.asked + took / 2 - (date + step / 2), took / 2 + step / 2


def clock_result(seen: ServerSeen) -> CheckResult:
    found = clock_ahead(seen)
    if found is None:
        return CLOCK.skipped("the API server's answer has no Date header, for example because a proxy removed it")
    ahead, error = found
    apart_s = max(0.0, (abs(ahead) - error).total_seconds())
    if apart_s <= APART_WARNING_S:
        return CLOCK.ok(f"the clocks differ by at most {(abs(ahead) + error).total_seconds():.1f} s")
    way = "ahead of" if ahead > timedelta() else "behind"
    sentence = f"the clock of this machine is {apart_s:.0f} s {way} the API server's"
    return CLOCK.problem(sentence) if apart_s > APART_PROBLEM_S else CLOCK.warning(sentence)


def server_time(seen: ServerSeen) -> datetime:
    """Return the API server's time when it answered; this machine's without a Date header."""
    found = clock_ahead(seen)
    return seen.answered if found is None else seen.answered - found[0]
