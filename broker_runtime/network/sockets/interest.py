"""Readiness that a connection waits for; the poller is called only when it changes. Shell."""

from broker_runtime.network.sockets.poller import Pollable, Poller
from broker_runtime.network.sockets.transport import Transport


class Interest:
    """The events that a connection waits for at its socket, for the poller.

    `read` and `write` are what the connection waits for; `transport` translates them into readiness of its socket.
    `update` sends a change to the poller. Before `begin` and after `end` it does nothing.
    """

    __slots__ = ("_poller", "_registered", "_transport", "read", "write")

    def __init__(self, transport: Transport, poller: Poller) -> None:
        self.read = True
        self.write = False
        self._transport = transport
        self._poller = poller
        self._registered: tuple[bool, bool] | None = None
        """Last (read, write) sent to the poller; None while the connection is not registered there."""

    def begin(self, connection: Pollable) -> None:
        self._poller.watch(self._transport.fileno(), connection)
        self._registered = (True, False)
        self.update()

    def update(self) -> None:
        if self._registered is not None:
            wanted = self._transport.waits_for(read=self.read, write=self.write)
            if wanted != self._registered:
                self._registered = wanted
                self._poller.change(self._transport.fileno(), read=wanted[0], write=wanted[1])

    def pause_reading(self) -> None:
        self.read = False
        self.update()

    def resume_reading(self) -> None:
        self.read = True
        self.update()

    @property
    def reads_to_write(self) -> bool:
        """Return whether the transport has to read before it can continue writing."""
        return self.write and self._registered is not None and not self._registered[1]

    def end(self) -> None:
        """Unregister the connection from the poller. Must be called before the transport is closed."""
        self._registered = None
        self._poller.forget(self._transport.fileno())
