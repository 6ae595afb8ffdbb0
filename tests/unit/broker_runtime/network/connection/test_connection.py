"""The end of a connection: once, and with everything that belongs to it."""

from tests.support.fakes.memory_transport import MemoryTransport
from tests.support.oracles.circles import no_circles
from tests.unit.broker_runtime.network.connection.test_channel import Served


def test_a_connection_that_is_closed_tells_once() -> None:
    served = Served(MemoryTransport())
    told: list[str] = []
    served.connection.closed.add(lambda: told.append("ended"))
    served.connection.close()
    served.connection.close()
    served.connection.closed.add(lambda: told.append("late"))
    assert told == ["ended", "late"]
    assert served.ended == 1


def test_a_connection_that_has_ended_is_no_reference_cycle_with_its_channel() -> None:
    served = Served(MemoryTransport())
    shared = served.channel.shared
    with no_circles():
        served.connection.close()
        del served.channel, served.connection
    assert shared.host is served
