"""The pixels of pictures in a real browser, beside those that seesay decodes of the same files.

Headless Chromium shows each file in an sRGB page and draws it on a white canvas, whose pixels are read back.
The picture is small and smooth, with all brightnesses and many colours. Files differ in how their colours are
described, by profiles that are written here, tag by tag.
"""

from __future__ import annotations

import base64
import io
import shutil
import struct
import zlib
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, PngImagePlugin

from benchmarks._harness import arguments, report
from seesay.data.images import decode

Pixels = NDArray[Any]

_SRGB = (0.3127, 0.3290, 0.64, 0.33, 0.30, 0.60, 0.15, 0.06)  # x and y of white, red, green and blue
_P3 = (0.3127, 0.3290, 0.680, 0.320, 0.265, 0.690, 0.150, 0.060)
_ADOBE = (0.3127, 0.3290, 0.64, 0.33, 0.21, 0.71, 0.15, 0.06)
_PROPHOTO = (0.3457, 0.3585, 0.7347, 0.2653, 0.1596, 0.8404, 0.0366, 0.0001)
_D50 = np.array([0.9642, 1.0, 0.8249])  # the white of profiles
_BRADFORD = np.array([[0.8951, 0.2664, -0.1614], [-0.7502, 1.7135, 0.0367], [0.0389, -0.0685, 1.0296]])
_INKS = np.array([[1.0, 0.35, 0.05], [0.2, 1.0, 0.35], [0.02, 0.05, 0.95], [0.97, 0.97, 0.97]])
_GRID = 9  # points of each ink in a profile of a press

READ = """async (data) => {
  const element = new Image();
  element.src = URL.createObjectURL(new Blob([Uint8Array.from(atob(data), (c) => c.charCodeAt(0))]));
  await element.decode();
  const [width, height] = [element.naturalWidth, element.naturalHeight];
  const canvas = new OffscreenCanvas(width, height).getContext("2d", { colorSpace: "srgb" });
  canvas.fillStyle = "white";
  canvas.fillRect(0, 0, width, height);
  canvas.drawImage(element, 0, 0);
  const pixels = canvas.getImageData(0, 0, width, height).data;
  let text = "";
  for (let i = 0; i < pixels.length; i += 8192) text += String.fromCharCode(...pixels.subarray(i, i + 8192));
  return [width, height, btoa(text)];
}"""


def picture(width: int = 96, height: int = 64) -> Image.Image:
    """A smooth picture without any symmetry."""
    y, x = np.mgrid[0:height, 0:width]
    channels = [255 * x / (width - 1), 255 * y / (height - 1), 127 + 100 * np.sin(x / 13) * np.cos(y / 11)]
    return Image.fromarray(np.stack(channels, -1).round().astype(np.uint8))


def shown(page: Any, data: bytes) -> Pixels:
    """Return the pixels, (h, w, 3), that the browser of a Playwright page shows of an encoded image."""
    width, height, text = page.evaluate(READ, base64.b64encode(data).decode())
    return np.frombuffer(base64.b64decode(text), np.uint8).reshape(height, width, 4)[..., :3]


def encoded(image: Image.Image, format: str, **options: Any) -> bytes:
    """Encode an image, as well as its format can."""
    best: dict[str, dict[str, Any]] = {
        "JPEG": {"quality": 100, "subsampling": 0},
        "WEBP": {"lossless": True},
        "AVIF": {"quality": 100, "subsampling": "4:4:4"},
    }
    buffer = io.BytesIO()
    image.save(buffer, format, **best.get(format, {}), **options)
    return buffer.getvalue()


def cases() -> Iterator[tuple[str, str, bytes]]:
    """Yield how the colours are described, the format, and the bytes of a picture."""
    image, grey = picture(), picture().convert("L")
    for name, profile in rgb_profiles().items():
        for format in ("JPEG", "PNG", "WEBP", "AVIF"):
            yield name, format, encoded(image, format, icc_profile=profile)
    curves = {
        "gamma 2.2": _gamma(2.2),
        "linear": _gamma(1.0),
        "dot gain": _samples(np.linspace(0, 1, 256) ** 1.75),
    }
    for name, curve in curves.items():
        for format in ("JPEG", "PNG"):
            profile = _profile(f"grey, {name}", b"GRAY", {b"kTRC": curve})
            yield f"profile of grey, {name}", format, encoded(grey, format, icc_profile=profile)
    inks = Image.merge("CMYK", [*image.convert("CMYK").split()[:3], grey.point(lambda level: level // 2)])
    yield "CMYK without a profile", "JPEG", encoded(inks, "JPEG")
    yield "CMYK, profile of a press", "JPEG", encoded(inks, "JPEG", icc_profile=_press())
    for gamma in (1.0, 1.8, 2.2):
        yield f"gAMA {gamma}", "PNG", _png(image, gAMA=_gama(gamma))
    yield "gAMA 1.0, palette", "PNG", _png(image.quantize(dither=Image.Dither.NONE), gAMA=_gama(1.0))
    yield "gAMA 2.2, cHRM of Display P3", "PNG", _png(image, gAMA=_gama(2.2), cHRM=_chrm(_P3))
    yield "gAMA 2.2, cHRM of Adobe RGB", "PNG", _png(image, gAMA=_gama(2.2), cHRM=_chrm(_ADOBE))
    yield "gAMA 1.0 and sRGB", "PNG", _png(image, gAMA=_gama(1.0), sRGB=b"\0")
    numbers = {"BT.709": (1, 1), "sRGB": (1, 13), "linear": (1, 8), "Display P3": (12, 13)}
    numbers |= {"BT.2020": (9, 14), "BT.2020, PQ": (9, 16), "P3, PQ": (12, 16), "BT.2020, HLG": (9, 18)}
    for name, (primaries, transfer) in numbers.items():
        yield f"cICP or nclx: {name}", "PNG", _png(image, cICP=bytes([primaries, transfer, 0, 1]))
        data = bytearray(encoded(image, "AVIF"))
        at = data.index(b"colrnclx") + 8
        data[at + 1], data[at + 3] = primaries, transfer
        yield f"cICP or nclx: {name}", "AVIF", bytes(data)
    fine = np.asarray(image).astype(np.uint16) * 257
    fine[..., 0] = np.linspace(0, 65535, fine.shape[1])
    p3, linear = (rgb_profiles()[f"profile of {name}"] for name in ("Display P3", "GIMP's linear sRGB"))
    yield "16 bits", "PNG", _fine_png(fine)
    yield "16 bits, grey", "PNG", _fine_png(fine[..., 0])
    yield "16 bits, Display P3", "PNG", _fine_png(fine, iCCP=b"P3\0\0" + zlib.compress(p3))
    yield "16 bits, linear", "PNG", _fine_png(fine, iCCP=b"linear\0\0" + zlib.compress(linear))
    yield "16 bits, grey, gAMA 1.0", "PNG", _fine_png(fine[..., 0], gAMA=_gama(1.0))
    yield "16 bits, PQ", "PNG", _fine_png(fine, cICP=bytes([9, 16, 0, 1]))
    clear = image.copy()
    clear.putalpha(grey)
    for format in ("PNG", "WEBP"):
        yield "transparency, on white", format, encoded(clear, format)
    yield "not described, palette", "GIF", encoded(image.quantize(128), "GIF")
    yield "not described", "BMP", encoded(image, "BMP")


def rgb_profiles() -> dict[str, bytes]:
    srgb = b"para" + bytes(4) + b"\0\3\0\0" + _fixed(2.4, 1 / 1.055, 0.055 / 1.055, 1 / 12.92, 0.04045)
    kinds = {
        "sRGB": (srgb, _SRGB),
        "Display P3": (srgb, _P3),
        "Adobe RGB": (_gamma(563 / 256), _ADOBE),
        "ProPhoto RGB": (_gamma(1.8), _PROPHOTO),
        "GIMP's linear sRGB": (_gamma(1.0), _SRGB),
    }
    return {f"profile of {name}": _rgb_profile(name, *kind) for name, kind in kinds.items()}


def _rgb_profile(name: str, curve: bytes, primaries: tuple[float, ...]) -> bytes:
    columns = _to_d50(primaries).T
    tags = {letter + b"XYZ": _xyz(column) for letter, column in zip((b"r", b"g", b"b"), columns, strict=True)}
    return _profile(name, b"RGB ", tags | dict.fromkeys((b"rTRC", b"gTRC", b"bTRC"), curve))


def inks_in_srgb(inks: Pixels) -> Pixels:
    """Return the levels of sRGB, (…, 3), of four inks, (…, 4) from 0 to 1, on the press of the profile."""
    light = np.prod(1 - inks[..., None] * _INKS, axis=-2)  # of which each ink takes away some
    return np.asarray(255 * np.where(light <= 0.0031308, 12.92 * light, 1.055 * light ** (1 / 2.4) - 0.055))


def _press() -> bytes:
    """A profile of CMYK: a table of the colours of inks, in Lab."""
    steps = np.linspace(0, 1, _GRID)
    inks = np.stack(np.meshgrid(steps, steps, steps, steps, indexing="ij"), -1).reshape(-1, 4)
    light = np.prod(1 - inks[..., None] * _INKS, axis=-2) @ _to_d50(_SRGB).T / _D50
    x, y, z = np.where(light > 216 / 24389, np.cbrt(light), (24389 / 27 * light + 16) / 116).T
    lab = np.stack(
        [(116 * y - 16) / 100 * 65280, (500 * (x - y) + 128) * 256, (200 * (y - z) + 128) * 256], -1
    )
    colours = np.rint(lab).clip(0, 65535).astype(">u2").tobytes()
    straight = struct.pack(">HH", 0, 65535)
    table = b"mft2" + bytes(4) + bytes([4, 3, _GRID, 0]) + _fixed(1, 0, 0, 0, 1, 0, 0, 0, 1)
    table += struct.pack(">HH", 2, 2) + 4 * straight + colours + 3 * straight
    return _profile("a press", b"CMYK", {b"A2B0": table, b"A2B1": table})


def _profile(name: str, space: bytes, tags: dict[bytes, bytes]) -> bytes:
    """Return an ICC profile, version 2.4."""
    text = name.encode() + b"\0"
    described = b"desc" + bytes(4) + struct.pack(">I", len(text)) + text + bytes(79)
    tags = {b"desc": described, b"cprt": b"text" + bytes(4) + b"none\0", b"wtpt": _xyz(_D50)} | tags
    index, data, start = struct.pack(">I", len(tags)), b"", 128 + 4 + 12 * len(tags)
    for tag, value in tags.items():
        index += tag + struct.pack(">II", start + len(data), len(value))
        data += value + bytes(-len(value) % 4)
    kind, between = (b"prtr", b"Lab ") if space == b"CMYK" else (b"mntr", b"XYZ ")
    header: bytes = (
        struct.pack(">I", start + len(data)).ljust(8, b"\0") + b"\x02\x40\0\0" + kind + space + between
    )
    header = header.ljust(36, b"\0") + b"acsp".ljust(32, b"\0") + _fixed(*_D50)
    return header.ljust(128, b"\0") + index + data


def _fixed(*values: float) -> bytes:
    return b"".join(struct.pack(">i", round(value * 65536)) for value in values)


def _xyz(values: Pixels) -> bytes:
    return b"XYZ " + bytes(4) + _fixed(*values)


def _gamma(exponent: float) -> bytes:
    return b"curv" + bytes(4) + struct.pack(">IHxx", 1, round(256 * exponent))


def _samples(curve: Pixels) -> bytes:
    levels: bytes = np.rint(65535 * curve).astype(">u2").tobytes()
    return b"curv" + bytes(4) + struct.pack(">I", len(curve)) + levels


def _to_d50(primaries: tuple[float, ...]) -> Pixels:
    """Return the matrix from light of these primaries to XYZ, adapted to D50 (Bradford)."""
    white, *colours = (np.array([x / y, 1, (1 - x - y) / y]) for x, y in np.reshape(primaries, (4, 2)))
    matrix = np.column_stack(colours) * np.linalg.solve(np.column_stack(colours), white)
    gains = (_BRADFORD @ _D50) / (_BRADFORD @ white)
    return np.asarray(np.linalg.solve(_BRADFORD, gains[:, None] * (_BRADFORD @ matrix)))


def _png(image: Image.Image, **chunks: bytes) -> bytes:
    info = PngImagePlugin.PngInfo()
    for name, data in chunks.items():
        info.add(name.encode(), data)
    return encoded(image, "PNG", pnginfo=info)


def _gama(gamma: float) -> bytes:
    return struct.pack(">I", round(100_000 / gamma))


def _chrm(primaries: tuple[float, ...]) -> bytes:
    return struct.pack(">8I", *(round(100_000 * value) for value in primaries))


def _fine_png(levels: Pixels, **chunks: bytes) -> bytes:
    """Encode 16-bit levels, (h, w) of grey or (h, w, 3), which Pillow cannot."""
    height, width = levels.shape[:2]
    rows = b"".join(b"\0" + row.astype(">u2").tobytes() for row in levels)
    parts = {"IHDR": struct.pack(">IIBBBBB", width, height, 16, 2 if levels.ndim == 3 else 0, 0, 0, 0)}
    parts |= chunks | {"IDAT": zlib.compress(rows), "IEND": b""}
    data = b"\x89PNG\r\n\x1a\n"
    for name, body in parts.items():
        whole = name.encode() + body
        data += struct.pack(">I", len(body)) + whole + struct.pack(">I", zlib.crc32(whole))
    return data


def main() -> None:
    from playwright.sync_api import sync_playwright

    options = arguments(str(__doc__).splitlines()[0]).parse_args()
    found: dict[str, dict[str, Any]] = {}
    if (path := shutil.which("chromium") or shutil.which("chromium-browser")) is None:
        raise SystemExit("benchmarks.colours needs Chromium; install it with tools/chromium.sh.")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page()
        for name, format, data in cases():
            theirs, ours = shown(page, data).astype(int), decode(data, name).astype(int)
            plain = np.asarray(Image.open(io.BytesIO(data)).convert("RGB")).astype(int)
            row = found.setdefault(
                name, {"colours": name, "formats": "", "mean": 0.0, "greatest": 0, "unconverted": 0.0}
            )
            row["formats"] += f", {format}" if row["formats"] else format
            row["mean"] = max(row["mean"], round(float(np.abs(ours - theirs).mean()), 2))
            row["greatest"] = max(row["greatest"], int(np.abs(ours - theirs).max()))
            row["unconverted"] = max(row["unconverted"], round(float(np.abs(plain - theirs).mean()), 1))
        version = browser.version
    report("colours", [row | {"Chromium": version.split(".")[0]} for row in found.values()], options)


if __name__ == "__main__":
    main()
