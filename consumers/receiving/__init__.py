"""``POST /v1/events``: events of producers without a Kafka client, judged and written to Kafka."""

from consumers.receiving.batches import Refusal
from consumers.receiving.judge import Judge
from consumers.receiving.receiver import PATH, BatchAnswer, Receiver, Write

__all__ = ["PATH", "BatchAnswer", "Judge", "Receiver", "Refusal", "Write"]
