"""WriteTxnMarkers: one answer for all markers, and only for those who may end the transactions of others."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from broker_runtime.apis.request.access import Authorization
from broker_runtime.apis.transactions.write_txn_markers import API
from broker_runtime.errors import ErrorCode
from broker_runtime.security.acls.model import AclOperation, AclResource
from broker_runtime.slicing.steps import at_once
from broker_runtime.transactions.markers.requests import PartitionsOfMarker, ResultsOfMarker, request_of, results_in
from broker_runtime.wire.messages import decode_request, decode_response, encode_request_body
from broker_runtime.wire.versions import WRITE_TXN_MARKERS
from kafka_bytes.control import Marker
from tests.support.requests.access import allow, authorization_of
from tests.support.requests.calls import a_call, reply_to

A, B = ("orders", 0), ("bills", 2)
ENDED = [(Marker(7, 1, True, 4, 2), (A, B)), (Marker(8, 0, False, 4, 2), (A,))]
RESPONSE_HEAD = 9
"""Bytes of the size, the correlation id and the tagged fields before the body of a response."""


class LocalMarkers:
    """Writes no marker, and gives each partition the same code."""

    def __init__(self, code: ErrorCode = ErrorCode.NONE) -> None:
        self.code = code
        self.written: list[PartitionsOfMarker] = []

    def write(self, markers: list[PartitionsOfMarker]) -> "asyncio.Future[list[ResultsOfMarker]]":
        self.written += markers
        done: asyncio.Future[list[ResultsOfMarker]] = asyncio.get_running_loop().create_future()
        done.set_result([dict.fromkeys(places, self.code) for _, places in markers])
        return done


async def answered(
    local: LocalMarkers, authorization: Authorization | None = None, version: int = 2
) -> list[ResultsOfMarker]:
    body = encode_request_body(WRITE_TXN_MARKERS, version, at_once(request_of(ENDED)))
    call = a_call(API, version, authorization)
    context: Any = SimpleNamespace(local_markers=local)
    reply = await reply_to(
        call, API.handle(decode_request(WRITE_TXN_MARKERS, version, memoryview(body)), call, context)
    )
    assert reply is not None
    packed = b"".join(bytes(each) for each in reply)  # type: ignore[arg-type]
    answer = decode_response(WRITE_TXN_MARKERS, version, memoryview(packed)[RESPONSE_HEAD:])
    return at_once(results_in(answer, ENDED))


@pytest.mark.parametrize("version", [1, 2])
async def test_all_markers_have_one_answer(version: int) -> None:
    local = LocalMarkers(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    code = ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert await answered(local, version=version) == [{A: code, B: code}, {A: code}]
    assert [marker.transaction_version for marker, _ in local.written] == [2 if version >= 2 else 0] * 2


@pytest.mark.parametrize("operation", [AclOperation.CLUSTER_ACTION, AclOperation.ALTER])
async def test_brokers_and_administrators_may_write_markers(operation: AclOperation) -> None:
    local = LocalMarkers()
    authorization = authorization_of(allow(AclResource.CLUSTER, operation))
    assert await answered(local, authorization) == [{A: ErrorCode.NONE, B: ErrorCode.NONE}, {A: ErrorCode.NONE}]
    assert len(local.written) == 2


async def test_another_client_is_denied_each_partition() -> None:
    local = LocalMarkers()
    denied = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    authorization = authorization_of(allow(AclResource.CLUSTER, AclOperation.DESCRIBE))
    assert await answered(local, authorization) == [{A: denied, B: denied}, {A: denied}]
    assert local.written == []
    assert authorization.denials.counts
