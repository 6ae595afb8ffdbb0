"""The offset of each key's last record, in bounded memory. Pure."""

from broker_runtime.blake2 import blake2b

ENTRY_BYTES = 208
"""Memory of an entry in CPython: 64 bytes for a key of at most 16, 32 for an offset, and 112 for a place in a
dictionary that has just grown."""
_SHARDS = 64
"""A growing dictionary blocks the interpreter: each of 64 is small enough to grow in a fraction of a millisecond."""
_DIGEST_BYTES = 16


class OffsetMap:
    """The last offset of each key. Keys of 16 bytes or more are stored as a digest; Kafka stores MD5 of all keys.

    Among 2**64 keys, two would have the same digest.
    """

    def __init__(self, bytes_max: int, load_factor: float) -> None:
        self.slots = max(1, int(bytes_max * load_factor) // ENTRY_BYTES)
        self.latest = -1
        """All keys up to this offset are known."""
        self._shards: list[dict[bytes, int]] = [{} for _ in range(_SHARDS)]
        self._count = 0

    def __len__(self) -> int:
        return self._count

    @property
    def utilization(self) -> float:
        """Return the share of the used slots, 0 to 1."""
        return self._count / self.slots

    def put(self, key: bytes, offset: int) -> bool:
        """Store the last offset of a key; offsets come in ascending order.

        Return False if the map has no room for the key.
        """
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
        """Return the last offset of the key; -1 for an unknown key."""
        if len(key) >= _DIGEST_BYTES:
            key = blake2b(key, digest_size=_DIGEST_BYTES).digest()
        return self._shards[hash(key) & _SHARDS - 1].get(key, -1)
