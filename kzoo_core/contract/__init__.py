"""What a kernel_package and a benchmark output must be. Pure: no network, no git, no queue."""
