"""Apache Kafka for the tests: fetched from Maven Central once, run as one local process."""

from __future__ import annotations

import atexit
import os
import shutil
import subprocess
import tempfile
import textwrap
from collections.abc import Mapping, Sequence
from fcntl import LOCK_EX, flock
from functools import cache, partial
from pathlib import Path

from brokers import MAX_MESSAGE_BYTES, Broker
from free_ports import free_port

from monitor.demo.broker import port_accepts, start_child, stop_child, wait_until

KAFKA_VERSION = "4.3.0"  # 4.4.0 cannot be resolved from Maven Central: kafka-tools-api is missing
LOG4J_VERSION = "2.24.3"
COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"
FETCH_SECONDS = 300
START_SECONDS = 90.0
STOP_SECONDS = 20.0

POM = """\
<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
 <groupId>slicewatch</groupId><artifactId>kafka-run</artifactId><version>1</version>
 <packaging>pom</packaging>
 <dependencies>{dependencies}
 </dependencies></project>
"""
DEPENDENCY = """
  <dependency><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version></dependency>"""
LIBRARIES = (
    ("org.apache.kafka", "kafka_2.13", KAFKA_VERSION),
    ("org.apache.logging.log4j", "log4j-core", LOG4J_VERSION),
    ("org.apache.logging.log4j", "log4j-slf4j-impl", LOG4J_VERSION),
    ("org.apache.logging.log4j", "log4j-1.2-api", LOG4J_VERSION),
)
TOOLS = (("org.apache.kafka", "kafka-tools", KAFKA_VERSION),)
"""What ``kafka-topics.sh`` and the other scripts of the image run."""

# Without a configuration of its own log4j prints nothing at all.
LOG4J = """\
<Configuration status="ERROR">
 <Appenders><Console name="out"><PatternLayout pattern="%d %p %c{1} %m%n"/></Console></Appenders>
 <Loggers><Root level="WARN"><AppenderRef ref="out"/></Root></Loggers>
</Configuration>
"""

# A broker that was killed may come back only when the controller has given up its old session:
# at the default of 9 s a restart takes 12 s.
SETTINGS = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "inter.broker.listener.name": "PLAINTEXT",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "broker.heartbeat.interval.ms": "250",
    "broker.session.timeout.ms": "1500",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "4",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "share.coordinator.state.topic.num.partitions": "4",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
    "auto.create.topics.enable": "false",
    "message.max.bytes": str(MAX_MESSAGE_BYTES),
    "log.retention.ms": "-1",  # tests write records of any age
    "metadata.max.idle.interval.ms": "0",  # no entry twice a second that nothing has happened
}
# Four of them stand idle for most of a session. At the pace above that is a minute of CPU each.
LASTING = {
    "broker.heartbeat.interval.ms": "2000",
    "broker.session.timeout.ms": "9000",
    "log.cleaner.enable": "false",
    "num.io.threads": "2",
    "num.network.threads": "1",
}
"""Of a broker that nobody stops: what it says to its controller may be seldom."""


class KafkaBroker(Broker):
    """One Apache Kafka, broker and controller in one process, on a directory of its own.

    Args:
        libraries: its jars.
        settings: in place of the ones above.
        machine: options of the Java machine; without any it takes the classes from the archive.
    """

    def __init__(
        self,
        libraries: Path,
        settings: Mapping[str, str] | None = None,
        machine: Sequence[str] = (),
    ) -> None:
        self._home = Path(tempfile.mkdtemp(prefix="slicewatch-kafka-"))
        self._libraries = libraries
        self._machine = [*machine] or [f"-XX:SharedArchiveFile={class_archive(libraries)}"]
        self._port, controller = free_port(), free_port()
        super().__init__("kafka", f"127.0.0.1:{self._port}")
        self._write_settings(controller, settings or {})
        self._process: subprocess.Popen[bytes] | None = None
        try:
            self._format()
            self.start()
        except BaseException:
            self.close()
            raise

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process else None

    def start(self) -> None:
        """Start on the data that is there; returns when clients get metadata."""
        with (self._home / "output.log").open("ab") as output:
            logging = f"-Dlog4j2.configurationFile={self._home / 'log4j2.xml'}"
            settings = str(self._home / "server.properties")
            command = java(self._libraries, "kafka.Kafka", settings, [*self._machine, logging])
            self._process = start_child(command, output)
        accepts = partial(port_accepts, self._port)
        if not wait_until(self._process, accepts, START_SECONDS):
            raise RuntimeError(f"Apache Kafka ended while starting:\n{self.last_words()}")
        self.admin.list_topics()

    def stop(self, seconds: float = STOP_SECONDS) -> None:
        """SIGTERM: a clean shutdown."""
        self.disconnect()
        if self._process is not None:
            stop_child(self._process, seconds)
            self._process = None

    def kill(self) -> None:
        """SIGKILL, and clients of this helper stay as they are: what a crash looks like."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()
        self._process = None

    def restart(self) -> None:
        """Start again on the same port and data after :meth:`stop` or :meth:`kill`."""
        assert self._process is None
        self.disconnect()
        self.start()

    def close(self) -> None:
        self.stop()
        shutil.rmtree(self._home, ignore_errors=True)

    def listeners(self) -> dict[str, str]:
        """Address by name of every listener for clients."""
        return {"PLAINTEXT": self.bootstrap}

    def last_words(self) -> str:
        lines = (self._home / "output.log").read_text(errors="replace").splitlines()
        return textwrap.indent("\n".join(lines[-15:]), "  ")

    def _write_settings(self, controller: int, more: Mapping[str, str]) -> None:
        doors = ",".join(f"{name}://{address}" for name, address in self.listeners().items())
        listeners = {
            "listeners": f"{doors},CONTROLLER://127.0.0.1:{controller}",
            "advertised.listeners": doors,
            "controller.quorum.voters": f"1@127.0.0.1:{controller}",
            "log.dirs": str(self._home / "data"),
        }
        lines = [f"{name}={value}\n" for name, value in {**SETTINGS, **listeners, **more}.items()]
        (self._home / "server.properties").write_text("".join(lines))
        (self._home / "log4j2.xml").write_text(LOG4J)

    def _format(self) -> None:
        shutil.copytree(formatted(self._libraries), self._home / "data")


def java(libraries: Path, main: str, settings: str, machine: Sequence[str] = ()) -> list[str]:
    """The command that runs a program of Kafka; its settings are the last argument."""
    # The first seconds are spent compiling: the simple compiler alone starts twice as fast.
    usual = ["-Xms256m", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
    return ["java", *usual, *machine, "-cp", f"{libraries}/*", *main.split(), settings]


@cache
def formatted(libraries: Path) -> Path:
    """A data directory as a new broker needs it, made once in a process: it takes a second."""
    home = Path(tempfile.mkdtemp(prefix="slicewatch-kafka-formatted-"))
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    settings = home / "server.properties"
    here = {
        "listeners": "PLAINTEXT://127.0.0.1:1,CONTROLLER://127.0.0.1:2",
        "controller.quorum.voters": "1@127.0.0.1:2",
        "log.dirs": str(home / "data"),
    }
    settings.write_text("".join(f"{k}={v}\n" for k, v in {**SETTINGS, **here}.items()))
    cluster = "slicewatchtestsAAAAAAA"  # a base64 uuid: 22 characters
    tool = f"kafka.tools.StorageTool format -t {cluster} -c"
    _run(java(libraries, tool, str(settings)), START_SECONDS)
    return home / "data"


@cache
def class_archive(libraries: Path) -> Path:
    """The classes of a broker as Java keeps them ready; a start takes a third less with them.

    Made once on a machine, by a broker that does a little of everything. Java does without where
    there is none, and where it fits neither the jars nor this Java.
    """
    archive = libraries.with_name(f"{libraries.name}.jsa")
    with libraries.with_name(f"{libraries.name}.lock").open("w") as lock:
        flock(lock, LOCK_EX)  # another worker may be at it
        if not archive.exists():
            made = archive.with_suffix(".new")
            broker = KafkaBroker(libraries, machine=[f"-XX:ArchiveClassesAtExit={made}"])
            broker.create_topic("classes", 1)
            broker.produce("classes", [b"{}"], partition=0)
            broker.stop(START_SECONDS)
            broker.close()
            if made.exists():
                made.rename(archive)
    return archive


def missing_tools() -> list[str]:
    """The programs Apache Kafka needs and this machine does not have."""
    return [tool for tool in ("java", "mvn") if shutil.which(tool) is None]


def kafka_libraries() -> Path:
    """Directory with Apache Kafka's jars, fetched from Maven Central when not there yet."""
    return _jars(f"kafka-{KAFKA_VERSION}", LIBRARIES)


def kafka_tools() -> Path:
    """The same for its command-line tools."""
    return _jars(f"kafka-tools-{KAFKA_VERSION}", TOOLS)


def _jars(name: str, libraries: Sequence[tuple[str, str, str]]) -> Path:
    base = os.environ.get("SLICEWATCH_CACHE") or Path.home() / ".cache" / "slicewatch-tests"
    folder = Path(base) / name
    if not folder.is_dir():
        _fetch(folder, libraries)
    return folder


def _fetch(folder: Path, libraries: Sequence[tuple[str, str, str]]) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
        blocks = "".join(DEPENDENCY.format(*library) for library in libraries)
        Path(scratch, "pom.xml").write_text(POM.format(dependencies=blocks))
        fetched = Path(scratch, "libraries")
        maven = ["mvn", "-q", "-B", "-C", "-f", f"{scratch}/pom.xml", COPY]
        _run([*maven, "-DincludeScope=runtime", f"-DoutputDirectory={fetched}"], FETCH_SECONDS)
        try:  # all or nothing; another test run may have been faster
            fetched.rename(folder)
        except OSError:
            if not folder.is_dir():
                raise


def _run(command: list[str], seconds: float) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False)
    if done.returncode != 0:
        said = (done.stdout + done.stderr)[-2000:]
        raise RuntimeError(f"{command[0]} failed with {done.returncode}:\n{said}")
