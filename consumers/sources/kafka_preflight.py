"""Check of a Kafka broker: does it admit us, and grant the rights that we need?

The clients cannot tell: they retry in silence, and miss a refusal that arrives together with the
end of the connection. So one connection is opened for this check and goes through the steps of a
client. The error names the first step that fails, and the setting for it.
"""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kafka.errors import KafkaError
from kafka.net.sasl import get_sasl_mechanism
from kafka.protocol.broker_version_data import BrokerVersionData
from kafka.protocol.consumer import HeartbeatRequest
from kafka.protocol.metadata import ApiVersionsRequest, MetadataRequest
from kafka.protocol.parser import KafkaProtocol
from kafka.protocol.sasl import SaslAuthenticateRequest, SaslHandshakeRequest

from monitor.errors import AccessError

TOPIC_REFUSED, GROUP_REFUSED, MECHANISM_REFUSED = 29, 30, 33
READ, WRITE, UNREPORTED = 3, 4, 31
"""Bits of the operations that a broker allows us on a topic; the last: it reports none."""
EXPIRED, OTHER_NAMES = 10, (62, 64)
"""OpenSSL's reasons to refuse a certificate: out of date, made for another name or address."""
LARGEST_ANSWER = 16 << 20
KEY = "stream.security"


@dataclass(frozen=True, slots=True)
class Need:
    """Rights that are needed: topics to read, the group to join, topics to write.

    Topics to write are among the topics to read.
    """

    topics: Sequence[str] = ()
    group: str | None = None
    written: Sequence[str] = ()


def check_access(
    address: tuple[str, int], security: Mapping[str, Any], need: Need, timeout: float
) -> None:
    """Check connection, TLS, login and rights at one broker; raise AccessError if refused.

    Args:
        address: host and port.
        security: kafka-python's own arguments: ``security_protocol``, ``sasl_*``, ``ssl_*``.
        need: rights to ask for.
        timeout: seconds for the whole check.

    Raises:
        AccessError: access is refused; the message names the fix.
        OSError: the broker cannot be reached, or does not answer in time.
    """
    deadline = time.monotonic() + timeout
    protocol = str(security.get("security_protocol", "PLAINTEXT"))
    context = _tls_context(security) if protocol.endswith("SSL") else None
    server = f"{address[0]}:{address[1]}"
    with socket.create_connection(address, timeout) as plain:
        connected = plain if context is None else _shake_hands(plain, context, address[0], server)
        with connected:
            try:
                _BrokerCheck(_Exchange(connected, deadline), server, security).ask_for(need)
            except (AccessError, OSError):
                raise
            except Exception as error:  # another program's bytes may parse as anything
                raise AccessError(
                    f"{server} does not answer like a Kafka broker ({type(error).__name__}): check "
                    "stream.bootstrap_servers"
                ) from error


class _Exchange:
    """Requests and answers over one blocking socket, one at a time, until a deadline."""

    def __init__(self, connected: socket.socket, deadline: float) -> None:
        self._socket = connected
        self._deadline = deadline
        self._protocol = KafkaProtocol(
            client_id="slicewatch-access", receive_message_max_bytes=LARGEST_ANSWER
        )

    def ask(self, request: Any) -> Any:
        """Send a request and return its answer; raise OSError, EOFError or KafkaError (noise)."""
        self._protocol.send_request(request)
        self._patience()
        self._socket.sendall(self._protocol.send_bytes())
        while True:
            self._patience()
            received = self._socket.recv(65536)
            if not received:
                raise EOFError
            for _, answer in self._protocol.receive_bytes(received):
                return answer

    def _patience(self) -> None:
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError("no answer in time")
        self._socket.settimeout(left)


class _BrokerCheck:
    """Check of one broker over one connection: protocol, login, then rights."""

    def __init__(self, exchange: _Exchange, server: str, security: Mapping[str, Any]) -> None:
        self._exchange = exchange
        self._server = server
        self._security = security
        self._protocol = str(security.get("security_protocol", "PLAINTEXT"))

    def ask_for(self, need: Need) -> None:
        """Check protocol, login and the needed rights; raise AccessError at the first refusal."""
        versions = self._ask_versions()
        if self._protocol.startswith("SASL"):
            self._log_in()
        self._check_topics(need, versions)
        if need.group is not None:
            self._check_group(need.group, versions)

    def _ask_versions(self) -> BrokerVersionData:
        """Ask for the broker's supported requests, and return their versions."""
        answer = self._or_refused(ApiVersionsRequest(version=0), self._no_answer)
        keys = {api.api_key: (api.min_version, api.max_version) for api in answer.api_keys}
        return BrokerVersionData(api_versions=keys)

    def _log_in(self) -> None:
        mechanism = self._security["sasl_mechanism"]
        answer = self._or_refused(
            SaslHandshakeRequest(mechanism=mechanism, version=1), self._login_refused
        )
        if answer.error_code == MECHANISM_REFUSED:
            offered = " or ".join(sorted(answer.mechanisms))
            raise AccessError(
                f"{self._server} does not offer {KEY}.sasl_mechanism = {mechanism}: use {offered}"
            )
        if answer.error_code:
            plain = "SSL" if self._protocol == "SASL_SSL" else "PLAINTEXT"
            raise AccessError(
                f"{self._server} knows no login: set {KEY}.protocol to {plain} or use the address "
                "of a listener with SASL"
            )
        self._prove_password(get_sasl_mechanism(mechanism)(**self._security))

    def _prove_password(self, mechanism: Any) -> None:
        """Exchange SASL messages until both sides are sure; else the login is refused."""
        while not mechanism.is_done():
            request = SaslAuthenticateRequest(mechanism.auth_bytes(), version=0)
            answer = self._or_refused(request, self._login_refused)
            if answer.error_code:
                raise self._login_refused("")
            try:
                mechanism.receive(answer.auth_bytes)
            except (ValueError, KeyError) as error:  # no proof of the password
                raise self._login_refused("") from error

    def _check_topics(self, need: Need, versions: BrokerVersionData) -> None:
        """Raise AccessError if topics may not be read or written, or a login is missing."""
        request = MetadataRequest(
            version=versions.api_version(MetadataRequest),
            topics=[MetadataRequest.MetadataRequestTopic(name=topic) for topic in need.topics],
            allow_auto_topic_creation=False,
            include_topic_authorized_operations=True,
        )
        answer = self._or_refused(request, self._login_wanted)
        for topic in answer.topics:
            if topic.error_code == TOPIC_REFUSED or not _is_allowed(topic, READ):
                raise self._forbidden("topic", topic.name)
            if topic.name in need.written and not _is_allowed(topic, WRITE):
                raise self._forbidden("topic", topic.name, "written", "Write")

    def _check_group(self, group: str, versions: BrokerVersionData) -> None:
        """Raise AccessError if the group may not be joined, as a heartbeat of no member shows.

        A missing right is refused before anything else. Any broker answers it, not only the group's
        coordinator, and it has no effect.
        """
        request = HeartbeatRequest(
            version=versions.api_version(HeartbeatRequest),
            group_id=group,
            generation_id=0,
            member_id="slicewatch-access",
            group_instance_id=None,
        )
        answer = self._or_refused(request, self._login_wanted)
        if answer.error_code == GROUP_REFUSED:
            raise self._forbidden("group", group)

    def _or_refused(self, request: Any, refusal: Callable[[str], AccessError]) -> Any:
        """Ask the broker; a connection that it closes raises ``refusal``."""
        try:
            return self._exchange.ask(request)
        except TimeoutError:
            raise
        except (EOFError, ConnectionError, ssl.SSLError) as error:
            raise refusal(getattr(error, "reason", None) or "") from error
        except KafkaError as error:  # no Kafka: the first bytes make no sense
            raise self._no_answer("") from error

    def _no_answer(self, alert: str) -> AccessError:
        """Return the error for a broker that hangs up: wrong protocol or no certificate."""
        if not self._protocol.endswith("SSL"):
            tls = "SASL_SSL" if self._protocol.startswith("SASL") else "SSL or SASL_SSL"
            return AccessError(
                f"{self._server} does not speak Kafka in plain text, TLS perhaps: set "
                f"{KEY}.protocol to {tls}, or use the address of the plain listener"
            )
        if self._security.get("ssl_certfile") is None:
            return AccessError(
                f"{self._server} hangs up without a client certificate: set {KEY}.cert_file and "
                f"key_file, or use the address of a listener that asks for none"
            )
        reason = f" ({alert.lower().replace('_', ' ')})" if alert else ""
        return AccessError(
            f"{self._server} refuses the client certificate{reason}: {KEY}.cert_file must be valid "
            "and signed by an authority that the broker trusts"
        )

    def _login_wanted(self, _: str) -> AccessError:
        wanted = "SASL_SSL" if self._protocol == "SSL" else "SASL_PLAINTEXT"
        return AccessError(
            f"{self._server} hangs up without a login: set {KEY}.protocol to {wanted}, with "
            "sasl_mechanism, username and password"
        )

    def _login_refused(self, _: str) -> AccessError:
        return AccessError(
            f"{self._server} refuses the login of {self._who} by "
            f"{self._security['sasl_mechanism']}: the user is unknown there or {KEY}.password is "
            "wrong"
        )

    def _forbidden(
        self, kind: str, name: str, verb: str = "read", operation: str = "Read"
    ) -> AccessError:
        user = self._security.get("sasl_plain_username") or "NAME"
        return AccessError(
            f"{kind} {name} may not be {verb} by {self._who} at {self._server}: allow it with "
            f"kafka-acls.sh --add --allow-principal User:{user} --operation {operation}"
            f" --{kind} {name}"
        )

    @property
    def _who(self) -> str:
        user = self._security.get("sasl_plain_username")
        return f"user {user}" if user else "this client"


def _is_allowed(topic: Any, operation: int) -> bool:
    """Return False if the broker reports that an operation (number) on a topic is forbidden."""
    allowed = topic.authorized_operations or {UNREPORTED}
    return topic.error_code != 0 or UNREPORTED in allowed or operation in allowed


def _tls_context(security: Mapping[str, Any]) -> ssl.SSLContext:
    """Return the TLS context of the security settings; raise AccessError for unusable files."""
    ca, cert, key = (security.get(f"ssl_{name}") for name in ("cafile", "certfile", "keyfile"))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        if ca is None:
            context.load_default_certs()
        else:
            context.load_verify_locations(ca)
    except OSError as error:
        raise _unusable("ca_file", error, ca) from error
    try:
        if cert is not None:
            # Else OpenSSL would prompt for the password of an encrypted key.
            context.load_cert_chain(cert, key, password=lambda: "")
    except OSError as error:
        raise _unusable("cert_file and key_file", error, cert, key) from error
    return context


def _unusable(name: str, error: OSError, *files: str | None) -> AccessError:
    if isinstance(error, ssl.SSLError):
        why = "PEM is needed, unencrypted, certificate and key of one pair"
    else:
        why = f"{error.strerror}"
    named = " and ".join(file for file in files if file is not None)
    return AccessError(f"{KEY}.{name} cannot be used: {named}: {why}")


def _shake_hands(
    connected: socket.socket, context: ssl.SSLContext, host: str, server: str
) -> ssl.SSLSocket:
    try:
        return context.wrap_socket(connected, server_hostname=host)
    except TimeoutError:
        raise TimeoutError("no answer to the TLS handshake") from None
    except ssl.SSLCertVerificationError as error:
        raise AccessError(_distrust(error, server)) from error
    except (ssl.SSLError, ConnectionError) as error:
        raise AccessError(
            f"{server} does not speak TLS: set {KEY}.protocol to PLAINTEXT or SASL_PLAINTEXT, or "
            "use the address of the TLS listener"
        ) from error


def _distrust(error: ssl.SSLCertVerificationError, server: str) -> str:
    if error.verify_code in OTHER_NAMES:
        fix = "use a name that it holds in stream.bootstrap_servers"
    elif error.verify_code == EXPIRED:
        fix = "renew it at the broker"
    else:
        fix = f"set {KEY}.ca_file to the certificate of the authority that signed it"
    return f"the certificate of {server} is not trusted ({error.verify_message}): {fix}"
