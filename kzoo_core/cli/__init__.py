"""Module entry points: ``python -m kzoo_core.cli.<name>``."""
