"""A standalone cluster of Spark on loopback, with the classes of pyspark's own jars: a master and workers."""

import os
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Self

import pyspark

from tests.support.audit.spark_session import FEW_ROWS
from tests.support.obtain.java import SHORT_LIVED, java
from tests.support.processes.clients.broker_admin import until

HOME: Final = Path(pyspark.__file__).parent
LOOPBACK: Final = "127.0.0.1"
SUBMIT_S: Final = 300.0
"""Time-out of a job; a job that takes longer hangs."""
_MASTER: Final = re.compile(r"Starting Spark master at (spark://\S+)")
_EXECUTOR_MEMORY: Final = "512m"


class SparkCluster:
    """A master and `workers` of one core each, below `folder`; jobs run with `python`, independent of this process.

    A worker's folder has a folder for each application. That has a folder for each executor, with its files and its
    output.
    """

    def __init__(self, folder: Path, python: Path, workers: int = 2) -> None:
        self._folder = folder
        self._workers = workers
        self._processes: list[subprocess.Popen[bytes]] = []
        unwanted = ("PYTHON", "PYSPARK", "SPARK", "AWS")
        self._environment = {key: value for key, value in os.environ.items() if not key.startswith(unwanted)}
        self._environment |= {"SPARK_HOME": str(HOME), "SPARK_LOCAL_IP": LOOPBACK, "PYSPARK_PYTHON": str(python)}
        # As in Spark's own scripts; workers start no executor without it.
        (core,) = HOME.glob("jars/spark-core_*.jar")
        self._environment["SPARK_SCALA_VERSION"] = core.name.removeprefix("spark-core_").partition("-")[0]
        self.url = ""

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        """Stop the master and the workers; workers end their executors."""
        for process in reversed(self._processes):
            process.terminate()
        for process in reversed(self._processes):
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._processes.clear()

    def executors(self) -> list[Path]:
        """The folders of the last job's executors."""
        found = [each.parent for each in sorted(self._folder.glob("worker-*/app-*/*/stderr"))]
        last = max((each.parent.name for each in found), default="")
        return [each for each in found if each.parent.name == last]

    def submit(self, words: Sequence[str], folder: Path) -> subprocess.CompletedProcess[str]:
        """Run spark-submit in that folder, with all output in stdout; `words` follow its own options of the cluster."""
        options = ["--master", self.url, "--driver-memory", "512m", "--executor-memory", _EXECUTOR_MEMORY]
        for key, value in {
            "spark.driver.host": LOOPBACK,
            "spark.driver.bindAddress": LOOPBACK,
            "spark.driver.extraJavaOptions": SHORT_LIVED,
            "spark.executor.extraJavaOptions": SHORT_LIVED,
            "spark.ui.enabled": "false",
            "spark.sql.shuffle.partitions": "2",
            **FEW_ROWS,
            # No task begins before all executors have registered.
            "spark.cores.max": str(self._workers),
            "spark.scheduler.minRegisteredResourcesRatio": "1.0",
            "spark.scheduler.maxRegisteredResourcesWaitingTime": "60s",
        }.items():
            options += ["--conf", f"{key}={value}"]
        command = [str(HOME / "bin" / "spark-submit"), *options, *words]
        return subprocess.run(
            command,
            cwd=folder,
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=SUBMIT_S,
            check=False,
        )

    def _start(self) -> None:
        ports = ["--host", LOOPBACK, "--port", "0", "--webui-port", "0"]
        said = self._begin("master", ["org.apache.spark.deploy.master.Master", *ports])
        until(lambda: _MASTER.search(said.read_text()) is not None, "the master has an address")
        found = _MASTER.search(said.read_text())
        assert found is not None
        self.url = found[1]
        for number in range(self._workers):
            place = self._folder / f"worker-{number}"
            own = ["--cores", "1", "--memory", "1g", "--work-dir", str(place), self.url]
            self._begin(f"worker-{number}", ["org.apache.spark.deploy.worker.Worker", *ports, *own])
        until(lambda: said.read_text().count("Registering worker") == self._workers, "the workers are known")

    def _begin(self, name: str, words: Sequence[str]) -> Path:
        """Start a process and return the file of its output."""
        said = self._folder / f"{name}.log"
        with said.open("wb") as output:
            command = [java(), "-Xmx256m", *SHORT_LIVED.split(), "-cp", str(HOME / "jars" / "*"), *words]
            self._processes.append(subprocess.Popen(command, env=self._environment, stdout=output, stderr=output))
        return said
