"""Each kind of schema error says what was found, what was expected and what to write instead."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from kzoo_core.contract.schema_problems import pointer
from kzoo_core.contract.schemas import validate
from kzoo_core.errors import Problem
from tests.packages import desc_fields, output_document

if TYPE_CHECKING:
    from collections.abc import Mapping

FILE = ".kernel_package/desc.yaml"


def only_problem(changes: Mapping[str, object]) -> Problem:
    (problem,) = validate("desc", desc_fields() | dict(changes), file=FILE)
    assert problem.file == FILE
    return problem


def test_a_valid_document_has_no_problems() -> None:
    assert validate("desc", desc_fields(), file=FILE) == []


def test_a_missing_field_is_named_with_what_it_is_for() -> None:
    fields = desc_fields()
    del fields["owner"], fields["status"], fields["name"]
    assert validate("desc", fields, file=FILE) == [
        Problem(
            code="missing_field",
            message=f"the document has no {name}; expected the field {name}",
            file=FILE,
            pointer="",
            found=f"no {name}",
            expected=f"the field {name}",
            hint=hint,
        )
        for name, hint in (
            ("name", "Name for people, shown in listings."),
            ("status", "`frozen` takes no submissions; `deprecated` takes them with a warning."),
        )
    ]


def test_each_unknown_field_is_a_problem_of_its_own() -> None:
    fields = desc_fields() | {"acceptance": {"regression_tolerance": 0.05}, "sumary": "x", "q": 1}
    problems = validate("desc", fields, file=FILE)
    known = (
        "only: schema_version, name, category, summary, description, io_signature, quantization, "
        "reference_sources, status, min_arch_feature, tags, owner"
    )
    assert problems == [
        Problem(
            code="unknown_field",
            message=f"the document has an unknown field {name}",
            file=FILE,
            pointer=f"/{name}",
            found=name,
            expected=known,
            hint=hint,
        )
        for name, hint in (
            (
                "acceptance",
                "remove it: the accept policy lives in benchmark.py, which decides for itself",
            ),
            ("sumary", "did you mean summary?"),
            ("q", "remove it"),
        )
    ]


def test_a_vendor_dtype_is_led_to_its_generic_name() -> None:
    tensor = {"name": "Q", "kind": "in", "dtype": "float16", "shape": ["n"]}
    assert only_problem({"io_signature": [tensor]}) == Problem(
        code="bad_dtype",
        message='io_signature[0].dtype is "float16"',
        file=FILE,
        pointer="/io_signature/0/dtype",
        found='"float16"',
        expected=(
            "one of: fp64, fp32, tf32, fp16, bf16, fp8_e4m3, fp8_e5m2, fp6_e2m3, fp6_e3m2, "
            "fp4_e2m1, int64, int32, int16, int8, int4, uint64, uint32, uint16, uint8, uint4, "
            "bool, complex64, complex128"
        ),
        hint="write fp16",
    )


@pytest.mark.parametrize(
    ("vendor", "hint"),
    [
        ("Float16", "write fp16"),
        ("half", "write fp16"),
        ("bfloat16", "write bf16"),
        ("float32", "write fp32"),
        ("float", "write fp32"),
        ("double", "write fp64"),
        ("float8_e4m3fn", "write fp8_e4m3"),
        ("fp8", "write fp8_e4m3 or fp8_e5m2"),
        ("int_32", "did you mean int32?"),
        ("zzz", None),
    ],
)
def test_other_dtypes_are_led_as_well(vendor: str, hint: str | None) -> None:
    tensor = {"name": "Q", "kind": "in", "dtype": vendor, "shape": []}
    assert only_problem({"io_signature": [tensor]}).hint == hint


@pytest.mark.parametrize(
    "reference",
    [
        "https://github.com/a/b",
        "doi:10.1145/3579990",
        "10.1145/3579990",
        "/etc/passwd",
        "../other/kernel.py",
        "src/../x.py",
        "./src/x.py",
        "src\\x.py",
    ],
)
def test_a_reference_source_that_is_no_path_is_refused(reference: str) -> None:
    problem = only_problem({"reference_sources": [reference]})
    assert problem.code == "reference_source_not_a_path"
    assert problem.pointer == "/reference_sources/0"
    assert problem.expected == (
        "the relative path of a file inside the package, such as src/reference.py"
    )
    assert problem.hint == "ship the file and name its path; links and DOIs belong in description"


@pytest.mark.parametrize("reference", ["src/a.py", "kernel.cu", "src/..hidden", "a b/ü.hip"])
def test_a_reference_source_may_be_any_relative_path(reference: str) -> None:
    assert validate("desc", desc_fields() | {"reference_sources": [reference]}) == []


def test_a_value_of_another_type_has_to_be_quoted() -> None:
    assert only_problem({"name": 12}) == Problem(
        code="wrong_type",
        message="name is 12; expected a string",
        file=FILE,
        pointer="/name",
        found="12",
        expected="a string",
        hint='quote it: "12"',
    )
    assert only_problem({"summary": True}).hint == 'quote it: "true"'


def test_nothing_where_a_value_belongs_is_said_so() -> None:
    problem = only_problem({"owner": None})
    assert problem.message == "owner is nothing; expected a string"
    assert problem.hint == "write a value, or leave the field out if it is optional"


def test_a_time_where_a_string_belongs_has_to_be_quoted() -> None:
    problem = only_problem({"name": datetime(2026, 8, 2, tzinfo=UTC)})
    assert problem.code == "wrong_type"
    assert problem.found == "the time 2026-08-02T00:00:00+00:00"


@pytest.mark.parametrize(
    ("value", "hint"),
    [
        ("1e3", "write the digits: YAML reads 1e3 as a string"),
        ("128", "write it without quotes: 128"),
        ("many", None),
        ([], None),
    ],
)
def test_a_whole_number_has_to_be_one(value: object, hint: str | None) -> None:
    problem = only_problem({"quantization": {"scheme": "int8", "block_size": value}})
    assert problem.code == "wrong_type"
    assert problem.expected == "a whole number"
    assert problem.hint == hint


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("1e-3", "write 1.0e-3: YAML reads 1e-3 as a string"),
        ("1.5e3", "write 1.5e+3: YAML reads 1.5e3 as a string"),
        ("-2E5", "write -2.0e+5: YAML reads -2E5 as a string"),
        ("0.25", "write it without quotes: 0.25"),
        ("fast", None),
    ],
)
def test_a_number_that_yaml_takes_for_a_string_is_spelled_out(text: str, hint: str | None) -> None:
    entry = {
        "value": text,
        "submitter": "seed",
        "commit_sha": "0000000",
        "recorded_at": "2026-08-02T00:00:00Z",
    }
    (problem,) = validate("bench_result", board(entry))
    assert problem.code == "wrong_type"
    assert problem.expected == "a number"
    assert problem.hint == hint


def board(entry: Mapping[str, object]) -> dict[str, object]:
    case = {
        "test_case_id": "n4",
        "metrics_best": {"t": entry},
        "metrics_current": {},
        "correctness_current": "passed",
    }
    return {"schema_version": "1.0.0", "kernel_id": "a/b", "cases": [case]}


def entry(**changes: object) -> dict[str, object]:
    return {
        "value": 1.5,
        "submitter": "seed",
        "commit_sha": "0000000",
        "recorded_at": "2026-08-02T00:00:00Z",
    } | changes


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf"), 10**400])
def test_a_number_has_to_be_finite(value: float) -> None:
    (problem,) = validate("bench_result", board(entry(value=value)))
    assert problem.code == "non_finite_number"
    assert problem.pointer == "/cases/0/metrics_best/t/value"
    assert problem.expected == "a finite number"


@pytest.mark.parametrize(
    "moment",
    [
        "2026-08-02T00:00:00Z",
        "2026-08-02t00:00:00.123456789z",
        "2026-08-02 00:00:00+02:00",
        datetime(2026, 8, 2, tzinfo=UTC),
    ],
)
def test_a_time_may_be_text_or_what_yaml_makes_of_it(moment: object) -> None:
    assert validate("bench_result", board(entry(recorded_at=moment))) == []


@pytest.mark.parametrize(
    ("moment", "hint"),
    [
        ("2026-08-02T00:00:00", 'write it as "2026-08-02T00:00:00Z", with the zone'),
        ("2026-08-02", 'write it as "2026-08-02T00:00:00Z", with the zone'),
        ("2026-13-02T00:00:00Z", 'write it as "2026-08-02T00:00:00Z", with the zone'),
        ("0001-01-01T00:00:00+14:00", 'write it as "2026-08-02T00:00:00Z", with the zone'),
        (datetime(2026, 8, 2), 'add the zone: "2026-08-02T00:00:00Z"'),  # noqa: DTZ001 - no zone
    ],
)
def test_a_time_needs_a_zone_and_has_to_exist(moment: object, hint: str) -> None:
    (problem,) = validate("bench_result", board(entry(recorded_at=moment)))
    assert problem.code == "bad_time"
    assert problem.expected == "an RFC 3339 time with a zone, such as 2026-08-02T00:00:00Z"
    assert problem.hint == hint


@pytest.mark.parametrize(
    ("sha", "code"),
    [
        ("0000000", None),
        ("a" * 40, None),
        ("00000000", "bad_format"),
        ("0" * 40, "bad_format"),
        ("ABCDEF0", "bad_format"),
        ("__PENDING_COMMIT__", "bad_format"),
        (0, "wrong_type"),
    ],
)
def test_a_commit_is_a_hex_name_or_exactly_the_sentinel(sha: object, code: str | None) -> None:
    problems = validate("bench_result", board(entry(commit_sha=sha)))
    assert [problem.code for problem in problems] == ([code] if code else [])
    if code:
        assert problems[0].hint == 'write commit_sha: "0000000" in a seed, with the quotes'


GROUPS_OF_NONE = {"scheme": "int8", "group_size": 0}
BY_ROW = {"scheme": "int8", "granularity": "row"}


@pytest.mark.parametrize(
    ("changes", "code", "pointed"),
    [
        ({"summary": ""}, "empty", "/summary"),
        ({"summary": "x" * 301}, "too_long", "/summary"),
        ({"io_signature": []}, "too_few", "/io_signature"),
        ({"reference_sources": []}, "too_few", "/reference_sources"),
        ({"reference_sources": ["a", "a"]}, "duplicate_item", "/reference_sources"),
        ({"tags": ["a", "a"]}, "duplicate_item", "/tags"),
        (
            {"quantization": {"scheme": "int8", "group_size": 0}},
            "out_of_range",
            "/quantization/group_size",
        ),
        (
            {"quantization": {"scheme": "int8", "granularity": "row"}},
            "not_one_of",
            "/quantization/granularity",
        ),
        ({"status": "Normal"}, "not_one_of", "/status"),
        ({"schema_version": "2.0.0"}, "bad_format", "/schema_version"),
    ],
)
def test_every_bound_of_the_datasheet_holds(
    changes: Mapping[str, object], code: str, pointed: str
) -> None:
    problem = only_problem(changes)
    assert (problem.code, problem.pointer) == (code, pointed)


def test_a_document_that_is_no_mapping_is_said_so() -> None:
    assert validate("desc", [1], file=FILE) == [
        Problem(
            code="wrong_type",
            message="the document is a list of 1; expected a mapping",
            file=FILE,
            pointer="",
            found="a list of 1",
            expected="a mapping",
        )
    ]


def test_a_nested_problem_is_named_by_its_path() -> None:
    document = output_document()
    document["cases"][0]["metrics"][1]["value"] = "fast"  # type: ignore[index]  # a document to change
    (problem,) = validate("benchmark_output", document)
    assert problem.message == 'cases[0].metrics[1].value is "fast"; expected a number'
    assert problem.pointer == "/cases/0/metrics/1/value"


def test_a_pointer_escapes_what_rfc_6901_says() -> None:
    assert pointer(("a/b", 0, "m~n")) == "/a~1b/0/m~0n"
    assert pointer(()) == ""
