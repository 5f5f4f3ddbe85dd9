"""What every runbook says. Metrics and commands named here exist: a test looks."""

from __future__ import annotations

from alerts.runbook import Runbook

_NOT_THE_MONITOR = (
    "Is `SlicewatchEvaluationStale`, `SlicewatchDown` or `SlicewatchConsumerStuck` firing, or has"
    " `slicewatch_window_data_lost` become 1? Then what you see is old or partial: repair that"
    " first. A deploy of slicewatch, or of its settings, in the last hours is the next suspect."
)
_NOT_THE_SAMPLER = (
    "Is `SlicewatchSamplingBroken`, `SlicewatchDuplicates` or `SlicewatchCompletenessLow` firing?"
    " Has the review queue, its tool or the group of reviewers changed? A broken sample makes a gap"
    " where there is none; look at `slicewatch_slice_reviewer_agreement_ratio` and at the findings"
    " `labels_later` and `labels_earlier` of `slicewatch_slice_findings` as well."
)
_WRONG_FOR_SLICES = (
    "Lower the score threshold for everybody: it moves the gap, and lets through what should not"
    " be.",
    "Rewrite customers' text so that the judge likes it better: the harm goes on, unseen.",
    "Change the contract's limit, or exclude the data, so that the alert stops.",
    "Read the slice as a statement about the people in it.",
)
_OPERATORS = "Whoever runs slicewatch. The contract's owner is told when it lasts over an hour."
_WRONG_FOR_COUNTS = (
    "Delete the database, or reset the offsets of the consumer group: counts are exact only because"
    " both live in one transaction.",
    "Start a second installation on the same database to be quicker.",
)

BREACH = Runbook(
    means="A sequential test has found that a rate of one slice, or its gap to the reference, is"
    " beyond the contract. Its claim is on false pages: at most T/90 of them in T days for the"
    " whole fleet of slices. One incident is one cause: the alert names the smallest slice that"
    " explains it, and the slices that are only worse because of that one. Where the guards hide"
    " the slice it says *details withheld*: it is as real as any other.",
    monitor=_NOT_THE_MONITOR,
    sampler=_NOT_THE_SAMPLER,
    router="Open the dashboard and the Snapshot of the alert. What changed within two days before"
    " (the alert lists versions and settings)? The stage says where to look: `evidence` (retrieval,"
    " documents of that slice), `score` (the judge, its rubric or prompt), `threshold` (a policy"
    " for that slice). `slicewatch_slice_versions_differ` is 1 where the slice is answered by other"
    " versions than its reference.",
    owner="The contract's owner decides (`slicewatch_contract_info` names them); the router's team"
    " repairs. On call keeps people from harm until one of them is there.",
    safe=(
        "`slicewatch incident ack ID --by NAME`, so that others see that you are on it.",
        "Send the slice to human review until the cause is known, and put reviewers on it: slower,"
        " but nobody is answered wrongly.",
        "Roll the version back that changed before the breach.",
        "When it is over: `slicewatch incident close ID --outcome confirmed --by NAME --note TEXT`"
        " (or `false_alarm`, `data_fault`). If it must be lived with, `--outcome accepted --until"
        " DATE`: it stays visible, and pages again after that day.",
    ),
    wrong=_WRONG_FOR_SLICES,
    silence=("contract=CONTRACT", "metric=METRIC", "incident=ID"),
)
GAP_TICKET = Runbook(
    means="A slice is on the weekly list of disparities. The list has a false discovery rate of"
    " 0.10: of all that is ever listed, one in ten is expected to be wrong. It is weaker evidence"
    " than a page and earlier.",
    monitor=_NOT_THE_MONITOR,
    sampler=_NOT_THE_SAMPLER,
    router="As for a breach, without haste: which stage, which versions, since when. Look whether"
    " the same slice was on the list of the week before.",
    owner="The contract's owner, in office hours, with the router's team.",
    safe=(
        "`slicewatch incident show ID`; note what you found when you close it.",
        "Ask for more labels of that slice, with their true `audit_p` in every decision.",
    ),
    wrong=_WRONG_FOR_SLICES,
    silence=("contract=CONTRACT", "metric=METRIC", "incident=ID"),
)
EVIDENCE_LOST = Runbook(
    means="A breach stands, and its slice now has too few decisions or labels to say how it fares."
    " It has not recovered: nothing is known. Often somebody switched the slice, its labels or its"
    " route off *because* of the page.",
    monitor=_NOT_THE_MONITOR,
    sampler="Do labels of this slice still come? `slicewatch_slice_completeness_ratio` and"
    " `slicewatch_label_completeness_ratio`; is the audit of what is auto-served still on?",
    router="Has its traffic gone: another channel, a route that sends all of it to review? With"
    " everything in review TPR is 0 and known; with nothing labelled it is not known.",
    owner="The contract's owner.",
    safe=(
        "Keep labels coming for the slice until the incident is resolved.",
        "If the slice was switched off for good, close the incident with `slicewatch incident"
        " close` and say so in the note.",
    ),
    wrong=(
        "Take it for a recovery.",
        "Close the incident because its numbers are gone.",
    ),
    silence=("contract=CONTRACT", "metric=METRIC", "incident=ID"),
)
DRIFT = Runbook(
    means="A slice got worse than it used to be, compared request mix by request mix with its own"
    " frozen past. It need not be beyond the contract. A mere change of the mix is not drift; it"
    " is noted as `mix_shift`.",
    monitor=_NOT_THE_MONITOR,
    sampler=_NOT_THE_SAMPLER,
    router="`slicewatch_slice_finding_timestamp_seconds` says when; compare with the releases of"
    " judge, rubric, policy and router (`version_change` in the same metric).",
    owner="The router's team; the contract's owner is told.",
    safe=("Look at what was released before it.", "Watch `slicewatch_slice_evidence_level`."),
    wrong=_WRONG_FOR_SLICES,
    silence=("contract=CONTRACT", "metric=METRIC"),
)
INSUFFICIENT_SUPPORT = Runbook(
    means="Some slices rest on too few effective labels, or on fewer than k decisions: the contract"
    " is neither kept nor broken there. It is said so that nobody takes silence for a pass. Nobody"
    " is told when it ends.",
    monitor="`slicewatch_slice_state` says which slices; `slicewatch_group_label_need_weeks` how"
    " long their labels take to suffice at the present rate.",
    sampler="Has the audit rate gone down, or are labels missing"
    " (`slicewatch_slice_completeness_ratio`)?",
    router="Has the slice's traffic gone elsewhere, or is it declared too finely?",
    owner="The contract's owner.",
    safe=(
        "Raise the audit rate of the routes that lack labels (`audit_p` must say so).",
        "Compare coarser group-bys, or a longer window, in a new version of the contract.",
    ),
    wrong=(
        "Lower `min_positives` or `min_negatives` until it is quiet.",
        "Report these slices as passing.",
    ),
    silence=("contract=CONTRACT", "metric=METRIC"),
)
SAMPLING_BROKEN = Runbook(
    means="Labels are asked for more or less often than `audit_p` of the decisions says. Rates are"
    " weighted by it, so TPR, FPR and the pages on them are not to be relied on.",
    monitor="Were settings changed (`stream.audit_rates`)? `slicewatch db status` shows from when"
    " each coding holds.",
    sampler="In the router's code: is `label_requested` drawn with exactly the probability that is"
    " sent as `audit_p`, for this route, for every decision, also on retries and fallbacks?",
    router="Does something between router and topic drop decisions that were not sampled?",
    owner="The router's team: the sampler is theirs.",
    safe=(
        "Send the true `audit_p`, whatever it is: an uneven one is fine, a wrong one is not.",
        "`slicewatch db exclude` leaves out the hours for which it was wrong.",
    ),
    wrong=(
        "Correct the rates by hand.",
        "Change `audit_p` in old decisions and send them again.",
    ),
    silence=("contract=CONTRACT", "route=ROUTE"),
)
LABELS_STALE = Runbook(
    means="For days no label has met its decision. The label frontier stands still, and with it"
    " TPR, FPR and every test of them.",
    monitor="`slicewatch_consumer_lag_messages` of the labels topic above 0, or"
    " `slicewatch_consumer_state` not `caught_up`: labels come, and are not read."
    " `slicewatch_labels_unmatched_total` growing: they come, and find no decision (another id"
    " key, other ids, decisions older than the horizon).",
    sampler="Nothing new on the labels topic: are reviewers at work? A holiday longer than"
    " `alerting.labels_stale` is the harmless case.",
    router="Does it still ask for labels (`label_requested`)?",
    owner="The review team; whoever runs slicewatch where labels come and do not match.",
    safe=(
        "Ask the review team. Labels may come late: within the horizon none is lost.",
        "`slicewatch db dead-letters` shows labels that could not be read.",
    ),
    wrong=("Make up labels from the router's own scores.",),
)
COMPLETENESS_LOW = Runbook(
    means="Of the labels that were asked for, too few have come in at least one route and audit"
    " rate. Labelled rates are `maturing` there: shown, and not decided on.",
    monitor="`slicewatch_consumer_lag_seconds` of the labels topic; `slicewatch_waiting_labels`.",
    sampler="Which route lacks them? Usually the audits of what was auto-served: they are few, and"
    " are skipped first when reviewers are short.",
    router="Did the number of requests go up more than reviewers can answer?",
    owner="The review team.",
    safe=(
        "Lower the audit rate to what can be answered, and send it as `audit_p`.",
        "Let reviewers finish the oldest audits first.",
    ),
    wrong=(
        "Lower `evaluate.completeness`: which labels are missing is rarely chance.",
        "Drop the requests that were not answered.",
    ),
    silence=("contract=CONTRACT",),
)
DUPLICATES = Runbook(
    means="Decisions repeat ids beyond what retries explain. The share is over all that has been"
    " consumed, so it falls slowly after the repair.",
    monitor="Is `SlicewatchDuplicatesCounted` firing too? If not, all copies that could be seen"
    " were recognised, and the counts are right. A replay into a live topic looks the same; look at"
    " who produces.",
    sampler="Labels are not concerned: of one decision the highest version counts once.",
    router="A producer without idempotence, or an at-least-once bridge that restarts. Copies in the"
    " partition of the first, within `dedupe.window`, are recognised and harmless.",
    owner="Whoever produces the decisions topic.",
    safe=(
        "Switch on the producer's idempotence.",
        "Key the messages by `decision_id`, so that copies meet in one partition.",
    ),
    wrong=("Give copies new ids: they are counted twice then, unseen.",),
    silence=("route=ROUTE",),
)
DUPLICATES_COUNTED = Runbook(
    means="Copies of decisions were not recognised and count as further decisions. The label `kind`"
    " says why. `cross_partition`: the copy was in another partition than the first, and"
    " partitions are not compared with each other. `late`: it was in the same partition, after"
    " `dedupe.window` of event time or with another `decided_at`. Only copies of decisions that"
    " labels can find are seen (`pending.policy`), for the whole `stream.horizon`; of all others as"
    " large a share is counted again unseen.",
    monitor="`late`: is `dedupe.window` on, and was a partition set back by `slicewatch db"
    " resume-from`? `slicewatch_duplicates_counted_total` names the partitions. Its numbers are"
    " rounded up: 100 stands for 1 to 100.",
    sampler="Labels are not concerned: of one decision the highest version counts once. But a label"
    " meets the first copy alone, so the others lower the completeness.",
    router="`cross_partition`: the messages have no key, or a key that changes from one sending to"
    " the next, or the topic was given more partitions between the two. `late`: a backfill, a"
    " bridge that begins again from an old position, or a retry that makes up a new `decided_at`.",
    owner="Whoever produces the decisions topic.",
    safe=(
        "`cross_partition`: key the messages by `decision_id`, in every producer of the topic.",
        "`late`: send the very same event again, `decided_at` too, and raise `dedupe.window` (up to"
        " 24 h; `slicewatch check` says what it costs) above the distance of the copies.",
        "Leave the hours that were counted twice out with `slicewatch db exclude`.",
    ),
    wrong=(
        "Give copies new ids: they are counted twice then, unseen.",
        "Take it as repaired because it is silent: it looks at one day.",
    ),
    silence=("topic=TOPIC", "kind=KIND"),
)
EVENTS_AHEAD = Runbook(
    means="Events of one partition name times that have not come yet, by the clock of the worker"
    " that reads them. They are counted in the hour they name; no window, no retention and no other"
    " partition is moved by them. Beyond `stream.max_ahead` they are dead letters (`future`).",
    monitor="Does it concern every partition that one worker reads, and no other worker's? Then the"
    " clock of that machine is slow: compare `date -u` there with another machine.",
    sampler="Not concerned, unless it is the labels topic: labels repeat the time of their"
    " decision.",
    router="One partition, or some of them: the clock of a producer is fast. Look at its NTP"
    " client, and at containers that were resumed from a pause.",
    owner="Whoever runs the producer, or the machine whose clock is wrong.",
    safe=(
        "Set the clock that is wrong.",
        "`slicewatch db dead-letters --reason future` lists what was refused.",
    ),
    wrong=(
        "Raise `stream.max_ahead` so that the alert stops: the events stay in the wrong hour.",
        "Restart the workers: they read the same events, by the same clocks.",
    ),
    silence=("topic=TOPIC", "partition=PARTITION"),
)
BLIND = Runbook(
    means="The service runs and does not see what the router does. Until that is repaired nothing"
    " new is found; breaches that stood are taken to stand.",
    monitor="`slicewatch db status` names the partitions, and so does the body of `/readyz`."
    " `no_worker`: do the `slicewatch ingest` processes run, and are they in the consumer group?"
    " `not_stored`: the log of `slicewatch ingest` says what the database answers (disk, rights)."
    " `behind`: look at `slicewatch_consumer_lag_seconds` of that partition.",
    sampler="Not concerned.",
    router="`decisions_silent`: does the router decide anything? Does what sends its decisions to"
    " Kafka run, to the topic that the settings name? A planned pause looks the same."
    " (`labels_silent` has an alert of its own, `SlicewatchLabelsSilent`.)",
    owner=_OPERATORS,
    safe=(
        "Start `slicewatch ingest` again: it goes on where it stopped, and counts nothing twice.",
        "`slicewatch check --connect` tries broker, topics and database with the same settings.",
        "For a planned pause of the router: a silence for as long as it lasts.",
    ),
    wrong=_WRONG_FOR_COUNTS,
    silence=("reason=REASON",),
)
LABELS_SILENT = Runbook(
    means="Reviewers' labels have not come for a day or longer (at most one in a hundred of a day's"
    " has), although an average day's and a hundred at least came in the same hours of the weeks"
    " before. Complaints are not looked at. Rates that need labels stand still.",
    monitor="`slicewatch db status` says since when, and so does the body of `/readyz`."
    " `slicewatch_consumer_lag_messages` of the labels topic: above 0 the labels are there"
    " and are not read. `slicewatch check --connect` says whether the topic is the right one.",
    sampler="Do reviewers work today? A public holiday looks the same. Else the tool that sends"
    " their labels to Kafka has stopped.",
    router="Does it still ask for labels (`label_requested`)? A broken sampler shows in"
    " `SlicewatchSamplingBroken` within hours.",
    owner="Whoever runs the review tool; whoever runs slicewatch until that is known.",
    safe=(
        "Have the review tool send again what it kept: labels may come late, up to the horizon.",
        "On a holiday: a silence until the next working day.",
    ),
    wrong=("Send labels that nobody gave, so that the windows move.",),
    silence=(),
)
STORE_FAILING = Runbook(
    means="A process has failed to write to the database for minutes. It keeps what it has read,"
    " reads no more, and tries again with pauses of up to 30 seconds.",
    monitor="Its log says why in one line (`store failed`, `evaluation failed`): a full disk,"
    " rights that were taken away, a lock that somebody holds, a server that is away.",
    sampler="Not concerned.",
    router="Not concerned.",
    owner=_OPERATORS,
    safe=(
        "Make room, or give the rights back: the process goes on by itself, and nothing is lost or"
        " counted twice.",
        "Look that Kafka keeps what is not read yet for longer than the repair takes.",
    ),
    wrong=_WRONG_FOR_COUNTS,
    silence=("instance=INSTANCE",),
)
RETENTION_REFUSED = Runbook(
    means="Retention would delete more than half of what is kept, and leave little. That happens"
    " when a clock is wrong, or after the service was away for weeks. It has deleted nothing, and"
    " goes on refusing.",
    monitor="`slicewatch db prune` says what would go. `slicewatch db repair-clock` says whether"
    " event time in the database is beyond the present. Compare `date -u` of this machine too.",
    sampler="Not concerned.",
    router="Did it, or a back-fill, send events of a far future? See `SlicewatchEventsAhead`.",
    owner=_OPERATORS,
    safe=(
        "If a clock is wrong: set it, and `slicewatch db repair-clock --confirm`.",
        "If the service was away that long: `slicewatch db prune --confirm`, after a backup.",
    ),
    wrong=("Confirm before you know which clock is right: only a backup brings the counts back.",),
    silence=(),
)
CERTIFICATE = Runbook(
    means="A certificate that slicewatch uses expires, or has expired. Of the server's own, readers"
    " and Prometheus are cut off; of the authority of clients, those who show a certificate; of"
    " those for Kafka, nothing is read any more, and nothing is lost while Kafka keeps it.",
    monitor="`slicewatch check` names the setting and the day of each. The metric tells of the file"
    " as it was at the start: a process that was not restarted since still uses the old one.",
    sampler="Not concerned.",
    router="Its own certificate for the same brokers may come from the same authority.",
    owner="Whoever runs slicewatch, and whoever signs certificates there.",
    safe=(
        "Put the new certificate (and key) into the files that the settings name, look with"
        " `slicewatch check`, and restart the processes one after the other.",
        "Add a new authority to the bundle before the old one ends: a bundle ends with its last.",
    ),
    wrong=(
        "Serve without TLS until there is a new one: whoever reaches the port reads the slices.",
        "Replace an authority before those whom it signed have new certificates.",
    ),
    silence=("certificate=CERTIFICATE",),
)
CONSUMER_STUCK = Runbook(
    means="One process reads nothing. Its partitions are not counted until it goes on, or until"
    " another process has them.",
    monitor="Its log says why in one line (`consumer is stuck`); `slicewatch check --connect`"
    " tries broker, topics and database with the same settings.",
    sampler="Not concerned.",
    router="Is the broker there for its producers? Were certificates, passwords or ACLs changed?",
    owner=_OPERATORS,
    safe=(
        "Restart the process: it goes on where its last transaction ended.",
        "Repair the broker, its ACLs or the network.",
    ),
    wrong=_WRONG_FOR_COUNTS,
    silence=("instance=INSTANCE",),
)
CONSUMER_LAG = Runbook(
    means="A partition is read later than it is written. Everything waits for the slowest one, so"
    " that no window is shown half counted.",
    monitor="`slicewatch_flush_duration_seconds` high, or `slicewatch_store_write_failures_total`"
    " growing: the database. `slicewatch_consumer_state` is `paused` while it waits for the"
    " database, or for the other topic.",
    sampler="Not concerned, unless it is the labels topic.",
    router="Did its traffic grow, or is a back-fill running?",
    owner=_OPERATORS,
    safe=(
        "Start more `slicewatch ingest`, as many as there are partitions.",
        'Use `stream.client = "librdkafka"`.',
    ),
    wrong=_WRONG_FOR_COUNTS,
    silence=("topic=TOPIC", "partition=PARTITION"),
)
DATA_LOSS = Runbook(
    means="The broker does not have the offset that comes next. Nothing is skipped in silence: the"
    " partition is parked until a person says from where to go on, and the windows it touches say"
    " that they lack data.",
    monitor="`slicewatch db status` names the partition, the offset and why.",
    sampler="Not concerned.",
    router="Not concerned. Ask those who run the broker: was the topic deleted and made again, its"
    " retention cut, a broker restored from a backup?",
    owner=_OPERATORS,
    safe=(
        "Find out what the topic holds now, then `slicewatch db resume-from TOPIC PARTITION OFFSET"
        " --reason TEXT`: the gap is on record.",
        "If what is lost exists elsewhere, say so to the contract's owner before you resume.",
    ),
    wrong=(
        "Resume at once to silence it: the older data may still be on another broker.",
        *_WRONG_FOR_COUNTS,
    ),
    silence=("topic=TOPIC", "partition=PARTITION"),
)
WINDOW_DATA_LOST = Runbook(
    means="A window that is shown lacks events that were lost before they could be read. It passes"
    " when the window has moved on. Nobody is told when it ends.",
    monitor="`slicewatch db status` lists the gaps that were resumed over, and why.",
    sampler="If labels were lost, completeness says so.",
    router="Not concerned.",
    owner="The contract's owner reads its numbers with that in mind.",
    safe=("Wait, or decide on a window without the gap.",),
    wrong=("Send the events again with new ids and times.",),
    silence=("contract=CONTRACT",),
)
DEAD_LETTERS = Runbook(
    means="More than one event in a hundred of a topic cannot be read. They are counted by reason,"
    " and nowhere else.",
    monitor="`slicewatch db dead-letters` shows where they are and why, never what they said. Do"
    " they begin with a deploy of slicewatch, or of a producer?",
    sampler="On the labels topic: which tool sends them?",
    router="`schema`, `field` and `json` reasons: the producer changed its events. The schemas are"
    " in deploy/schemas; validate against them before sending.",
    owner="Whoever produces the topic.",
    safe=(
        "Roll the producer back.",
        "Send what is repaired again with the same ids, within the horizon.",
    ),
    wrong=("Raise `ingest.dead_letter_stop_share` so that it goes on whatever comes.",),
    silence=("topic=TOPIC",),
)
CARDINALITY_LIMITED = Runbook(
    means="Something that a producer can make up has reached its limit. Nothing breaks: the rest is"
    " counted as `__other__`, or whole families of metrics are left out.",
    monitor="`series`: `slicewatch_exposition_dropped_series`; compare fewer group-bys or windows,"
    " or raise `server.max_series`.",
    sampler="Not concerned.",
    router="`values`: `slicewatch_attribute_values_unknown_distinct` names the attribute that gets"
    " free text or ids. `versions`: does a version carry a build number or a date?",
    owner="Whoever produces the decisions topic; for `series`, whoever runs slicewatch.",
    safe=(
        "Make the producer send values from the allow-list.",
        "List a value that is wanted, in the settings.",
    ),
    wrong=("Put ids or free text on the allow-list.",),
    silence=("limit=LIMIT",),
)
CONSERVATION_BROKEN = Runbook(
    means="Messages or events of a partition ended nowhere. Both equations are kept by every flush,"
    " so this is a bug, or a database that was changed by hand.",
    monitor="`slicewatch db status --json` (`offsets_balance`, `events_balance`). Keep the log and"
    " a backup of the database as they are.",
    sampler="Not concerned.",
    router="Not concerned.",
    owner=_OPERATORS,
    safe=(
        "Tell the contract's owner that rates of this time are not to be relied on.",
        "Report it with the versions and the log.",
    ),
    wrong=("Change rows by hand so that it adds up.", *_WRONG_FOR_COUNTS),
    silence=("topic=TOPIC", "partition=PARTITION"),
)
DOWN = Runbook(
    means="None of the processes can be scraped. Breaches that stood are taken to stand for up to"
    " six hours; nothing about slices is sent meanwhile.",
    monitor="Are the processes there? Their last log line, memory and disk. If they are: token,"
    " certificate or network between Prometheus and them (`up` has the error in its target page).",
    sampler="Not concerned.",
    router="It goes on serving: slicewatch is not in its way.",
    owner=_OPERATORS,
    safe=(
        "Restart: positions, counts and incidents are in the database.",
        "`slicewatch check --connect` tries broker, topics and database.",
    ),
    wrong=_WRONG_FOR_COUNTS,
)
ABSENT = Runbook(
    means="Prometheus does not even know a target. Usually a scrape job was renamed or its"
    " discovery finds nothing; `alerting.job` must be the name of the job.",
    monitor="The target page of Prometheus: is there a job of this name? Which change of its"
    " configuration was the last?",
    sampler="Not concerned.",
    router="It goes on serving.",
    owner="Whoever runs Prometheus, then whoever runs slicewatch.",
    safe=("Restore the scrape job; deploy/prometheus/prometheus.yml is an example.",),
    wrong=("Delete the alert since the job has a new name: set `alerting.job` and render again.",),
)
EVALUATION_STALE = Runbook(
    means="Counting may go on, but nobody computes rates or tests, or nothing is shown. After ten"
    " minutes the exporter withholds the slice page, rather than to show old green for ever.",
    monitor="`slicewatch db status` says who has the lease and how long ago the last cycle began."
    " The log of that process says why a cycle failed. `slicewatch_exposition_withheld` is 1 where"
    " the page is withheld. A database that is full, locked or away is the usual cause.",
    sampler="Not concerned.",
    router="It goes on serving.",
    owner=_OPERATORS,
    safe=(
        "Restart `slicewatch serve` (or `run`): another process takes the lease within"
        " `evaluate.lease`.",
        "Make room for the database.",
    ),
    wrong=("Take the row of the lease away by hand.", *_WRONG_FOR_COUNTS),
)
TARGET_DOWN = Runbook(
    means="One process of several is away. The others have taken over its partitions and, if it"
    " had the lease, the evaluation.",
    monitor="Its log and its machine. Does it come back and go again?",
    sampler="Not concerned.",
    router="Not concerned.",
    owner=_OPERATORS,
    safe=("Start it again, or take it out of the scrape job if it is gone for good.",),
    wrong=_WRONG_FOR_COUNTS,
    silence=("instance=INSTANCE",),
)
REVIEW_OVERDUE = Runbook(
    means="The settings say how often people look at a contract again, and they have not. Limits,"
    " slices and trade-offs are product decisions: they grow old.",
    monitor="`effective` of the contract plus `review_cadence` of its use case.",
    sampler="Are the declared attributes still those that matter?",
    router="Is the router still used for what the use case says?",
    owner="The contract's owner.",
    safe=(
        "Look at it together with those affected, then give it a new version, effective date and"
        " reason, also where no number changes.",
    ),
    wrong=("Raise `review_cadence` so that it is not due.",),
    silence=("contract=CONTRACT",),
)
WATCHDOG = Runbook(
    means="This alert always fires. You read this because it stopped: Prometheus, Alertmanager or"
    " the way from them is gone, and every other alert with it.",
    monitor="Are Prometheus and Alertmanager up? Do their pages of targets, rules and status look"
    " right? Was their configuration changed?",
    sampler="Not concerned.",
    router="It goes on serving.",
    owner="Whoever runs Prometheus and Alertmanager.",
    safe=("Restart what is down, then look which alerts fired meanwhile.",),
    wrong=("Silence it: then nothing tells of the next time.",),
)
