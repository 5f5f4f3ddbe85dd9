"""Weekly report: a Release and the settings' facts, as pages, data and tables.

Reports are pure functions: equal Releases, facts and signatures give equal bytes. The package knows
neither the store nor counts, so a report cannot reveal more than its Release.
"""

from monitor.reports.facts import AttributeFacts, ReportFacts, UseCaseFacts
from monitor.reports.weekly_report import WeeklyReport

__all__ = [
    "AttributeFacts", "ReportFacts", "UseCaseFacts", "WeeklyReport", "as_json", "bundle",
    "decision", "formats", "proposals", "weekly_report",
]  # fmt: skip
