"""The command line itself: flags, mistakes, exit codes, errors as text and as JSON."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from kzoo_core.contract.schemas import validate
from kzoo_core.errors import (
    BadInput,
    Broken,
    Conflict,
    Forbidden,
    Gone,
    KzooError,
    NotFound,
    Retryable,
    TooLarge,
    Unauthorized,
)
from kzoo_tui import exit_codes
from kzoo_tui.execution import code_of
from kzoo_tui.exit_codes import ExitCode
from tests.cli.console import Console, Ended
from tests.cli.views import UUID, submission
from tests.core.scripted_server import Script, answers, fails

if TYPE_CHECKING:
    from argparse import Namespace

    from kzoo_tui.context import Context


async def run(console: Console, *argv: str) -> Ended:
    return await asyncio.to_thread(console.run, *argv)


def test_no_arguments_print_the_help_on_stderr_and_exit_3() -> None:
    ended = Console().run()
    assert (ended.code, ended.out) == (3, "")
    assert ended.err.startswith("usage: kzoo [-h]")
    assert "exit codes:\n  0  done; accepted\n  1  rejected" in ended.err


@pytest.mark.parametrize(
    ("argv", "error", "hint"),
    [
        (["sumbit", "x"], "unknown COMMAND 'sumbit'", "did you mean 'submit'?"),
        (["xyzzy"], "unknown COMMAND 'xyzzy'", "one of: validate, pack, submit"),
        (["submit"], "the following arguments are required: PATH", "see 'kzoo submit --help'"),
        (
            ["submit", "x", "--sumary", "fast"],
            "kzoo submit does not take '--sumary fast'",
            "did you mean --summary?",
        ),
        (["--sever=x"], "kzoo does not take '--sever=x'", "did you mean --server?"),
        (["runs", "--status", "doen"], "unknown --status 'doen'", "did you mean 'done'?"),
        (["status", "17"], "argument UUID: uuid '17' is not valid", "see 'kzoo status --help'"),
        (["kernels", "--limit", "0"], "'0' is no whole number over zero", "see 'kzoo kernels"),
        (["status", UUID, "--timeout", "-1"], "'-1' is no number of seconds over zero", "see"),
        (["status", UUID, "--timeout=nan"], "'nan' is no number of seconds over zero", "see"),
        (["status", UUID, "--timeout=x"], "'x' is no number of seconds over zero", "see"),
        (["--as", "a b", "guide"], "submitter_id 'a b' is not valid", "see 'kzoo --help'"),
        (
            ["status", UUID, "--timeout", "5"],
            "--timeout says how long --wait waits, and --wait is not given",
            "add --wait",
        ),
        (
            ["kernels", "--sort", "-name"],
            "argument --sort: expected one argument",
            "a value that begins with '-' is tied on with '=', see 'kzoo kernels --help'",
        ),
        (
            ["show", "no id"],
            "segment 'no id' (expected segments that match ^[A-Za-z0-9._-]+$)",
            "see 'kzoo show --help'",
        ),
        (
            ["submit", "x", "--summary", "\udcff"],
            "argument --summary: '\\udcff' is no UTF-8",
            "see",
        ),
        (["kernels", "--q", "\udcff"], "argument --q: '\\udcff' is no UTF-8 text", "see"),
        (["runs", "--kernel-id", "../x"], "kernel_id '../x' is not valid", "see 'kzoo runs"),
        (["kernels", "--serv", "x"], "kzoo kernels does not take '--serv x'", "--server?"),
    ],
)
def test_a_mistaken_command_line_exits_3_and_says_what_was_meant(
    argv: list[str], error: str, hint: str
) -> None:
    ended = Console().run(*argv)
    assert (ended.code, ended.out) == (3, "")
    first, second = ended.err.splitlines()
    assert first.startswith("error: ")
    assert error in first
    assert second.startswith("hint: ")
    assert hint in second


def test_no_arguments_but_json_are_an_envelope_on_stdout() -> None:
    ended = Console().run("--json")
    assert ended.code == 3
    assert (ended.json()["error"]["code"], ended.err) == (
        "USAGE",
        "error: no command is named\nhint: see 'kzoo --help'\n",
    )


def test_with_json_a_mistake_is_an_envelope_on_stdout_and_text_on_stderr() -> None:
    ended = Console().run("runz", "--json")
    assert ended.code == 3
    assert ended.json() == {
        "error": {
            "code": "USAGE",
            "message": "unknown COMMAND 'runz'",
            "details": [],
            "request_id": "",
            "retry": False,
            "hint": "did you mean 'runs'?",
        }
    }
    assert ended.err == "error: unknown COMMAND 'runz'\nhint: did you mean 'runs'?\n"
    assert validate("error", ended.json()) == []


@pytest.mark.parametrize(
    "argv",
    [
        ["--server", "{}", "status", UUID, "--json"],
        ["status", "--server", "{}", UUID, "--json"],
        ["--json", "status", UUID, "--server={}"],
        ["--server", "http://127.0.0.1:1", "--json", "status", UUID, "--server", "{}"],
    ],
)
async def test_global_flags_stand_before_or_after_the_command(
    script: Script, argv: list[str]
) -> None:
    script.then(answers(200, submission()))
    ended = await run(Console(), *[part.format(script.url) for part in argv])
    assert ended.code == 0
    assert ended.json()["uuid"] == UUID


async def test_a_flag_wins_over_the_environment(script: Script) -> None:
    script.then(answers(200, submission()))
    console = Console(environment={"KERNEL_ZOO_SERVER": "http://127.0.0.1:1"})
    assert (await run(console, "status", UUID, "--server", script.url)).code == 0


def test_a_server_that_does_not_run_exits_3_and_says_how_to_start_one() -> None:
    console = Console(environment={"KERNEL_ZOO_SERVER": "http://127.0.0.1:1"})
    ended = console.run("cancel", UUID)
    assert (ended.code, ended.out) == (3, "")
    first, second = ended.err.splitlines()
    assert first.startswith(f"error: no answer from http://127.0.0.1:1/api/submissions/{UUID}/")
    assert second == (
        "hint: start a server with 'kzoo-server', or point to one with --server URL "
        "or KERNEL_ZOO_SERVER"
    )


def test_an_address_that_is_no_server_exits_3() -> None:
    ended = Console(environment={"KERNEL_ZOO_SERVER": "localhost"}).run("runs")
    assert ended.code == 3
    assert "error: the server address 'localhost' is not usable" in ended.err


def test_an_identity_of_the_environment_that_is_none_names_the_variable() -> None:
    ended = Console(environment={"KERNEL_ZOO_SUBMITTER": "-x"}).run("runs")
    assert ended.code == 3
    assert ended.err.startswith("error: KERNEL_ZOO_SUBMITTER: submitter_id '-x' is not valid\n")


async def test_an_error_of_the_server_prints_each_problem_as_a_block(
    script: Script, console: Console
) -> None:
    problem = {
        "code": "bad_dtype",
        "message": "no such dtype",
        "severity": "error",
        "file": "desc.yaml",
        "line": 3,
        "column": 5,
        "pointer": "/io/0",
        "found": "float16",
        "expected": "a generic name",
        "hint": "write fp16",
    }
    error = {
        "code": "VALIDATION_ERROR",
        "message": "the package has 2 errors",
        "details": [problem, {"code": "x", "message": "m", "severity": "warning"}],
        "request_id": "r-1",
        "retry": False,
        "hint": "see kzoo guide",
    }
    script.then(answers(422, {"error": error}), answers(422, {"error": error}))
    ended = await run(console, "status", UUID)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err == (
        "error: the package has 2 errors\n"
        "  error: desc.yaml:3:5: no such dtype [bad_dtype]\n"
        "    expected: a generic name\n"
        "    hint: write fp16\n"
        "  warning: m [x]\n"
        "hint: see kzoo guide\n"
    )
    ended = await run(console, "status", UUID, "--json")
    assert ended.json()["error"]["details"][0] == problem
    assert ended.json()["error"]["request_id"] == "r-1"


async def test_a_fault_of_the_server_names_its_request(script: Script, console: Console) -> None:
    script.then(fails(500, "INTERNAL"))
    ended = await run(console, "status", UUID)
    assert ended.code == 3
    assert ended.err == "error: INTERNAL said\nhint: the server's log knows this as request r-1\n"


async def test_an_error_that_may_pass_says_when_to_try_again(
    script: Script, console: Console
) -> None:
    script.then(fails(429, "QUEUE_FULL", headers={"Retry-After": "90"}))
    ended = await run(console, "status", UUID)
    assert ended.code == 3
    assert ended.err == "error: QUEUE_FULL said\nhint: try again in 90 s\n"


def test_debug_adds_the_traceback() -> None:
    console = Console(environment={"KERNEL_ZOO_SERVER": "localhost"})
    assert "Traceback" not in console.run("runs").err
    assert console.run("runs", "--debug").err.startswith("Traceback (most recent call last):\n")


class Raising:
    """A command that ends as it is told."""

    def __init__(self, error: BaseException) -> None:
        self.error = error

    def run(self, _arguments: Namespace, _context: Context) -> int:
        raise self.error


def ending(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> Ended:
    monkeypatch.setattr("importlib.import_module", lambda _name: Raising(error))
    return Console().run("guide")


def test_a_bug_is_said_as_a_bug_and_is_no_rejection(monkeypatch: pytest.MonkeyPatch) -> None:
    ended = ending(monkeypatch, KeyError("lost"))
    assert (ended.code, ended.out) == (4, "")
    assert ended.err == (
        "error: KeyError: 'lost'\n"
        "hint: this is a fault of kzoo: please report it with the output of the same with --debug\n"
    )


def test_a_file_that_cannot_be_read_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    ended = ending(monkeypatch, PermissionError(13, "Permission denied", "/x/y"))
    assert ended.code == 3
    assert ended.err == (
        "error: /x/y: Permission denied\n"
        "hint: this user may not use it: name another path, or change who may\n"
    )


def test_ctrl_c_exits_130_with_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    ended = ending(monkeypatch, KeyboardInterrupt())
    assert (ended.code, ended.out, ended.err) == (130, "", "interrupted\n")


def with_status(error: KzooError, status: int) -> KzooError:
    error.status = status
    return error


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (BadInput("VALIDATION_ERROR", "m"), ExitCode.INVALID),
        (with_status(BadInput("ANY", "m"), 422), ExitCode.INVALID),
        (with_status(BadInput("BAD_QUERY", "m"), 400), ExitCode.UNUSABLE),
        (TooLarge("TOO_LARGE", "m"), ExitCode.INVALID),
        (with_status(Conflict("KERNEL_FROZEN", "m"), 409), ExitCode.REJECTED),
        (Conflict("LOCKED", "m"), ExitCode.UNUSABLE),
        (Unauthorized("X", "m"), ExitCode.UNUSABLE),
        (Forbidden("X", "m"), ExitCode.UNUSABLE),
        (NotFound("X", "m"), ExitCode.UNUSABLE),
        (Gone("X", "m"), ExitCode.UNUSABLE),
        (Retryable("X", "m"), ExitCode.UNUSABLE),
        (Broken("X", "m"), ExitCode.UNUSABLE),
    ],
)
def test_each_error_has_its_exit_code(error: KzooError, code: ExitCode) -> None:
    assert code_of(error) is code


@pytest.mark.parametrize(
    ("outcome", "code"),
    [(None, 0), ("accepted", 0), ("rejected", 1), ("lost", 4), ("failed", 4), ("cancelled", 4)],
)
def test_each_outcome_has_its_exit_code(outcome: str | None, code: int) -> None:
    assert exit_codes.of_outcome(outcome) == code


def test_guide_prints_the_authoring_contract() -> None:
    text = Console().run("guide").out
    assert text.startswith("# ")
    assert "kzoo submit" in text
    document = Console().run("guide", "--json").json()
    assert document["format"] == "markdown"
    assert document["text"] == text


@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_completion_knows_every_command(shell: str) -> None:
    script = Console().run("completion", shell).out
    for command in ["validate", "submit", "kernels"]:
        assert command in script
    assert Console().run("completion", shell, "--json").json()["script"].strip() == script.strip()
