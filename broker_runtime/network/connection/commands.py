"""What a connection's shell does next. Pure.

Every event that the shell reports to `ConnectionMachine` returns one command. The shell executes it and decides
nothing. After HANDLE, SEND and AWAIT, the machine returns the next command at once: a request that arrives alone takes
HANDLE, SEND and READ. After every other command, the connection waits for an event. A command is a number and not an
object, because a broker executes three of them for each request.
"""

from enum import IntEnum, unique


@unique
class Command(IntEnum):
    """An instruction of the machine to its shell, `channel.Channel`.

    Names in backquotes are members of the machine.
    """

    HANDLE = 0
    """Pass `request` to its handler; then call `answered`, or `refused` if the handler raised a ProtocolError."""
    SEND = 1
    """Offer `outgoing` to the socket; then call `sent`. If `blocked`, wait for the socket to take more."""
    AWAIT = 2
    """Call `go_on`, and `collect` once the first of the `owed` replies exists."""
    READ = 3
    """Receive bytes when the socket has some."""
    PAUSE = 4
    """Do not receive bytes until the next READ or RECEIVE."""
    WAIT = 5
    """Do nothing: an event will come."""
    QUEUE = 6
    """Queue the connection for a time slice, and call `begin_slice` in it."""
    WAKE = 7
    """Ask for a time slice at `throttled_until_s`."""
    COLLECT = 8
    """Call `collect` in the next iteration of the event loop."""
    RECEIVE = 9
    """Receive bytes now."""
    REFUSE = 10
    """End the connection because of `problem`."""
    END_OF_STREAM = 11
    """End the connection: the client has closed its side. `problem` says whether within a request."""
    CLOSE = 12
    """Close the connection: its last reply is sent, or a reply cannot be given."""
