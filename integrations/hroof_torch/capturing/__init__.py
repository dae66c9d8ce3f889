"""A region captured: which step is skipped, counted or timed, and what becomes of it."""
