"""A member of a group with a Go client, franz-go: `python -m tests.support.obtain.go_group_member` builds it once.

The sources are group_member_go/ and the modules that its go.sum pins.
"""

import sys
from pathlib import Path

from tests.support.obtain.cache import main
from tests.support.obtain.go_program import of_folder

MEMBER = of_folder(
    Path(__file__).with_name("group_member_go"),
    "group-member",
    "the Go client",
    target="go-client",
    variable="SLUICEGATE_GO_GROUP_MEMBER",
    cached_as="go-group-member",
)

if __name__ == "__main__":
    sys.exit(main(MEMBER.obtain))
