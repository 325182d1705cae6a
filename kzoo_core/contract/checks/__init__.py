"""What parts of a package and of an output must hold beyond their schemas (D2, D5-D7)."""
