"""What is wrong with a package, as a submitter hears it over HTTP: the whole answer each time."""

from __future__ import annotations

import gzip
import io
import tarfile
from typing import TYPE_CHECKING, Any

import pytest

from tests.packages import KERNEL_ID, package_tarball, tarball, valid_package

if TYPE_CHECKING:
    from tests.server.conftest import Served

DESC = ".kernel_package/desc.yaml"
BENCHMARK = ".kernel_package/benchmark.py"
SCOREBOARD = ".kernel_package/bench_result.yaml"
MIB = 1024 * 1024

GOOD = package_tarball(valid_package())
FILES = {f"{KERNEL_ID}/{path}": file.data for path, file in valid_package().files.items()}
DESC_TEXT = valid_package().files[DESC].data.decode()
BENCHMARK_TEXT = valid_package().files[BENCHMARK].data.decode()

SOURCES_ONLY = "ship sources only; make data in build_test_env.py under the work directory"
MAKE_GZIP = "make it with tarfile.open(…, mode='w:gz') or tar czf"
DEREFERENCE = "put the file itself in its place: tar --dereference --hard-dereference"
WHOLE_GZIP = "close the tar file before sending it; check that the upload was whole"
NO_SCOREBOARD = (
    "leave it out with tf.add(…, filter=lambda member: None if member.name.endswith("
    '"/bench_result.yaml") else member); '
    "tf.members.remove(…) after tf.add leaves it in the archive"
)


def link(kind: bytes) -> bytes:
    member = tarfile.TarInfo(f"{KERNEL_ID}/src/link")
    member.type, member.linkname = kind, "src/kernel.py"
    return tarball(FILES, extra=[member])


def beside(name: str) -> bytes:
    return tarball({**FILES, name: b"x"})


def twice() -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as tar:
        for name in [*FILES, f"{KERNEL_ID}/src/kernel.py"]:
            member = tarfile.TarInfo(name)
            member.size = len(FILES[name])
            tar.addfile(member, io.BytesIO(FILES[name]))
    return stream.getvalue()


def within(files: dict[str, bytes | str | None]) -> bytes:
    return package_tarball(valid_package(files=files))


def described(**desc: object) -> bytes:
    return package_tarball(valid_package(desc=desc))


def problem(code: str, **rest: object) -> dict[str, object]:
    return {"code": code, "severity": "error", **rest}


ARCHIVES: dict[str, tuple[bytes, dict[str, object]]] = {
    "no gzip": (
        b"PK\x03\x04 a zip",
        problem("archive_not_gzip", found="a zip archive", expected="a .tar.gz", hint=MAKE_GZIP),
    ),
    "nothing": (
        b"",
        problem("archive_not_gzip", found="no bytes at all", expected="a .tar.gz", hint=MAKE_GZIP),
    ),
    "a truncated gzip": (
        GOOD[:-200],
        problem(
            "archive_truncated",
            found=f"{len(GOOD) - 200} bytes, then the end",
            expected="a whole .tar.gz",
            hint=WHOLE_GZIP,
        ),
    ),
    "a gzip bomb": (
        gzip.compress(b"\0" * (64 * MIB)),
        problem(
            "package_too_large",
            found="more than 12746752 bytes unpacked",
            expected="at most 12746752 bytes unpacked",
            hint=SOURCES_ONLY,
        ),
    ),
    "a tar bomb": (
        tarball({f"{KERNEL_ID}/src/zeros.py": b"\0" * (40 * MIB)}),
        problem(
            "file_too_large",
            file=f"{KERNEL_ID}/src/zeros.py",
            found=f"{40 * MIB} bytes",
            expected=f"at most {MIB} bytes",
            hint=SOURCES_ONLY,
        ),
    ),
    "a symbolic link": (
        link(tarfile.SYMTYPE),
        problem(
            "member_not_regular",
            file=f"{KERNEL_ID}/src/link",
            found="a symbolic link",
            expected="regular files and directories",
            hint=DEREFERENCE,
        ),
    ),
    "a hard link": (
        link(tarfile.LNKTYPE),
        problem(
            "member_not_regular",
            file=f"{KERNEL_ID}/src/link",
            found="a hard link",
            expected="regular files and directories",
            hint=DEREFERENCE,
        ),
    ),
    "a device": (
        link(tarfile.CHRTYPE),
        problem(
            "member_not_regular",
            file=f"{KERNEL_ID}/src/link",
            found="a character device",
            expected="regular files and directories",
        ),
    ),
    "a path that climbs out": (
        beside(f"{KERNEL_ID}/../evil.py"),
        problem(
            "name_parent",
            file=f"{KERNEL_ID}/../evil.py",
            found=f"'{KERNEL_ID}/../evil.py'",
            expected="paths below the kernel_id",
        ),
    ),
    "an absolute path": (
        beside("/etc/passwd"),
        problem(
            "name_absolute",
            file="/etc/passwd",
            found="'/etc/passwd'",
            expected="paths below the kernel_id",
            hint="give tf.add an arcname that begins with the kernel_id",
        ),
    ),
    "a member twice": (
        twice(),
        problem(
            "member_duplicate",
            file=f"{KERNEL_ID}/src/kernel.py",
            found="the same path again",
            expected="every path once",
            hint="make a new archive instead of adding to the old one",
        ),
    ),
    "case twins": (
        beside(f"{KERNEL_ID}/src/Kernel.py"),
        problem(
            "name_twin",
            file=f"{KERNEL_ID}/src/Kernel.py",
            found=f"{KERNEL_ID}/src/kernel.py and {KERNEL_ID}/src/Kernel.py",
            expected="names that no file system takes for the same",
            hint="rename one of them",
        ),
    ),
    "a scoreboard": (
        beside(f"{KERNEL_ID}/{SCOREBOARD}"),
        problem(
            "scoreboard_in_archive",
            file=SCOREBOARD,
            found="a scoreboard in a submission",
            expected=f"no {SCOREBOARD}",
            hint=NO_SCOREBOARD,
        ),
    ),
    "the wrong top directory": (
        package_tarball(valid_package(), top="other"),
        problem(
            "wrong_top_directory",
            found="other",
            expected=KERNEL_ID,
            hint=f'give the tar that top directory: tf.add(root, arcname="{KERNEL_ID}")',
        ),
    ),
}

PACKAGES: dict[str, tuple[bytes, list[dict[str, object]]]] = {
    "a contract file missing": (
        within({BENCHMARK: None}),
        [
            problem(
                "missing_file",
                file=BENCHMARK,
                found=f"no {BENCHMARK}",
                expected="the script that runs, checks and measures",
            )
        ],
    ),
    "YAML that is no mapping": (
        within({DESC: "- a\n- b\n"}),
        [
            problem(
                "wrong_type",
                file=DESC,
                pointer="",
                line=1,
                column=1,
                found="a list of 2",
                expected="a mapping",
            )
        ],
    ),
    "a key twice": (
        within({DESC: DESC_TEXT + "name: again\n"}),
        [
            problem(
                "yaml_duplicate_key",
                file=DESC,
                line=48,
                column=1,
                found="name again, first in line 2",
                expected="every key once",
                hint="keep one of the two",
            )
        ],
    ),
    "a datetime where a string belongs": (
        within({DESC: DESC_TEXT.replace("name: RMSNorm demo", "name: 2026-08-02T00:00:00Z")}),
        [
            problem(
                "wrong_type",
                file=DESC,
                pointer="/name",
                line=2,
                column=1,
                found="2026-08-02T00:00:00Z",
                expected="a string",
                hint='quote it: "2026-08-02T00:00:00Z"',
            )
        ],
    ),
    "an alias bomb": (
        within(
            {
                DESC: "a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a]\n"
                "c: &c [*b,*b,*b,*b,*b,*b,*b]\nd: &d [*c,*c,*c,*c,*c,*c]\ne: [*d,*d,*d,*d,*d]\n"
            }
        ),
        [
            problem(
                "yaml_alias_growth",
                file=DESC,
                line=1,
                column=1,
                expected="at most 10000",
                hint="write the values out where they are used",
            )
        ],
    ),
    "tabs": (
        within({DESC: "name: x\n\tsummary: y\n"}),
        [
            problem(
                "yaml_tab",
                file=DESC,
                line=2,
                column=1,
                expected="one YAML document",
                hint="indent with spaces: YAML allows no tabs there",
            )
        ],
    ),
    "float16": (
        described(io_signature=[{"name": "X", "kind": "in", "dtype": "float16", "shape": ["n"]}]),
        [
            problem(
                "bad_dtype",
                file=DESC,
                pointer="/io_signature/0/dtype",
                line=32,
                column=3,
                found='"float16"',
                hint="write fp16",
            )
        ],
    ),
    "an accept policy": (
        described(acceptance={"regression_tolerance": 0.05}),
        [
            problem(
                "unknown_field",
                file=DESC,
                pointer="/acceptance",
                line=48,
                column=1,
                found="acceptance",
                hint="remove it: the accept policy lives in benchmark.py, which decides for itself",
            )
        ],
    ),
    "a URL for a source": (
        described(reference_sources=["https://example.com/a.py"]),
        [
            problem(
                "reference_source_not_a_path",
                file=DESC,
                pointer="/reference_sources/0",
                line=43,
                column=3,
                found='"https://example.com/a.py"',
                expected="the relative path of a file inside the package, such as src/reference.py",
                hint="ship the file and name its path; links and DOIs belong in description",
            )
        ],
    ),
    "a reference source missing": (
        described(reference_sources=["src/none.py"]),
        [
            problem(
                "reference_source_missing",
                file=DESC,
                pointer="/reference_sources/0",
                found="no src/none.py",
                expected="a file of the package",
            )
        ],
    ),
    "a benchmark that does not parse": (
        within({BENCHMARK: "def main(:\n"}),
        [
            problem(
                "python_syntax",
                file=BENCHMARK,
                line=1,
                column=10,
                found="def main(:",
                expected="a file that Python can compile",
            )
        ],
    ),
    "metas that are not static": (
        within({BENCHMARK: BENCHMARK_TEXT.replace("in LATENCY_MS\n", "in open('x')\n")}),
        [
            problem(
                "metas_not_static",
                file=BENCHMARK,
                line=25,
                column=17,
                found="a call of open()",
                expected="literals, constants of this file, comprehensions and f-strings",
                hint="put its result there as a literal",
            )
        ],
    ),
    "a primary metric that is none": (
        within(
            {
                BENCHMARK: BENCHMARK_TEXT.replace(
                    '"primary_metric": "latency_ms"', '"primary_metric": "speed"'
                )
            }
        ),
        [
            problem(
                "primary_metric_unknown",
                file=BENCHMARK,
                pointer=f"/{place}/primary_metric",
                found='"speed"',
                expected="one of its metrics: latency_ms, throughput",
            )
            for place in (0, 1)
        ],
    ),
    "an array, a library and a log": (
        within({"src/a.npy": "x", "src/b.so": b"\x7fELF", "src/run.log": "x"}),
        [
            problem(
                "generated_evidence",
                file="src/a.npy",
                found="the suffix .npy (arrays and golden data)",
                expected="sources only",
                hint="make it in build_test_env.py under the work directory",
            ),
            problem(
                "generated_evidence",
                file="src/b.so",
                found="the suffix .so (compiled objects and libraries)",
                expected="sources only",
                hint="compile it in build_test_env.py into <workdir>/build/",
            ),
            problem(
                "generated_evidence",
                file="src/run.log",
                found="the suffix .log (logs and captured output)",
                expected="sources only",
                hint="leave it out: the server keeps the output and the log of every run",
            ),
        ],
    ),
    "a kernel inside": (
        within({"src/inner/.kernel_package/desc.yaml": "x"}),
        [
            problem(
                "kernel_inside_kernel",
                file="src/inner",
                found="src/inner/.kernel_package",
                expected="one kernel_package",
                hint="submit it under its own kernel_id, beside this one",
            )
        ],
    ),
}


CASES = {what: (archive, [wrong]) for what, (archive, wrong) in ARCHIVES.items()} | PACKAGES
CODES = {"metas that are not static": "METAS_NOT_STATIC"}


@pytest.mark.parametrize("what", CASES)
async def test_a_bad_package_hears_every_problem_and_leaves_nothing(
    server: Served, what: str
) -> None:
    archive, expected = CASES[what]
    answer = await server.api.submit(archive)
    assert answer.status == 422
    error = answer.error
    told: list[dict[str, Any]] = error.pop("details")
    assert error == {
        "code": CODES.get(what, "VALIDATION_ERROR"),
        "message": f"the package has {len(expected)} error{'s' if len(expected) > 1 else ''}",
        "retry": False,
        "hint": "kzoo validate PATH shows the same before an upload",
    }
    assert len(told) == len(expected)
    for found, wanted in zip(told, expected, strict=True):
        assert found.pop("message")
        assert found.items() >= wanted.items()
        assert found.keys() - wanted.keys() <= {"found", "expected", "hint", "line"}
    await nothing_left(server)


async def nothing_left(server: Served) -> None:
    """Assert that a refused upload is nowhere: no file, no submission."""
    assert server.uploads == []
    assert (await server.api.get("/api/submissions")).json()["items"] == []
