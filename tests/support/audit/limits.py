"""A broker whose limits are not recorded, for tests of other events."""

from connection_limits.recorded.rows import LimitChange, TellOfLimits


class NoLimits:
    """Reports no limit and no change."""

    def observe(self, tell: TellOfLimits, /) -> None: ...

    def forget(self, tell: TellOfLimits, /) -> None: ...

    def in_force(self) -> LimitChange:
        return LimitChange(0.0, ())
