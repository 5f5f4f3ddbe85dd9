"""What people and pipelines see of an audit: each module renders one AuditReport in one format."""
