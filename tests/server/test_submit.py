from __future__ import annotations

import asyncio
import errno
import os
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import aiohttp
import pytest

from kzoo_core.clock import SystemClock
from kzoo_core.contract.records import Package, PackageFile
from kzoo_core.store.packages import add_packages
from kzoo_core.store.repository import KernelRepository
from tests.packages import KERNEL_ID, package_tarball, valid_package
from tests.server.conftest import SEEDED
from tests.server.eventually import eventually

if TYPE_CHECKING:
    from pathlib import Path

    from tests.server.api_client import ApiClient
    from tests.server.conftest import Serve, Served

ARCHIVE = package_tarball(valid_package())
BOUNDARY = "boundary"


def part(name: str, value: bytes | str, *, file_name: str | None = None) -> bytes:
    """Return one part of a form, as it goes over the wire."""
    disposition = f'form-data; name="{name}"'
    disposition += f'; filename="{file_name}"' if file_name is not None else ""
    data = value.encode() if isinstance(value, str) else value
    head = f"--{BOUNDARY}\r\nContent-Disposition: {disposition}\r\n\r\n".encode()
    return head + data + b"\r\n"


PACKAGE = part("package", ARCHIVE, file_name="package.tar.gz")
KERNEL = part("kernel_id", KERNEL_ID)
SUBMITTER = part("submitter_id", "alice")
END = f"--{BOUNDARY}--\r\n".encode()


async def send(api: ApiClient, *parts: bytes, **headers: str) -> Any:
    """Post a form made by hand."""
    return await api.post(
        "/api/submissions",
        data=b"".join(parts),
        headers={
            "Content-Type": f"multipart/form-data; boundary={BOUNDARY}",
            "X-Submitter-Id": "alice",
            **headers,
        },
    )


def problem(pointer: str, message: str, found: str, expected: str, **more: str) -> dict[str, str]:
    return {
        "code": "bad_form",
        "message": message,
        "severity": "error",
        "pointer": pointer,
        "found": found,
        "expected": expected,
        **more,
    }


async def test_a_submission_is_answered_with_where_to_follow_it(server: Served) -> None:
    answer = await server.api.submit(ARCHIVE, fields={"optimization_summary": "vector loads"})
    assert answer.status == 202
    body = answer.json()
    uuid = body["uuid"]
    assert body == {
        "uuid": uuid,
        "status": "queued",
        "position": 1,
        "status_url": f"/api/submissions/{uuid}/status",
        "log_url": f"/api/submissions/{uuid}/log",
        "warnings": [],
    }
    assert (await server.api.get(body["status_url"] + "?wait=0")).status == 200
    assert (await server.api.get(body["log_url"])).status == 200
    assert server.uploads == []
    second = await server.api.submit(ARCHIVE)
    assert second.json()["position"] == 2


async def test_the_fields_come_in_any_order(api: ApiClient) -> None:
    for parts in ((KERNEL, SUBMITTER, PACKAGE), (PACKAGE, SUBMITTER, KERNEL)):
        assert (await send(api, *parts, END)).status == 202


async def test_warnings_do_not_refuse_a_package(api: ApiClient) -> None:
    archive = package_tarball(valid_package(files={"src/table.csv": "1,2\n"}))
    answer = await api.submit(archive)
    assert answer.status == 202
    assert [item["severity"] for item in answer.json()["warnings"]] == ["warning"]


async def test_the_same_key_gives_the_same_submission(api: ApiClient) -> None:
    key = {"Idempotency-Key": "one"}
    first = await api.submit(ARCHIVE, headers=key)
    again = await api.submit(ARCHIVE, headers=key)
    assert (again.status, again.json()["uuid"]) == (202, first.json()["uuid"])
    other = await api.submit(package_tarball(valid_package(correct=False)), headers=key)
    assert other.status == 409
    assert other.error["code"] == "IDEMPOTENCY_MISMATCH"
    assert first.json()["uuid"] in other.error["message"]
    assert other.error["hint"] == "a key stands for one submission: use a new key for new content"
    assert len((await api.get("/api/submissions")).json()["items"]) == 1


async def test_a_key_that_cannot_be_kept_is_refused(api: ApiClient) -> None:
    answer = await api.submit(ARCHIVE, headers={"Idempotency-Key": "x" * 129})
    assert answer.status == 422
    assert answer.error["details"] == [
        problem(
            "/Idempotency-Key",
            "the header Idempotency-Key cannot be kept",
            "129 characters",
            "1 to 128 printable ASCII characters",
        )
    ]


async def test_header_and_field_name_the_same_submitter(server: Served) -> None:
    answer = await server.api.submit(ARCHIVE, submitter_id="bob", header="alice")
    assert answer.status == 422
    message = "the header X-Submitter-Id says 'alice', the field submitter_id says 'bob'"
    hint = "send the same submitter in both"
    assert answer.error == {
        "code": "VALIDATION_ERROR",
        "message": message,
        "details": [problem("/submitter_id", message, "bob", "alice", hint=hint)],
        "retry": False,
        "hint": hint,
    }
    assert server.uploads == []


async def test_a_submission_without_the_header_says_what_to_send(api: ApiClient) -> None:
    answer = await api.submit(ARCHIVE, header=None)
    assert answer.status == 422
    assert answer.error["details"] == [
        problem(
            "/submitter_id",
            "the header X-Submitter-Id is missing",
            "no header",
            "X-Submitter-Id: alice",
            hint="the header and the field submitter_id name the same submitter",
        )
    ]


@pytest.mark.parametrize(
    ("kernel_id", "found", "expected"),
    [
        ("../etc", "segment '..'", "no '.', '..', '.git' or '.kernel_package'"),
        ("a b/c", "segment 'a b'", "segments that match ^[A-Za-z0-9._-]+$"),
        ("/a/b", "an empty segment", "segments that match ^[A-Za-z0-9._-]+$"),
        ("a/b/", "an empty segment", "segments that match ^[A-Za-z0-9._-]+$"),
        ("a/.GIT", "segment '.GIT'", "no '.', '..', '.git' or '.kernel_package'"),
        (
            "a/status",
            "last segment 'status'",
            "a last segment that is no word of the API's own paths",
        ),
        ("核/b", "segment '核'", "segments that match ^[A-Za-z0-9._-]+$"),
        ("", "it is empty", "at least one path segment"),
    ],
)
async def test_a_bad_kernel_id_says_which_rule_it_breaks(
    api: ApiClient, kernel_id: str, found: str, expected: str
) -> None:
    answer = await api.submit(ARCHIVE, kernel_id=kernel_id)
    assert answer.status == 422
    error = answer.error
    assert error["code"] == "VALIDATION_ERROR"
    [told] = error["details"]
    assert told["code"] == "bad_kernel_id"
    assert told["message"] == f"kernel_id {kernel_id!r} is not valid: {found}"
    assert (told["pointer"], told["found"], told["expected"]) == ("/kernel_id", found, expected)
    assert error["message"] == told["message"]
    assert error["hint"] == told["hint"]


async def test_everything_wrong_with_a_form_is_told_at_once(server: Served) -> None:
    answer = await server.api.submit(
        ARCHIVE,
        kernel_id="a//b",
        submitter_id="-x",
        header="alice",
        file_name="package.zip",
        fields={"mode": "rank", "kernelid": "x"},
    )
    assert answer.status == 422
    told = {(item["pointer"], item["found"], item.get("hint")) for item in answer.error["details"]}
    assert told == {
        ("/kernelid", "kernelid", "did you mean 'kernel_id'?"),
        (
            "/kernel_id",
            "an empty segment",
            "name it <arch>/<op_class>/<sub_class>/<quant>/<your_name>",
        ),
        ("/submitter_id", "'-x'", "submitter_id matches ^[A-Za-z0-9][A-Za-z0-9._@-]{0,63}$"),
        ("/mode", "rank", "did you mean 'ranked'?"),
        ("/package", "package.zip", "curl -F package=@package.tar.gz"),
        ("/submitter_id", "-x", "send the same submitter in both"),
    }
    assert server.uploads == []


async def test_a_wrong_form_with_a_wrong_package_is_told_whole(api: ApiClient) -> None:
    package = valid_package()
    files = {**package.files, "notes.log": PackageFile(b"x\n")}
    wrong = package_tarball(Package(package.kernel_id, files))
    answer = await api.submit(wrong, header="bob")
    assert (answer.status, answer.error["code"]) == (422, "VALIDATION_ERROR")
    assert answer.error["message"] == (
        "the header X-Submitter-Id says 'bob', the field submitter_id says 'alice'"
    )
    told = [(item["code"], item.get("file")) for item in answer.error["details"]]
    assert told == [("bad_form", None), ("generated_evidence", "notes.log")]

    answer = await api.submit(b"no gzip", kernel_id="a//b")
    told = [(item["code"], item.get("file")) for item in answer.error["details"]]
    assert told == [("bad_kernel_id", None), ("archive_not_gzip", None)]


async def test_missing_fields_are_named(api: ApiClient) -> None:
    answer = await send(api, END)
    assert answer.status == 422
    assert [item["message"] for item in answer.error["details"]] == [
        "the field 'kernel_id' is missing",
        "the field 'submitter_id' is missing",
        "the field 'package' is missing",
    ]


async def test_a_field_given_twice_is_refused(api: ApiClient) -> None:
    answer = await send(api, KERNEL, KERNEL, SUBMITTER, PACKAGE, PACKAGE, END)
    assert answer.status == 422
    assert [item["message"] for item in answer.error["details"]] == [
        "the field 'kernel_id' is given twice",
        "the field 'package' is given twice",
    ]


async def test_a_field_that_is_no_text_says_where(api: ApiClient) -> None:
    answer = await send(
        api, KERNEL, SUBMITTER, PACKAGE, part("optimization_summary", b"ab\xff"), END
    )
    assert answer.status == 422
    assert answer.error["details"] == [
        problem(
            "/optimization_summary",
            "the field 'optimization_summary' is not UTF-8",
            "byte 0xff at offset 2",
            "UTF-8 text",
        )
    ]


async def test_a_form_of_another_type_is_refused(api: ApiClient) -> None:
    answer = await api.post(
        "/api/submissions", data={"kernel_id": KERNEL_ID}, headers={"X-Submitter-Id": "alice"}
    )
    assert answer.status == 415
    assert answer.error["code"] == "UNSUPPORTED_MEDIA_TYPE"
    assert answer.error["message"] == (
        "the body's Content-Type is application/x-www-form-urlencoded, expected multipart/form-data"
    )


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"nothing of a form",
        KERNEL + SUBMITTER + PACKAGE[:-400],
        KERNEL + b"--other\r\n",
        f"--{BOUNDARY}\r\n\r\nno name\r\n".encode() + END,
        b"".join(part(f"x{number}", "") for number in range(40)) + END,
    ],
)
async def test_a_body_that_is_no_form_is_refused(server: Served, body: bytes) -> None:
    answer = await send(server.api, body)
    assert answer.status == 400
    assert answer.error["code"] == "BAD_MULTIPART"
    assert answer.error["message"].startswith("the body is no complete multipart form: ")
    assert server.uploads == []


async def test_a_form_without_a_boundary_is_refused(api: ApiClient) -> None:
    answer = await send(api, b"x", **{"Content-Type": "multipart/form-data"})
    assert answer.status == 400
    assert answer.error["code"] == "BAD_MULTIPART"


async def test_an_archive_over_its_bound_is_cut_while_it_comes(serve: Serve) -> None:
    served = await serve(archive_limit_bytes=4096)

    async def endless() -> Any:
        yield KERNEL + SUBMITTER + part("package", b"", file_name="package.tar.gz")[:-2]
        for _ in range(4096):
            yield b"x" * 65536

    answer = await send_stream(served, endless())
    assert answer.status == 413
    assert answer.error == {
        "code": "TOO_LARGE",
        "message": "the archive in the field package has more than 4096 bytes",
        "details": [],
        "retry": False,
        "hint": "send at most 4096 bytes",
    }
    assert served.uploads == []


async def test_a_body_whose_length_is_over_the_bound_is_refused_unread(serve: Serve) -> None:
    served = await serve(archive_limit_bytes=4096, summary_limit_bytes=4096)
    answer = await send(served.api, b"x" * 200_000)
    assert answer.status == 413
    assert answer.error["message"] == "the upload has more than 73728 bytes"


async def test_a_text_field_over_its_bound_is_refused(api: ApiClient) -> None:
    answer = await send(api, part("kernel_id", "x" * 2000), SUBMITTER, PACKAGE, END)
    assert answer.status == 413
    assert answer.error["message"] == "the field kernel_id has more than 1024 bytes"


async def test_a_summary_of_too_many_characters_is_refused(api: ApiClient) -> None:
    answer = await api.submit(ARCHIVE, fields={"optimization_summary": "x" * 4001})
    assert answer.status == 422
    [told] = answer.error["details"]
    assert (told["pointer"], told["found"]) == ("/optimization_summary", "4001 characters")


async def test_a_client_that_leaves_in_the_middle_leaves_nothing(
    server: Served, caplog: pytest.LogCaptureFixture
) -> None:
    reader, writer = await connected(server)
    body = KERNEL + SUBMITTER + PACKAGE
    writer.write(head(length=len(body) + len(END)) + body[:-200])
    await writer.drain()
    await some_upload(server)
    writer.close()
    await eventually(lambda: server.uploads == [])
    assert await reader.read() == b""
    assert (await server.api.get("/api/submissions")).json()["items"] == []
    assert [record for record in caplog.records if record.name == "aiohttp.server"] == []


async def test_a_body_that_stops_coming_is_given_up(serve: Serve) -> None:
    served = await serve(body_pause_s=0.2)
    reader, writer = await connected(served)
    writer.write(head(length=100_000) + KERNEL)
    await writer.drain()
    async with asyncio.timeout(10):
        answer = await reader.readuntil(b"}}")
    assert answer.startswith(b"HTTP/1.1 408 ")
    assert b'"code":"REQUEST_TIMEOUT"' in answer
    assert b"nothing of the request's body came for 0.2 seconds" in answer
    assert served.uploads == []
    writer.close()


async def test_a_body_that_only_trickles_is_given_up(serve: Serve) -> None:
    served = await serve(body_pause_s=5, body_total_s=0.3)
    reader, writer = await connected(served)
    writer.write(head(length=100_000) + KERNEL)

    async def trickle() -> None:
        while True:
            writer.write(b"\r\n")
            await writer.drain()
            await asyncio.sleep(0.05)

    trickling = asyncio.create_task(trickle())
    async with asyncio.timeout(10):
        answer = await reader.readuntil(b"}}")
    trickling.cancel()
    assert answer.startswith(b"HTTP/1.1 408 ")
    assert b"the request's body was not complete after 0.3 seconds" in answer
    assert served.uploads == []
    writer.close()


@pytest.mark.parametrize("more", [0, 600_000])
async def test_a_disk_that_fills_up_while_an_archive_comes_keeps_nothing(
    server: Served, monkeypatch: pytest.MonkeyPatch, more: int
) -> None:
    def on_a_full_disk(*, prefix: str, suffix: str, dir: Path) -> tuple[int, str]:  # noqa: A002
        path = dir / f"{prefix}1{suffix}"
        path.touch()
        return os.open("/dev/full", os.O_WRONLY), str(path)

    with monkeypatch.context() as patch:
        patch.setattr("tempfile.mkstemp", on_a_full_disk)
        answer = await server.api.submit(ARCHIVE + b"x" * more)
    assert answer.status == 507
    assert answer.error["code"] == "DISK_LOW"
    assert answer.error["message"] == "the disk filled up while the archive was received"
    assert server.uploads == []


async def test_an_upload_that_cannot_be_removed_is_no_reason_to_refuse_what_was_kept(
    server: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stuck(*_: object, **__: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr("pathlib.Path.unlink", stuck)
        answer = await server.api.submit(ARCHIVE)
    assert answer.status == 202
    assert len(server.uploads) == 1


async def test_a_disk_without_room_for_one_more_file_is_told_as_full(
    server: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(**_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("tempfile.mkstemp", full)
        answer = await server.api.submit(ARCHIVE)
    assert answer.status == 507
    assert answer.error["code"] == "DISK_LOW"
    assert answer.error["message"] == "the disk filled up while the archive was received"
    assert server.uploads == []


async def test_a_frozen_kernel_takes_no_submission(server: Served, repository: Path) -> None:
    frozen = "gfx928/Norm/RMSNorm/fp32/frozen"
    with KernelRepository(repository) as opened:
        package = valid_package(frozen, desc={"status": "frozen"}, scoreboard=True)
        add_packages(opened, [package], message="m", author="bob", when=SystemClock().now())
    answer = await server.api.submit(package_tarball(valid_package(frozen)), kernel_id=frozen)
    assert answer.status == 409
    assert answer.error == {
        "code": "KERNEL_FROZEN",
        "message": f"{frozen} is frozen: it takes no submissions",
        "details": [],
        "retry": False,
        "hint": "submit under another kernel_id, or ask its owner to set status: normal",
    }


@pytest.mark.parametrize("kernel_id", [f"{SEEDED}/inner", SEEDED.replace("seeded", "SEEDED")])
async def test_a_kernel_inside_or_beside_another_is_refused(api: ApiClient, kernel_id: str) -> None:
    answer = await api.submit(package_tarball(valid_package(kernel_id)), kernel_id=kernel_id)
    assert answer.status == 409
    assert answer.error["code"] == "KERNEL_ID_CONFLICT"
    assert SEEDED in answer.error["message"]


def head(*, length: int) -> bytes:
    return (
        "POST /api/submissions HTTP/1.1\r\nHost: zoo\r\nX-Submitter-Id: alice\r\n"
        f"Content-Type: multipart/form-data; boundary={BOUNDARY}\r\n"
        f"Content-Length: {length}\r\n\r\n"
    ).encode()


async def connected(server: Served) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    address = urlsplit(server.url)
    return await asyncio.open_connection(address.hostname, address.port)


async def some_upload(server: Served) -> None:
    """Wait until an upload has a file."""
    await eventually(lambda: server.uploads != [])


async def send_stream(server: Served, body: Any) -> Any:
    """Post a form whose body has no length; the server may answer before all of it is sent."""
    try:
        return await server.api.post(
            "/api/submissions",
            data=body,
            headers={
                "Content-Type": f"multipart/form-data; boundary={BOUNDARY}",
                "X-Submitter-Id": "alice",
            },
        )
    except aiohttp.ClientError as error:
        raise AssertionError(f"no answer: {error}") from error


async def test_a_body_that_is_too_large_is_refused_before_it_is_sent(serve: Serve) -> None:
    served = await serve(archive_limit_bytes=4096, result_limit_bytes=2048)
    reader, writer = await connected(served)
    writer.write(head(length=2_000_000).replace(b"\r\n\r\n", b"\r\nExpect: 100-continue\r\n\r\n"))
    async with asyncio.timeout(10):
        answer = await reader.readuntil(b"}}")
    assert answer.startswith(b"HTTP/1.1 413 ")
    writer.close()


@pytest.mark.parametrize("expectation", ["100-continue", "tea"])
async def test_a_body_that_fits_is_asked_for(api: ApiClient, expectation: str) -> None:
    asked = expectation == "100-continue"
    headers = {} if asked else {"Expect": expectation}
    answer = await api.post(
        "/api/submissions",
        data=KERNEL + SUBMITTER + PACKAGE + END,
        expect100=asked,
        headers={
            "Content-Type": f"multipart/form-data; boundary={BOUNDARY}",
            "X-Submitter-Id": "alice",
            **headers,
        },
    )
    assert answer.status == 202
