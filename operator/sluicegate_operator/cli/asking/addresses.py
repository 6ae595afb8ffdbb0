"""Parses HOST:PORT as users write it. Pure."""


class AddressError(ValueError):
    """Error for a text that is not an address. The message says what to write instead."""


def parse_address(text: str, option: str) -> tuple[str, int]:
    host, separator, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not separator or not host or not port.isdigit() or not 0 < int(port) < 65536:
        raise AddressError(f"{option} {text}: write HOST:PORT with a port from 1 to 65535, such as 127.0.0.1:9094")
    return host, int(port)
