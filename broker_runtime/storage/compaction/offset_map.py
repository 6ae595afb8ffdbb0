"""Where the last record of each key is, in bounded memory. Pure."""

from broker_runtime.blake2 import blake2b

ENTRY_BYTES = 208
"""Of CPython: a key of at most 16 bytes 64, an offset 32, and a place in a dictionary that has just grown 112."""
_SHARDS = 64
"""A dictionary that grows holds the interpreter: of 64 each is small enough to take a fraction of a millisecond."""
_DIGEST_BYTES = 16


class OffsetMap:
    """Longer keys are known by a digest, as in Kafka, which has MD5 of all: two of 2**64 keys would look the same."""

    def __init__(self, bytes_max: int, load_factor: float) -> None:
        self.slots = max(1, int(bytes_max * load_factor) // ENTRY_BYTES)
        self.latest = -1
        """Everything up to here is known."""
        self._shards: list[dict[bytes, int]] = [{} for _ in range(_SHARDS)]
        self._count = 0

    def __len__(self) -> int:
        return self._count

    @property
    def utilization(self) -> float:
        """Share of the slots that are taken, 0 to 1."""
        return self._count / self.slots

    def put(self, key: bytes, offset: int) -> bool:
        """Offsets come in ascending order. False, with nothing noted, where there is no room for another key."""
        if len(key) >= _DIGEST_BYTES:
            key = blake2b(key, digest_size=_DIGEST_BYTES).digest()
        shard = self._shards[hash(key) & _SHARDS - 1]
        if key not in shard:
            if self._count >= self.slots:
                return False
            self._count += 1
        shard[key] = offset
        return True

    def get(self, key: bytes) -> int:
        """-1 of a key that is not known."""
        if len(key) >= _DIGEST_BYTES:
            key = blake2b(key, digest_size=_DIGEST_BYTES).digest()
        return self._shards[hash(key) & _SHARDS - 1].get(key, -1)
