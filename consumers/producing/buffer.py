"""Bounded buffer between a router and the sending thread, with counts of all events."""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass

from consumers.producing.making import Message


@dataclass(frozen=True, slots=True)
class EventCounts:
    """Number of events by outcome; they sum to the calls of a producer.

    Attributes:
        sent: written to the topic, or taken by the service over HTTP.
        failed: refused for good by the broker or the service.
        dropped: found no room in the buffer, or were left in it when the producer was closed.
        invalid: never sent, since the service would not have counted them.
        waiting: in the buffer, or being sent.
    """

    sent: int = 0
    failed: int = 0
    dropped: int = 0
    invalid: int = 0
    waiting: int = 0


class Buffer:
    """First-in, first-out buffer of messages, with counts. No method but :meth:`take` ever waits.

    Args:
        room: most messages in it, including those that are being sent.
    """

    def __init__(self, room: int) -> None:
        self._room = room
        self._changed = threading.Condition()
        self._messages: deque[Message] = deque()
        self._sending = 0
        self._sent = self._failed = self._dropped = self._invalid = 0
        self._closing = self._abandoned = False

    @property
    def counts(self) -> EventCounts:
        """Return the number of events by outcome at this moment."""
        with self._changed:
            waiting = len(self._messages) + self._sending
            return EventCounts(self._sent, self._failed, self._dropped, self._invalid, waiting)

    def offer(self, message: Message) -> bool:
        """Add a message and return True; if full or closed, count it as dropped, return False."""
        with self._changed:
            if self._closing or len(self._messages) + self._sending >= self._room:
                self._dropped += 1
                return False
            self._messages.append(message)
            self._changed.notify()
            return True

    def refuse(self) -> None:
        """Count an event as invalid; it is not sent."""
        with self._changed:
            self._invalid += 1

    def take(self, most: int) -> list[Message]:
        """Wait for messages; remove and return at most ``most``, none once closed and empty.

        Returns:
            Messages; none once the buffer is closed and empty.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._messages or self._closing)
            messages = [self._messages.popleft() for _ in range(min(most, len(self._messages)))]
            self._sending = len(messages)
            return messages

    def settle(self, written: int) -> None:
        """Count the messages taken last: ``written`` as sent, the rest as failed."""
        with self._changed:
            if not self._abandoned:
                self._sent += written
                self._failed += self._sending - written
                self._sending = 0

    def close(self) -> None:
        """Accept no more messages; those in the buffer may still be taken."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()

    def abandon(self) -> None:
        """Count all remaining messages as dropped, also those being sent (outcome unknown)."""
        with self._changed:
            self._dropped += len(self._messages) + self._sending
            self._messages.clear()
            self._sending = 0
            self._closing = self._abandoned = True
