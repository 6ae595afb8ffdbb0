"""ReplicaRange (30006), version 0: batches of a replica, read by another broker to repair its own (decision 46)."""

from broker_runtime.apis.request.call import Call
from broker_runtime.apis.request.context import ApiSpec, BrokerContext
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.replication.replica_ranges import read_range
from broker_runtime.wire.messages import Fields
from broker_runtime.wire.requests import ReplicaRangeRequest
from kafka_bytes.own_keys import REPLICA_RANGE


def handle(request: ReplicaRangeRequest, call: Call, context: BrokerContext) -> Fields:
    del call
    log_start = -1
    try:
        if request.topic_id is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID, "topic id 0 does not exist")
        log = context.replica_log(request.topic_id, request.partition, request.leader_epoch)
        log_start = log.log_start_offset
        supplied = read_range(log, request.offset, request.next_offset, request.max_bytes)
    except KafkaError as error:
        return {"error_code": error.code, "error_message": error.message, "log_start_offset": log_start}
    return {
        "error_code": ErrorCode.NONE,
        "log_start_offset": log_start,
        "covered_to": supplied.covered_to,
        "may_have_gaps": supplied.may_have_gaps,
        "records": supplied.records,
    }


API = ApiSpec(key=REPLICA_RANGE, name="ReplicaRange", versions=(0, 0), handle=handle)
