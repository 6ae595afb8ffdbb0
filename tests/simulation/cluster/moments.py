"""When something is likely to be under way at a coordinator, so that a fault can befall it just then."""

import asyncio


class Moments:
    """Consumers tell what they were just told or have just answered; faults wait for that."""

    def __init__(self) -> None:
        self._waiting: list[asyncio.Future[tuple[str, str]]] = []

    def tell(self, what: str, host: str) -> None:
        """`host` is the coordinator's."""
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            if not each.done():
                each.set_result((what, host))

    async def next(self) -> tuple[str, str]:
        future: asyncio.Future[tuple[str, str]] = asyncio.get_running_loop().create_future()
        self._waiting.append(future)
        return await future
