"""Statuses of ConnectionQuotas that the API server refuses: the others are written, and each is tried again."""

import asyncio
from typing import Any

import pytest

from sluicegate_operator.kube.http.errors import KubeError, KubeUnavailableError
from sluicegate_operator.kube.http.kinds import Kind
from sluicegate_operator.quotas import statuses
from sluicegate_operator.quotas.statuses import REFUSED_AGAIN_S
from tests.support.fakes.kube.memory_kube import Json, MemoryKube
from tests.unit.sluicegate_operator.quotas.test_reconcile import Shop, cluster, quota

pytestmark = pytest.mark.virtual_time

FOR_NOW = KubeError("500 failed calling webhook", 500, retriable=True)


class Refusing(MemoryKube):
    """Refuses the statuses of quotas whose name begins with `no` with `error`."""

    error: KubeError | None = None
    tries = 0

    async def apply_status(self, kind: Kind, namespace: str, name: str, *more: Any, **options: Any) -> Any:
        if self.error is not None and name.startswith("no"):
            self.tries += 1
            raise self.error
        return await super().apply_status(kind, namespace, name, *more, **options)


def shop(*names: str, error: KubeError, **spec: Any) -> Shop:
    quotas = (quota(name, f"10.0.0.{number}") for number, name in enumerate(names, 1))
    kube = Refusing(cluster(1) | {"spec": {**cluster(1)["spec"], **spec}}, *quotas)
    kube.error = error
    return Shop(kube, 1)


def written(of: Shop, name: str) -> bool:
    status: Json = of.kube.take("ConnectionQuota", name).get("status") or {}
    return bool(status.get("conditions"))


async def test_statuses_that_are_refused_for_now_keep_no_other_waiting() -> None:
    refused = [f"no{number}" for number in range(20)]
    made = shop(*refused, "yes", error=FOR_NOW)
    with pytest.raises(KubeError, match="failed calling webhook"):
        await made.reconcile()
    assert written(made, "yes")
    made.kube.error = None  # type: ignore[attr-defined]
    await made.tell()
    assert all(written(made, name) for name in refused)


async def test_a_webhook_that_is_down_is_not_asked_for_every_quota_in_one_reconcile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(statuses, "REFUSALS_MAX", 5)
    made = shop(*(f"no{number}" for number in range(40)), error=FOR_NOW)
    with pytest.raises(KubeError, match="failed calling webhook"):
        await made.reconcile()
    assert 5 <= made.kube.tries < 10  # type: ignore[attr-defined]


async def test_an_api_server_that_does_not_answer_ends_the_reconcile() -> None:
    made = shop(*(f"no{number}" for number in range(40)), error=KubeUnavailableError("no answer"))
    with pytest.raises(KubeUnavailableError):
        await made.reconcile()
    assert made.kube.tries <= 4  # type: ignore[attr-defined]


@pytest.mark.parametrize("paused", [False, True])
@pytest.mark.parametrize("status", [403, 404, 422])
async def test_a_status_that_was_refused_for_good_is_written_once_it_is_accepted(status: int, paused: bool) -> None:
    made = shop("no", "yes", error=KubeError("refused", status), paused=paused)
    await made.enforce()
    assert await made.tell() == pytest.approx(REFUSED_AGAIN_S)
    assert written(made, "yes")
    await made.reconcile()
    assert made.kube.tries == 1, "not at each pass"  # type: ignore[attr-defined]
    await asyncio.sleep(REFUSED_AGAIN_S)
    assert await made.tell() == pytest.approx(REFUSED_AGAIN_S)
    assert made.kube.tries == 2  # type: ignore[attr-defined]
    made.kube.error = None  # type: ignore[attr-defined]
    await asyncio.sleep(REFUSED_AGAIN_S)
    assert await made.tell() is None
    assert written(made, "no")
