"""What a person at a terminal uses: the ``kzoo`` command."""
