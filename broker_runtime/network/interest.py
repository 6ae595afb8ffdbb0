"""What the socket of a connection is watched for: the poller is told when that changes, and only then. Shell."""

from broker_runtime.network.poller import Pollable, Poller
from broker_runtime.network.transport import Transport


class Interest:
    """`read` and `write` are what the connection waits for; `transport` says what its socket has to be ready for then.

    `tell` brings a change of them to the poller; before `begin` and after `end` that does nothing.
    """

    __slots__ = ("_poller", "_told", "_transport", "read", "write")

    def __init__(self, transport: Transport, poller: Poller) -> None:
        self.read = True
        self.write = False
        self._transport = transport
        self._poller = poller
        self._told: tuple[bool, bool] | None = None
        """Reading and writing; None while the poller does not know the connection."""

    def begin(self, connection: Pollable) -> None:
        self._poller.watch(self._transport.fileno(), connection)
        self._told = (True, False)
        self.tell()

    def tell(self) -> None:
        if self._told is not None:
            wanted = self._transport.waits_for(read=self.read, write=self.write)
            if wanted != self._told:
                self._told = wanted
                self._poller.change(self._transport.fileno(), read=wanted[0], write=wanted[1])

    @property
    def reads_to_write(self) -> bool:
        """Whether the transport has to read before it can go on writing."""
        return self.write and self._told is not None and not self._told[1]

    def end(self) -> None:
        """To be called before the transport is closed."""
        self._told = None
        self._poller.forget(self._transport.fileno())
