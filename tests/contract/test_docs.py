"""The pages: links that lead somewhere, tables that agree with the code, commands that exist."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml

import kzoo_core.cli.validate_package
import kzoo_core.runner.__main__
import kzoo_server.__main__
import kzoo_tui.arguments
from kzoo_core.contract.checks.evidence import RULES
from kzoo_core.contract.schemas import schema
from kzoo_core.contract.verdict import VerdictReason
from kzoo_core.runner.settings import RunnerSettings
from kzoo_server.settings import ServerSettings

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = sorted([*ROOT.glob("*.md"), *DOCS.glob("*.md")])
UUID = "0b0e4c0e-8f6a-4b57-9d3e-0d8a3f1c2b4d"
_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"(?<!!)\[[^\]]+\]\(([^)\s]+)\)")


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


every_page = pytest.mark.parametrize("page", PAGES, ids=name_of)


@cache
def text_of(page: Path) -> str:
    return page.read_text("utf-8")


def prose_of(page: Path) -> str:
    """Return a page without its code blocks."""
    return _FENCE.sub("", text_of(page))


def code_of(page: Path, language: str) -> list[str]:
    return [match[2] for match in _FENCE.finditer(text_of(page)) if match[1] == language]


@cache
def anchors_of(page: Path) -> frozenset[str]:
    """Return what ``#…`` may name: headings as GitHub makes them, and explicit ids."""
    prose = prose_of(page)
    headings = re.findall(r"^#+ (.*)$", prose, re.MULTILINE)
    made = [re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings]
    return frozenset([*made, *re.findall(r'<a id="([^"]+)">', prose)])


@every_page
def test_every_relative_link_leads_to_a_file_and_a_heading(page: Path) -> None:
    broken = []
    for link in _LINK.findall(prose_of(page)):
        if link.startswith(("http://", "https://", "mailto:")):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        lost = not target.exists() or (anchor and anchor not in anchors_of(target))
        if lost or not target.is_relative_to(ROOT):
            broken.append(link)
    assert broken == []


@pytest.mark.parametrize(
    ("page", "other"),
    [
        ("README.md", "README.zh-CN.md"),
        ("README.zh-CN.md", "README.md"),
        ("docs/kernel_package_guide_en.md", "kernel_package_guide.md"),
        ("docs/kernel_package_guide.md", "kernel_package_guide_en.md"),
    ],
)
def test_a_page_in_two_languages_begins_with_the_way_to_the_other(page: str, other: str) -> None:
    toggle = text_of(ROOT / page).splitlines()[2]
    assert f"]({other})" in toggle
    assert " | " in toggle
    assert "English" in toggle
    assert "简体中文" in toggle


@every_page
def test_a_page_ends_with_related_links(page: Path) -> None:
    tail = "\n".join(text_of(page).rstrip().splitlines()[-5:])
    assert re.search(r"^(Related|相关)[:：]", tail, re.MULTILINE)
    assert _LINK.search(tail)


def test_the_two_readmes_have_the_same_sections_and_the_same_commands() -> None:
    english, chinese = ROOT / "README.md", ROOT / "README.zh-CN.md"

    def shape(page: Path) -> list[str]:
        return re.findall(r"^(#+) ", prose_of(page), re.MULTILINE)

    assert shape(english) == shape(chinese)
    assert code_of(english, "bash") == code_of(chinese, "bash")
    assert set(links(english)) - {"README.zh-CN.md"} == set(links(chinese)) - {"README.md"}


def links(page: Path) -> list[str]:
    return _LINK.findall(prose_of(page))


PARSERS: dict[str, Callable[[list[str]], object]] = {
    "kzoo": lambda words: kzoo_tui.arguments.build_parser().parse(words),
    "kzoo-server": lambda words: kzoo_server.__main__.build_parser().parse_args(words),
    "kzoo-runner": lambda words: kzoo_core.runner.__main__.build_parser().parse_args(words),
    "kernel_zoo-validate-package": lambda words: (
        kzoo_core.cli.validate_package.build_parser().parse_args(words)
    ),
}


def commands_in(page: Path) -> list[list[str]]:
    """Return the command lines of a page's shell blocks as words, up to a redirection."""
    lines = [
        line.strip().removeprefix("nohup ")
        for block in code_of(page, "bash")
        for line in block.replace("\\\n", " ").splitlines()
    ]
    return [
        shlex.split(re.split(r" [|>&]", line.replace("UUID", UUID))[0], comments=True)
        for line in lines
        if line.partition(" ")[0] in PARSERS
    ]


@every_page
def test_every_command_on_a_page_is_one_that_its_parser_takes(page: Path) -> None:
    for name, *words in commands_in(page):
        assert PARSERS[name](words), words


def test_the_pages_show_commands_of_every_program() -> None:
    shown = {words[0] for page in PAGES for words in commands_in(page)}
    assert shown == set(PARSERS) - {"kernel_zoo-validate-package"}


def test_generated_blocks_agree_with_schemas_settings_and_parsers() -> None:
    done = run_generator(DOCS, "--check")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def run_generator(docs: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(docs / "generate.py"), *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_the_check_names_the_page_that_drifted_and_the_generator_repairs_it(tmp_path: Path) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    for file in [*DOCS.glob("*.md"), DOCS / "generate.py"]:
        shutil.copy(file, docs)
    shutil.copytree(DOCS / "reference_tables", docs / "reference_tables")
    shutil.copytree(ROOT / "schemas", tmp_path / "schemas")
    page = docs / "kernel_package_format.md"
    good = page.read_text("utf-8")
    drifted = good.replace("| `schema_version` |", "| `schema_versions` |", 1)
    assert drifted != good
    page.write_text(drifted, "utf-8")

    checked = run_generator(docs, "--check")
    assert checked.returncode == 1
    assert checked.stdout == (
        "docs/kernel_package_format.md: generated blocks are out of date; run make docs\n"
    )
    assert page.read_text("utf-8") == drifted

    written = run_generator(docs)
    assert (written.returncode, written.stdout) == (0, "docs/kernel_package_format.md: written\n")
    assert page.read_text("utf-8") == good


def test_every_block_of_the_generator_stands_on_a_page() -> None:
    used = [
        name
        for page in PAGES
        for name in re.findall(r"^<!-- generated:(\S+) -->$", text_of(page), re.MULTILINE)
    ]
    assert sorted(used) == sorted(set(used))
    known = re.findall(
        r'^    "([a-z-]+)": ', (DOCS / "generate.py").read_text("utf-8"), re.MULTILINE
    )
    assert set(known) <= set(used)


def test_every_verdict_reason_is_in_the_format_the_contract_and_in_its_order() -> None:
    reasons = [reason.value for reason in VerdictReason]
    for name in ("kernel_package_format.md", "kernel_package_contract.md"):
        text = text_of(DOCS / name)
        places = [text.find(f"`{reason}`", text.find("`build_failed`")) for reason in reasons]
        assert -1 not in places
        assert places == sorted(places)


def test_every_decision_that_is_cited_is_written_down() -> None:
    written = re.findall(r"^- \*\*(D\d+) ", text_of(DOCS / "decisions.md"), re.MULTILINE)
    assert written == [f"D{number}" for number in range(1, 24)]
    sources = [*ROOT.glob("kzoo_*/**/*.py"), *ROOT.glob("schemas/*"), *PAGES]
    cited = {
        decision
        for source in sources
        for decision in re.findall(r"\bD\d+\b", source.read_text("utf-8"))
    }
    assert cited - set(written) == set()


def test_every_setting_is_documented() -> None:
    for page, kind in (("operations.md", ServerSettings), ("runner.md", RunnerSettings)):
        missing = [
            item.name for item in fields(kind) if f"`{item.name}`" not in text_of(DOCS / page)
        ]
        assert missing == []


def test_every_event_of_the_server_log_is_documented() -> None:
    text = text_of(DOCS / "operations.md")
    sources = [*(ROOT / "kzoo_core").rglob("*.py"), *(ROOT / "kzoo_server").rglob("*.py")]
    call = re.compile(r'\blog\.\w+\(\s*"([a-z_]+(?:\.[a-z_]+)?)"')
    events = {event for source in sources for event in call.findall(source.read_text("utf-8"))}
    of_the_server = {event for event in events if "." in event or event == "request"}
    assert len(of_the_server) >= 10
    assert {event for event in of_the_server if f"`{event}`" not in text} == set()


def test_every_route_is_documented() -> None:
    document = yaml.safe_load((ROOT / "schemas" / "openapi.yaml").read_text("utf-8"))
    text = text_of(DOCS / "api_reference.md")
    calls = [
        f"`{method.upper()} {path}`"
        for path, item in document["paths"].items()
        for method in item
        if method in {"get", "post", "put", "patch", "delete"}
    ]
    assert calls
    assert [call for call in calls if call not in text] == []


def test_every_command_is_documented() -> None:
    text = text_of(DOCS / "cli.md")
    module_names = {file.stem for file in (ROOT / "kzoo_tui" / "commands").glob("[!_]*.py")}
    assert len(module_names) >= 10
    assert {name for name in module_names if f"`kzoo {name}`" not in text} == set()


def test_the_contract_is_one_page_and_names_every_field_and_dtype() -> None:
    text = text_of(DOCS / "kernel_package_contract.md")
    assert len(text.splitlines()) <= 250
    words = set(re.findall(r"[A-Za-z0-9_]+", text))
    missing = {
        name
        for file in ("desc", "bench_result", "test_case_meta", "benchmark_output")
        for name in names_in(schema(file))
        if name not in words
    }
    assert missing == set()


def test_the_contract_names_every_suffix_that_is_refused() -> None:
    words = set(re.split(r"[\s`;,]+", text_of(DOCS / "kernel_package_contract.md")))
    suffixes = {suffix for rule in RULES for suffix in rule.suffixes.split()}
    assert suffixes - words == set()


def names_in(node: object) -> set[str]:
    """Return every property name and every word of an enum below a schema's node."""
    if isinstance(node, list):
        return {name for item in node for name in names_in(item)}
    if not isinstance(node, dict):
        return set()
    own = set(node["properties"]) if isinstance(node.get("properties"), dict) else set()
    enum = {str(word) for word in node.get("enum", ()) if isinstance(word, str)}
    nested = {
        name for key, value in node.items() if not key.startswith("x-") for name in names_in(value)
    }
    return own | enum | nested


def test_the_chinese_guide_builds_a_package_that_validates_and_accepts_itself(
    tmp_path: Path,
) -> None:
    package = tmp_path / "gfx928" / "Activation" / "SiLU" / "fp32" / "my_silu"
    text = text_of(DOCS / "kernel_package_guide.md")
    files = re.findall(r"^`(\S+)`\n\n```\w+\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    assert {name for name, _ in files} == {
        "src/reference.py",
        "src/silu.py",
        ".kernel_package/desc.yaml",
        ".kernel_package/build_test_env.py",
        ".kernel_package/benchmark.py",
        ".kernel_package/bench_result.yaml",
    }
    for name, body in files:
        path = package / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(body, "utf-8")
    tools = "from kzoo_core.cli.validate_package import main; raise SystemExit(main())"
    checked = run_python("-c", tools, str(package))
    assert checked.returncode == 0, checked.stdout + checked.stderr
    workdir = tmp_path / "work"
    workdir.mkdir()
    script = package / ".kernel_package"
    built = run_python("-B", str(script / "build_test_env.py"), str(workdir))
    assert built.returncode == 0, built.stderr
    ran = run_python("-B", str(script / "benchmark.py"), str(workdir))
    assert ran.returncode == 0, ran.stderr
    assert '"accept": true, "accept_reason": "all cases passed and none regressed"' in ran.stdout


def test_the_snippet_of_each_guide_packs_an_archive_that_validates(tmp_path: Path) -> None:
    example = "gfx928/Norm/RMSNorm/fp32/rowwise"
    shutil.copytree(DOCS / "examples" / example, tmp_path / example)
    for name in (
        "kernel_package_guide_en.md",
        "kernel_package_guide.md",
        "kernel_package_contract.md",
    ):
        (snippet,) = [code for code in code_of(DOCS / name, "python") if "tarfile.open" in code]
        code = re.sub(r'KERNEL_ID = "[^"]+"', f'KERNEL_ID = "{example}"', snippet)
        packed = run_python("-c", code, directory=tmp_path)
        assert packed.returncode == 0, packed.stderr
        checked = run_python(
            "-m", "kzoo_core.cli.validate_package", "package.tar.gz", directory=tmp_path
        )
        assert checked.returncode == 0, checked.stdout + checked.stderr
        (tmp_path / "package.tar.gz").unlink()


def run_python(*arguments: str, directory: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=directory,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
