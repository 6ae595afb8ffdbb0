"""No refusal keeps its request, its error or its frames: a complete node in memory, and every API that it serves.

The list of APIs is the one of `apis/table.py`: an API that is added there is tested here. Random fields, changed bytes
and truncations cause as many kinds of refusals as they find. The garbage collector is off meanwhile, so that objects in
reference cycles stay and are counted.
"""

import gc
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain, cycle, islice
from types import TracebackType
from typing import Any

import pytest

from broker_runtime.apis.push.push_apis import PushApi
from broker_runtime.apis.request.call import Api, Call
from broker_runtime.apis.request.context import ApiSpec
from broker_runtime.apis.request.dispatching.on_demand import ApiOnDemand
from broker_runtime.apis.table import CONTROLLER_APIS, COUNTED_APIS
from broker_runtime.errors import KafkaError, ProtocolError
from broker_runtime.wire.encoding.reader import RequestReader
from broker_runtime.wire.versions import PRODUCE
from kafka_bytes.batches import encode_batch
from kafka_bytes.compression import GZIP, LZ4, SNAPPY, ZSTD
from tests.simulation.node_in_memory import SEED, TOPICS, Frame, Node, node_in_memory
from tests.support.logs.packed_batches import packed
from tests.support.requests.hostile_requests import hostile, well_formed
from tests.support.requests.request_frames import encode_request

SOME, MANY = 500, 10_000
"""Refused requests of each API. A cycle for each of them shows with any number; the larger number takes a minute."""
KEPT_MAX = SOME // 10
"""Limit for each type. A coordinator keeps its last answer until the next, the simulated loop the last tasks."""
IN_CIRCLES_MAX = SOME // 2
"""Limit of objects in cycles. The first message of each kind makes some, when its decoder is built."""
ROUNDS = 15
"""Random requests from which the refused ones are taken, the same number for each version."""
TEXTS = (*TOPICS, "__consumer_offsets", "nobody", "", "ö" * 40)


OF_A_REQUEST = (Frame, Call, RequestReader, KafkaError, ProtocolError, TracebackType)


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    with node_in_memory() as found:
        # Collections then scan only what the tests make: a quarter of a second less for each.
        gc.collect()
        gc.freeze()
        yield found
        gc.unfreeze()


APIS: Sequence[Api] = (*COUNTED_APIS, *CONTROLLER_APIS)


def name_of(api: Api) -> str:
    return f"{'controller' if api in CONTROLLER_APIS else 'broker'}-{api.name}"


@pytest.mark.parametrize("api", APIS, ids=name_of)
def test_no_refusal_keeps_its_request(node: Node, api: Api) -> None:
    refuse(node, api, SOME)


@pytest.mark.full
@pytest.mark.parametrize("api", APIS, ids=name_of)
def test_ten_thousand_refusals_keep_no_request(node: Node, api: Api) -> None:
    refuse(node, api, MANY)


def refuse(node: Node, api: Api, count: int) -> None:
    rng = random.Random(f"{SEED}/{name_of(api)}")
    handler = node.handler(api)
    node.run(node.make_topics())
    refused = [frame for frame in candidates(api, rng) if node.run(node.is_refused(handler, frame))]
    assert refused, "each API refuses something, and be it a frame that is cut short"
    gc.collect()
    gc.disable()
    try:
        before = of_requests()
        node.run(node.all_asked(handler, islice(cycle(refused), count)))
        kept = of_requests() - before
        in_circles = gc.collect()
    finally:
        gc.enable()
    assert {kind: number for kind, number in kept.items() if number > KEPT_MAX} == {}
    assert in_circles < IN_CIRCLES_MAX
    assert node.mistakes == []


def of_requests() -> Counter[str]:
    """Number of live requests, errors and tracebacks, by type."""
    return Counter(type(alive).__name__ for alive in gc.get_objects() if isinstance(alive, OF_A_REQUEST))


def candidates(api: Api, rng: random.Random) -> Iterator[bytes]:
    """Requests without their size fields, some of which are refused."""
    if isinstance(api, PushApi):
        head = api.key.to_bytes(2, "big")
        return (head + rng.randbytes(rng.randrange(40)) for _ in range(ROUNDS))
    spec = api.spec() if isinstance(api, ApiOnDemand) else api
    assert isinstance(spec, ApiSpec)
    return chain(of_kafka(spec, rng), keyless() if api.key == PRODUCE else ())


def of_kafka(api: ApiSpec[Any], rng: random.Random) -> Iterator[bytes]:
    low, high = api.versions
    for _ in range(ROUNDS):
        version = rng.randint(low, high)
        yield well_formed(api, version, rng, TEXTS)[4:]
        yield next(hostile(api, version, rng))[4:]
        cut = well_formed(api, version, rng)[4:]
        yield cut[: rng.randrange(10, len(cut))]


def keyless() -> Iterator[bytes]:
    """Records that a compacted topic refuses once another thread has checked them, or at once."""
    for count, codec in ((2, 0), (200, 0), (2_000, 0), (200, GZIP), (200, SNAPPY), (200, LZ4), (200, ZSTD)):
        batch = encode_batch([(None, b"value")] * count, 1_700_000_000_000)
        for acks in (-1, 1):
            parts = [{"index": 0, "records": packed(codec, batch) if codec else batch}]
            topic = [{"name": "compacted", "partition_data": parts}]
            content = {"transactional_id": None, "acks": acks, "timeout": 1_000, "topic_data": topic}
            yield encode_request(PRODUCE, 9, 1, content)[4:]
