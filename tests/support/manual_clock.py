"""The broker's `Clock` for tests."""


class ManualClock:
    """Moves only when told to; monotonic and wall time move together."""

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
        """Somebody sets the clock on the wall, forwards or back."""
        self._wall_ms += seconds * 1000
