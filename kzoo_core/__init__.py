"""The shared core of kernel_zoo: contract, queue, store, lifecycle, client and runner."""
