"""Which URLs may be called: the rules, one by one."""

import pytest

from app.callback_url import CallbackUrlRefused, Target, parse


def _words(text: str) -> list[str]:
    return text.split()


NOT_A_WEB_URL = _words("""
    http http: http:/example.com/ http:example.com http:// http:///example.com/ http:////example.com/
    http://?x=1 http://# //example.com/ /hook example.com example.com:80/ file:///etc/passwd
    file://example.com/etc/passwd gopher://example.com:6379/_ javascript:alert(1)
    javascript://example.com/%0aalert(1) ftp://example.com/ dict://example.com:11211/ ws://example.com/
    data:text/plain,x view-source:http://example.com/ httpx://example.com/ http\u017f://example.com/
    http+unix://example.com/ :http://example.com/ url:http://example.com/
""") + ["", " "]
CHARACTERS = [
    " http://example.com/", "http://example.com/ ", "http://example.com/a b", "http://example.com/\r\nX-Injected: 1",
    "http://exa\tmple.com/", "http://exa\nmple.com/", "ht\ntp://example.com/", "http://example.com/\x00",
    "http://example.com\x00.evil.example/", "http://example.com/\x7f", "http://example.com/\x1b[0m",
    "http:\\\\example.com\\", "http://example.com\\.evil.example/", "http://example.com/a\\b",
    "http://example.com/?q=\\", "http://127.0.0.1\\@203.0.113.9/", "http://203.0.113.9\\@127.0.0.1/",
    "http://example.com/caf\u00e9", "http://example.com/?q=\u00e9", "http://example.com/\u2028",
    "http://example.com/\x85", "http://example.com/\ud800", "http://\ud800.example/", "\ufeffhttp://example.com/",
    "http://example.com\u2044@127.0.0.1/", "http://example.com\uff0f@127.0.0.1/",
]  # fmt: skip
USERINFO_AND_FRAGMENT = _words("""
    http://user:pw@example.com/ http://user@example.com/ http://@example.com/ http://:@example.com/
    http://us\u00e9r@example.com/ http://example.com@127.0.0.1/ http://127.0.0.1@example.com/
    http://a@b@example.com/ http://example.com:80@127.0.0.1/ http://[::1]@example.com/
    http://127.0.0.1#@example.com/ http://example.com#@127.0.0.1/ http://example.com/#section
    http://example.com/?a=1#
""")
PORTS = _words("""
    http://example.com:0/ http://example.com:00/ http://example.com:080/ http://example.com:65536/
    http://example.com:99999999999999999999/ http://example.com:80:90/ http://example.com:/
    http://example.com:-1/ http://example.com:+80/ http://example.com:8_0/ http://example.com:0x50/
    http://example.com:http/ http://example.com:80a/ http://example.com:\u0668\u0660/
    http://93.184.216.34:80:80/ http://[2606:2800:220:1::1]:0/ http://[2606:2800:220:1::1]:/
    http://[2606:2800:220:1::1]80/ http://[2606:2800:220:1::1]:80:80/ http://:80/
""")
NUMBERS = _words("""
    2130706433 0x7f000001 0X7F000001 017700000001 0 00 0x 1 127.1 127.0.1 127.0.0.1. 127.0.0.1.. .127.0.0.1
    127.0.0.01 127.0.0.001 0177.0.0.1 0x7f.0.0.1 0x7f.1 127.0x0.0.0x1 127.0.0.0x1 127.0.0.0x 0000127.0.0.1
    256.0.0.1 93.184.216.256 93.184.216.34. 93.184.216.034 93.184.216 93.184.55330 93.12113954 1572395042
    0x5db8d822 4294967296 18446744073709551616 93.184.216.34.5 example.1 example.0x1f example.0xfg.1 a.b.c.010
    example.0o17 example.0b11 example.1_000 127.0.0.1_ 127.0.0.-1 127.0.0.1%2f 127.0.0.%31 %31%32%37.0.0.1
    127%2e0%2e0%2e1 127,0,0,1 \u2460\u2461\u2466.\u24ea.\u24ea.\u2460 127\u30020\u30020\u30021
    127\uff0e0\uff0e0\uff0e1 127\uff610\uff610\uff611 \uff11\uff12\uff17.0.0.1 127.0.0.\u00b9
    \u00b2\u00b9\u00b3\u2070\u2077\u2070\u2076\u2074\u00b3\u00b3 \u0967\u0968\u096d.\u0966.\u0966.\u0967
    xn--h4bq0a.xn--f4b.xn--f4b.xn--g4b \u0661\u0662\u0667.\u0660.\u0660.\u0661
    \U0001d7cf\U0001d7d0\U0001d7d5.0.0.1
""")
PRIVATE_NAMES = _words("""
    localhost LOCALHOST LocalHost localhost. foo.localhost a.b.localhost. printer.local local
    metadata.google.internal metadata.google.internal. METADATA.GOOGLE.INTERNAL internal host.docker.internal
    localhost.localdomain localdomain nas.home.arpa home.arpa home.arpa.
""")
NOT_A_NAME = _words("""
    . .. a..b .example.com example.com.. -a.example a-.example a.-b.example a.example- - exam!ple.com
    exa$mple.com exa*mple.com *.example.com exa~mple.com exa%6dple.com example.com%00 example.com;x
    example.com,evil.example example.com&x example.com|x a'b.example <b>.example {a}.example a^b.example
    a`b.example example.com[80]
""") + [f"{'a' * 64}.example", ".".join(["a" * 63] * 3 + ["a" * 62]), ".".join(["a"] * 128), 'a"b.example']
INTERNATIONAL_REFUSED = _words("""
    \u24db\u24de\u24d2\u24d0\u24db\u24d7\u24de\u24e2\u24e3
    \uff4c\uff4f\uff43\uff41\uff4c\uff48\uff4f\uff53\uff54 localho\u017ft foo\u3002localhost LOC\u212aL.example
    B\u00fccher.example b\u00fccher\u3002example bu\u0308cher.example b\u00fccher..example b\u00fccher.example..
    -b\u00fccher.example ab--b\u00fccher.example my_b\u00fccher.my_shop.example b\u00fccher.localhost
    b\u00fccher.internal b\u00fccher.1 a\u200bb.example a\u200db.example a\u00adb.example a\u202eb.example
    \u05d0a.example i\u2764.example xn--a.example xn--.example xn--i-7iq.example xn--bcher-kva\u00fc.example
""") + ["\u00fc" * 62 + ".example", "\u00fc" * 250, "\u00fc" * 2000, ".".join(["\u00fc\u00fc\u00fc"] * 63)]
BRACKETS = _words("""
    [::1 ::1 [] [ ] [[::1]] [::1]] x[::1] [::1]x [127.0.0.1] [93.184.216.34] [example.com] [v1.fe80::a] [vF.x]
    [fe80::1%eth0] [fe80::1%25eth0] [2606:2800:220:1::1%25eth0] [2606:2800:220:1::1%] [1:2:3]
    [1:2:3:4:5:6:7:8:9] [1::2::3] [:::1] [2606:2800:220:1::00001] [2606:2800:220:1::g] [::ffff:127.0.0.01]
    [2606:2800::1.2.3] [2606:2800:220:1::1/64] [\uff12606:2800:220:1::1] 2606:2800:220:1::1
""") + ["[::1 ]"]


def _refused(url: str) -> str:
    with pytest.raises(CallbackUrlRefused) as refusal:
        parse(url)
    return str(refusal.value)


@pytest.mark.parametrize("url", NOT_A_WEB_URL + CHARACTERS + USERINFO_AND_FRAGMENT + PORTS)
def test_what_is_no_plain_http_url_is_refused_with_a_sentence(url: str) -> None:
    message = _refused(url)
    assert message.startswith("The URL")
    assert message.endswith(".")


@pytest.mark.parametrize("host", NUMBERS + PRIVATE_NAMES + NOT_A_NAME + INTERNATIONAL_REFUSED + BRACKETS)
@pytest.mark.parametrize("form", ["http://{}/", "https://{}:8443/hook?a=1", "HTTP://{}"])
def test_a_host_that_readers_could_take_for_something_else_is_refused(host: str, form: str) -> None:
    assert _refused(form.format(host)).startswith("The URL")


@pytest.mark.parametrize(
    ("url", "target"),
    [
        ("https://example.com", Target("https://example.com", "https", "example.com", 443)),
        ("http://example.com/", Target("http://example.com/", "http", "example.com", 80)),
        ("HTTPS://Example.COM/Hook", Target("https://example.com/Hook", "https", "example.com", 443)),
        ("http://example.com:8080/a?b=%20", Target("http://example.com:8080/a?b=%20", "http", "example.com", 8080)),
        ("http://example.com:80/", Target("http://example.com:80/", "http", "example.com", 80)),
        ("http://example.com:65535/", Target("http://example.com:65535/", "http", "example.com", 65535)),
        ("http://example.com:1/", Target("http://example.com:1/", "http", "example.com", 1)),
        ("http://example.com./x", Target("http://example.com/x", "http", "example.com", 80)),
        ("http://example.com?a=1", Target("http://example.com/?a=1", "http", "example.com", 80)),
        ("http://example.com/@a:b//c?u=http://127.0.0.1/", Target("http://example.com/@a:b//c?u=http://127.0.0.1/", "http", "example.com", 80)),
        ("http://example.com/?e=a@b.example", Target("http://example.com/?e=a@b.example", "http", "example.com", 80)),
        ("http://receiver/", Target("http://receiver/", "http", "receiver", 80)),
        ("http://my_service-1.example/", Target("http://my_service-1.example/", "http", "my_service-1.example", 80)),
        ("http://1.2.3.4.example/", Target("http://1.2.3.4.example/", "http", "1.2.3.4.example", 80)),
        ("http://3com.com/", Target("http://3com.com/", "http", "3com.com", 80)),
        ("http://notlocalhost/", Target("http://notlocalhost/", "http", "notlocalhost", 80)),
        ("http://localhost.example/", Target("http://localhost.example/", "http", "localhost.example", 80)),
        ("http://internal.example/", Target("http://internal.example/", "http", "internal.example", 80)),
        ("https://b\u00fccher.example:8443/x", Target("https://xn--bcher-kva.example:8443/x", "https", "xn--bcher-kva.example", 8443)),
        ("https://b\u00fccher.example./", Target("https://xn--bcher-kva.example/", "https", "xn--bcher-kva.example", 443)),
        ("https://XN--BCHER-KVA.example/", Target("https://xn--bcher-kva.example/", "https", "xn--bcher-kva.example", 443)),
        ("https://my_x.xn--bcher-kva.example/", Target("https://my_x.xn--bcher-kva.example/", "https", "my_x.xn--bcher-kva.example", 443)),
        ("https://\u4f8b\u3048.\u30c6\u30b9\u30c8/", Target("https://xn--r8jz45g.xn--zckzah/", "https", "xn--r8jz45g.xn--zckzah", 443)),
        ("https://fa\u00df.example/", Target("https://xn--fa-hia.example/", "https", "xn--fa-hia.example", 443)),
    ],
)  # fmt: skip
def test_a_good_url_becomes_its_target(url: str, target: Target) -> None:
    assert parse(url) == target
    assert parse(target.url) == target


def test_the_key_of_a_target_is_scheme_host_and_port() -> None:
    assert parse("https://Example.com/a").key == "https://example.com:443"
    assert parse("https://example.com.:443/b").key == "https://example.com:443"
    assert parse("http://93.184.216.34:8080/").key == "http://93.184.216.34:8080"
    assert parse("http://[2606:2800:220:0001::0:1]/").key == "http://[2606:2800:220:1::1]:80"


@pytest.mark.parametrize(("host_length", "is_taken"), [(253, True), (254, False)])
def test_a_name_has_at_most_253_characters(host_length: int, is_taken: bool) -> None:
    name = ".".join(["a" * 63] * 3 + ["a" * (host_length - 192)])
    for host in (name, f"{name}."):
        if is_taken:
            assert parse(f"http://{host}/").host == name
        else:
            _refused(f"http://{host}/")


def test_a_url_has_at_most_2048_characters_as_given_and_as_sent() -> None:
    start = "http://example.com/"
    assert parse(start + "a" * (2048 - len(start))).host == "example.com"
    assert "2048" in _refused(start + "a" * (2049 - len(start)))
    international = "http://b\u00fccher.example/"
    assert "2048" in _refused(international + "a" * (2048 - len(international)))
