"""Moments at which a coordinator is probably busy, so that a fault can happen just then."""

import asyncio


class Moments:
    """Consumers report what they have just received or answered; faults wait for that."""

    def __init__(self) -> None:
        self._waiting: list[asyncio.Future[tuple[str, str]]] = []

    def tell(self, what: str, host: str) -> None:
        """Report a moment; `host` is the coordinator's."""
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            if not each.done():
                each.set_result((what, host))

    async def next(self) -> tuple[str, str]:
        future: asyncio.Future[tuple[str, str]] = asyncio.get_running_loop().create_future()
        self._waiting.append(future)
        return await future
