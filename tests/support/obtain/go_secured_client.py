"""A producer and consumer of franz-go, with TLS and SASL: `python -m tests.support.obtain.go_secured_client` builds it.

The sources are secured_client_go/ and the modules that its go.sum pins.
"""

import sys
from pathlib import Path

from tests.support.obtain.cache import main
from tests.support.obtain.go_program import of_folder

CLIENT = of_folder(
    Path(__file__).with_name("secured_client_go"),
    "secured-client",
    "the secured Go client",
    target="go-client",
    variable="SLUICEGATE_GO_SECURED_CLIENT",
    cached_as="go-secured-client",
)

if __name__ == "__main__":
    sys.exit(main(CLIENT.obtain))
