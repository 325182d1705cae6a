"""The rules for packages and for what their benchmarks print; nothing here does network or git."""
