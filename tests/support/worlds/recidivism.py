"""A real data set in one week: two-year recidivism in Broward County, as ProPublica published it.

7,214 people by race (six values), sex (two), whether their COMPAS score was low (4 or less), and
what became of them. A low score stands for ``auto_serve``, no new offence for ``ready``. It is an
exercise on public counts: what comes out says nothing about the score.
"""

from __future__ import annotations

PEOPLE = 7_214
COUNTS = {
    ("African-American", "Female"): (241, 74, 164, 173),
    ("African-American", "Male"): (749, 458, 641, 1196),
    ("Asian", "Female"): (1, 1, 0, 0),
    ("Asian", "Male"): (20, 2, 2, 6),
    ("Caucasian", "Female"): (257, 86, 111, 113),
    ("Caucasian", "Male"): (882, 375, 238, 392),
    ("Hispanic", "Female"): (63, 24, 7, 9),
    ("Hispanic", "Male"): (255, 105, 80, 94),
    ("Native American", "Female"): (1, 0, 0, 3),
    ("Native American", "Male"): (4, 1, 3, 6),
    ("Other", "Female"): (46, 10, 6, 5),
    ("Other", "Male"): (162, 80, 30, 38),
}
"""Low score and ready, low and not ready, high and ready, high and not ready."""
