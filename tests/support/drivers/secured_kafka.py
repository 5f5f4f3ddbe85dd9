"""Apache Kafka as an operator secures it: TLS, passwords, client certificates and ACLs."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path

from certificates import Certificates
from free_ports import free_port
from kafka.admin import (
    ACL,
    ACLFilter,
    ACLOperation,
    ACLPermissionType,
    ACLResourcePatternType,
    ResourcePattern,
    ResourcePatternFilter,
    ResourceType,
    UserScramCredentialUpsertion,
)
from kafka_broker import KafkaBroker
from monitoring import eventually

SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
MECHANISMS = ("SCRAM-SHA-256", "SCRAM-SHA-512")
CLIENT = "User:CN=slicewatch test client"
"""The principal of the client certificate."""


class SecuredKafka(KafkaBroker):
    """Nobody reads without a password or a client certificate, and an ACL.

    Attributes:
        password_listener: address of the SASL_SSL listener (SCRAM).
        certificate_listener: address of the SSL listener that asks for a client certificate.
        certificates: the authority, the broker's certificate and a client's.

    The plain listener is the tests' own back door: whoever comes in there is a super user.
    """

    def __init__(self, libraries: Path, certificates: Certificates, folder: Path) -> None:
        self.password_listener = f"127.0.0.1:{free_port()}"
        self.certificate_listener = f"127.0.0.1:{free_port()}"
        self.certificates = certificates
        super().__init__(libraries, _settings(certificates, folder))

    def listeners(self) -> dict[str, str]:
        return {
            **super().listeners(),
            "SASL": self.password_listener,
            "MTLS": self.certificate_listener,
        }

    def set_password(self, user: str, password: str) -> None:
        """Create a user or change the password; open connections stay open."""
        changes = [UserScramCredentialUpsertion(user, one, password) for one in MECHANISMS]
        for change in changes:  # a request may name a user once only
            assert self.admin.alter_user_scram_credentials([change]) == {user: None}
        eventually(lambda: self._passwords(user) == len(MECHANISMS), "the broker knows the user")

    def _passwords(self, user: str) -> int:
        """How many the broker goes by: it learns of a change after the controller."""
        found = self.admin.describe_user_scram_credentials([user])[user]
        return len(found["credential_infos"])

    def allow(self, commands: str) -> list[ACL]:
        """Do what ``kafka-acls --add`` commands say, one a line."""
        acls = [acl for line in commands.splitlines() for acl in _acls(line)]
        assert not self.admin.create_acls(acls)["failed"]
        eventually(lambda: {*acls} <= self._granted(), "the broker knows what is allowed")
        return acls

    def forbid(self, principal: str, kind: ResourceType = ResourceType.ANY) -> None:
        """Take away every ACL of a principal, or those on topics or groups only."""
        everything = ResourcePatternFilter(kind, None, ACLResourcePatternType.ANY)
        chosen = ACLFilter(principal, None, ACLOperation.ANY, ACLPermissionType.ANY, everything)
        ((_, gone, _),) = self.admin.delete_acls([chosen])
        assert gone, f"{principal} had no ACL to take away"
        eventually(lambda: not {*gone} & self._granted(), "the broker knows what is forbidden")

    def _granted(self) -> set[ACL]:
        """What the broker goes by: it learns of a change after the controller has confirmed it."""
        everything = ResourcePatternFilter(ResourceType.ANY, None, ACLResourcePatternType.ANY)
        anybody = ACLFilter(None, None, ACLOperation.ANY, ACLPermissionType.ANY, everything)
        found, _ = self.admin.describe_acls(anybody)
        return set(found)


def _settings(certificates: Certificates, folder: Path) -> dict[str, str]:
    chain = folder / "broker.pem"
    parts = (certificates.server_key, certificates.server, certificates.ca)
    chain.write_text("".join(part.read_text() for part in parts))
    return {
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,"
        "SASL:SASL_SSL,MTLS:SSL",
        "listener.name.sasl.sasl.enabled.mechanisms": ",".join(MECHANISMS),
        **{f"listener.name.sasl.{one.lower()}.sasl.jaas.config": SCRAM for one in MECHANISMS},
        "listener.name.mtls.ssl.client.auth": "required",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(chain),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(certificates.ca),
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",  # the plain listener knows no names
    }


def _acls(command: str) -> list[ACL]:
    """What one ``kafka-acls --add`` command would create."""
    parser = argparse.ArgumentParser(allow_abbrev=False, exit_on_error=False)
    for option in ("--bootstrap-server", "--command-config", "--allow-principal"):
        parser.add_argument(option, required=True)
    parser.add_argument("--add", action="store_true", required=True)
    for option in ("--operation", "--topic", "--group"):
        parser.add_argument(option, action="append", default=[])
    program, *arguments = shlex.split(command)
    assert program == "kafka-acls.sh", command
    wanted = parser.parse_args(arguments)
    resources = [
        *(ResourcePattern(ResourceType.TOPIC, name) for name in wanted.topic),
        *(ResourcePattern(ResourceType.GROUP, name) for name in wanted.group),
    ]
    operations = [ACLOperation[one.upper()] for one in wanted.operation]
    who, allow = wanted.allow_principal, ACLPermissionType.ALLOW
    return [ACL(who, "*", what, allow, where) for where in resources for what in operations]
