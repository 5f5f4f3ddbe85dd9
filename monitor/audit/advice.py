"""What usually helps where a stage fails, and what does not: hypotheses, not prescriptions.

None of them is known to hold for the router at hand. Each is to be tried and then judged on the
held-out pairs and on reviewed data, which it was not tuned on.
"""

from __future__ import annotations

from collections.abc import Collection

from monitor.audit.flips import stage_name
from monitor.audit.report import Advice
from monitor.core.flips import Cause, FlipStage

_BEHIND = FlipStage.JUDGE_OR_ROUTE

# In the order of the router's stages: what fails first hides what is behind it.
_ADVICE = (
    Advice(
        stage_name(FlipStage.EVIDENCE_GATE, None),
        "Hypothesis: the evidence is found for one wording and not for the other. Compare what was "
        "retrieved for both, then try synonyms, query normalisation inside the search, or an index "
        "that knows the variant's language; judge it on the held-out pairs.",
        "Another prompt or threshold (neither was reached); letting requests through without "
        "evidence; rewriting customers' text.",
    ),
    Advice(
        stage_name(_BEHIND, Cause.JUDGE_SCORE),
        "Hypothesis: the judge scores the form and not only the content. Say in the rubric what "
        "must not count, give it reviewed examples of both forms, check calibration by slice; "
        "judge it on the held-out pairs. More training data of one form is worth trying only if "
        "its shortage has been located (--dataset).",
        "Rewriting customers' text; a lower threshold for all (it serves more unclear replies); "
        "making the better slice worse (levelling down). Thresholds by slice leave the scores as "
        "they are and treat people by their attribute: a decision for product and legal, not a "
        "repair.",
    ),
    Advice(
        stage_name(_BEHIND, Cause.THRESHOLD),
        "Hypothesis: the variants met two configurations (a roll-out, a cache, a rule by "
        "channel). Find where each threshold was set, apply one to both, run the set again. If two "
        "are meant, that is a decision for product and legal, to be written down.",
        "Another prompt, judge or training data (the scores agree); raising the lower threshold "
        "only to close the gap (levelling down).",
    ),
    Advice(
        stage_name(_BEHIND, Cause.SCORE_AND_THRESHOLD),
        "Hypothesis: two causes at once. Apply one threshold to both first and run the set "
        "again; what still flips is the judge's.",
        "Moving one threshold until this pair agrees: the difference of the scores stays, and "
        "every other request near the threshold moves too.",
    ),
    Advice(
        stage_name(_BEHIND, Cause.ROUTE),
        "Hypothesis: something after the judge overrides it (a rule, a fall-back, a time-out, a "
        "rate limit). Log which rule decided, send both variants again, and see whether it is the "
        "wording or chance.",
        "Another prompt, judge or threshold: score and threshold do not explain these routes.",
    ),
)


def advice(stages: Collection[str]) -> tuple[Advice, ...]:
    """What to try at each stage that failed, in the order of the router's stages.

    Args:
        stages: as :attr:`monitor.audit.report.FlipCounts.stages` names them; each counts once.
    """
    return tuple(one for one in _ADVICE if one.stage in stages)
