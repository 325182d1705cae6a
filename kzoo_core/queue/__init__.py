"""Submissions on disk: a pure state machine, a durable spool, and who runs next."""
