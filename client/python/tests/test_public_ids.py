"""Tests public ids: masking and unmasking by the real daemon, through both clients, and by the fakes."""

import asyncio
import json
import os
import pickle
import re
import signal
import time
from typing import Any, Callable, Dict, Iterator, List, Tuple

import leafd
import pytest
from conftest import PACKAGE, ROOT, Host, loops_of
from leafd import _protocol as protocol
from leafd._fake_public_ids import _with_check
from leafd.testing import FakeAsyncClient, FakeClient
from test_faults import played, reply
from test_forks import in_child

KEY = "000102030405060708090a0b0c0d0e0f"
OTHER_KEY = "f0e0d0c0b0a090807060504030201000"
STRANGER = 65_534
IDS = [*range(1, 600), 2**53 - 1]
WITHIN_SECONDS = 30


def write_keys(host: Host, keys: str) -> None:
    """Writes a host's keys, readable only by its daemon."""
    file = host.folder / "mask_keys"
    file.write_text(keys)
    file.chmod(0o600)


@pytest.fixture
def masking(idle_host: Host) -> Host:
    """A host with the key of the protocol's vectors."""
    write_keys(idle_host, f"1 {KEY}\n")
    idle_host.start(settings=[f"mask_key_file={idle_host.folder / 'mask_keys'}", "socket_mode=0666"])
    return idle_host


class Awaited:
    """Public ids of an asyncio client, with a separate loop for each call."""

    def __init__(self, client: Any, **form: Any) -> None:
        self.client = client
        self.form = form

    def __getattr__(self, method: str) -> Callable[..., Any]:
        def call(*arguments: Any, **settings: Any) -> Any:
            async def main() -> Any:
                return await getattr(self.client.public_ids("orders", **self.form), method)(*arguments, **settings)

            return asyncio.run(main())

        return call


def blocking_of(client: Any, **form: Any) -> Any:
    """Returns public ids of a blocking client."""
    return client.public_ids("orders", **form)


Made = Tuple[Any, Callable[..., Any]]


@pytest.fixture(params=["client", "async client", "async client on uvloop", "fake", "async fake"])
def made(request: pytest.FixtureRequest) -> Iterator[Made]:
    """A client of each kind, and the function that creates its public ids."""
    with loops_of("uvloop" if "uvloop" in request.param else "asyncio"):
        yield from kind_of(request)


def kind_of(request: pytest.FixtureRequest) -> Iterator[Made]:
    if "fake" in request.param:
        yield (FakeAsyncClient(), Awaited) if "async" in request.param else (FakeClient(), blocking_of)
    else:
        host = request.getfixturevalue("masking")
        yield (leafd.AsyncClient(host.socket, timeout=30), Awaited) if "async" in request.param else (
            host.client(timeout=30), blocking_of)


def test_ids_are_masked_and_come_back(made: Made) -> None:
    client, public_ids = made
    forms: List[Dict[str, Any]] = [
        {}, {"bits": 53}, {"prefix": "ord", "key": 1}, {"bits": 53, "prefix": "a23456789_b23456789_c23456789_d2"}
    ]
    for form in forms:
        orders = public_ids(client, **form)
        numbers = orders.mask(IDS)
        assert len(set(numbers)) == len(IDS) and all(0 < id < 1 << form.get("bits", 63) for id in numbers)
        assert orders.unmask(numbers) == IDS
        texts = orders.mask_text(iter(IDS))
        start = f"{form['prefix']}_" if "prefix" in form else ""
        length = len(start) + (13 if "bits" in form else 15)
        assert len(set(texts)) == len(IDS) and {len(text) for text in texts} == {length}
        assert all(text.startswith(f"{start}1") for text in texts)
        assert orders.unmask_text(texts) == IDS
        assert orders.unmask_text([text.upper() if "prefix" not in form else text for text in texts]) == IDS
        for method in ("mask", "unmask", "mask_text", "unmask_text"):
            assert getattr(orders, method)([], timeout=5) == []
    client.close()


def test_what_is_no_public_id_is_refused_in_words(made: Made) -> None:
    client, public_ids = made
    orders = public_ids(client, prefix="ord", bits=53)
    [good] = orders.mask_text([17])
    mistyped = good[:8] + ("8" if good[8] == "7" else "7") + good[9:]
    for text, part in (
        (mistyped, "mistyped"),
        (good[:-1], "long"),
        (good + "\0", "long"),
        (good[:-1] + "\0", "digit"),
        (good[:-1] + "\udc80", "digit"),
        (good[:-1] + "é", "digit"),
        ("x" * 1000, "prefix"),
        ("ord_" + "1" * 1000, "long"),
        ("cus" + good[3:], "prefix"),
        ("", "prefix"),
    ):
        with pytest.raises(leafd.InvalidArgumentError, match=part) as caught:
            orders.unmask_text([good, text])
        assert isinstance(caught.value, ValueError) and not caught.value.retryable
    for method, ids in (("mask", [1, 2**53]), ("mask", [0]), ("unmask", [0]), ("unmask", [2**53]), ("mask_text", [0])):
        with pytest.raises(leafd.InvalidArgumentError):
            getattr(orders, method)(ids)
    refused: List[Dict[str, Any]] = [
        {"bits": 19}, {"bits": 64}, {"prefix": "9th"}, {"prefix": "Ord"}, {"prefix": "a" * 33}, {"prefix": "ord_"}
    ]
    for form in refused:
        with pytest.raises(leafd.InvalidArgumentError):
            public_ids(client, **form).mask_text([17])
    with pytest.raises(leafd.MaskKeyError, match="mask key 2"):
        public_ids(client, key=2).mask([17])
    invalid: List[Tuple[str, Any]] = [
        ("mask", 17), ("mask", ["17"]), ("mask", [-1]), ("mask", [2**64]), ("mask_text", [1.5]),
        ("unmask_text", good), ("unmask_text", [17]), ("unmask_text", 17),
    ]
    for method, argument in invalid:
        with pytest.raises(leafd.InvalidArgumentError, match="list"):
            getattr(orders, method)(argument)
    with pytest.raises(leafd.InvalidArgumentError, match="timeout"):
        orders.mask([17], timeout=-1)
    impossible: List[Dict[str, Any]] = [
        {"bits": 0}, {"bits": "53"}, {"bits": 300}, {"key": -1}, {"prefix": "é"}, {"prefix": None}, {"prefix": "a\0b"}
    ]
    for form in impossible:
        with pytest.raises(leafd.InvalidArgumentError):
            public_ids(client, **form).mask([17])
    client.close()
    with pytest.raises(leafd.InvalidArgumentError, match="closed"):
        orders.mask([17])


def test_the_fakes_ids_are_foretold_and_their_text_is_the_real_ones_form() -> None:
    fake = FakeClient()
    orders = fake.public_ids("orders", prefix="ord", bits=53)
    assert orders.mask([1, 17]) == [2**53 - 1, 2**53 - 17]
    assert orders.unmask_text(orders.mask_text([17])) == [17]
    assert [(call.method, call.tag, call.count) for call in fake.calls] == [
        ("mask", "orders", 2), ("mask_text", "orders", 1), ("unmask_text", "orders", 1)]
    fake.fail(leafd.DeniedError("not you"))
    with pytest.raises(leafd.DeniedError):
        orders.mask([17])
    # The text of the protocol's vector, without its check character.
    digits = "0123456789abcdefghjkmnpqrstvwxyz"
    value = sum(digits.index(digit) << 5 * place for place, digit in enumerate(reversed("16p14s38ca3h")))
    assert _with_check(value, 12) == "16p14s38ca3hx"


def test_the_package_writes_and_reads_the_vectors(masking: Host) -> None:
    client = masking.client()
    vectors = json.loads((ROOT / "protocol-vectors.json").read_text())["masked"]
    for vector in vectors:
        request, said = vector["request"], vector["reply"]
        is_mask = request["message"] == "MASK"
        prefix = request["prefix"].encode() if "prefix" in request else None
        items = [id.to_bytes(8, "little") for id in request.get("ids", [])]
        items += [bytes([len(text)]) + text.encode() for text in request.get("texts", [])]
        opcode = protocol.MASK if is_mask else protocol.UNMASK
        frame = protocol.mask_request(
            request["request_id"], opcode, request["tag"].encode(), prefix, request["bits"], request["key"], items)
        assert frame == bytes.fromhex(vector["send"].replace("|", "")), vector["name"]
        orders = client.public_ids(request["tag"], prefix=request.get("prefix", ""), bits=request["bits"])
        method = ("mask" if is_mask else "unmask") + ("_text" if "prefix" in request else "")
        answer = getattr(orders, method)(request.get("ids") or request["texts"])
        assert answer == (said.get("texts") or said["ids"]), vector["name"]
    assert len(vectors) >= 3


@pytest.mark.usefixtures("every_loop")
def test_what_the_pages_show(masking: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEAFD_SOCKET", masking.socket)
    [guide] = re.findall(r"```python\n(.*?)```", (ROOT / "docs/guide/public-ids.md").read_text(), re.S)
    exec(guide, {"client": masking.client()})
    page: Dict[str, Any] = {}
    for block in re.findall(r"```python\n(.*?)```", (PACKAGE / "docs/public-ids.md").read_text(), re.S):
        exec(block, page)
    shown = page["page_of"]([(17, "tea"), (18, "milk")])
    assert [item["item"] for item in shown] == ["tea", "milk"]
    assert [page["order_of"](item["id"]) for item in shown] == [17, 18]
    assert page["order_of"]("ord_16dsky4r4xzza8e") is None
    assert asyncio.run(page["order_of_async"](shown[0]["id"])) == 17


def test_to_mask_is_a_right_of_its_own(masking: Host) -> None:
    def refused() -> List[int]:
        os.setuid(STRANGER)
        told = 0
        for public_ids in (blocking_of(masking.client()), Awaited(leafd.AsyncClient(masking.socket, timeout=30))):
            for method, items in (("mask", [17]), ("unmask_text", ["1"])):
                with pytest.raises(leafd.DeniedError, match="unmask_uids") as caught:
                    getattr(public_ids, method)(items)
                told += isinstance(caught.value, PermissionError)
        return [told]

    assert in_child(refused)() == [4]


def test_a_retired_key_is_told(masking: Host) -> None:
    client = masking.client()
    orders = client.public_ids("orders")
    [text], [number] = orders.mask_text([17]), orders.mask([17])
    assert text.startswith("1")
    write_keys(masking, f"2 {OTHER_KEY}\n1 {KEY}\n")
    assert masking.daemon is not None
    masking.daemon.send_signal(signal.SIGHUP)
    end = time.monotonic() + WITHIN_SECONDS
    while orders.mask_text([17])[0].startswith("1"):
        assert time.monotonic() < end
        time.sleep(0.01)
    # Texts contain the number of their key; for numbers, the caller must pass it.
    assert orders.unmask_text([text]) == [17] and orders.unmask([number]) != [17]
    assert client.public_ids("orders", key=1).unmask([number]) == [17]
    write_keys(masking, f"2 {OTHER_KEY}\n")
    masking.daemon.send_signal(signal.SIGHUP)
    while True:
        try:
            orders.unmask_text([text])
        except leafd.InvalidArgumentError as error:
            assert "mask key 1" in str(error)
            break
        assert time.monotonic() < end
        time.sleep(0.01)
    with pytest.raises(leafd.MaskKeyError, match="mask key 1"):
        client.public_ids("orders", key=1).unmask([number])


@pytest.mark.usefixtures("every_loop")
def test_a_host_without_a_key_says_what_to_do(host: Host) -> None:
    for public_ids in (blocking_of(host.client()), Awaited(leafd.AsyncClient(host.socket))):
        with pytest.raises(leafd.MaskKeyError, match="leafd mask-key new"):
            public_ids.mask([17])


def test_masks_outlive_a_restart_and_a_fork(masking: Host) -> None:
    orders = masking.client(timeout=30).public_ids("orders", prefix="ord")
    shown = orders.mask_text(IDS)
    masking.stop()
    masking.start(settings=[f"mask_key_file={masking.folder / 'mask_keys'}"])
    assert orders.unmask_text(shown) == IDS
    assert in_child(lambda: orders.unmask_text(shown))() == IDS
    assert pickle.loads(pickle.dumps(orders)).unmask_text(shown) == IDS
    assert repr(orders) == f"<leafd.PublicIds tag='orders' prefix='ord' bits=63 socket={masking.socket!r}>"


@pytest.mark.usefixtures("every_loop")
def test_a_late_answer_ends_by_the_timeout(masking: Host) -> None:
    for client, public_ids in ((masking.client(), blocking_of), (leafd.AsyncClient(masking.socket), Awaited)):
        orders = public_ids(client)
        orders.mask([17])
        masking.pause()
        with pytest.raises((leafd.TimeoutError, leafd.ConnectError)):
            orders.mask([17], timeout=0.05)
        masking.resume()


@pytest.mark.parametrize(
    "body", [b"", b"\1\0\7\0" + bytes(7), b"\2\0\10\0" + bytes(16), b"\1\0\0\0", b"\1\0\10\0" + bytes(9), b"\1\0\10\0" + bytes(7)])
def test_answers_that_are_none_are_told(idle_host: Host, body: bytes) -> None:
    _, client = played(idle_host.socket, lambda opcode, request, _: reply(opcode, 0, request, body))
    with client, pytest.raises(leafd.ProtocolError):
        client.public_ids("orders").mask([17])
    with pytest.raises(leafd.ProtocolError):
        Awaited(leafd.AsyncClient(idle_host.socket)).mask([17])
