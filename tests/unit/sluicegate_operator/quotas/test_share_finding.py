"""The condition ShareGranted: whether each broker has a share from the controller."""

from sluicegate_operator.api.models.parts.broker_shares import BrokerShare, BrokerShares, ShareState
from sluicegate_operator.quotas.share_finding import share_findings


def of_states(*states: ShareState) -> BrokerShares:
    return BrokerShares(brokers=[BrokerShare(broker_id=number, state=state) for number, state in enumerate(states)])


def test_there_is_no_condition_before_brokers_were_asked() -> None:
    assert share_findings(None) == ()
    assert share_findings(BrokerShares()) == ()


def test_it_is_true_if_every_broker_has_a_share_from_the_controller() -> None:
    (found,) = share_findings(of_states(ShareState.GRANTED, ShareState.GRANTED))
    assert (found.is_true, found.reason, found.message) == (
        True,
        "Granted",
        "each of 2 brokers has a share of the rate",
    )


def test_the_reason_is_the_gravest_and_the_message_names_all_brokers() -> None:
    states = (ShareState.GRANTED, ShareState.RESERVE, ShareState.NOT_REPORTED, ShareState.RESERVE)
    (found,) = share_findings(of_states(*states))
    assert (found.type, found.is_true, found.reason) == ("ShareGranted", False, "NotReported")
    assert found.message.startswith("these brokers report no share: 2 (they do not answer")
    assert "; these brokers are on their reserve: 1, 3 (the controller does not answer" in found.message


def test_each_state_has_its_reason() -> None:
    for state, reason in (
        (ShareState.RESERVE, "OnReserve"),
        (ShareState.WAITING, "WaitingForController"),
        (ShareState.EQUAL, "EqualParts"),
        (ShareState.NOT_REPORTED, "NotReported"),
    ):
        (found,) = share_findings(of_states(ShareState.GRANTED, state))
        assert (found.is_true, found.reason) == (False, reason)


def test_a_message_about_many_brokers_is_bounded() -> None:
    (found,) = share_findings(of_states(*[ShareState.RESERVE] * 40))
    assert ": 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, ... (" in found.message
