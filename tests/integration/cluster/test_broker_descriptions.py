"""The operator's queries for BrokerRegistration, to a real broker and to one that is down."""

import asyncio

import pytest

from sluicegate_operator.fleet.base import BrokerAddress
from sluicegate_operator.fleet.kafka.descriptions import ask_descriptions
from sluicegate_operator.kafka_admin.errors import AdminConnectionError
from tests.support.processes.broker_process import BrokerProcess


def test_any_broker_that_answers_tells_of_all() -> None:
    with BrokerProcess(properties={"tag.team": "payments"}) as broker:
        host, _, port = broker.bootstrap.rpartition(":")
        up = BrokerAddress(1, host, int(port), up=True)
        # No process listens on port 1.
        away = BrokerAddress(0, host, 1, up=False)
        [told] = asyncio.run(ask_descriptions([away, up])).values()
        assert told.tags == {"team": "payments"}, "without what every broker says"
        assert (told.version or "").endswith("-sluicegate")
        assert 1 <= (told.protocol_version_min or 0) < (told.protocol_version_max or 0)
        with pytest.raises(AdminConnectionError):
            asyncio.run(ask_descriptions([away]))
