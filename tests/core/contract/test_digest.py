from __future__ import annotations

import gzip

from kzoo_core.contract.archive import write_archive
from kzoo_core.contract.digest import package_sha256, sha256_hex
from kzoo_core.contract.layout import SCOREBOARD_PATH
from kzoo_core.contract.records import Package, PackageFile
from kzoo_core.ids import KernelId
from tests.packages import valid_package


def test_a_digest_is_64_lower_case_hex_digits() -> None:
    assert sha256_hex(b"") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"


def test_the_identity_of_a_package_never_changes() -> None:
    package = Package(
        KernelId("gfx928/Norm/RMSNorm/fp32/demo"),
        {
            "src/kernel.py": PackageFile(b"x = 1\n"),
            "build.sh": PackageFile(b"#!/bin/sh\n", executable=True),
            "src/核.py": PackageFile(b""),
        },
    )
    assert package_sha256(package) == IDENTITY


IDENTITY = "ef87f097eef0a8477323a4ee988a1bf1c20517534b861e2e2299a586585dfea1"


def test_the_scoreboard_is_no_part_of_the_identity() -> None:
    package = valid_package()
    board = {SCOREBOARD_PATH: PackageFile(b"cases: []\n")}
    with_board = Package(package.kernel_id, {**package.files, **board})
    assert package_sha256(with_board) == package_sha256(package)


def test_everything_else_is_part_of_the_identity() -> None:
    package = valid_package()
    name, file = next(iter(package.files.items()))
    others = [
        Package(KernelId("a/b/c/d/e"), package.files),
        Package(package.kernel_id, {**package.files, "extra": PackageFile(b"")}),
        Package(package.kernel_id, {**package.files, name: PackageFile(file.data + b"\n")}),
        Package(package.kernel_id, {**package.files, name: PackageFile(file.data, True)}),
        Package(
            package.kernel_id, {path: file for path, file in package.files.items() if path != name}
        ),
    ]
    digests = {package_sha256(other) for other in [package, *others]}
    assert len(digests) == 1 + len(others)


def test_the_identity_is_that_of_the_uncompressed_archive() -> None:
    package = valid_package()
    assert sha256_hex(gzip.decompress(write_archive(package))) == package_sha256(package)
