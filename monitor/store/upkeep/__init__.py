"""Operations on the whole store: retention, status, repair, recoding."""

__all__ = [
    "backup", "last_settings", "published_ages", "published_reader", "recode",
    "reported_incidents", "retention", "retention_guard", "service_health", "store_status",
    "write_rights",
]  # fmt: skip
