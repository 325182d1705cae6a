"""Constants read from Python source, none of which runs (D4, D6)."""
