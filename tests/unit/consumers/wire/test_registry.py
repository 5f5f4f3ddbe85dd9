"""The registry's client, against a server that answers well, badly, or as somebody else."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from certificates import make_certificates
from registries import StubRegistry, basic

from consumers.wire.registry import (
    LARGEST_ANSWER,
    MAX_SCHEMAS,
    RegistryAccess,
    SchemaRegistry,
    Written,
)
from monitor.errors import AccessError, SourceError

SCHEMA = {"type": "record", "name": "A", "fields": []}


def client(stub: StubRegistry, **more: str) -> SchemaRegistry:
    return SchemaRegistry(RegistryAccess(stub.url, **more), timeout=2.0)


def test_a_schema_comes_with_all_that_it_refers_to_in_their_order() -> None:
    with StubRegistry() as stub:
        stub.add(7, SCHEMA, references=[{"name": "B", "subject": "b/value", "version": 2}])
        stub.subjects["b%2Fvalue/versions/2"] = {
            "schema": "B",
            "references": [{"name": "C", "subject": "c", "version": 1}],
        }
        stub.subjects["c/versions/1"] = {"schema": "C"}
        assert client(stub).schema(7) == Written(json.dumps(SCHEMA), "AVRO", ("C", "B"))


def test_a_number_or_a_reference_that_it_does_not_have_is_none() -> None:
    with StubRegistry() as stub:
        stub.add(7, SCHEMA, references=[{"name": "B", "subject": "b", "version": 2}])
        asked = client(stub)
        assert asked.schema(8) is None
        assert asked.schema(7) is None
        asked.check()
        assert asked.newest("decisions-value") is None


def test_schemas_that_refer_to_each_other_without_end_are_none() -> None:
    with StubRegistry() as stub:
        stub.add(7, SCHEMA, references=[{"name": "B", "subject": "b", "version": 1}])
        for at in range(1, MAX_SCHEMAS + 3):
            stub.subjects[f"b/versions/{at}"] = {
                "schema": "B",
                "references": [{"name": "B", "subject": "b", "version": at + 1}],
            }
        assert client(stub).schema(7) is None
        assert len(stub.asked) <= MAX_SCHEMAS + 2


@pytest.mark.parametrize(
    ("status", "body", "words"),
    [
        (200, b"<html>", "does not answer like a schema registry"),
        (200, b"{}", "does not answer like a schema registry"),
        (200, b'{"schema": "' + b"x" * LARGEST_ANSWER + b'"}', "does not answer like"),
        (200, b"[" * 100_000, "does not answer like"),
        (404, b"<html>", "stream.schema_registry.url"),
        (404, b'{"error_code": 404}', "stream.schema_registry.url"),
        (302, b"", r"fails \(HTTP 302\)"),
        (500, b'{"error_code": 50001}', r"fails \(HTTP 500\)"),
        (429, b"", r"fails \(HTTP 429\)"),
    ],
)
def test_an_answer_that_is_no_registrys_is_none_at_all(
    status: int, body: bytes, words: str
) -> None:
    with StubRegistry(status=status, body=body) as stub:
        with pytest.raises(SourceError, match=words):
            client(stub).schema(1)
        assert len(stub.asked) == 1  # no redirect is followed, and nothing tried again


def test_nobody_there_is_said_in_a_line() -> None:
    with StubRegistry() as stub:
        asked = client(stub)
    with pytest.raises(SourceError, match="does not answer") as caught:
        asked.schema(1)
    assert "\n" not in str(caught.value)


def test_the_login_is_sent_and_its_refusal_names_the_settings_and_no_secret() -> None:
    with StubRegistry(login=basic("me", "pass:word")) as stub:
        stub.add(1, SCHEMA)
        assert client(stub, username="me", password="pass:word").schema(1) is not None
        for wrong in ({"username": "me", "password": "hidden"}, {"token": "hidden"}, {}):
            with pytest.raises(AccessError, match=r"stream\.schema_registry\.username") as caught:
                client(stub, **wrong).schema(1)
            assert "hidden" not in str(caught.value)
        stub.login = "Bearer abc"
        assert client(stub, token="abc").schema(1) is not None


def test_its_certificate_is_checked(tmp_path: Path) -> None:
    made = make_certificates(tmp_path)
    with StubRegistry(certificate=(made.server, made.server_key)) as stub:
        stub.add(1, SCHEMA)
        assert client(stub, ca_file=str(made.ca)).schema(1) is not None
        with pytest.raises(SourceError, match=r"stream\.schema_registry\.ca_file"):
            client(stub).schema(1)
        with pytest.raises(AccessError, match="ca_file cannot be used"):
            client(stub, ca_file=str(tmp_path / "gone.pem"))
        with pytest.raises(AccessError, match="cert_file and key_file"):
            client(stub, cert_file=str(made.client), key_file=str(made.server_key))
