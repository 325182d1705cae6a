from __future__ import annotations

import textwrap

from kzoo_core.contract.desc import parse_desc
from kzoo_core.contract.layout import DESC_PATH
from kzoo_core.contract.records import Category, Desc, IoTensor, Quantization, Status
from kzoo_core.errors import Problem

FULL = """\
    schema_version: "1.0.0"
    name: MHA FP16
    category: {arch: gfx928, op_class: Attention, sub_class: MHA, quant: fp16}
    summary: Multi-head attention.
    description: |
      ## 数学定义
      O = softmax(Q K^T) V
    io_signature:
      - name: Q
        kind: in
        dtype: fp16
        shape: [batch, 64, N]
        shape_desc: "[B, H, N]"
        semantics: query
      - {name: O, kind: inout, dtype: bf16, shape: []}
    quantization: {scheme: fp8_e4m3, granularity: per_block, block_size: 128, group_size: 64}
    reference_sources: [src/ref.py, src/kernel.hip]
    status: deprecated
    min_arch_feature: mfma_f32_16x16
    tags: [attention, fp16]
    owner: alice
"""

LEAST = """\
    schema_version: "1.2.0"
    name: N
    category: {arch: a, op_class: b, sub_class: c, quant: d}
    summary: S
    description: D
    io_signature: [{name: X, kind: out, dtype: int4, shape: [1]}]
    quantization: {scheme: none}
    reference_sources: [x.py]
    status: normal
"""


def parse(text: str) -> tuple[Desc | None, list[Problem]]:
    return parse_desc(textwrap.dedent(text).encode())


def test_every_field_of_the_guide_is_read() -> None:
    assert parse(FULL) == (
        Desc(
            schema_version="1.0.0",
            name="MHA FP16",
            category=Category("gfx928", "Attention", "MHA", "fp16"),
            summary="Multi-head attention.",
            description="## 数学定义\nO = softmax(Q K^T) V\n",
            io_signature=(
                IoTensor("Q", "in", "fp16", ("batch", 64, "N"), "[B, H, N]", "query"),
                IoTensor("O", "inout", "bf16", ()),
            ),
            quantization=Quantization("fp8_e4m3", "per_block", 128, 64),
            reference_sources=("src/ref.py", "src/kernel.hip"),
            status=Status.DEPRECATED,
            min_arch_feature="mfma_f32_16x16",
            tags=("attention", "fp16"),
            owner="alice",
        ),
        [],
    )


def test_optional_fields_may_be_left_out() -> None:
    desc, problems = parse(LEAST)
    assert problems == []
    assert desc is not None
    assert (desc.min_arch_feature, desc.tags, desc.owner) == (None, (), None)


def test_a_problem_is_told_with_its_line_and_no_record_is_made() -> None:
    desc, problems = parse(LEAST.replace("dtype: int4", "dtype: float16"))
    assert desc is None
    (problem,) = problems
    assert problem.code == "bad_dtype"
    assert (problem.file, problem.line, problem.column) == (DESC_PATH, 6, 37)
    assert problem.hint == "write fp16"


def test_all_problems_of_a_file_come_at_once() -> None:
    text = LEAST.replace("status: normal", "status: thawed").replace("summary: S", "acceptance: 1")
    desc, problems = parse(text)
    assert desc is None
    assert [(problem.code, problem.pointer, problem.line) for problem in problems] == [
        ("unknown_field", "/acceptance", 4),
        ("missing_field", "", 1),
        ("not_one_of", "/status", 9),
    ]


def test_a_word_that_yaml_takes_for_a_bool_has_to_be_quoted_as_it_is_written() -> None:
    _, problems = parse(LEAST.replace("shape: [1]", "shape: [No, on]"))
    assert [(problem.found, problem.hint) for problem in problems] == [
        ("No", 'quote it: "No"'),
        ("on", 'quote it: "on"'),
    ]


def test_a_time_where_a_string_belongs_has_to_be_quoted() -> None:
    _, problems = parse(LEAST.replace("name: N", "name: 2026-08-02T00:00:00Z"))
    assert problems == [
        Problem(
            code="wrong_type",
            message="name is 2026-08-02T00:00:00Z; expected a string",
            file=DESC_PATH,
            pointer="/name",
            line=2,
            column=1,
            found="2026-08-02T00:00:00Z",
            expected="a string",
            hint='quote it: "2026-08-02T00:00:00Z"',
        )
    ]


def test_a_file_that_is_no_mapping_is_refused() -> None:
    for text, found in (("- a\n", "a list of 1"), ("", "nothing"), ("text", '"text"')):
        desc, problems = parse(text)
        assert desc is None
        assert [(problem.code, problem.found) for problem in problems] == [("wrong_type", found)]
        assert problems[0].expected == "a mapping"


def test_a_file_that_is_no_yaml_is_refused() -> None:
    desc, problems = parse("a: 1\na: 2\n")
    assert desc is None
    assert [problem.code for problem in problems] == ["yaml_duplicate_key"]
