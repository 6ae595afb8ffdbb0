"""The condition ShareGranted of a ConnectionQuota with scope Cluster, from the shares of its brokers. Pure."""

from collections.abc import Iterable

from sluicegate_operator.api.models.parts.broker_shares import BrokerShares, ShareState
from sluicegate_operator.planning.status.conditions import Finding

SHARE_GRANTED = "ShareGranted"
_LISTED_MAX = 10
"""Maximum number of broker ids in a message."""
_PROBLEMS = (
    (
        ShareState.NOT_REPORTED,
        "report no share",
        "they do not answer, or their release does not know scope Cluster and gives each of them the whole rate; check"
        " that they are ready and have the operator's release",
    ),
    (
        ShareState.RESERVE,
        "are on their reserve",
        "the controller does not answer their reports; check that a controller is active and that they reach it",
    ),
    (ShareState.WAITING, "wait for their first share", "they admit no connection before the controller answers"),
    (
        ShareState.EQUAL,
        "take an equal part of the rate",
        "the release of the controller does not divide rates by demand; upgrade the controllers",
    ),
)
"""States that are not Granted, the gravest first, with the words about the brokers and the reason."""
_REASONS = {
    ShareState.NOT_REPORTED: "NotReported",
    ShareState.RESERVE: "OnReserve",
    ShareState.WAITING: "WaitingForController",
    ShareState.EQUAL: "EqualParts",
}


def share_findings(shares: BrokerShares | None) -> tuple[Finding, ...]:
    """Return the condition; none before brokers were asked for their shares."""
    if shares is None or not shares.brokers:
        return ()
    by_state = {state: [one.broker_id for one in shares.brokers if one.state == state] for state, _, _ in _PROBLEMS}
    found = [problem for problem in _PROBLEMS if by_state[problem[0]]]
    if not found:
        return (
            Finding(SHARE_GRANTED, True, "Granted", f"each of {len(shares.brokers)} brokers has a share of the rate"),
        )
    words = [f"these brokers {what}: {_listed(by_state[state])} ({why})" for state, what, why in found]
    return (Finding(SHARE_GRANTED, False, _REASONS[found[0][0]], "; ".join(words)),)


def _listed(ids: Iterable[int]) -> str:
    found = sorted(ids)
    return ", ".join(map(str, found[:_LISTED_MAX])) + (", ..." if len(found) > _LISTED_MAX else "")
