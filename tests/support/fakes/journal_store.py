"""The in-memory twin of the API server below the `kubernetes` journal, with faults; event loop only, no threads.

shared = SharedObjects()                        # the content of etcd
store = MemoryStore(shared, faults)             # one controller's client; each controller has its own
store.cut = True                                # every request fails before it arrives, until it is False again

`Faults` decides for each request how long it and its response take, and whether one of them is lost. If the request is
lost, nothing happens. If the response is lost, the write happened and the caller cannot know.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from broker_runtime.controller.journal.store import LeaseRecord, Part, StoredObject, StoreError

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Fault:
    """Delays of one request and its response, in seconds, and whether one of them is lost."""

    delay_s: float = 0.0
    lost: bool = False
    answer_delay_s: float = 0.0
    answer_lost: bool = False


NO_FAULT = Fault()
Faults = Callable[[str, str], Fault]
"""(operation, object's name) -> the fault of this request."""


@dataclass(slots=True)
class SharedObjects:
    """The content of etcd: objects with their versions, and the Lease."""

    objects: dict[str, tuple[Part, StoredObject]] = field(default_factory=dict)
    lease: LeaseRecord | None = None
    versions: int = 0
    log: list[str] = field(default_factory=list)
    """Every write that happened, in order."""

    def next_version(self) -> str:
        self.versions += 1
        return str(self.versions)

    def create(self, name: str, part: Part, data: bytes) -> bool:
        if name in self.objects:
            return False
        self.objects[name] = part, StoredObject(name, data, self.next_version())
        self.log.append(f"create {name}")
        return True

    def get(self, name: str) -> StoredObject | None:
        return self.objects[name][1] if name in self.objects else None

    def replace(self, name: str, part: Part, data: bytes, version: str) -> bool:
        if name not in self.objects or self.objects[name][1].version != version:
            return False
        self.objects[name] = part, StoredObject(name, data, self.next_version())
        self.log.append(f"replace {name}")
        return True

    def all(self, part: Part) -> Sequence[StoredObject]:
        return [found for name, (kind, found) in sorted(self.objects.items()) if kind == part]

    def delete(self, name: str) -> None:
        if self.objects.pop(name, None) is not None:
            self.log.append(f"delete {name}")

    def put_lease(self, lease: LeaseRecord) -> LeaseRecord | None:
        if lease.version != ("" if self.lease is None else self.lease.version):
            return None
        self.lease = replace(lease, version=self.next_version())
        return self.lease


class MemoryStore:
    """One controller's client of SharedObjects; `faults` and `cut` disturb its requests."""

    def __init__(self, shared: SharedObjects, faults: Faults = lambda _operation, _name: NO_FAULT) -> None:
        self.shared = shared
        self.faults = faults
        self.cut = False

    async def _ask(self, operation: str, name: str, act: Callable[[], T]) -> T:
        fault = self.faults(operation, name)
        await asyncio.sleep(fault.delay_s)
        if self.cut or fault.lost:
            raise StoreError(f"{operation} {name}: lost before it arrived")
        result = act()
        await asyncio.sleep(fault.answer_delay_s)
        if self.cut or fault.answer_lost:
            raise StoreError(f"{operation} {name}: the answer is lost")
        return result

    async def create(self, name: str, part: Part, data: bytes) -> bool:
        return await self._ask("create", name, lambda: self.shared.create(name, part, data))

    async def get(self, name: str) -> StoredObject | None:
        return await self._ask("get", name, lambda: self.shared.get(name))

    async def replace(self, name: str, part: Part, data: bytes, version: str) -> bool:
        return await self._ask("replace", name, lambda: self.shared.replace(name, part, data, version))

    async def list(self, part: Part) -> Sequence[StoredObject]:
        return await self._ask("list", part, lambda: self.shared.all(part))

    async def names(self, part: Part) -> Sequence[str]:
        return await self._ask("names", part, lambda: [found.name for found in self.shared.all(part)])

    async def delete(self, name: str) -> None:
        await self._ask("delete", name, lambda: self.shared.delete(name))

    async def lease(self) -> LeaseRecord | None:
        return await self._ask("lease", "", lambda: self.shared.lease)

    async def put_lease(self, lease: LeaseRecord) -> LeaseRecord | None:
        return await self._ask("put_lease", "", lambda: self.shared.put_lease(lease))

    async def close(self) -> None:
        """Do nothing: the store holds no resources."""
