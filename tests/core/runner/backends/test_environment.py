from __future__ import annotations

from kzoo_core.runner.backends.environment import DEFAULT_ALLOWED, allowed


def test_what_toolkits_need_is_allowed_and_nothing_else() -> None:
    kept = {
        "PATH": "/usr/bin",
        "LANG": "C.UTF-8",
        "LC_CTYPE": "C.UTF-8",
        "LD_LIBRARY_PATH": "/opt/dtk/lib",
        "ROCM_PATH": "/opt/rocm",
        "HIP_VISIBLE_DEVICES": "0",
        "DTKROOT": "/opt/dtk",
        "CUDA_HOME": "/usr/local/cuda",
    }
    dropped = {
        "HOME": "/root",
        "AWS_SECRET_ACCESS_KEY": "x",
        "PYTHONPATH": "/x",
        "LD_PRELOAD": "/x.so",
        "KERNEL_ZOO_SERVER": "x",
        "path": "lower case is another name",
    }

    assert allowed({**kept, **dropped}, DEFAULT_ALLOWED) == kept


def test_no_pattern_is_wide_enough_for_the_runner_s_own_settings() -> None:
    environment = {"A": "1", "KERNEL_ZOO_RUNNER_TOKEN": "secret"}

    assert allowed(environment, ["*", "KERNEL_ZOO_*"]) == {"A": "1"}


def test_no_pattern_allows_nothing() -> None:
    assert allowed({"PATH": "/usr/bin"}, []) == {}
