"""What the generated blocks of the documentation are made from, one module a kind of source."""
