"""The tests that franz-go has for itself, as a program: `python -m tests.support.obtain.kgo_suite` builds it once.

kgo_suite_go/ pins the version, and all modules that the tests need. The program needs a broker for some of its tests.
"""

import sys
from pathlib import Path

from tests.support.obtain.cache import main
from tests.support.obtain.go_program import of_tests

SUITE = of_tests(
    Path(__file__).with_name("kgo_suite_go"),
    "github.com/twmb/franz-go/pkg/kgo",
    "kgo-suite",
    "the tests of franz-go",
    target="go-client",
    variable="SLUICEGATE_KGO_SUITE",
)

if __name__ == "__main__":
    sys.exit(main(SUITE.obtain))
