"""How alerts reach people: addresses in their texts, who is told, and when offices are open."""

from __future__ import annotations

from typing import Literal

from msgspec import field

from monitor.core.time import DAY
from monitor.settings.kinds import ClockTime, Duration, Name, Path, Place, Term, TimeZone, WebUrl
from monitor.settings.sections import Section

Day = Literal["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"]


class Receiver(Section, frozen=True, kw_only=True):
    """Whom Alertmanager tells. Its secrets stay in files that Alertmanager reads."""

    webhook_url: WebUrl | None = None
    webhook_token_file: Path | None = None
    chat_url_file: Path | None = None

    @property
    def told(self) -> bool:
        """Whether anybody is."""
        return self.webhook_url is not None or self.chat_url_file is not None


class Alerting(Section, frozen=True, kw_only=True):
    """What ``slicewatch render`` puts into rules, Alertmanager's configuration and runbooks."""

    job: Name = "slicewatch"
    external_url: WebUrl = "http://localhost:9095"
    runbooks: Place = "deploy/runbooks"
    dashboard_url: WebUrl | None = None
    labels_stale: Term = Duration(3 * DAY)
    timezone: TimeZone = "UTC"
    office_days: tuple[Day, ...] = ("monday", "tuesday", "wednesday", "thursday", "friday")
    office_from: ClockTime = "09:00"
    office_until: ClockTime = "17:00"
    page: Receiver = field(default_factory=Receiver)
    ticket: Receiver = field(default_factory=Receiver)
    visible: Receiver = field(default_factory=Receiver)
    deadman: Receiver = field(default_factory=Receiver)

    @property
    def receivers(self) -> dict[str, Receiver]:
        """Who is told, by what they are told."""
        names = ("page", "ticket", "visible", "deadman")
        return {name: getattr(self, name) for name in names}
