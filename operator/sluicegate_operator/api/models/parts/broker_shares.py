"""The shares of brokers in a rate of the cluster, as the status of a ConnectionQuota has them."""

from datetime import datetime
from enum import StrEnum

from pydantic import Field

from sluicegate_operator.api.schema.rules import Model

SHARES_MAX = 100


class ShareState(StrEnum):
    """The state of a broker's share. Brokers report all states but NotReported."""

    GRANTED = "Granted"
    RESERVE = "Reserve"
    WAITING = "Waiting"
    EQUAL = "Equal"
    NOT_REPORTED = "NotReported"


class BrokerShare(Model):
    """The share of one broker."""

    broker_id: int
    """ID of the broker."""
    share: float | None = None
    """New connections per second that the broker may admit; absent if the broker reports no share."""
    demand: float | None = None
    """New connections per second that clients attempt at the broker, with those that wait."""
    state: str = Field(default="", max_length=32)
    """Granted: the share is from the controller. Reserve: the controller has not answered for some seconds. Waiting: it
    has not answered yet, and the share is 0. Equal: its release divides no rates, so the share is an equal part.
    NotReported: the broker does not answer, or its release has no shares."""
    since: datetime | None = None
    """Time when the operator first saw the broker in this state."""


class BrokerShares(Model):
    """The shares of the brokers in the rate of the cluster.

    They are written again when a value has changed by a factor of 1.5, or a state has changed.
    """

    summary: str = Field(default="", max_length=64)
    """The lowest and the highest share of these brokers: 20 to 180/s."""
    brokers: list[BrokerShare] = Field(default=[], max_length=SHARES_MAX)
    """The shares by broker; of a large cluster, those of the first 100 by ID."""
