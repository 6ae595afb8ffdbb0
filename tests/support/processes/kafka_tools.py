"""Apache Kafka's command line tools against one cluster, all in one JVM (KafkaTools.java).

with KafkaTools(bootstrap, folder) as tools:
    text = tools(GROUPS, "--list")
"""

import subprocess
import threading
from pathlib import Path
from typing import Self

from tests.support.obtain.java import java
from tests.support.obtain.kafka_libs import kafka_libs
from tests.support.processes.apache_kafka import LOG4J

PROGRAM = Path(__file__).with_name("KafkaTools.java")
TIMEOUT_S = 120.0
END = "\x01"


class KafkaTools:
    """Apache Kafka's tools in one JVM.

    A tool that exceeds the time-out ends with the JVM, and fails the test with what it had printed.
    """

    def __init__(self, bootstrap: str, folder: Path) -> None:
        self._bootstrap = bootstrap
        self._log4j = folder / "log4j2.xml"
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        self._log4j.write_text(LOG4J)
        options = ["-Xmx192m", "-XX:TieredStopAtLevel=1", f"-Dlog4j2.configurationFile={self._log4j}"]
        command = [java(), *options, "-cp", f"{kafka_libs()}/*", str(PROGRAM)]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.communicate()

    def __call__(self, main_class: str, *arguments: str) -> str:
        """Run a tool and return what it printed on both streams; a tool that fails fails the test with its output."""
        code, printed = self.ended(main_class, *arguments)
        assert code == 0, printed
        return printed

    def ended(self, main_class: str, *arguments: str) -> tuple[int, str]:
        """Run a tool; return its exit code and what it printed."""
        process = self._process
        assert process is not None
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write("\t".join((main_class, "--bootstrap-server", self._bootstrap, *arguments)) + "\n")
        process.stdin.flush()
        printed: list[str] = []
        overdue = threading.Timer(TIMEOUT_S, process.kill)
        overdue.start()
        try:
            for line in process.stdout:
                if line.startswith(END):
                    return int(line[1:]), "".join(printed)
                printed.append(line)
        finally:
            overdue.cancel()
        raise AssertionError(f"{main_class} came to no end:\n{''.join(printed)}")
