"""DeleteAcls finds what each filter matches, in little time however many filters and ACLs there are."""

import random
from collections.abc import Iterator, Sequence
from typing import Any
from uuid import UUID

import pytest

from broker_runtime.controller.clients.acls import delete_acls
from broker_runtime.controller.clients.matching_acls import COMPARISONS_MAX
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.metadata.areas.acls import AccessControlEntryRecord, RemoveAccessControlEntryRecord
from broker_runtime.metadata.image import MetadataImage
from broker_runtime.security.acls.model import Acl, AclFilter
from broker_runtime.slicing.steps import Steps, at_once

ANY = AclFilter(1, None, 1, None, None, 1, 1)
NAMES = ("a", "ab", "abc", "*", "b")
PRINCIPALS = ("User:a", "User:b", "User:*")
HOSTS = ("*", "10.0.0.1")


def image_with(acls: Sequence[Acl]) -> MetadataImage:
    image = MetadataImage()
    for number, acl in enumerate(dict.fromkeys(acls)):
        image.apply(AccessControlEntryRecord(UUID(int=number + 1), *acl), image.next_offset)
    return image


def acl(number: int, name: str | None = None) -> Acl:
    return Acl(2, f"t{number}" if name is None else name, 3, f"User:{number}", "*", 3, 3)


def random_acls(rng: random.Random) -> Iterator[Acl]:
    for _ in range(200):
        yield Acl(
            rng.choice((2, 3)),
            rng.choice(NAMES),
            rng.choice((3, 4)),
            rng.choice(PRINCIPALS),
            rng.choice(HOSTS),
            rng.choice((2, 3, 4)),
            rng.choice((2, 3)),
        )


def random_filter(rng: random.Random) -> AclFilter:
    return AclFilter(
        rng.choice((1, 2, 3, 99)),
        rng.choice((None, "", "abcd", *NAMES)),
        rng.choice((1, 2, 3, 4)),
        rng.choice((None, "User:nobody", *PRINCIPALS)),
        rng.choice((None, *HOSTS)),
        rng.choice((1, 2, 3, 4)),
        rng.choice((1, 2, 3)),
    )


@pytest.mark.parametrize("seed", range(20))
def test_each_filter_gets_what_a_comparison_with_every_acl_finds(seed: int) -> None:
    rng = random.Random(seed)
    image = image_with(list(random_acls(rng)))
    filters = [random_filter(rng) for _ in range(100)] + [AclFilter(*acl) for acl in random_acls(rng)]
    records, results = at_once(delete_acls(filters, image))
    expected = [{acl for acl in image.acls.values() if wanted.matches(acl)} for wanted in filters]
    assert [set(found) for found in results] == expected
    removed = [record.id for record in records if isinstance(record, RemoveAccessControlEntryRecord)]
    assert sorted(removed) == sorted({known for acl in set().union(*expected) if (known := image.acls.id_of(acl))})


def steps_of(steps: Steps[Any]) -> int:
    count = 0
    for count, _ in enumerate(steps, 1):  # noqa: B007 - the number is the result
        pass
    return count


@pytest.mark.parametrize(
    "of_name",
    [
        lambda number: ANY._replace(name=f"t{number}"),
        lambda number: ANY._replace(name=f"none{number}", pattern=3),
        lambda number: ANY._replace(principal=f"User:{number}"),
        lambda number: ANY._replace(principal=f"User:none{number}"),
        lambda number: AclFilter(*acl(number)),
        lambda number: AclFilter(*acl(number, "*")),
        lambda number: ANY._replace(name="missing"),
    ],
    ids=["name", "unknown name", "principal", "unknown principal", "exact", "exact, of all names", "the same"],
)
def test_many_filters_are_not_compared_with_every_acl(of_name: Any) -> None:
    image = image_with([each for number in range(1_500) for each in (acl(number), acl(number, "*"))])
    steps = steps_of(delete_acls([of_name(number) for number in range(1_500)], image))
    assert steps < 10_000, "with a comparison of each pair there would be 35,000"


@pytest.mark.parametrize(
    ("filters", "why"),
    [
        ([ANY._replace(host=f"10.0.{number // 256}.{number % 256}") for number in range(2_000)], str(COMPARISONS_MAX)),
        ([ANY] * 100, "several times"),
    ],
    ids=["comparisons", "matches"],
)
def test_filters_that_would_take_long_or_fill_the_memory_are_refused(filters: list[AclFilter], why: str) -> None:
    image = image_with([acl(number) for number in range(1_500)])
    with pytest.raises(KafkaError, match=why) as refused:
        at_once(delete_acls(filters, image))
    assert refused.value.code == ErrorCode.INVALID_REQUEST


def test_at_most_ten_thousand_acls_are_removed() -> None:
    image = image_with([acl(number) for number in range(10_001)])
    with pytest.raises(KafkaError, match="Cannot remove more than 10000 acls"):
        at_once(delete_acls([ANY], image))
    assert len(at_once(delete_acls([ANY._replace(name=f"t{number}") for number in range(10_000)], image))[0]) == 10_000
