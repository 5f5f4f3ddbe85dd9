"""What runbooks about probe sets say; as in :mod:`alerts.runbook_texts`, what they name exists."""

from __future__ import annotations

from alerts.runbook import Runbook

_SET = ("probe_set=NAME",)
_PAIRS = "`slicewatch probe status` names the pairs that flip, with variant, direction and stage."
_WRONG = (
    "Take pairs that flip out of the set, or declare the set anew so that its counts begin at"
    " zero.",
    "Rewrite customers' text so that the judge likes it better: the harm goes on, unseen.",
    "Lower the score threshold for everybody: it lets through what should not be.",
    "Report flips as a rate of anybody's requests: they are of synthetic pairs, chosen by hand.",
)
_ROUTER = (
    "`slicewatch_probe_pairs_flipping` has the stage: `judge_score` (judge, rubric, prompt),"
    " `threshold` (a variant is held to another one), `judge_score_and_threshold` (both),"
    " `route` (something overrides score and threshold), `evidence_gate` (retrieval finds less for"
    " one wording). Which release of judge, rubric, policy or router was the last before it?"
)
_OWNER = (
    "The router's team repairs; whoever owns the probe set is told, and the owners of the contracts"
    " whose slices the variants stand for."
)

_COMPARE = (
    "Send the set to the release before and to the present one (`slicewatch probe run SET --target"
    " URL --no-publish --results FILE`), and compare what they made of it: `slicewatch audit"
    " BEFORE --candidate AFTER` lists every pair with both routes and scores."
)

FLIPS = Runbook(
    means="Variants of one synthetic request, which the set says must be routed alike, are not; and"
    " of those that part, more go one way than chance explains. Each variant of a pair counts once"
    " for the test, by its first flip: that a router repeats itself is no new evidence. It takes"
    " ten flips at the least, all one way. Flips at the evidence gate are counted, and do not page."
    " The page stands until, over the newest comparison of each pair, flips this way are in excess"
    " of the other way by no more than chance easily makes: of n pairs of which one variant flips,"
    " by the root of 1.39 n.\n\n"
    "The chance that a set's first page is wrong is at most one in a hundred, over all rounds"
    " before it. After a true page that bound is spent. Pairs that had not flipped before can page"
    " its direction wrongly with one in two hundred; those that had make it page again when the"
    " excess is as large as the shortest run that crosses, and so large that chance makes it in one"
    " of a hundred looks at most. A page of the other direction soon after the repair may be no"
    " more than this: pairs that lean the way of the fault have flipped while it was there, so of"
    " those left more lean the other way.\n\n"
    "A flip is a case to investigate, not a population disparity.",
    monitor=f"{_PAIRS} Is `SlicewatchEvaluationStale` or `SlicewatchDown` firing? Then what you see"
    " is old. Was another set declared (`slicewatch_probe_set_info` has the content hash)? Does"
    " `slicewatch_probe_covered_timestamp_seconds` move with each round?",
    sampler="No label is concerned. The set may be at fault: do both variants of the pairs"
    " that flip really ask for the same, and was that reviewed under the policy that is in force?",
    router=_ROUTER,
    owner=_OWNER,
    safe=(
        "Roll back what was released last before it, then send the set once more: the page ends by"
        " what the next round shows.",
        _COMPARE,
        "Send requests like those of the variant to human review until the cause is known.",
        "Look at the slices of the same attribute in production (`slicewatch_slice_gap_ratio`,"
        " `slicewatch_slice_evidence_level`): only they say how often it happens to anybody.",
    ),
    wrong=_WRONG,
    silence=(*_SET, "direction=DIRECTION"),
)
FLIP_RATE = Runbook(
    means="Within a day, in more than `max_flip_ratio` of its comparisons, variants of a set took"
    " another route than their reference, whichever way. It is a share of a set that was chosen by"
    " hand, and weaker evidence than a page: no test stands behind it. A flip is a case to"
    " investigate, not a population disparity.",
    monitor="Is `SlicewatchEvaluationStale` or `SlicewatchDown` firing? Was the set, or its"
    " `max_flip_ratio`, changed?",
    sampler="No label is concerned. Are there new pairs in the set, whose variants do not ask for"
    " the same?",
    router=_ROUTER + " Flips both ways alike point to scores close to the threshold, or to a judge"
    " that does not answer twice alike.",
    owner=_OWNER,
    safe=(_COMPARE, f"{_PAIRS} Look at them one by one: what do they have in common?"),
    wrong=("Raise `max_flip_ratio` until it is quiet.", *_WRONG),
    silence=_SET,
)
OVERDUE = Runbook(
    means="For over one and a half of its cadence, not every pair of the set has been compared."
    " Nothing is wrong with the router; nobody would notice if there were.",
    monitor="`slicewatch_consumer_lag_seconds` of the decisions topic: are the probes read yet?"
    " `slicewatch_probes_unsigned_total` rising: they come, and count as production (another key)."
    " `slicewatch_probes_undeclared_total` rising: they come, and are of another set than the one"
    " that is declared (compare the content hash), or of variants that are not declared."
    " `slicewatch_probe_pairs_incomplete_total` rising: they come in part.",
    sampler="Not concerned.",
    router="Does whatever sends the set still run, and does the router answer it? Does it publish"
    " the decisions of probes to the topic as any others?",
    owner="Whoever schedules the probe runner.",
    safe=(
        "Send the set by hand: `slicewatch probe run SET --target URL` says what was answered and"
        " what was published.",
    ),
    wrong=(
        "Lengthen `every` so that it is not overdue.",
        "Publish decisions that the router did not make.",
    ),
    silence=_SET,
)
INCOMPLETE = Runbook(
    means="Of many pairs some variants were decided, and others did not come within"
    " `probes.timeout`, or come twice or too late for their round. Such a round is not compared:"
    " it is neither a flip nor none.",
    monitor="`slicewatch_consumer_lag_seconds` and `slicewatch_dead_letters_total` of the decisions"
    " topic. Are all variants declared (`slicewatch_probes_undeclared_total`)? Do variants of one"
    " pair lie in different partitions, one of which is late?",
    sampler="Not concerned.",
    router="Does it refuse or limit some variants, or time out on them? A variant that gets no"
    " answer is treated differently as well.",
    owner="Whoever schedules the probe runner, with the router's team.",
    safe=(
        "Send the set more slowly (`slicewatch probe run SET --target URL --rate 1`).",
        "Raise `probes.timeout` above the time that one round takes.",
    ),
    wrong=("Take the variants that get no answer out of the set.",),
    silence=_SET,
)
UNSIGNED = Runbook(
    means="Decisions say that they are probes, and carry no signature that the key of the settings"
    " confirms. They count as production, else anyone could hide requests from the rates by calling"
    " them probes. The alert goes on for a day after the last of them.",
    monitor="Was `probes.key` changed, or is it missing in one of the processes? Runner and monitor"
    " need the same one.",
    sampler="Labels of such decisions count in production rates too.",
    router="Who else sends decisions with traffic `probe`? Does something between router and topic"
    " change fields of an event after it was signed? The signature is over the whole event.",
    owner="Whoever schedules the probe runner, or whoever else writes to the topic.",
    safe=(
        "Stop the runner, give it the key, start it again.",
        "`slicewatch db exclude` leaves out the hours whose rates are distorted.",
    ),
    wrong=(
        "Let unsigned probes through by a filter before the topic's rates.",
        "Hand the key to everybody who sends decisions.",
    ),
)
