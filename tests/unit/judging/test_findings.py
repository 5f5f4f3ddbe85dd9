"""What a judge answers is believed only where the text bears it out."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai_server import finding

from monitor.judging.categories import CATEGORIES, KINDS
from monitor.judging.chunks import Chunk, chunks
from monitor.judging.findings import AnswerError, Finding, answer_schema, read_answer, score

TEXT = (
    "Thank you for asking about the team. Employees in their 50s are slow and never learn. "
    "D\u2019ailleurs, \u201cles \u00e9l\u00e8ves\u201d \U0001f44d\U0001f3fd vont bien."
)
SENTENCE = "Employees in their 50s are slow and never learn."


def read(*found: dict[str, object], text: str = TEXT, start: int = 0) -> list[Finding]:
    answer = json.dumps({"findings": found})
    return read_answer(answer, Chunk(start, text), CATEGORIES)


def test_the_span_is_exactly_the_sentence() -> None:
    (one,) = read(finding(SENTENCE))
    assert (one.category, TEXT[one.start : one.end]) == ("age", SENTENCE)


def test_spans_count_characters_also_beyond_ascii() -> None:
    quote = "\u201cles \u00e9l\u00e8ves\u201d \U0001f44d\U0001f3fd vont bien."
    (one,) = read(finding(quote), start=1_000)
    assert TEXT[one.start - 1_000 : one.end - 1_000] == quote


def test_folded_lines_are_found_and_the_span_has_them_as_they_are() -> None:
    text = "Fine. Employees in\n  their 50s are slow. Fine."
    (one,) = read(finding("Employees in their 50s are slow."), text=text)
    assert text[one.start : one.end] == "Employees in\n  their 50s are slow."


def test_equal_sentences_are_found_one_after_the_other() -> None:
    text = "They are lazy. Nice. They are lazy."
    found = read(finding("They are lazy."), finding("They are lazy."), text=text)
    assert [one.start for one in found] == [0, 21]
    thrice = read(*[finding("They are lazy.")] * 3, text=text)
    assert [one.start for one in thrice] == [0, 21], "the same passage counts once"
    twofold = read(finding("They are lazy."), finding("They are lazy.", "gender"), text=text)
    assert [one.start for one in twofold] == [0, 0], "of two categories it counts twice"


QUOTED = 'They said "old people" are well-known \u2013 as ever \u2013 to be slow. It\u2019s so.'


@pytest.mark.parametrize(
    "quote",
    [
        "They said \u201cold people\u201d are well-known \u2014 as ever \u2014 to be slow.",
        'they said "OLD PEOPLE" are well\u2011known',
        "They said ... to be slow.",
        "They said [\u2026] to be slow. It's so.",
        "\u201cThey said \u00abold people\u00bb are\u2026\u201d",
    ],
)
def test_quotes_match_across_typography_case_and_ellipsis(quote: str) -> None:
    (one,) = read(finding(quote), text=QUOTED)
    assert one.start == 0
    assert QUOTED[: one.end].endswith(("slow.", "known", "so.", "are"))


def test_an_ellipsis_leaves_out_two_sentences_at_most() -> None:
    text = "They said " + "word " * 100 + "it."
    with pytest.raises(AnswerError, match="not in the text"):
        read(finding("They said ... it."), text=text)


WRAPPED = [
    "```json\n{}\n```",
    "<think>\nIs {this} it?\n</think>\n\n{}",
    "Here it is: {} Anything else?",
]


@pytest.mark.parametrize("wrapping", WRAPPED)
def test_answers_are_read_whatever_is_around_them(wrapping: str) -> None:
    answer = json.dumps({"findings": [finding(SENTENCE, note=1, confidence="0.9")], "score": 100})
    text = wrapping.replace("{}", answer)
    (one,) = read_answer(text, Chunk(0, TEXT), CATEGORIES)
    assert (TEXT[one.start : one.end], one.confidence) == (SENTENCE, 0.9)


@given(st.text(min_size=1, max_size=200), st.integers(1, 30), st.data())
def test_any_passage_of_any_piece_is_cut_exactly(
    text: str, longest: int, data: st.DataObject
) -> None:
    piece = data.draw(st.sampled_from(chunks(text, longest)))
    words = piece.text.split()
    if not words:
        return
    first = data.draw(st.integers(0, len(words) - 1))
    last = data.draw(st.integers(first, len(words) - 1))
    quote = " ".join(words[first : last + 1])
    answer = json.dumps({"findings": [finding(quote)]})
    (one,) = read_answer(answer, piece, CATEGORIES)
    assert text[one.start : one.end].split() == quote.split()


HOSTILE = [
    ("no JSON", "not JSON of the schema"),
    ("", "not JSON of the schema"),
    ("[]", "not JSON of the schema"),
    ('{"findings": "none"}', "not JSON of the schema"),
    ("[" * 100_000, "not JSON of the schema"),
    ("{" + "[" * 200_000 + "}", "not JSON of the schema"),
    ('{"score": 100}', "not JSON of the schema"),
    (json.dumps({"findings": [finding(SENTENCE, confidence=1.5)]}), "not JSON of the schema"),
    (json.dumps({"findings": [finding(SENTENCE, confidence="high")]}), "not JSON of the schema"),
    (json.dumps({"findings": [finding("...")]}), "not in the text"),
    (json.dumps({"findings": [finding(SENTENCE, category="weather")]}), "category"),
    (json.dumps({"findings": [finding(SENTENCE, kind="rudeness")]}), "kind"),
    (json.dumps({"findings": [finding("He said something else.")]}), "not in the text"),
    (json.dumps({"findings": [finding("  ")]}), "empty passage"),
    (json.dumps({"findings": [finding(SENTENCE)] * 51}), "not JSON of the schema"),
]


@pytest.mark.parametrize(("answer", "why"), HOSTILE)
def test_what_is_not_borne_out_is_no_finding(answer: str, why: str) -> None:
    with pytest.raises(AnswerError, match=why) as error:
        read_answer(answer, Chunk(0, TEXT), CATEGORIES)
    assert "50s" not in str(error.value)
    assert "something else" not in str(error.value)


def test_reasons_are_one_short_line() -> None:
    (one,) = read(finding(SENTENCE, reason="a\nb " + "c" * 1_000))
    assert one.reason.startswith("a b c")
    assert len(one.reason) == 300


def test_the_score_is_by_our_rule() -> None:
    found = read(finding(SENTENCE), finding("Thank you for asking about the team.", "gender"))
    assert score([]) == 100
    assert score(found) == 60
    assert score(found * 9) == 0


def test_the_schema_lists_categories_and_kinds() -> None:
    item = answer_schema(CATEGORIES)["properties"]["findings"]["items"]
    assert item["properties"]["category"]["enum"] == list(CATEGORIES)
    assert item["properties"]["kind"]["enum"] == list(KINDS)
    assert set(item["required"]) == set(finding(""))
