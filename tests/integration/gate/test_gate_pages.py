"""The pages for people in a real browser, at the width of a phone and of a desk: drawn, and nothing runs out at the side."""
import os
import shutil
import struct
import subprocess
import zlib

import pytest

from evm import authorization, unb64
from rig import fetch, free_port

pytestmark = [pytest.mark.once, pytest.mark.timeout(120)]

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
MARGIN = 12  # of the 16 pixels that both pages leave at each side


def pixels(path):
    """Rows of an 8-bit RGB or RGBA picture."""
    with open(path, "rb") as f:
        data = f.read()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    at, packed = 8, b""
    while at < len(data):
        size, kind = struct.unpack(">I4s", data[at:at + 8])
        body = data[at + 8:at + 8 + size]
        if kind == b"IHDR":
            width, height, depth, colour = struct.unpack(">IIBB", body[:10])
            assert depth == 8 and colour in (2, 6)
        elif kind == b"IDAT":
            packed += body
        at += size + 12
    n = 3 if colour == 2 else 4
    raw, above = zlib.decompress(packed), bytearray(width * n)
    for y in range(height):
        how, row = raw[y * (width * n + 1)], bytearray(raw[y * (width * n + 1) + 1:(y + 1) * (width * n + 1)])
        for i in range(len(row) if how else 0):
            a, b, c = row[i - n] if i >= n else 0, above[i], above[i - n] if i >= n else 0
            nearest = min((abs(b - c), 0, a), (abs(a - c), 1, b), (abs(a + b - 2 * c), 2, c))[2]
            row[i] = (row[i] + (0, a, b, (a + b) // 2, nearest)[how]) & 255
        above = row
        yield [bytes(row[i:i + 3]) for i in range(0, len(row), n)]


def draw(rig, url, width, height):
    out, home = os.path.join(rig.folder, "page.png"), os.path.join(rig.folder, "browser")
    subprocess.run([CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--user-data-dir=" + home,
                    "--window-size=%d,%d" % (width, height), "--screenshot=" + out, url],
                   check=True, capture_output=True, timeout=60)
    return list(pixels(out))


@pytest.fixture
def shop(cold):
    if not CHROMIUM:
        pytest.skip("chromium is not installed")
    cold.port = free_port()
    cold.start_facilitator()
    cold.start_gate(origin="http://127.0.0.1:%d" % cold.port,
                    routes=[{"path": "/a", "price": "0.01", "description": "Weather <b>for</b> the next hour, " + "w" * 90}])
    host = {"Host": "127.0.0.1:%d" % cold.port}
    challenge = unb64(fetch(cold.port, "/a", headers=host).get("PAYMENT-REQUIRED"))
    chosen = challenge["accepts"][0]
    paid = cold.header(authorization(cold.buyer, chosen), chosen, challenge)
    assert fetch(cold.port, "/a", headers={**host, **paid}).status == 200
    return cold


@pytest.mark.parametrize("width,height", [(390, 600), (1280, 500)])
@pytest.mark.parametrize("page", ["paywall", "operator"])
def test_a_page_is_drawn_and_fits(shop, page, width, height):
    url = "http://127.0.0.1:%d/a?place=%s" % (shop.port, "z" * 90) if page == "paywall" else \
        "http://127.0.0.1:%d/" % shop.admin_port
    picture = draw(shop, url, width, height)
    assert len(picture) == height and len(picture[0]) == width
    ground = picture[0][0]
    for row in picture:
        assert set(row[:MARGIN] + row[-MARGIN:]) == {ground}  # nothing is wider than the window
    inked = sum(any(p != ground for p in row) for row in picture)
    assert inked > height // 3 and len({p for row in picture for p in row}) > 16  # letters, not an error page of one line
