"""A folder that looks like an unpacked release of Apache Kafka, over the jars that `make kafka` has fetched."""

from pathlib import Path

from tests.support.obtain.java import java
from tests.support.obtain.kafka_libs import VERSION, kafka_libs
from tests.support.processes.apache_kafka import LOG4J

NAME = f"kafka_2.13-{VERSION}"
STARTED = "Kafka Server started"
"""What the broker prints when it serves."""
_PROGRAMS = {
    "kafka-storage.sh": "kafka.tools.StorageTool",
    "kafka-server-start.sh": "kafka.Kafka",
    "kafka-configs.sh": "kafka.admin.ConfigCommand",
    "kafka-topics.sh": "org.apache.kafka.tools.TopicCommand",
}
_PROPERTIES = """process.roles=broker,controller
node.id=1
controller.quorum.bootstrap.servers=localhost:{controller}
listeners=PLAINTEXT://localhost:{port},CONTROLLER://localhost:{controller}
inter.broker.listener.name=PLAINTEXT
advertised.listeners=PLAINTEXT://localhost:{port},CONTROLLER://localhost:{controller}
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT
log.dirs={logs}
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
"""


def kafka_release(parent: Path, port: int, controller: int) -> Path:
    """Make the folder, with a server.properties for these two ports. Raises ObtainError."""
    folder = parent / NAME
    (folder / "bin").mkdir(parents=True)
    (folder / "config").mkdir()
    log4j = folder / "config" / "log4j2.xml"
    log4j.write_text(LOG4J.replace('Root level="WARN"', 'Root level="INFO"').replace("SYSTEM_ERR", "SYSTEM_OUT"))
    (folder / "config" / "tools-log4j2.xml").write_text(LOG4J)
    for name, program in _PROGRAMS.items():
        path = folder / "bin" / name
        used = log4j if program == "kafka.Kafka" else log4j.with_name("tools-log4j2.xml")
        options = f"-Xmx512m -Dlog4j2.configurationFile={used} -cp '{kafka_libs()}/*'"
        path.write_text(f'#!/bin/bash\nexec {java()} {options} {program} "$@"\n')
        path.chmod(0o755)
    properties = _PROPERTIES.format(port=port, controller=controller, logs=folder / "logs")
    (folder / "config" / "server.properties").write_text(properties)
    return folder
