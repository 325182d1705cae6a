"""The commands of ``kzoo``, one module each: ``run(arguments, context) -> exit code``."""
