"""One read of the API server: with a deadline, and with a sentence in place of an answer that is refused or missing."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from sluicegate_operator.cli.doctor.checks.addresses import Attempt, ListenerAddress
from sluicegate_operator.cli.doctor.checks.results import Unread
from sluicegate_operator.cli.doctor.checks.rights import Answers, Right
from sluicegate_operator.cli.doctor.reading.reachable import tried
from sluicegate_operator.kube.client.client import KubeClient
from sluicegate_operator.kube.http.errors import KubeError
from sluicegate_operator.kube.http.kinds import Kind

Json = dict[str, Any]
T = TypeVar("T")
Connect = Callable[[Iterable[ListenerAddress]], Awaitable[Mapping[ListenerAddress, Attempt]]]

READ_TIMEOUT_S = 10.0
READS_AT_A_TIME = 8
AUTHORIZATION = "authorization.k8s.io/v1"
CRD = Kind("apiextensions.k8s.io/v1", "CustomResourceDefinition", "customresourcedefinitions")
DEPLOYMENT = Kind("apps/v1", "Deployment", "deployments")
STORAGE_CLASS = Kind("storage.k8s.io/v1", "StorageClass", "storageclasses")
SELF_REVIEW = Kind(AUTHORIZATION, "SelfSubjectAccessReview", "selfsubjectaccessreviews")
REVIEW = Kind(AUTHORIZATION, "SubjectAccessReview", "subjectaccessreviews")


class DoctorReads:
    """The reads of the checks. At most `READS_AT_A_TIME` are sent at a time. `connect` tries addresses of listeners."""

    def __init__(self, kube: KubeClient, connect: Connect = tried) -> None:
        self.kube = kube
        self.connect = connect
        self._slots = asyncio.Semaphore(READS_AT_A_TIME)

    async def read(self, ask: Callable[[], Awaitable[T]]) -> T | Unread:
        """Return the answer, or why there is none."""
        async with self._slots:
            try:
                async with asyncio.timeout(READ_TIMEOUT_S):
                    return await ask()
            except KubeError as error:
                return Unread(str(error))
            except TimeoutError:
                return Unread(f"the API server did not answer within {READ_TIMEOUT_S:g} s")

    async def get(self, kind: Kind, namespace: str | None, name: str) -> Json | Unread | None:
        return await self.read(lambda: self.kube.get(kind, namespace, name))

    async def list(
        self, kind: Kind, namespace: str | None, label_selector: str = "", field_selector: str = ""
    ) -> Sequence[Json] | Unread:
        return await self.read(lambda: self.kube.list(kind, namespace, label_selector, field_selector=field_selector))

    async def get_all(self, kind: Kind, names: Sequence[str]) -> Mapping[str, Json | Unread | None]:
        """Return cluster-scoped objects by name; None for an object that does not exist."""
        found = await asyncio.gather(*(self.get(kind, None, name) for name in names))
        return dict(zip(names, found, strict=True))

    async def granted(self, rights: Sequence[Right], user: str = "") -> Answers:
        """Return for each right whether `user` has it; by default the user of the kubeconfig."""
        kind = REVIEW if user else SELF_REVIEW

        async def one(right: Right) -> bool | Unread:
            answer = await self.read(lambda: self.kube.create(kind, "", right.review(user)))
            return answer if isinstance(answer, Unread) else bool((answer.get("status") or {}).get("allowed"))

        return dict(zip(rights, await asyncio.gather(*map(one, rights)), strict=True))
