"""When certificates expire: read from their files, told by ``check``, shown in the metrics."""

from __future__ import annotations

import ssl
import subprocess
from datetime import UTC, datetime
from pathlib import Path

import pytest
from certificates import Certificates, make_certificates
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st

from monitor import certificates as reading
from monitor.cli import cli
from monitor.core.time import DAY, to_micros
from monitor.errors import SlicewatchError
from monitor.service import Parts, Service
from monitor.settings import load

SETTINGS = Path(__file__).parents[3] / "deploy" / "examples" / "ten_pairs.toml"
FILES = {
    "server": "SLICEWATCH__SERVER__TLS_CERT_FILE",
    "client_ca": "SLICEWATCH__SERVER__CLIENT_CA_FILE",
    "kafka_ca": "SLICEWATCH__STREAM__SECURITY__CA_FILE",
    "kafka_client": "SLICEWATCH__STREAM__SECURITY__CERT_FILE",
    "registry_ca": "SLICEWATCH__STREAM__SCHEMA_REGISTRY__CA_FILE",
    "registry_client": "SLICEWATCH__STREAM__SCHEMA_REGISTRY__CERT_FILE",
}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture
def environment(made: Certificates) -> dict[str, str]:
    return {
        FILES["server"]: str(made.server),
        "SLICEWATCH__SERVER__TLS_KEY_FILE": str(made.server_key),
        FILES["client_ca"]: str(made.ca),
        "SLICEWATCH__STREAM__SECURITY__PROTOCOL": "SSL",
        FILES["kafka_ca"]: str(made.ca),
        FILES["kafka_client"]: str(made.client),
        "SLICEWATCH__STREAM__SECURITY__KEY_FILE": str(made.client_key),
        "SLICEWATCH__STREAM__SCHEMA_REGISTRY__URL": "https://127.0.0.1:1",
        FILES["registry_ca"]: str(made.ca),
        FILES["registry_client"]: str(made.client),
        "SLICEWATCH__STREAM__SCHEMA_REGISTRY__KEY_FILE": str(made.client_key),
    }


def by_openssl(file: Path) -> int:
    """Microseconds, as the program that made it says."""
    command = ["openssl", "x509", "-noout", "-enddate", "-dateopt", "iso_8601", "-in", str(file)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    text = done.stdout.strip().removeprefix("notAfter=")
    return to_micros(datetime.strptime(text, "%Y-%m-%d %H:%M:%SZ").replace(tzinfo=UTC))


def check(environment: dict[str, str]) -> Result:
    return CliRunner(env=environment).invoke(
        # With so many decisions a day nothing has to be proposed, which takes seconds.
        cli,
        ["check", "-s", str(SETTINGS), "--daily", "50000"],
        standalone_mode=False,
    )


def at(monkeypatch: pytest.MonkeyPatch, now: int) -> None:
    monkeypatch.setattr("monitor.commands.check.SystemClock.now", lambda _: now)


def test_all_that_the_settings_name_are_read_as_openssl_reads_them(
    environment: dict[str, str], made: Certificates
) -> None:
    found = dict(reading.expiries(load(SETTINGS, environment)))
    files = (made.server, *(made.ca, made.ca, made.client), made.ca, made.client)
    assert found == dict(zip(FILES, map(by_openssl, files), strict=True))


def test_the_service_shows_them(environment: dict[str, str], tmp_path: Path) -> None:
    environment["SLICEWATCH__STORE__URL"] = f"sqlite:///{tmp_path / 'store.db'}"
    service = Service(load(SETTINGS, environment), Parts(ingest=False))
    service.stop()
    shown, name = service.metrics.registry, "slicewatch_certificate_not_after_timestamp_seconds"
    for certificate, end in reading.expiries(load(SETTINGS, environment)):
        assert shown.get_sample_value(name, {"certificate": certificate}) == end / 1e6


@pytest.mark.parametrize("end", ["20491231235959Z", "20500101000000Z", "99991231235959Z"])
def test_both_ways_to_write_a_year(tmp_path: Path, end: str) -> None:
    file = tmp_path / "one.pem"
    config = tmp_path / "ca.cnf"
    (tmp_path / "index").touch()
    config.write_text(
        "[ca]\ndefault_ca=d\n[d]\ndatabase=index\nnew_certs_dir=.\nrand_serial=yes\n"
        "default_md=sha256\npolicy=p\n[p]\ncommonName=supplied\n[req]\ndistinguished_name=dn\n[dn]\n"
    )
    request = ["openssl", "req", "-new", "-config", "ca.cnf", "-subj", "/CN=x", "-nodes"]
    request += ["-newkey", "rsa:2048", "-keyout", "key.pem", "-out", "request.pem"]
    sign = ["openssl", "ca", "-batch", "-config", "ca.cnf", "-selfsign", "-keyfile", "key.pem"]
    sign += ["-in", "request.pem", "-startdate", "20260101000000Z", "-enddate", end, "-notext"]
    for command in (request, [*sign, "-out", "one.pem"]):
        subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    one = reading.CertificateFile("server", "server.tls_cert_file", file, min)
    expected = datetime.strptime(end, "%Y%m%d%H%M%SZ").replace(tzinfo=UTC)
    assert one.not_after() == to_micros(expected)


def test_a_chain_ends_with_its_first_and_a_bundle_with_its_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ends = iter([5, 3, 9] * 2)
    monkeypatch.setattr(reading, "not_after", lambda _: next(ends))
    file = tmp_path / "many.pem"
    one = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
    file.write_text(f"{one}# a word between\n{one}-----BEGIN PRIVATE KEY-----\nx\n{one}")
    assert reading.CertificateFile("server", "k", file, min).not_after() == 3
    assert reading.CertificateFile("kafka_ca", "k", file, max).not_after() == 9


@given(st.binary(max_size=60))
def test_what_is_no_certificate_is_an_error_of_one_kind(junk: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - whatever its words
        reading.not_after(junk)


def test_one_that_is_cut_short_is_an_error_of_one_kind(made: Certificates) -> None:
    whole = ssl.PEM_cert_to_DER_cert(made.server.read_text())
    for length in range(len(whole)):
        with pytest.raises(ValueError):  # noqa: PT011
            reading.not_after(whole[:length])


def test_check_says_how_long_they_last(
    environment: dict[str, str], made: Certificates, monkeypatch: pytest.MonkeyPatch
) -> None:
    end = by_openssl(made.server)
    at(monkeypatch, end - 30 * DAY)
    lines = check(environment).output.splitlines()
    assert sum(" is valid until " in line for line in lines) == len(FILES)

    at(monkeypatch, end - 9 * DAY - DAY // 2)
    found = check(environment)
    assert found.exit_code == 0
    told = [line for line in found.output.splitlines() if "in less than 10 days" in line]
    assert len(told) == len(FILES)
    assert all(line.startswith("warning: ") for line in told)


def test_an_expired_one_of_a_server_is_an_error_and_others_are_warnings(
    environment: dict[str, str], made: Certificates, monkeypatch: pytest.MonkeyPatch
) -> None:
    at(monkeypatch, by_openssl(made.server) + DAY)
    found = check(environment)
    assert isinstance(found.exception, SlicewatchError)
    told = str(found.exception)
    assert "server.tls_cert_file expired on " in told
    assert "kafka" not in told
    lines = [line for line in found.output.splitlines() if " expired on " in line]
    assert {line.partition(" expired ")[0] for line in lines} == {
        "warning: server.client_ca_file",
        "warning: stream.security.ca_file",
        "warning: stream.security.cert_file",
        "warning: stream.schema_registry.ca_file",
        "warning: stream.schema_registry.cert_file",
    }


def test_what_cannot_be_read_is_told_by_check_and_left_out_of_the_metrics(
    environment: dict[str, str], tmp_path: Path
) -> None:
    junk = tmp_path / "junk.pem"
    junk.write_text("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
    gone = {FILES["kafka_ca"]: str(tmp_path / "gone.pem"), FILES["kafka_client"]: str(junk)}
    changed = {**environment, **gone}
    assert set(dict(reading.expiries(load(SETTINGS, changed)))) == {*FILES} - {
        "kafka_ca",
        "kafka_client",
    }
    output = check(changed).output
    assert f"warning: stream.security.ca_file: {gone[FILES['kafka_ca']]}: No such file" in output
    assert "junk.pem holds no certificate (PEM)" in output
