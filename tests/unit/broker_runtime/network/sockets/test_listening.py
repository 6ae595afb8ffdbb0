"""Addresses that no socket can listen on."""

import pytest

from broker_runtime.network.settings import NetworkLimits
from broker_runtime.network.sockets.listening import ListenerBindError, listening_socket


@pytest.mark.parametrize("host", ["a" * 64 + ".example", "a..b"])
def test_the_error_for_an_invalid_host_names_its_listener(host: str) -> None:
    with pytest.raises(ListenerBindError, match="listener EXTERNAL: cannot use a"):
        listening_socket("EXTERNAL", host, 9094, NetworkLimits())
