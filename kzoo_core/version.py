"""The version of kernel_zoo, read by the build and by every ``--version``."""

__version__ = "0.1.0"
