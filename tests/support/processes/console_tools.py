"""Apache Kafka's command line tools against one broker, each in a JVM of its own, as people start them."""

import subprocess
from pathlib import Path

from tests.support.obtain.java import java
from tests.support.obtain.kafka_libs import kafka_libs
from tests.support.processes.apache_kafka import LOG4J

_TIMEOUT_S = 180


class ConsoleTools:
    """Runs the tools with a log configuration that limits their output to what they print."""

    def __init__(self, bootstrap: str, folder: Path) -> None:
        self._bootstrap = bootstrap
        self._log4j = folder / "log4j2.xml"
        self._log4j.write_text(LOG4J)

    def __call__(self, main_class: str, *arguments: str, lines: str = "") -> str:
        """Run a tool and return its output. A tool that fails fails the test with its output."""
        options = ["-Xmx128m", "-XX:TieredStopAtLevel=1", f"-Dlog4j2.configurationFile={self._log4j}"]
        command = [java(), *options, "-cp", f"{kafka_libs()}/*", main_class, "--bootstrap-server", self._bootstrap]
        done = subprocess.run(
            [*command, *arguments], input=lines, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout
