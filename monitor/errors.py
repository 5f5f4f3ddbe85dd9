"""The exception tree: every error a user can meet descends from SlicewatchError."""


class SlicewatchError(Exception):
    """Base of errors with one clear line for the user; the command line prints it and exits 2."""


class SettingsError(SlicewatchError):
    """Error in the settings; the message names each wrong key and its fix.

    Attributes:
        problems: one text per problem, with its key and fix.
    """

    def __init__(self, *problems: str) -> None:
        count = f"{len(problems)} errors: " if len(problems) > 1 else ""
        super().__init__(count + "; ".join(problems))
        self.problems = problems


class StoreError(SlicewatchError):
    """Error: the store has the wrong schema version or a changed contract, or is unreachable."""


class LostStoreError(StoreError):
    """Error: the database files were replaced since they were opened; nothing may be written."""


class FencedError(StoreError):
    """Error in a flush: another worker has claimed the shard; drop what is not flushed."""

    def __init__(self, shard: object) -> None:
        super().__init__(f"shard {shard} is owned by another worker now")
        self.shard = shard


class RetentionRefusedError(StoreError):
    """Refusal of a retention run that would delete most of the store; a clock may be wrong."""


class OutdatedError(SlicewatchError):
    """Error in a process with older settings than the store's newest; only a restart helps."""


class RetiredTopicError(OutdatedError):
    """Error in a worker whose topic has left the settings that the store was last started with."""

    def __init__(self, topic: str) -> None:
        super().__init__(
            f"topic {topic} is retired: slicewatch was started on this store with other topics"
            " since; restart this worker with the new settings"
        )


class SourceError(SlicewatchError):
    """Error: the record source is unreadable (wrong broker, missing topic, or unreadable file)."""


class FullLogError(SourceError):
    """Error: the disk of the event log is full; nothing of the batch was written."""


class AccessError(SourceError):
    """Refusal by the broker of connection, login or a topic right; the message names the fix."""


class MissingTopicError(SourceError):
    """Error: the broker has no topic of this name."""


class DataLossError(SourceError):
    """Error: stored positions no longer exist in the topic; they are never reset silently.

    ``shard`` is the shard to park; other shards can go on.
    """

    def __init__(self, message: str, shard: object = None) -> None:
        super().__init__(message)
        self.shard = shard


class ClockError(SourceError):
    """Error: this machine's clock contradicts the events of most partitions."""


class PoisonedStreamError(SourceError):
    """Error: nearly all arriving events are unreadable; the producer or the settings are wrong."""


class AuditError(SlicewatchError):
    """Error: a probe set, results or sign-off file is unusable; the message names the fix."""
