"""The aiohttp process of kernel_zoo: the HTTP API and the runner protocol."""
