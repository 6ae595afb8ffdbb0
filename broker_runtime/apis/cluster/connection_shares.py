"""ConnectionShares (30009), version 0: a broker reports its demands under rates of the cluster (decision 69)."""

from typing import TYPE_CHECKING

from broker_runtime.apis.request.call import Call
from broker_runtime.apis.request.context import ApiSpec, ControllerContext
from broker_runtime.config import BrokerConfig
from broker_runtime.controller import registration
from broker_runtime.controller.connection_shares import limits_max
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.slicing.steps import Steps, each
from broker_runtime.wire.messages import Fields
from broker_runtime.wire.requests import ConnectionSharesRequest
from connection_limits.cluster.reports import LimitReport, Report
from kafka_bytes.own_keys import CONNECTION_SHARES

if TYPE_CHECKING:
    from kafka_bytes.messages.connection_shares import ReportedLimit

_NAME_MAX = 1_000
"""Characters of the name of a limit: names of groups and listeners are shorter."""


def handle(request: ConnectionSharesRequest, call: Call, context: ControllerContext) -> Steps[Fields]:
    del call
    controller = context.controller
    try:
        if not controller.active:
            raise KafkaError(ErrorCode.NOT_CONTROLLER)
        registration.registered(request.broker_id, request.broker_epoch, controller.image)
        _check_count(len(request.limits), context.settings.config)
        limits = yield from each(request.limits, _limit)
    except KafkaError as error:
        return {"error_code": error.code}
    report = Report(
        request.broker_id,
        request.broker_epoch,
        request.sequence,
        request.answered,
        request.is_full,
        limits,
    )
    answer = yield from controller.connection_shares.report(report, controller.image)
    return {
        "error_code": ErrorCode.NONE if controller.active else ErrorCode.NOT_CONTROLLER,
        "verdict": answer.verdict,
        "controller_epoch": answer.controller_epoch,
        "lease_ms": answer.lease_ms,
        "brokers": answer.brokers,
        "more_soon": answer.more_soon,
        "shares": [{"name": one.name, "rate": one.rate, "share": one.share} for one in answer.grants],
    }


def _check_count(limits: int, config: BrokerConfig) -> None:
    """Raise KafkaError if a report has too many limits."""
    most = limits_max(config)
    if limits > most:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"a report has at most {most} limits")


def _limit(one: "ReportedLimit") -> LimitReport:
    """Return the reported limit; raise KafkaError if it would change what other brokers may use, or fill the memory."""
    if min(one.rate, one.share, one.demand) < 0 or len(one.name) > _NAME_MAX:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"limit {one.name[:50]} has a negative number, or a long name")
    return LimitReport(one.name, one.rate, one.share, one.demand)


API = ApiSpec(key=CONNECTION_SHARES, name="ConnectionShares", versions=(0, 0), handle=handle, on_standby=True)
