"""Fetch, and the other APIs that find offsets in a log: ListOffsets, OffsetForLeaderEpoch, FetchSnapshot."""
