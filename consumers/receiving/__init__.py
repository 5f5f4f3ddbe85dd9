"""``POST /v1/events``: events of producers without a Kafka client, judged and written to Kafka."""

from consumers.receiving.event_judge import EventJudge
from consumers.receiving.receiver import PATH, BatchAnswer, EventReceiver

__all__ = ["PATH", "BatchAnswer", "EventJudge", "EventReceiver"]
