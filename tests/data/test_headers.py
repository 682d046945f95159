"""What a photo's EXIF says, read without its pixels."""

import io
from pathlib import Path

import pytest
from PIL import Image
from PIL.PngImagePlugin import PngImageFile

from seesay.data.decoders import facts_of


def _png(with_exif: bool) -> bytes:
    exif, out = Image.Exif(), io.BytesIO()
    exif[0x010F], exif[0x0110] = "NIKON CORPORATION", "NIKON D90"
    Image.new("RGBA", (60, 40)).save(out, "PNG", **({"exif": exif} if with_exif else {}))
    return out.getvalue()


def test_a_png_is_asked_without_decoding_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    decoded: list[object] = []
    monkeypatch.setattr(PngImageFile, "load", lambda image: decoded.append(image))
    found = {}
    for name, data in {"with": _png(with_exif=True), "without": _png(with_exif=False)}.items():
        (tmp_path / name).write_bytes(data)
        found[name] = facts_of(tmp_path / name)
    assert found == {"with": {"camera": "NIKON D90"}, "without": {}}
    assert not decoded


def test_a_chunk_after_the_pixels_of_a_png_is_not_looked_for(tmp_path: Path) -> None:
    data = _png(with_exif=True)
    start = data.index(b"eXIf") - 4
    end = start + 12 + int.from_bytes(data[start : start + 4], "big")
    chunk, rest = data[start:end], data[:start] + data[end:]
    last = rest.index(b"IEND") - 4
    (tmp_path / "late.png").write_bytes(rest[:last] + chunk + rest[last:])
    assert facts_of(tmp_path / "late.png") == {}
