"""The tests that sarama has for itself, as a program: `python -m tests.support.obtain.sarama_suite` builds it once.

The version and the sum of its module pin all that it needs. sarama's tests look for brokers at five fixed ports. The
build replaces this one expression, so that the tests take the addresses from the environment variable KAFKA_PEERS.
"""

import sys

from tests.support.obtain.cache import main
from tests.support.obtain.go_module import GoModule
from tests.support.obtain.go_program import Edit, of_edited_tests

SUITE = of_edited_tests(
    GoModule("github.com/IBM/sarama", "v1.61.1", "h1:I59MWPHQUWqJNdRpsDUcbeCriog8SxjQaPfHNWxidEg="),
    "functional",
    Edit(
        "functional_test.go",
        'fmt.Sprintf("127.0.0.1:%d", 29090+i)',
        'strings.Split(os.Getenv("KAFKA_PEERS"), ",")[i-1]',
    ),
    "sarama-suite",
    "the tests of sarama",
    target="client-suites",
    variable="SLUICEGATE_SARAMA_SUITE",
)

if __name__ == "__main__":
    sys.exit(main(SUITE.obtain))
