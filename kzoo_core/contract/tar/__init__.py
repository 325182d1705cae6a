"""The tar inside an archive: its format, and what a stranger's one may not hold (D9)."""
