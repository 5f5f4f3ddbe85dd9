"""Pieces of a text: together the text, none too long, cut where people would."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from monitor.judging.chunks import chunks


@given(st.text(max_size=300), st.integers(1, 40))
def test_together_they_are_the_text(text: str, longest: int) -> None:
    found = chunks(text, longest)
    assert "".join(one.text for one in found) == text
    assert all(1 <= len(one.text) <= longest for one in found)
    assert all(text[one.start : one.start + len(one.text)] == one.text for one in found)


def test_cuts_are_after_paragraphs_then_sentences_then_blanks() -> None:
    text = "One two. Three four.\n\nFive six. Seven"
    assert [one.text for one in chunks(text, 30)] == ["One two. Three four.\n\n", "Five six. Seven"]
    assert [one.text for one in chunks(text, 12)][:2] == ["One two. ", "Three four.\n"]
    assert [one.text for one in chunks("aaaa bbbb cccc", 6)] == ["aaaa ", "bbbb ", "cccc"]
    assert [one.text for one in chunks("a" * 7, 3)] == ["aaa", "aaa", "a"]
    assert [one.text for one in chunks("\u7532\u3002\u4e59\u4e19\u3002\u4e01", 4)] == [
        "\u7532\u3002",
        "\u4e59\u4e19\u3002\u4e01",
    ]
