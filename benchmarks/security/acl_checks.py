"""Times of one authorization check with many ACLs, in this process.

`python -m benchmarks.security.acl_checks [ACLS]` prints microseconds of the processor for a decision that is kept, for
one that is not, and for a check of authorized operations. The ACLs are of 300 prefixes and as many literal names as
needed, for 200 principals.
"""

import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from statistics import median
from uuid import UUID

from broker_runtime.metadata.areas.acls import AccessControlEntryRecord, Acls, RemoveAccessControlEntryRecord
from broker_runtime.metadata.changes import Changes
from broker_runtime.security.acls.authorizer import StandardAuthorizer
from broker_runtime.security.acls.model import AclOperation, AclPattern, AclPermission, AclResource
from broker_runtime.security.principal import USER, Principal
from broker_runtime.slicing.steps import at_once

ACLS, NAMES, ROUNDS = 10_000, 2_000, 9
HOST, PRINCIPALS, PREFIXES = "10.0.0.1", 200, 300
READ, TOPIC = AclOperation.READ, AclResource.TOPIC
WHO = Principal(USER, "u7")


def name_of(number: int) -> str:
    return f"team-{number % PREFIXES}.events.{number}"


def acls(count: int) -> Acls:
    area = Acls()
    for number in range(count):
        pattern = AclPattern.PREFIXED if number % 2 else AclPattern.LITERAL
        record = AccessControlEntryRecord(
            UUID(int=number),
            TOPIC,
            name_of(number),
            pattern,
            f"{USER}:u{number % PRINCIPALS}",
            "*",
            READ,
            AclPermission.ALLOW,
        )
        area.apply(record, None, Changes())
    return area


def each_us(names: Sequence[str], check: Callable[[str], object]) -> float:
    """Microseconds of one check."""
    began_s = time.thread_time()
    for name in names:
        check(name)
    return (time.thread_time() - began_s) / len(names) * 1e6


def checks_us(count: int) -> tuple[list[float], list[float]]:
    """Return the microseconds of the first check of a name, and of later ones, in each round."""
    area = acls(count)
    names = [f"{name_of(number)}.x" for number in range(NAMES)]
    new, kept = [], []
    for _ in range(ROUNDS):
        one = StandardAuthorizer(lambda: area.index)
        new.append(each_us(names, partial(one.allows, WHO, HOST, READ, TOPIC)))
        kept.append(each_us(names, partial(one.allows, WHO, HOST, READ, TOPIC)))
    return new, kept


def main(count: int) -> None:
    print(f"{count} ACLs, median of {ROUNDS} rounds with {NAMES} names:")
    for what, found in zip(("first check of a name", "later check"), checks_us(count), strict=True):
        print(f"  {what}: {median(found):.2f} us ({min(found):.2f} to {max(found):.2f})")
    area = acls(count)
    began_s = time.thread_time()
    one = StandardAuthorizer(lambda: area.index)
    at_once(one.allows_any(WHO, HOST, AclOperation.WRITE, TOPIC))
    print(f"  first check of any topic: {(time.thread_time() - began_s) * 1000:.2f} ms")
    began_s = time.thread_time()
    copy = area.copy()
    copy.apply(RemoveAccessControlEntryRecord(UUID(int=0)), None, Changes())
    print(f"  copy of the ACLs with a change: {(time.thread_time() - began_s) * 1000:.2f} ms")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else ACLS)
