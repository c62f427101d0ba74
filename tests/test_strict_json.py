"""JSON is read strictly, quickly, and with the text of chosen members kept."""

from __future__ import annotations

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.api.strict_json import MAX_DEPTH, NotStrictJson, Raw, parse

PAYLOAD = (("payload",),)

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**30), 10**30)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(json_values, st.booleans(), st.sampled_from([None, 2]))
def test_what_the_standard_library_writes_is_read_back(value: object, is_ascii: bool, indent: int | None) -> None:
    body = json.dumps({"payload": value, "a": value}, ensure_ascii=is_ascii, indent=indent).encode()

    read = parse(body, PAYLOAD)

    assert read["a"] == value
    assert read["payload"].value == value
    assert json.loads(read["payload"].text) == value


@pytest.mark.parametrize(
    "text",
    [
        "1.0",
        "1e2",
        "-0",
        '"\\u0041\\/"',
        '{ "b":1 ,\n"a":[ 1.50 ] }',
        "[]",
        "null",
        '"ü😀"',
        "12345678901234567890123",
        "5e-999",
    ],
)
def test_a_kept_member_is_the_very_text(text: str) -> None:
    read = parse(f'\r\n {{"x": 1, "payload" \t: {text}\n, "y": 2}} '.encode(), PAYLOAD)

    assert isinstance(read["payload"], Raw)
    assert read["payload"].text == text
    assert (read["x"], read["y"]) == (1, 2)


def test_a_member_within_a_member_is_kept() -> None:
    read = parse(b'{"job_template": {"type": "t", "payload": {"n": 1.0}}}', (("payload",), ("job_template", "payload")))

    assert read["job_template"]["type"] == "t"
    assert read["job_template"]["payload"].text == '{"n": 1.0}'


def test_only_the_path_that_was_asked_for_is_kept() -> None:
    assert parse(b'{"other": {"payload": 1}}', PAYLOAD) == {"other": {"payload": 1}}


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (b"", "empty"),
        (b" \n", "empty"),
        (b"{", "not JSON"),
        (b"{'a': 1}", "not JSON"),
        (b'{"a": 1,}', "not JSON"),
        (b'{"a" 1}', "not JSON"),
        (b'{"a": 1 "b": 2}', "not JSON"),
        (b'{"a": 01}', "not JSON"),
        (b'{"a": .5}', "not JSON"),
        (b'{"a": +1}', "not JSON"),
        (b'{"a": tru}', "not JSON"),
        (b'{"a": "\t"}', "not JSON"),
        (b'{"a": "\\x41"}', "not JSON"),
        (b'{"a": "unclosed', "not JSON"),
        (b'{"payload": "unclosed', "not JSON"),
        (b'{"a": 1} x', "after the end"),
        (b'{"a": 1}\x00', "after the end"),
        ('{"a":\u00a01}'.encode(), "not JSON"),
        (b'\xef\xbb\xbf{"a": 1}', "byte order mark"),
        (b'{"a": "\xff"}', "not UTF-8"),
        (b'{"a": "\xed\xa0\x80"}', "not UTF-8"),
        ('{"a": 1}'.encode("utf-16"), "not UTF-8"),
        (b'{"a": NaN}', "NaN"),
        (b'{"payload": [Infinity]}', "Infinity"),
        (b'{"payload": -Infinity}', "-Infinity"),
        (b'{"payload": 1e400}', "1e400"),
        (b'{"payload": {"deep": [-1.0E+309]}}', "no double"),
        (b'{"a": 1, "a": 2}', '"a" comes twice'),
        (b'{"a": 1, "\\u0061": 2}', '"a" comes twice'),
        (b'{"payload": {"b": 1, "b": 1}}', '"b" comes twice'),
        (b'{"payload": [[{"b": null, "c": 0, "b": null}]]}', '"b" comes twice'),
        (b'{"a": "\\ud800"}', "surrogate"),
        (b'{"a": "\\uDC00\\uD800"}', "surrogate"),
        (b'{"payload": {"\\udfff": 1}}', "surrogate"),
        (b'{"\\ud83d": 1}', "surrogate"),
    ],
)
def test_what_is_not_taken_is_told(body: bytes, told: str) -> None:
    with pytest.raises(NotStrictJson, match=told):
        parse(body, PAYLOAD)


@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ('{"a":', "}")])
def test_nesting_may_be_64_deep(opening: str, closing: str) -> None:
    def nested(levels: int) -> bytes:
        return ('{"payload":' + opening * (levels - 1) + "1" + closing * (levels - 1) + "}").encode()

    assert isinstance(parse(nested(MAX_DEPTH), PAYLOAD)["payload"], Raw)
    for levels in (MAX_DEPTH + 1, 1000, 100_000):
        with pytest.raises(NotStrictJson, match="nested too deep"):
            parse(nested(levels), PAYLOAD)


def test_brackets_in_strings_and_side_by_side_are_no_nesting() -> None:
    value = {"payload": ["[" * 200, '"' + "{" * 200, *([[]] * 200)]}

    assert parse(json.dumps(value).encode(), PAYLOAD)["payload"].value == value["payload"]


def test_integers_may_have_4300_digits() -> None:
    longest = "-" + "9" * 4300
    assert parse(f'{{"payload":{longest}}}'.encode(), PAYLOAD)["payload"].text == longest
    for body in ('{"payload":' + "9" * 4301 + "}", '{"a":[' + "9" * 1_000_000 + "]}"):
        with pytest.raises(NotStrictJson, match="4,300 digits"):
            parse(body.encode(), PAYLOAD)


def test_pairs_of_surrogates_are_one_character() -> None:
    assert parse(b'{"a": "\\ud83d\\ude00"}') == {"a": "😀"}


@pytest.mark.parametrize(
    "body",
    [
        b'{"payload":"' + b'\\"' * 500_000,
        b'{"payload":' + b"[" * 1_000_000,
        b'{"payload":[' + b"[]," * 340_000 + b"0]}",
        b'{"payload":"' + b'"' * 1_000_000,
        b'{"payload":"' + b"\\ud83d\\ude00" * 80_000 + b'"}',
        b'{"payload":[' + b"1.5," * 250_000 + b"0]}",
    ],
)
def test_a_hostile_megabyte_takes_no_more_than_a_moment(body: bytes) -> None:
    started = time.process_time()
    try:
        parse(body, PAYLOAD)
    except NotStrictJson:
        pass
    assert time.process_time() - started < 2
