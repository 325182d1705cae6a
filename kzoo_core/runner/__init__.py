"""The daemon on a GPU node: claims, runs, reports."""
