"""The ``kzoo`` command: all that is typed and read in a terminal."""
