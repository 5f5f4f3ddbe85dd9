"""What the deployed processes stand on: Apache Kafka, PostgreSQL with its logins, image scripts."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from deployed import Container
from kafka_broker import KafkaBroker, kafka_libraries, kafka_tools
from postgres import PostgresServer

SCRIPTS = {
    "kafka-topics.sh": "org.apache.kafka.tools.TopicCommand",
    "kafka-broker-api-versions.sh": "org.apache.kafka.tools.BrokerApiVersionsCommand",
}
"""Scripts of the image apache/kafka, and what each of them runs."""
OWN = ("LISTENERS", "ADVERTISED_LISTENERS", "CONTROLLER_QUORUM_VOTERS", "LOG_DIRS", "NODE_ID")
"""Settings of the container that are about its own addresses and folders."""


@dataclass
class Surroundings:
    """The servers, and the names that containers have for them.

    Attributes:
        broker: Apache Kafka, with the container's settings.
        server: PostgreSQL.
        names: what containers call them -> where they are here.
    """

    broker: KafkaBroker
    server: PostgresServer
    names: dict[str, str]

    @property
    def superuser(self) -> dict[str, str]:
        """How PostgreSQL's programs find the server."""
        return {
            "PGHOST": "127.0.0.1",
            "PGPORT": str(self.server.port),
            "PGPASSWORD": self.server.password,
        }


@contextmanager
def surroundings(folder: Path, kafka: Container) -> Iterator[Surroundings]:
    """Both servers, empty."""
    broker = KafkaBroker(kafka_libraries(), broker_settings(kafka.environment))
    try:
        server = PostgresServer()
        try:
            names = {
                "kafka:9092": broker.bootstrap,
                "kafka.messaging.svc:9092": broker.bootstrap,
                "postgres:5432": f"127.0.0.1:{server.port}",
                "/opt/kafka/bin": str(_scripts(folder / "kafka")),
                "PATH": str(server.bin),
            }
            yield Surroundings(broker, server, names)
        finally:
            server.close()
    finally:
        broker.close()


def broker_settings(environment: Mapping[str, str]) -> dict[str, str]:
    """The server's properties that the image makes of KAFKA_ variables."""
    named = {
        name.removeprefix("KAFKA_"): value
        for name, value in environment.items()
        if name.startswith("KAFKA_")
    }
    return {
        name.lower().replace("_", "."): value for name, value in named.items() if name not in OWN
    }


def _scripts(folder: Path) -> Path:
    """The image's scripts, on this machine's Java."""
    folder.mkdir()
    java = shutil.which("java")
    for name, program in SCRIPTS.items():
        options = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
        text = f"#!/bin/sh\nexec {java} {options} -cp '{kafka_tools()}/*' {program} \"$@\"\n"
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    return folder
