"""The matched-pair audit: before a release, and on what probes brought back; pure, reads files."""
