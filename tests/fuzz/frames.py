"""Changed requests of all APIs that a broker serves, without end: valid ones whose bytes are changed or cut."""

import random
from collections.abc import Iterator, Sequence

from broker_runtime.apis.table import BROKER_APIS
from kafka_bytes.push import layouts
from kafka_bytes.push.messages import ClusterMetadataRequest, RegisterConsumerRequest
from tests.support.requests.hostile_requests import resized, well_formed
from tests.support.requests.request_frames import encode_request

_SASL_HANDSHAKE, _SASL_AUTHENTICATE, _API_VERSIONS = 17, 36, 18
_UNREGISTER_BROKER = (64).to_bytes(2, "big")
"""The broker executes it: it closes all connections, and registers again."""
_OF_EACH_VERSION = 3
_TEXTS = ("fuzzed", "fuzzed-2", "__consumer_offsets", "", "1", "ö" * 40)
_ODD = (0, 1, 0x7F, 0x80, 0xFF)
_SIZE_BYTES = 4
_BYTES_MAX = 4_096


def valid_frames(rng: random.Random) -> Sequence[bytes]:
    """Some frames of each version of each API, of SASL, and of the push protocol, with their sizes."""
    found = [
        well_formed(api, version, rng, _TEXTS)
        for api in BROKER_APIS
        for version in range(api.versions[0], api.versions[1] + 1)
        for _ in range(_OF_EACH_VERSION)
    ]
    return [*(each for each in found if len(each) <= _BYTES_MAX), *before_authentication(), *_push_frames()]


def before_authentication() -> Sequence[bytes]:
    """The requests that a client may send before it has authenticated."""
    tokens = (b"\0alice\0wrong", b"n,,n=alice,r=abcdefghij", b"n,,\x01auth=Bearer a.b.c\x01\x01", b"\x01")
    return [
        *(
            encode_request(_SASL_HANDSHAKE, version, 1, {"mechanism": name})
            for version in (0, 1)
            for name in _MECHANISMS
        ),
        *(
            encode_request(_SASL_AUTHENTICATE, version, 1, {"auth_bytes": each})
            for version in (0, 1, 2)
            for each in tokens
        ),
        encode_request(_API_VERSIONS, 0, 1, {}),
        encode_request(_API_VERSIONS, 3, 1, {"client_software_name": "fuzz", "client_software_version": "1"}),
    ]


_MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "OAUTHBEARER", "none")


def _push_frames() -> Sequence[bytes]:
    return [
        layouts.CLUSTER_METADATA_REQUEST.write(ClusterMetadataRequest("fuzzed")),
        layouts.REGISTER_CONSUMER_REQUEST.write(
            RegisterConsumerRequest("fuzzed", "c", '{"fuzzed":1}', True, "latest", 10_000)
        ),
        layouts.REGISTER_CONSUMER_REQUEST.write(
            RegisterConsumerRequest("fuzzed", "d", "*1*.*", True, "latest", 10_000)
        ),
    ]


def changed_frames(valid: Sequence[bytes], rng: random.Random) -> Iterator[bytes]:
    """Yield frames without end: changed, cut, joined, or with a wrong size. None unregisters the broker."""
    while True:
        payload = bytearray(rng.choice(valid)[_SIZE_BYTES:])
        for _ in range(rng.randrange(5)):
            payload[rng.randrange(len(payload))] = rng.choice((*_ODD, rng.randrange(256)))
        way = rng.random()
        if way < 0.1:
            del payload[rng.randrange(1, len(payload) + 1) :]
        elif way < 0.15:
            payload += rng.choice(valid)[_SIZE_BYTES:]
        elif way < 0.18:
            at = rng.randrange(len(payload))
            payload[at:at] = rng.randbytes(rng.randrange(1, 30))
        if payload[:2] != _UNREGISTER_BROKER:
            yield resized(bytes(payload))
