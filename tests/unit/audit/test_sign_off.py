"""Sign-off files: what they must say, and what they are for."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from pathlib import Path

import audit_reports as made
import pytest
from audited import TODAY, sign_off
from matched import VERSIONS

from monitor.audit.audit_report import AuditReport, Requirement, Run
from monitor.audit.inputs import RunVersions
from monitor.audit.sign_off import RequirementSignature, SignOff, read_sign_off
from monitor.errors import AuditError

FOR = """
[for]
judge = "j1"
rubric = "r1"
policy = "p1"
router = "t1"
threshold = 0.70
contract = "replies 1"
dataset = "0123456789012345678901234567890123456789012345678901234567abcdef"
results = "fedcba9876543210987654321098765432109876543210987654321098765432"
"""
OWNER = '[production_monitoring_owner]\nby = "A. Person"\nat = 2026-11-01\n'


def read(folder: Path, text: str | bytes) -> SignOff:
    path = folder / "sign_off.toml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return read_sign_off(path, TODAY)


def error(folder: Path, text: str | bytes) -> str:
    with pytest.raises(AuditError) as caught:
        read(folder, text)
    said = str(caught.value)
    assert "\n" not in said
    return said.removeprefix(f"{folder / 'sign_off.toml'}")


class TestRead:
    def test_who_when_and_where(self, tmp_path: Path) -> None:
        found = read(tmp_path, FOR + OWNER + 'reference = "rota 7"\n')
        assert found.versions == VERSIONS
        assert (found.threshold, found.contract) == (0.70, "replies 1")
        assert found.dataset == "01234567890" + "1234567890" * 4 + "1234567abcdef"
        assert found.results == "fedcba" + "9876543210" * 5 + "98765432"
        owner = RequirementSignature("A. Person", date(2026, 11, 1), "rota 7")
        assert found.signatures == {Requirement.OWNER: owner}

    def test_a_reference_is_only_needed_where_a_set_is_signed_for(self, tmp_path: Path) -> None:
        assert read(tmp_path, FOR + OWNER).signatures[Requirement.OWNER].reference == ""
        for name in (Requirement.SUPPORT, Requirement.REVIEWED_SET):
            text = FOR + OWNER.replace(Requirement.OWNER, name)
            assert error(tmp_path, text) == (
                f", field {name}.reference: found nothing; write text in quotes"
            )

    def test_all_five(self, tmp_path: Path) -> None:
        tables = "".join(
            OWNER.replace(Requirement.OWNER, name) + 'reference = "x"\n' for name in Requirement
        )
        assert set(read(tmp_path, FOR + tables).signatures) == set(Requirement)

    def test_signed_today(self, tmp_path: Path) -> None:
        text = FOR + OWNER.replace("2026-11-01", str(TODAY))
        assert read(tmp_path, text).signatures[Requirement.OWNER].at == TODAY

    @pytest.mark.parametrize(
        ("old", "new", "said"),
        [
            (
                "[production",
                "[prodction",
                ", field prodction_monitoring_owner: unknown key; "
                "did you mean production_monitoring_owner?",
            ),
            ("by =", "who =", ", field production_monitoring_owner.who: unknown key; "),
            ("judge =", "jugde =", ", field for.jugde: unknown key; did you mean judge?"),
            ("[for]", "[other]", ", field other: unknown key; "),
            (FOR, "", ", field for: found nothing; write it as a table [for]"),
            (FOR, 'for = "j1"\n', ", field for: found text; write it as a table [for]"),
            ('judge = "j1"\n', "", ", field for.judge: found nothing; write text in quotes"),
            ('"j1"', "1", ", field for.judge: found a whole number; write text in quotes"),
            ('"j1"', '" "', ", field for.judge: found empty text; write text in quotes"),
            ("0.70", '"0.70"', ", field for.threshold: found text; write the number that"),
            ('contract = "replies 1"\n', "", ", field for.contract: found nothing; write text in"),
            (
                "dataset =",
                "# dataset =",
                ", field for.dataset: found nothing; write text in quotes",
            ),
            ("abcdef", "", ", field for.dataset: write the content hash of the set, 64 hexadec"),
            ("abcdef", "ABCDEF", ", field for.dataset: write the content hash of the set, 64 hex"),
            (
                "fedcba",
                "",
                ", field for.results: write the results hash, 64 hexadecimal digits, as",
            ),
            ("0.70", "true", ", field for.threshold: found true or false; write the number"),
            (
                '"A. Person"',
                '""',
                ", field production_monitoring_owner.by: found empty text; write text in quotes",
            ),
            (
                '"A. Person"',
                '"A\\nB"',
                ", field production_monitoring_owner.by: write one line of at most 200",
            ),
            ('"A. Person"', f'"{"x" * 201}"', ", field production_monitoring_owner.by: write one"),
            (
                "2026-11-01",
                "2026-11-03",
                ", field production_monitoring_owner.at: is after today, 2026-11-02; ",
            ),
            (
                "2026-11-01",
                "2026-11-01T10:00:00Z",
                ", field production_monitoring_owner.at: found a date with a time; write a date",
            ),
            (
                "2026-11-01",
                '"2026-11-01"',
                ", field production_monitoring_owner.at: found text; write a date",
            ),
            (
                "at = 2026-11-01\n",
                "",
                ", field production_monitoring_owner.at: found nothing; write a date",
            ),
            ("[for]", "[for", ": is not valid TOML: "),
        ],
    )
    def test_what_is_wrong(self, tmp_path: Path, old: str, new: str, said: str) -> None:
        text = FOR + OWNER
        assert old in text
        assert error(tmp_path, text.replace(old, new)).startswith(said)

    def test_a_file_without_a_results_hash_is_refused_in_one_sentence(self, tmp_path: Path) -> None:
        """It does not say which decisions and scores were signed."""
        without = "".join(line for line in FOR.splitlines(True) if not line.startswith("results"))
        assert error(tmp_path, without + OWNER) == (
            ", field for.results: is missing; look at the report again, and sign its results hash"
        )

    def test_files_that_are_none(self, tmp_path: Path) -> None:
        assert error(tmp_path, b"\xff") == ": is not UTF-8 text; save it as UTF-8"
        assert error(tmp_path, b"#" * 70_000).startswith(": is larger than 65536 bytes")
        with pytest.raises(AuditError, match="cannot be read: No such file"):
            read_sign_off(tmp_path / "absent.toml", TODAY)


class TestFor:
    """What was signed beside what was run."""

    REPORT = replace(
        made.BLOCKED,
        contract="replies 1",
        digest=sign_off().dataset,
        results_digest=sign_off().results,
        baseline=made.BASELINE,
    )

    def differences(
        self, signed: SignOff, run: Run = made.BASELINE, report: AuditReport = REPORT
    ) -> tuple[str, ...]:
        return signed.differences(run, report)

    def test_the_run_that_was_signed(self) -> None:
        assert self.differences(sign_off()) == ()

    @pytest.mark.parametrize(
        ("signed", "said"),
        [
            (sign_off(versions=RunVersions("j2", "r1", "p1", "t1")), "judge j2, this is j1"),
            (sign_off(versions=RunVersions("j1", "r2", "p1", "t1")), "rubric r2, this is r1"),
            (sign_off(versions=RunVersions("j1", "r1", "p2", "t1")), "policy p2, this is p1"),
            (sign_off(versions=RunVersions("j1", "r1", "p1", "t2")), "router t2, this is t1"),
            (sign_off(threshold=0.71), "threshold 0.71, this is 0.7"),
            (sign_off(threshold=0.7000000001), "threshold 0.7000000001, this is 0.7"),
            (sign_off(contract="replies 2"), "contract replies 2, this is replies 1"),
            (sign_off(dataset="ab" * 32), f"set abababababab, this is {sign_off().dataset[:12]}"),
            (
                sign_off(signed="cd" * 32),
                f"results cdcdcdcdcdcd, this is {sign_off().results[:12]}",
            ),
        ],
    )
    def test_another_run(self, signed: SignOff, said: str) -> None:
        assert self.differences(signed) == (f"signed for {said}",)

    def test_several_differences(self) -> None:
        other = sign_off(versions=RunVersions("j2", "r2", "p1", "t1"))
        assert len(self.differences(other)) == 2

    def test_of_several_values_none_is_told(self) -> None:
        mixed = replace(
            made.BASELINE,
            versions=(VERSIONS, RunVersions("j2", "r1", "p1", "t1")),
            thresholds=(0.70, 0.65),
        )
        report = replace(self.REPORT, baseline=mixed)
        assert self.differences(sign_off(), mixed, report) == (
            "signed for judge j1, and not all was decided by it",
            "signed for threshold 0.7, and not all was decided by it",
        )

    def test_what_the_report_withholds_is_not_told(self) -> None:
        of_few = replace(made.BASELINE, versions=(), thresholds=())
        report, signed = replace(self.REPORT, baseline=of_few), sign_off(threshold=0.71)
        assert self.differences(signed, report=report) == (
            "signed for threshold 0.71, and not all was decided by it",
        )
