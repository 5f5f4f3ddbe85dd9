"""slicewatch: watches a decision router in production, slice by slice."""
