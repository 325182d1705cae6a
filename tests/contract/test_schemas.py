"""The schemas are the normative contract: sound, closed, described, and compiled once."""

from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest
import yaml
from jsonschema import Draft202012Validator

from kzoo_core.contract.formats import yaml_documents
from kzoo_core.contract.records import (
    Category,
    Correctness,
    Desc,
    Direction,
    IoTensor,
    MetricMeta,
    Quantization,
    Scoreboard,
    ScoreEntry,
    Status,
    TestCaseMeta,
)
from kzoo_core.contract.schemas import schema, schema_names, validate, validator
from kzoo_core.contract.verdict import VerdictReason
from kzoo_core.errors import NotFound, Problem
from kzoo_core.queue.records import AttemptEnd, Mode, Outcome, Phase
from kzoo_core.resources import schemas_directory
from tests.packages import desc_fields, output_document, seed_scoreboard

if TYPE_CHECKING:
    from collections.abc import Iterator

NAMES = (
    "bench_result",
    "benchmark_output",
    "desc",
    "error",
    "index",
    "problem",
    "submission",
    "test_case_meta",
    "verdict",
)
SELF_CONTAINED = ("bench_result", "benchmark_output", "desc", "test_case_meta")
FREE_FORM = {
    "benchmark_output/properties/environment",
    "benchmark_output/properties/cases/items/properties/correctness_detail",
    "test_case_meta/properties/params",
    "test_case_meta/properties/tolerance",
}
ANNOTATIONS = {"x-code", "x-expected", "x-hint", "x-instead", "x-unknown-hints"}


def subschemas(node: Any, path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    if isinstance(node, dict):
        if not path.endswith(("/properties", "/$defs", "/x-instead", "/x-unknown-hints")):
            yield path, node
        for key, value in node.items():
            yield from subschemas(value, f"{path}/{key}")
    elif isinstance(node, list):
        for item in node:
            yield from subschemas(item, path)


def everything() -> list[tuple[str, dict[str, Any]]]:
    return [found for name in schema_names() for found in subschemas(schema(name), name)]


def test_the_schemas_are_those_that_the_contract_names() -> None:
    assert schema_names() == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_each_schema_is_valid_against_the_2020_12_meta_schema(name: str) -> None:
    document = schema(name)
    assert document["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    Draft202012Validator.check_schema(document)


@pytest.mark.parametrize("name", NAMES)
def test_each_schema_is_identified_by_its_file_name(name: str) -> None:
    assert schema(name)["$id"] == f"https://kernel-zoo.invalid/schemas/{name}.json"
    assert schema(name)["title"]
    assert schema(name)["description"]


def test_every_mapping_is_closed_but_the_free_form_ones() -> None:
    mappings = {
        path: node
        for path, node in everything()
        if node.get("type") in ("object", ["object", "null"])
    }
    open_ones = {path for path, node in mappings.items() if "additionalProperties" not in node}
    assert open_ones == FREE_FORM
    assert all(
        node["additionalProperties"] is False or "$ref" in node["additionalProperties"]
        for path, node in mappings.items()
        if path not in FREE_FORM
    )
    assert all("additionalProperties" in node for _, node in everything() if "properties" in node)


def test_every_property_item_and_definition_is_described() -> None:
    silent = [
        f"{path}: {name}"
        for path, node in everything()
        for group in ("properties", "$defs")
        for name, child in node.get(group, {}).items()
        if len(child.get("description", "")) < 8
    ]
    silent += [
        f"{path}: items"
        for path, node in everything()
        if isinstance(node.get("items"), dict)
        and "$ref" not in node["items"]
        and "description" not in node["items"]
    ]
    assert silent == []


def test_every_required_field_is_a_property() -> None:
    for path, node in everything():
        assert set(node.get("required", [])) <= set(node.get("properties", {})), path


def test_only_known_annotations_are_used() -> None:
    used = {key for _, node in everything() for key in node if key.startswith("x-")}
    assert used == ANNOTATIONS


@pytest.mark.parametrize("name", SELF_CONTAINED)
def test_what_authors_validate_against_needs_no_other_file(name: str) -> None:
    text = (schemas_directory() / f"{name}.json").read_text(encoding="utf-8")
    references = [node["$ref"] for _, node in everything() if "$ref" in node]
    assert references
    own = [node["$ref"] for _, node in subschemas(json.loads(text), name) if "$ref" in node]
    assert all(reference.startswith("#/") for reference in own)


def test_an_author_can_check_an_output_with_plain_jsonschema() -> None:
    text = (schemas_directory() / "benchmark_output.json").read_text(encoding="utf-8")
    jsonschema.validate(output_document(), json.loads(text))


@pytest.mark.parametrize("name", NAMES)
def test_a_validator_is_compiled_once(name: str) -> None:
    assert validator(name) is validator(name)


def test_validating_does_not_compile_or_check_a_schema_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    validate("desc", {})

    def forbidden(*_: object, **__: object) -> None:
        raise AssertionError("a schema was read or compiled for one more validation")

    monkeypatch.setattr(json, "loads", forbidden)
    monkeypatch.setattr(Draft202012Validator, "check_schema", forbidden)
    assert len(validate("desc", {})) == len(schema("desc")["required"])  # type: ignore[arg-type]  # a list


def test_the_yaml_loader_is_libyamls() -> None:
    assert yaml.__with_libyaml__
    assert yaml_documents.LOADER is yaml.CSafeLoader
    assert issubclass(yaml_documents._Dumper, yaml.CSafeDumper)


def test_an_unknown_schema_is_named_with_those_that_exist() -> None:
    with pytest.raises(NotFound) as caught:
        schema("dsec")
    assert caught.value.code == "UNKNOWN_SCHEMA"
    assert caught.value.message == "there is no schema 'dsec'"
    assert caught.value.hint == f"one of: {' '.join(NAMES)}"


def test_a_hostile_document_gives_no_endless_answer() -> None:
    document = desc_fields() | {"io_signature": [{}] * 10_000}
    assert len(validate("desc", document)) == 200


def consts(node: Any) -> list[str]:
    return [choice["const"] for choice in node["oneOf"]]


def test_the_verdict_schema_has_the_reasons_in_the_order_in_which_they_are_tried() -> None:
    definitions: Any = schema("verdict")["$defs"]
    assert consts(definitions["reason"]) == [reason.value for reason in VerdictReason]
    assert consts(definitions["outcome"]) == [outcome.value for outcome in Outcome]
    assert all(choice["description"] for choice in definitions["reason"]["oneOf"])


def test_the_enums_of_the_schemas_are_those_of_the_records() -> None:
    desc: Any = schema("desc")["properties"]
    meta: Any = schema("test_case_meta")["properties"]
    submission: Any = schema("submission")["properties"]
    case: Any = schema("benchmark_output")["properties"]["cases"]["items"]["properties"]  # type: ignore[index]  # a mapping
    board: Any = schema("bench_result")["properties"]["cases"]["items"]["properties"]  # type: ignore[index]  # a mapping
    assert desc["status"]["enum"] == [status.value for status in Status]
    assert meta["metrics"]["items"]["properties"]["direction"]["enum"] == [
        direction.value for direction in Direction
    ]
    assert set(case["correctness"]["enum"]) == set(Correctness) - {"unknown"}
    assert set(board["correctness_current"]["enum"]) == set(Correctness) - {"skipped"}
    assert submission["mode"]["enum"] == [mode.value for mode in Mode]
    assert submission["phase"]["enum"] == [phase.value for phase in Phase]
    attempt = submission["attempts"]["items"]["properties"]
    assert attempt["phase"]["enum"] == [phase.value for phase in Phase]
    assert attempt["end"]["enum"] == [*(end.value for end in AttemptEnd), None]


@pytest.mark.parametrize(
    ("record", "name", "path"),
    [
        (Desc, "desc", ""),
        (Category, "desc", "category"),
        (Quantization, "desc", "quantization"),
        (IoTensor, "desc", "io_signature/items"),
        (TestCaseMeta, "test_case_meta", ""),
        (MetricMeta, "test_case_meta", "metrics/items"),
        (Scoreboard, "bench_result", ""),
        (Problem, "problem", ""),
    ],
)
def test_a_record_has_the_fields_of_its_schema(record: type, name: str, path: str) -> None:
    node: Any = schema(name)
    for step in path.split("/") if path else ():
        node = node["items"] if step == "items" else node["properties"][step]
    fields = {field.name for field in dataclasses.fields(record)}
    assert fields == set(node["properties"])


def test_a_score_has_the_fields_of_its_schema() -> None:
    definitions: Any = schema("bench_result")["$defs"]
    fields = [field.name for field in dataclasses.fields(ScoreEntry)]
    assert fields == list(definitions["entry"]["properties"])


def test_every_vendor_dtype_is_led_to_a_generic_one() -> None:
    dtype: Any = schema("desc")["properties"]["io_signature"]["items"]["properties"]["dtype"]  # type: ignore[index]  # a mapping
    generic = set(dtype["enum"])
    for vendor, instead in dtype["x-instead"].items():
        assert vendor == vendor.lower()
        assert vendor not in generic
        assert set(instead.split(" or ")) <= generic


def test_the_test_fixtures_match_their_schemas() -> None:
    assert validate("desc", desc_fields()) == []
    assert validate("benchmark_output", output_document()) == []
    assert validate("bench_result", yaml_documents.load_yaml(seed_scoreboard(), "x")) == []


def test_a_submission_as_the_server_shows_it_matches() -> None:
    problem = Problem(code="maybe_evidence", message="a table", file="src/a.csv").as_json()
    view = {
        "uuid": "5f0f3a0e-5a9a-4c9e-9a63-1f3f0f4f5a01",
        "kernel_id": "gfx928/Norm/RMSNorm/fp32/demo",
        "submitter_id": "alice",
        "mode": "ranked",
        "optimization_summary": None,
        "submitted_at": "2026-08-02T00:00:00Z",
        "status": "done",
        "phase": "done",
        "revision": 7,
        "position": None,
        "attempt": 1,
        "charged": 0,
        "arch": "gfx928",
        "package_sha256": "0" * 64,
        "package_bytes": 1234,
        "warnings": [problem],
        "attempts": [
            {
                "attempt": 1,
                "runner_id": "r",
                "arch": "gfx928",
                "isolation": "none",
                "phase": "reported",
                "claimed_at": "2026-08-02T00:00:01Z",
                "ended_at": "2026-08-02T00:00:02Z",
                "end": "reported",
                "detail": None,
            }
        ],
        "outcome": "rejected",
        "reason": {"code": "schema", "message": "no", "details": [problem]},
        "commit_sha": "1" * 40,
        "bench_commit_sha": None,
        "records": [
            {"test_case_id": "n4", "metric": "t", "unit": "ms", "value": 1.5, "previous": None}
        ],
        "finished_at": "2026-08-02T00:00:03Z",
    }
    assert validate("submission", view) == []
    assert validate("submission", view | {"outcome": None, "reason": None}) == []
    assert [found.code for found in validate("submission", view | {"outcome": "won"})] == [
        "invalid"
    ]
    assert [found.code for found in validate("submission", view | {"eta": 1})] == ["unknown_field"]


def test_an_index_with_a_broken_kernel_matches() -> None:
    score = {
        "value": 1.5,
        "submitter": "alice",
        "commit_sha": "a" * 40,
        "recorded_at": "2026-08-02T00:00:00Z",
    }
    case = {
        "test_case_id": "n4",
        "primary_metric": "t",
        "unit": "ms",
        "direction": "lower_better",
        "best": score,
        "current": None,
        "correctness": "unknown",
    }
    good = {
        "kernel_id": "a/b/c/d/e",
        "name": "N",
        "category": {"arch": "a", "op_class": "b", "sub_class": "c", "quant": "d"},
        "summary": "s",
        "status": "normal",
        "tags": ["t"],
        "owner": None,
        "valid": True,
        "problems": [],
        "min_arch_feature": None,
        "cases": [case],
        "updated_at": "2026-08-02T00:00:00Z",
    }
    broken = good | {
        "name": None,
        "category": None,
        "summary": None,
        "status": None,
        "tags": [],
        "valid": False,
        "problems": [Problem(code="missing_file", message="no desc.yaml").as_json()],
        "cases": [],
        "updated_at": None,
    }
    index = {"schema_version": "1.0.0", "revision": "a" * 40, "kernels": [good, broken]}
    assert validate("index", index) == []
    assert validate("index", index | {"revision": None, "kernels": []}) == []


def test_an_error_envelope_matches() -> None:
    error = {
        "code": "VALIDATION_ERROR",
        "message": "no",
        "details": [Problem(code="missing_file", message="no desc.yaml").as_json()],
        "request_id": "r1",
        "retry": False,
    }
    assert validate("error", {"error": error}) == []
    assert validate("error", {"error": error | {"hint": "h", "stored": True}}) == []
    assert [
        problem.code for problem in validate("error", {"error": error | {"code": "lower"}})
    ] == ["bad_format"]


def test_a_verdict_matches_with_a_reason_and_without() -> None:
    assert validate("verdict", {"outcome": "accepted", "reason": None}) == []
    assert validate("verdict", {"outcome": "rejected", "reason": "schema"}) == []
    assert validate("verdict", {"outcome": "rejected", "reason": "bad_luck"}) != []
