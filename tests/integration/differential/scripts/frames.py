"""ApiVersions in every version, and frames that no correct client sends."""

import struct

from tests.integration.differential.play import Play
from tests.support.processes.clients.wire_client import CLOSED, read_answer

SILENT_AFTER_S = 3.0
API_VERSIONS = 18
PRODUCE, METADATA, LEADER_AND_ISR = 0, 3, 4
GARBAGE = bytes(range(7, 250, 3))


def api_versions(on: Play) -> None:
    """Every version; `advertised_ranges` compares the ranges themselves."""
    for version in range(5):
        fields = {"client_software_name": "wire-client", "client_software_version": "1.0"} if version >= 3 else {}
        on.note(f"v{version}", _without_ranges(on.quietly("api_versions", version, **fields)))
    for name in ("", "bad name!", "-starts-with-a-dash", "ends-with-a-dot.", "fine.name-1"):
        for field in ("name", "version"):
            both = {"client_software_name": "wire-client", "client_software_version": "1.0"}
            both[f"client_software_{field}"] = name
            on.note(f"v3, software {field} {name!r}", _without_ranges(on.quietly("api_versions", 3, **both)))
    for step, tagged in {"v99": b"\x00", "v99 without the tagged fields of a flexible header": b""}.items():
        with on.open() as client:
            client.send(_frame(_header(API_VERSIONS, 99, 77) + tagged))
            frame = client.receive()
        on.note(step, CLOSED if frame is None else _without_ranges(read_answer("api_versions", 0, frame)))


def advertised_ranges(on: Play) -> None:
    """Every API by key, with its oldest and newest version."""
    answer = on.quietly("api_versions", 3, client_software_name="wire-client", client_software_version="1.0")
    on.note("ranges", [{"api_key": key, "min": low, "max": high} for key, (low, high) in _ranges(answer).items()])


def odd_frames(on: Play) -> None:
    """The fate of the connection after odd frames: an answer, an end, or nothing yet."""
    odd = {
        "negative size": struct.pack(">i", -1),
        "largest negative size": struct.pack(">i", -(2**31)),
        "size over socket.request.max.bytes": struct.pack(">i", 4_000_001) + b"x" * 100,
        "size of two gigabytes": struct.pack(">i", 2**31 - 1),
        "size zero": struct.pack(">i", 0),
        "three bytes of a header": _frame(b"\x00\x12\x00"),
        "header without client id": _frame(struct.pack(">hhi", API_VERSIONS, 0, 1)),
        "client id longer than the frame": _frame(struct.pack(">hhih", API_VERSIONS, 0, 1, 500) + b"short"),
        "client id that is no UTF-8": _frame(struct.pack(">hhih", API_VERSIONS, 0, 1, 2) + b"\xff\xfe"),
        "client id of negative length -2": _frame(struct.pack(">hhih", API_VERSIONS, 0, 1, -2)),
        "null client id": _frame(struct.pack(">hhih", API_VERSIONS, 0, 1, -1)),
        "unknown api key": _frame(_header(9999, 0, 5)),
        "negative api key": _frame(_header(-1, 0, 5)),
        "api key of the past": _frame(_header(LEADER_AND_ISR, 0, 5)),
        "version too new": _frame(_header(METADATA, 99, 5)),
        "negative version": _frame(_header(METADATA, -1, 5)),
        "body cut short": _frame(_header(METADATA, 1, 5) + struct.pack(">i", 3)),
        "array longer than the frame": _frame(_header(METADATA, 1, 5) + struct.pack(">i", 1_000_000)),
        "bytes after the body": _frame(_header(METADATA, 1, 5) + struct.pack(">i", 0) + b"surplus"),
        "produce version below the range": _frame(_header(PRODUCE, 0, 5) + struct.pack(">hii", 1, 1000, 0)),
        "produce that ends in its acks": _frame(_header(PRODUCE, 3, 5) + struct.pack(">hb", -1, 0)),
        "produce with a negative count of topics": _frame(_header(PRODUCE, 3, 5) + struct.pack(">hhii", -1, 1, 9, -5)),
        "garbage of a right size": _frame(GARBAGE),
        "text of another protocol": b"GET / HTTP/1.1\r\nHost: broker\r\n\r\n",
    }
    for step, data in odd.items():
        on.note(step, _outcome(on, data))
        on.note(f"{step}, sender stops", _outcome(on, data, half_closed=True))
    on.note("a request in single bytes", _dripped(on))
    on.note("two requests in one piece", _two_at_once(on))
    on.note("others go on", _outcome(on, _frame(_header(API_VERSIONS, 0, 1))))


def _outcome(on: Play, data: bytes, *, half_closed: bool = False) -> str:
    with on.open() as client:
        client.send(data)
        if half_closed:
            client.finish_sending()
        return client.outcome(SILENT_AFTER_S)


def _dripped(on: Play) -> str:
    with on.open() as client:
        for byte in _frame(_header(API_VERSIONS, 0, 1)):
            client.send(bytes([byte]))
        return client.outcome(SILENT_AFTER_S)


def _two_at_once(on: Play) -> list[int]:
    with on.open() as client:
        client.send(_frame(_header(API_VERSIONS, 0, 11)) + _frame(_header(API_VERSIONS, 0, 12)))
        frames = [client.receive(), client.receive()]
    return [struct.unpack_from(">i", frame)[0] for frame in frames if frame is not None]


def _frame(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


def _header(api_key: int, version: int, correlation_id: int) -> bytes:
    return struct.pack(">hhih4s", api_key, version, correlation_id, 4, b"test")


def _without_ranges(answer: object) -> object:
    if not isinstance(answer, dict):
        return answer
    own = {entry["api_key"]: entry for entry in answer["api_keys"]}.get(API_VERSIONS)
    kept = {name: value for name, value in answer.items() if name in ("error_code",)}
    return kept | {"names itself": own is not None, "other APIs are named": len(answer["api_keys"]) > 1}


def _ranges(answer: dict[str, list[dict[str, int]]]) -> dict[int, tuple[int, int]]:
    return {e["api_key"]: (e["min_version"], e["max_version"]) for e in answer["api_keys"]}
