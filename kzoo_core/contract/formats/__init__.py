"""YAML and JSON as this product reads and writes them (D8, D15)."""
