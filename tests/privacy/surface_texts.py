"""What error texts and printed lines tell: every expression in them, by kind.

Beside :mod:`surfaces`, which has names; a text has none. A test compares this with
all calls that make an error or print a line, so that a new place in a text is classified by
whoever adds it. No kind is a payload, an id of a decision, a reviewer, a value outside the
allow-lists or a number of a slice: those are never told.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping


class Argument(enum.Enum):
    """A kind of thing that a text may tell."""

    WORD = "The program's own words and numbers; names from its closed lists."
    SETTING = "A key, a value or a file of the settings; secrets are never shown."
    NAME = "A name that the settings gave: attribute, contract, key, version of the router."
    PLACE = "Topic, partition, offset, line, file, address; databases without passwords."
    MOMENT = "A day or an instant that somebody declared, or that a whole stream has reached."
    TYPED = "What the caller of the command typed."
    FILE = (
        "Of a file that the caller gave: names of its fields and variants, ids by which its rows"
        " are found, kinds of values; values of a synthetic set alone, and never what a request"
        " says."
    )
    TOTAL = "How many rows, events or labels there are in all; of no slice."
    CAUSE = "What the system, the database, the broker or a library says in one line."
    TRACE = "Where in the program a bug showed; never what an exception of others said."
    ROWS = "A document whose names have rows in the surface table."


KNOWS_SETTINGS_ONLY = "monitor.settings"
"""The package whose texts can tell of nothing but the settings: it imports nothing that has data,
and secrets have a type of their own that prints as a mask."""

ARGUMENTS: Mapping[str, Mapping[Argument, tuple[str, ...]]] = {
    "alerts.dashboards.promql": {
        Argument.WORD: ("', '.join(sorted(unknown))", "family.name"),
    },
    "alerts.http.config": {
        Argument.CAUSE: ("reason",),
        Argument.SETTING: ("config.section", "key", "named", "self.section", "text"),
    },
    "alerts.http.server": {
        Argument.SETTING: ("message",),
    },
    "consumers.coder": {
        Argument.WORD: ("field",),
    },
    "consumers.dead_letters": {
        Argument.PLACE: ("shard.topic",),
        Argument.TOTAL: (
            "bad / run.judged",
            "run.judged",
        ),
        Argument.WORD: ("usual",),
    },
    "consumers.ownership": {
        Argument.PLACE: (
            "shard",
            "shard.partition",
            "shard.topic",
        ),
        Argument.WORD: ("CREATED_AGAIN",),
    },
    "consumers.mapping": {
        Argument.SETTING: ("field", "key", "one"),
        Argument.WORD: ("names",),
    },
    "consumers.producing.avro": {
        Argument.CAUSE: ("type(error).__name__",),
        Argument.WORD: ("error.code",),
    },
    "consumers.producing.making": {
        Argument.WORD: ("kind", "meant", "name", "reason", "refusal(reason, top, given)", "top"),
    },
    "consumers.producing.sampling": {
        Argument.WORD: ("_MAX_SECRET", "route"),
        Argument.SETTING: ("len(key)",),
    },
    "consumers.producing.transports": {
        Argument.CAUSE: (
            "str(found[0]) if found else 'no answer from the broker'",
            "type(error).__name__",
        ),
        Argument.WORD: ("status",),
    },
    "consumers.receiving.batches": {
        Argument.WORD: ("EventRefusal(1, 'decision', 'malformed_json', '')",),
    },
    "consumers.reconcile": {
        Argument.PLACE: ("status.shard.topic",),
    },
    "consumers.sources.base": {
        Argument.PLACE: (
            "held",
            "offset",
            "shard",
            "shard.partition",
            "shard.topic",
        ),
    },
    "consumers.sources.file_source": {
        Argument.CAUSE: (
            "error",
            "error.strerror",
        ),
        Argument.PLACE: (
            "file.line",
            "file.name",
            "held",
            "offset",
            "self.line",
            "self.line + len(lines) + 1",
            "self.name",
            "self.path",
            "topic",
            "twin.name",
        ),
        Argument.SETTING: ("start.policy",),
        Argument.WORD: (
            "'standard input can be read once' if paths else 'there is no file to read'",
            "MAX_LINE_BYTES >> 20",
        ),
    },
    "consumers.sources.kafka_admin": {
        Argument.CAUSE: (
            "'; '.join(reasons)",
            "error",
        ),
        Argument.PLACE: ("self.address",),
    },
    "consumers.sources.kafka_batches": {
        Argument.PLACE: ("at", "len(data)"),
        Argument.TOTAL: ("batch.count",),
    },
    "consumers.sources.kafka_writer": {
        Argument.CAUSE: ("type(error).__name__",),
        Argument.PLACE: ("self._connection.address", "topic"),
    },
    "consumers.sources.kafka_preflight": {
        Argument.CAUSE: (
            "_distrust(error, server)",
            "reason",
            "type(error).__name__",
        ),
        Argument.PLACE: (
            "name",
            "self._server",
            "server",
        ),
        Argument.SETTING: (
            "KEY",
            "chosen",
            "named",
            "offered",
            "plain",
            "self._security['sasl_mechanism']",
            "self._who",
            "tls",
            "user",
            "wanted",
            "why",
        ),
        Argument.WORD: ("done", "kind", "operation"),
    },
    "consumers.sources.kafka_source": {
        Argument.CAUSE: ("error",),
        Argument.PLACE: (
            "self._connection.address",
            "shard",
        ),
        Argument.SETTING: ("start.policy",),
    },
    "consumers.sources.librdkafka_client": {
        Argument.CAUSE: (
            "text_of(error)",
            "text_of(error.args[0])",
        ),
        Argument.PLACE: ("connection.address",),
        Argument.SETTING: ("', '.join(unknown)",),
    },
    "consumers.sources.librdkafka_source": {
        Argument.CAUSE: (
            "KafkaError._TIMED_OUT",
            "text_of(error.args[0])",
        ),
        Argument.PLACE: (
            "self._connection.address",
            "shard",
        ),
        Argument.SETTING: ("start.policy",),
    },
    "consumers.sources.memory_source": {
        Argument.PLACE: ("topic",),
    },
    "consumers.wire.registry": {
        Argument.CAUSE: ("_reason(error)", "status", "why"),
        Argument.PLACE: ("self.url",),
        Argument.SETTING: ("KEY", "file", "name"),
    },
    "consumers.wire.writer_schema": {
        Argument.WORD: ("MAX_DEPTH", "MAX_PARTS"),
    },
    "consumers.wall_clock": {
        Argument.MOMENT: (
            "back / DAY",
            "to_datetime(now)",
        ),
        Argument.PLACE: ("beyond[0]",),
        Argument.TOTAL: (
            "len(beyond)",
            "len(self._beyond)",
        ),
    },
    "monitor.audit.matching": {
        Argument.TOTAL: ("len(pair.rows)",),
        Argument.WORD: ("MAX_VARIANTS",),
    },
    "monitor.audit.audit_run": {
        Argument.FILE: (
            "field_name('attributes', name)",
            "text",
            "what",
        ),
        Argument.PLACE: (
            "results.path",
            "row.line",
        ),
        Argument.SETTING: (
            "_use_case_choice(names)",
            "len(names)",
            "shown(use_case.name)",
            "why",
        ),
        Argument.TYPED: ("shown(name)",),
    },
    "monitor.audit.dataset_counts": {
        Argument.FILE: (
            "name",
            "text",
            "total",
        ),
        Argument.PLACE: (
            "line",
            "path",
        ),
        Argument.WORD: (
            "MAX_VALUES",
            "_COUNT",
            "_READY",
            "_TARGET",
            "missing",
            "words(AttributeName)",
            "words(Label)",
        ),
    },
    "monitor.audit.record_files": {
        Argument.CAUSE: (
            "' '.join(str(error).split())",
            "error.strerror or 'check the path'",
            "reason",
        ),
        Argument.FILE: (
            "field",
            "field_name(*parts)",
            "found(value)",
            "name",
            "text",
        ),
        Argument.PLACE: (
            "', '.join(place)",
            "line",
            "path",
        ),
        Argument.WORD: (
            "MAX_BYTES >> 20",
            "hint",
            "max_bytes",
            "what",
        ),
    },
    "monitor.audit.scorecard.association": {Argument.WORD: ("name",)},
    "monitor.audit.scorecard.card_file": {
        Argument.FILE: (
            "field_name(*place)",
            "field_name(name)",
            "found(tables)",
            "name",
            "text",
        ),
        Argument.PLACE: ("path",),
        Argument.WORD: ("known",),
    },
    "monitor.audit.scorecard.files": {
        Argument.CAUSE: ("error.strerror or 'check the path'",),
        Argument.PLACE: ("path",),
        Argument.WORD: ("text",),
    },
    "monitor.audit.scorecard.parity": {Argument.WORD: ("of_what",)},
    "monitor.audit.scorecard.dimension_records": {
        Argument.FILE: (
            "field_name(*place, name)",
            "text",
        ),
        Argument.PLACE: (
            "line",
            "path",
        ),
        Argument.WORD: (
            "', '.join(names)",
            "keys[-1]",
        ),
    },
    "monitor.audit.scorecard.scoring": {Argument.WORD: ("SMALLEST_REAL",)},
    "monitor.audit.set_files": {
        Argument.CAUSE: ("error.strerror",),
        Argument.FILE: (
            "field_name(*parts)",
            "name",
            "text",
        ),
        Argument.PLACE: (
            "difference",
            "line",
            "path",
            "repeated",
        ),
        Argument.WORD: ("taken",),
    },
    "monitor.audit.sign_off": {
        Argument.FILE: (
            "field",
            "field_name(*filter(None, (table, name)))",
            "field_name(*place)",
            "field_name(_FOR, _RESULTS)",
            "field_name(_FOR, _THRESHOLD)",
            "field_name(_FOR, name)",
            "field_name(name)",
            "text",
            "what",
        ),
        Argument.MOMENT: ("today",),
        Argument.PLACE: ("path",),
        Argument.WORD: ("fix",),
    },
    "monitor.cli": {
        Argument.TRACE: ("trace_of(error)",),
        Argument.SETTING: ("' '.join(text.split())",),
        Argument.WORD: ("' '.join(str(error).split())",),
    },
    "monitor.commands.audit": {
        Argument.CAUSE: ("error.strerror",),
        Argument.NAME: (
            "digest(made)",
            "made.name",
            "made.version",
        ),
        Argument.ROWS: ("document",),
        Argument.TOTAL: (
            "pairs",
            "who",
        ),
        Argument.TYPED: (
            "from_set",
            "output",
            "target",
        ),
        Argument.WORD: (
            "fault",
            "given[0]",
            "main",
        ),
    },
    "monitor.certificates": {
        Argument.CAUSE: ("reason",),
        Argument.SETTING: (
            "self.file",
            "self.key",
        ),
    },
    "monitor.commands.check": {
        Argument.CAUSE: ("'; '.join(problems)",),
        Argument.SETTING: (
            "'; '.join(expired)",
            "line",
            "resolved(settings).rstrip()",
            "settings.coding.max_atoms",
            "warning",
        ),
        Argument.TOTAL: ("len(problems)",),
    },
    "monitor.commands.working": {
        Argument.WORD: (
            "seconds",
            "text",
        ),
    },
    "monitor.commands.open_store": {
        Argument.PLACE: ("settings.store.url.masked",),
    },
    "monitor.commands.db.upkeep": {
        Argument.MOMENT: (
            "moment(found.back_to)",
            "moment(now)",
        ),
        Argument.NAME: ("', '.join(gone) or 'nothing: the settings list all that is stored'",),
        Argument.PLACE: (
            "before",
            "line",
        ),
        Argument.ROWS: ("json.dumps(dict(zip(names, row, strict=True)))",),
        Argument.TOTAL: (
            "again",
            "portion",
            "rows",
            "size",
        ),
        Argument.TYPED: (
            "file",
            "key_id",
            "offset",
            "shard",
            "target",
        ),
        Argument.WORD: (
            "' (the service refuses it)' if portion.refused else ''",
            "'deleted' if confirm else 'nothing was deleted; to delete it, add --confirm'",
            "before or 'empty'",
            "database.head_revision()",
        ),
    },
    "monitor.commands.db.removal": {
        Argument.SETTING: ("duration_text(settings.evaluate.cycle)",),
        Argument.TOTAL: ("_sentence(removed, len(ids))",),
        Argument.TYPED: (
            "_added(add_exclusion(engine, asked, SystemClock().now()))",
            "lift",
        ),
        Argument.WORD: (
            "MAX_LENGTH",
            "option",
        ),
    },
    "monitor.commands.db.db_status": {
        Argument.ROWS: ("msgspec.json.encode(found)",),
    },
    "monitor.commands.demo": {
        Argument.ROWS: ("json.dumps(document(last, demo.produced, seed), indent=2)",),
    },
    "monitor.commands.incident": {
        Argument.ROWS: ("msgspec.json.encode(found)",),
        Argument.SETTING: ("cycle",),
        Argument.TYPED: (
            "sentence(closing)",
            "act.by",
            "number",
        ),
        Argument.WORD: (
            "'there never was an incident' if resolved else 'no incident is open'",
            "command",
        ),
    },
    "monitor.commands.options": {
        Argument.CAUSE: ("reason",),
        Argument.TYPED: ("file",),
        Argument.WORD: ("option",),
    },
    "monitor.core.plain_text": {
        Argument.WORD: (
            "field",
            "longest",
        ),
    },
    "monitor.core.publish.act_input": {
        Argument.WORD: (
            "', '.join(known)",
            "example",
            "named('outcome')",
            "named('until')",
            "needs",
            "only",
        ),
    },
    "monitor.web.building": {
        Argument.SETTING: (
            "', '.join((g.group_by for g in window.groups))",
            "names",
        ),
    },
    "monitor.web.links": {
        Argument.WORD: (
            "', '.join(Metric)",
            "', '.join(WINDOWS)",
            "', '.join(tables)",
            "_LONGEST",
            "len(unknown)",
            "name",
        ),
    },
    "monitor.store.upkeep.reported_incidents": {
        Argument.TYPED: ("number",),
    },
    "monitor.commands.probe.access": {
        Argument.CAUSE: ("reason",),
        Argument.TYPED: (
            "file",
            "path",
        ),
    },
    "monitor.commands.probe.send": {
        Argument.SETTING: (
            "', '.join(one.values)",
            "one.name",
            "settings.privacy.k",
            "warning",
        ),
        Argument.TOTAL: (
            "_plan_text(probe_set, content, how, named)",
            "len(found)",
            "len(made.ids)",
            "line",
        ),
        Argument.TYPED: (
            "path",
            "swap.attribute",
        ),
        Argument.WORD: (
            "LONGEST_TIMEOUT",
            "name",
            "parameter.name",
        ),
    },
    "monitor.commands.probe.probe_status": {
        Argument.ROWS: ("msgspec.json.encode(found)",),
    },
    "monitor.commands.backtest": {
        Argument.MOMENT: ("'; '.join([hours, *apart])", "missing[0]"),
        Argument.ROWS: (
            "_json(found)",
            "_json(made) if as_json else proposed(settings, made)",
            "_line(one)",
        ),
        Argument.TOTAL: ("pages", "tickets", "'s' * (pages != 1)", "'s' * (tickets != 1)"),
    },
    "monitor.commands.render": {
        Argument.TYPED: ("target", "path"),
        Argument.WORD: ("name",),
    },
    "monitor.commands.report": {
        Argument.CAUSE: ("reason",),
        Argument.MOMENT: (
            "moment_text(week.end, week.zone)",
            "signed.week",
            "until",
            "week.name",
            "weeks[-1]",
            "weeks[0]",
        ),
        Argument.PLACE: ("file",),
        Argument.TYPED: ("signed.by",),
        Argument.WORD: (
            "', '.join(FORMATS)",
            "_WEEK",
            "newest.number",
            "stored.newest",
            "signed.digest",
            "signed.revision",
        ),
    },
    "monitor.reports.as_pdf": {
        Argument.WORD: ("_MISSING",),
    },
    "monitor.core.time": {
        Argument.TYPED: ("name",),
    },
    "monitor.commands.replay": {
        Argument.CAUSE: ("str(error)",),
        Argument.FILE: ("line",),
        Argument.ROWS: ("json.dumps(body, indent=2)",),
        Argument.TOTAL: (
            "self.events",
            "share",
            "_sentence(sum((t.events for t in tallies)), progress.events, seconds)",
            "again",
            "waiting",
        ),
        Argument.TYPED: ("message", "name"),
    },
    "monitor.core.publish.decidable": {
        Argument.WORD: ("metric",),
    },
    "monitor.core.rates.gaps": {
        Argument.WORD: (
            "reference.metric",
            "slices.metric",
        ),
    },
    "monitor.demo.broker": {
        Argument.CAUSE: (
            "error",
            "said",
        ),
        Argument.PLACE: (
            "PORTS.start",
            "PORTS.stop - 1",
            "process.pid",
        ),
        Argument.WORD: ("timeout",),
    },
    "monitor.demo.traffic": {
        Argument.CAUSE: ("error",),
    },
    "monitor.detection.arrays": {
        Argument.WORD: (
            "VERSION",
            "head['version']",
        ),
    },
    "monitor.detection.pages.budget": {
        Argument.WORD: ("stream.metric",),
    },
    "monitor.detection.pages.projection": {
        Argument.WORD: ("metric",),
    },
    "monitor.evaluate.dictionary": {
        Argument.WORD: ("_LOST",),
    },
    "consumers.bias_results": {
        Argument.WORD: (
            "field",
            "reason",
        )
    },
    "monitor.commands.health": {Argument.ROWS: ("said",)},
    "monitor.commands.judge": {
        Argument.SETTING: ("i",),
        Argument.WORD: (
            "fix",
            "known",
            "missing",
            "prompt.instructions",
        ),
    },
    "monitor.judging.request_budget": {
        Argument.CAUSE: (
            "error.strerror",
            "type(error).__name__",
        ),
        Argument.PLACE: ("self.path",),
    },
    "monitor.judging.output_events": {Argument.WORD: ("_named(error)",)},
    "monitor.judging.kafka_stream": {
        Argument.CAUSE: ("type(error).__name__",),
    },
    "monitor.judging.openai_judge": {
        Argument.CAUSE: (
            "error.status_code",
            "why",
        ),
        Argument.SETTING: ("endpoint.model",),
    },
    "monitor.judging.judgements": {Argument.WORD: ("error",)},
    "monitor.probing.probe_events": {
        Argument.CAUSE: ("error",),
        Argument.FILE: (
            "', '.join(sorted(variants))",
            "digest",
            "listed",
            "min(missing)",
            "min(unknown)",
            "name",
            "pair",
        ),
        Argument.SETTING: (
            "', '.join(sorted(found.variants))",
            "found.name",
            "found.pairs",
        ),
        Argument.TOTAL: ("len(pairs)",),
    },
    "monitor.probing.http_router": {
        Argument.CAUSE: ("reason",),
    },
    "monitor.probing.swap": {
        Argument.CAUSE: (
            "_without_names(error)",
            "error.strerror or 'cannot be read'",
        ),
        Argument.FILE: ("trace.id",),
        Argument.PLACE: (
            "number",
            "path",
            "where",
        ),
        Argument.TYPED: ("swap.attribute",),
        Argument.WORD: ("LARGEST_FILE >> 20",),
    },
    "monitor.store.codings": {
        Argument.NAME: (
            "', '.join(gone)",
            "attribute.name",
        ),
        Argument.WORD: ("_OUTDATED",),
    },
    "monitor.store.database": {
        Argument.CAUSE: ("detail",),
        Argument.PLACE: ("where",),
        Argument.WORD: (
            "found",
            "found or 'empty'",
            "head_revision()",
            "wanted",
        ),
    },
    "monitor.store.open_file": {Argument.PLACE: ("path",)},
    "monitor.store.evaluator.stored_incidents": {
        Argument.MOMENT: (
            "_moment(how.at)",
            "resolved",
        ),
        Argument.TYPED: (
            "found.id",
            "number",
        ),
    },
    "monitor.store.evaluator.records": {
        Argument.SETTING: ("_changed(contract)",),
    },
    "monitor.store.evaluator.folding": {
        Argument.WORD: ("ROLE",),
    },
    "monitor.store.evaluator.lease": {
        Argument.WORD: ("ROLE",),
    },
    "monitor.store.exclusions": {
        Argument.MOMENT: ("when",),
        Argument.NAME: (
            "named",
            "rest",
        ),
        Argument.TYPED: ("number",),
    },
    "monitor.store.id_key_rules": {
        Argument.MOMENT: (
            "_since(mark)",
            "_since(wanted) or ' for all days'",
            "day",
            "day_text(end)",
            "day_text(free_day(end, horizon))",
            "day_text(read_to)",
            "was",
        ),
        Argument.NAME: (
            "mark.id",
            "names",
            "stored[-1].id",
            "wanted.id",
        ),
        Argument.SETTING: ("_field(wanted)",),
        Argument.WORD: ("_LABELS_LOST",),
    },
    "monitor.store.id_keys": {
        Argument.NAME: ("known",),
        Argument.WORD: ("rules.CHANGED",),
    },
    "monitor.store.ingest.ingest_store": {
        Argument.PLACE: (
            "claim.shard",
            "flush.shard",
        ),
    },
    "monitor.store.retired": {
        Argument.PLACE: (
            "found",
            "topic",
        ),
        Argument.SETTING: ("key",),
        Argument.WORD: ("had",),
    },
    "monitor.store.shard_rows": {
        Argument.PLACE: (
            "before",
            "offset",
            "shard",
            "shard.partition",
            "shard.topic",
        ),
        Argument.TOTAL: ("what",),
    },
    "monitor.store.upkeep.retention_guard": {
        Argument.TOTAL: ("refused[0]",),
        Argument.WORD: ("MOST_SHARE",),
    },
    "monitor.store.upkeep.backup": {
        Argument.CAUSE: ("reason",),
        Argument.SETTING: ("source",),
        Argument.TYPED: ("target",),
    },
    "monitor.store.upkeep.write_rights": {
        Argument.WORD: ("shown",),
    },
}
"""By module: the expressions that errors and printed lines tell."""
