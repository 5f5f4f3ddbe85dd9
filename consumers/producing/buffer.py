"""The bounded buffer between a router and the thread that sends, and the account of all events."""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass

from consumers.producing.making import Message


@dataclass(frozen=True, slots=True)
class EventCounts:
    """Events by what became of them; they sum to the calls of a producer.

    Attributes:
        sent: written to the topic, or taken by the service over HTTP.
        failed: refused for good by the broker or the service.
        dropped: found no room in the buffer, or were still in it when the producer was closed.
        invalid: never sent, since the service would not have counted them.
        waiting: in the buffer, or being sent.
    """

    sent: int = 0
    failed: int = 0
    dropped: int = 0
    invalid: int = 0
    waiting: int = 0


class Buffer:
    """First in, first out. No method but :meth:`take` ever waits.

    Args:
        room: messages that fit, those that are being sent included.
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
        """The account at this moment."""
        with self._changed:
            waiting = len(self._messages) + self._sending
            return EventCounts(self._sent, self._failed, self._dropped, self._invalid, waiting)

    def offer(self, message: Message) -> bool:
        """Take a message, or count it as dropped: no room, or closed."""
        with self._changed:
            if self._closing or len(self._messages) + self._sending >= self._room:
                self._dropped += 1
                return False
            self._messages.append(message)
            self._changed.notify()
            return True

    def refuse(self) -> None:
        """Count an event that is not sent because it is wrong."""
        with self._changed:
            self._invalid += 1

    def take(self, most: int) -> list[Message]:
        """The next messages, which are being sent from now on; waits for the first of them.

        Returns:
            None at all once it is closed and empty.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._messages or self._closing)
            taken = [self._messages.popleft() for _ in range(min(most, len(self._messages)))]
            self._sending = len(taken)
            return taken

    def settle(self, written: int) -> None:
        """What was taken last is decided: so many are written, the others were refused."""
        with self._changed:
            if not self._abandoned:
                self._sent += written
                self._failed += self._sending - written
                self._sending = 0

    def close(self) -> None:
        """Take no more; what is here may still be taken."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()

    def abandon(self) -> None:
        """Count whatever is left as dropped, also what is being sent: nobody knows of that."""
        with self._changed:
            self._dropped += len(self._messages) + self._sending
            self._messages.clear()
            self._sending = 0
            self._closing = self._abandoned = True
