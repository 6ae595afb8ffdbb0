"""The broker's `Clock` for tests."""


class ManualClock:
    """A clock that only `advance` and `jump` move; monotonic and wall time advance together."""

    def __init__(self) -> None:
        self._monotonic = 1000.0
        self._wall_ms = 1_700_000_000_000.0

    def monotonic(self) -> float:
        return self._monotonic

    def wall_ms(self) -> int:
        return round(self._wall_ms)

    def advance(self, seconds: float) -> None:
        assert seconds >= 0, "time does not go back"
        self._monotonic += seconds
        self._wall_ms += seconds * 1000

    def jump(self, seconds: float) -> None:
        """Set the wall clock forwards or back."""
        self._wall_ms += seconds * 1000
