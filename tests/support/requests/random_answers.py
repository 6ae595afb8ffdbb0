"""Answers with odd values, as a broker would send them without their size: seeds for fuzzing."""

import io
import random
from typing import Any

from kio.serial import entity_writer

from tests.support.requests.hostile_requests import sample

_API_VERSIONS = 18
_CORRELATION_ID = b"\x00\x00\x00\x07"


def random_answer(kind: Any, rng: random.Random) -> bytes:
    """A frame of this message of kio, or of kio's form."""
    buffer = io.BytesIO()
    entity_writer(kind)(buffer, sample(kind, rng))
    tags = b"\x00" if kind.__flexible__ and kind.__api_key__ != _API_VERSIONS else b""
    return _CORRELATION_ID + tags + buffer.getvalue()
