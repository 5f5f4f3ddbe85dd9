"""What came of a round: in words, and as an exit code."""

from __future__ import annotations

from collections.abc import Iterator

from monitor.probing.run import Round

EXIT_FAILED, EXIT_FRUITLESS = 1, 2


def exit_code(done: Round) -> int:
    """0: every variant has an answer; 1: some have none, or it was stopped; 2: no router."""
    if done.fruitless:
        return EXIT_FRUITLESS
    return 0 if done.sound and not done.stopped else EXIT_FAILED


def shortfalls(done: Round) -> Iterator[str]:
    """What is missing of a round; nothing when all went well."""
    if done.incomplete:
        kinds = ", ".join(
            f"{count:,} {kind.value}" for kind, count in sorted(done.failures.items())
        )
        yield f"{done.incomplete:,} incomplete ({kinds})"
    if done.mixed:
        yield f"{done.mixed:,} with mixed versions"
    if done.given_up:
        yield "given up: nothing but failures any more"
    if done.stopped:
        yield f"stopped after {done.complete + done.incomplete + done.mixed:,} pairs"
