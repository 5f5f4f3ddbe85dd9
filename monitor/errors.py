"""The exception tree: every error a user can meet descends from SlicewatchError."""


class SlicewatchError(Exception):
    """Failure with one clear line for the user; the command line prints it and exits 2."""


class SettingsError(SlicewatchError):
    """Impossible settings; the message names the key and the fix.

    Attributes:
        problems: one text per problem, with its key and fix.
    """

    def __init__(self, *problems: str) -> None:
        count = f"{len(problems)} errors: " if len(problems) > 1 else ""
        super().__init__(count + "; ".join(problems))
        self.problems = problems


class StoreError(SlicewatchError):
    """Unusable store: wrong schema version, changed contract, or unreachable."""


class LostStoreError(StoreError):
    """The files of the database were replaced since they were opened; nothing may be written."""


class FencedError(StoreError):
    """Another worker has claimed the shard; what is not flushed must be dropped."""

    def __init__(self, shard: object) -> None:
        super().__init__(f"shard {shard} is owned by another worker now")
        self.shard = shard


class RetentionRefusedError(StoreError):
    """A retention run would delete most of the store; a clock may be wrong."""


class OutdatedError(SlicewatchError):
    """The store was started with newer settings; only a restart of this process helps."""


class RetiredTopicError(OutdatedError):
    """A topic of this worker is not in the newest settings that the store was started with."""

    def __init__(self, topic: str) -> None:
        super().__init__(
            f"topic {topic} is retired: slicewatch was started on this store with other topics"
            " since; restart this worker with the new settings"
        )


class SourceError(SlicewatchError):
    """Unreadable record source: wrong broker, missing topic, or unreadable file."""


class AccessError(SourceError):
    """The broker refused the connection, the login or a topic right; the message names the fix."""


class MissingTopicError(SourceError):
    """The broker has no such topic."""


class DataLossError(SourceError):
    """Stored positions no longer exist in the topic; they are never reset silently.

    ``shard`` is the shard to park; other shards can go on.
    """

    def __init__(self, message: str, shard: object = None) -> None:
        super().__init__(message)
        self.shard = shard


class ClockError(SourceError):
    """This machine's clock contradicts the events of most partitions."""


class PoisonedStreamError(SourceError):
    """Nearly all arriving events are unreadable: the producer or the settings are wrong."""


class AuditError(SlicewatchError):
    """Unusable probe set, results or sign-off file; the message names the fix."""
