"""The exception tree: every error a user can meet descends from SlicewatchError."""


class SlicewatchError(Exception):
    """A failure with one clear line for the user; the command line prints it and exits 2."""


class SettingsError(SlicewatchError):
    """The settings are impossible; the message names the key and the fix.

    Attributes:
        problems: one text for each thing that is wrong, each with its key and its fix.
    """

    def __init__(self, *problems: str) -> None:
        count = f"{len(problems)} errors: " if len(problems) > 1 else ""
        super().__init__(count + "; ".join(problems))
        self.problems = problems


class StoreError(SlicewatchError):
    """The store cannot be used as it is: wrong schema version, changed contract, unreachable."""


class LostStoreError(StoreError):
    """The files of the database are not those that were opened: nothing may be written."""


class FencedError(StoreError):
    """Another worker has claimed a shard since: what was not flushed must be dropped."""

    def __init__(self, shard: object) -> None:
        super().__init__(f"shard {shard} is owned by another worker now")
        self.shard = shard


class RetentionRefusedError(StoreError):
    """A run of retention would delete most of what is kept: a clock may be wrong."""


class OutdatedError(SlicewatchError):
    """The store was started with newer settings than this process has: only a restart helps."""


class RetiredTopicError(OutdatedError):
    """A topic of this worker is not in the settings with which the store was started last."""

    def __init__(self, topic: str) -> None:
        super().__init__(
            f"topic {topic} is retired: slicewatch was started on this store with other topics"
            " since; restart this worker with the new settings"
        )


class SourceError(SlicewatchError):
    """The record source cannot be read: wrong broker, missing topic, unreadable file."""


class AccessError(SourceError):
    """A broker refuses access, or forbids what we need; the message names the fix."""


class MissingTopicError(SourceError):
    """The broker answers, and says that there is no such topic."""


class DataLossError(SourceError):
    """Committed positions do not exist any more in the topic: never reset silently.

    ``shard`` is the one to park; the others can go on.
    """

    def __init__(self, message: str, shard: object = None) -> None:
        super().__init__(message)
        self.shard = shard


class ClockError(SourceError):
    """This machine's clock and the events of most partitions cannot both be right."""


class PoisonedStreamError(SourceError):
    """Nearly everything that arrives is unreadable: the producer or the settings are wrong."""


class AuditError(SlicewatchError):
    """A probe set, its results or a sign-off file cannot be used; the message names the fix."""
