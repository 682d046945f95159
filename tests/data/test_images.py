import errno
import io
import os
import struct
import subprocess
import sys
import time
import zlib
from pathlib import Path

import numpy as np
import pytest
import simplejpeg
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import ExifTags, Image, ImageCms, ImageOps, PngImagePlugin
from pillow_heif import from_pillow, register_heif_opener

from seesay.data.colours import conversion_of
from seesay.data.decoders import PHOTOS
from seesay.data.images import MAX_BYTES, MAX_PIXELS, EncodedImage, FileSource, content_key, decode
from seesay.errors import ImageError, UnavailableImageError


def photo(width=60, height=40, seed=0):
    """Smooth colours, which JPEG keeps; no symmetry, so that every turn shows."""
    y, x = np.mgrid[0:height, 0:width]
    channels = [255 * x / width, 255 * y / height, 127 + 100 * np.sin(x / 9 + seed)]
    return Image.fromarray(np.stack(channels, -1).astype(np.uint8))


def encode(image, format="JPEG", **options):
    buffer = io.BytesIO()
    image.save(buffer, format, **options)
    return buffer.getvalue()


def off(a, b):
    return np.abs(np.asarray(a, float) - np.asarray(b, float)).max()


def png_header(width, height, depth=8, colour=2):
    """A PNG that claims a size and has next to nothing in it."""

    def chunk(kind, body):
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    head = struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", head)
        + chunk(b"IDAT", zlib.compress(b"\0"))
        + chunk(b"IEND", b"")
    )


@pytest.mark.parametrize("format", ["JPEG", "PNG", "WEBP", "BMP", "DIB", "TIFF", "PPM", "JPEG2000", "GIF"])
def test_every_format_gives_rgb(format):
    got = decode(encode(photo(), format), "a")
    assert got.dtype == np.uint8
    assert got.shape == (40, 60, 3)
    assert got.flags.c_contiguous
    assert np.abs(got.astype(float) - np.asarray(photo())).mean() < 12


@pytest.mark.parametrize("options", [{}, {"progressive": True}, {"subsampling": 0}, {"keep_rgb": True}])
def test_jpeg_is_what_pillow_makes_of_it(options):
    data = encode(photo(), quality=95, **options)
    assert off(decode(data, "a"), Image.open(io.BytesIO(data)).convert("RGB")) <= 6


def test_grey_jpeg_has_three_equal_channels():
    got = decode(encode(photo().convert("L"), quality=95), "a")
    assert (got == got[..., :1]).all()
    assert off(got[..., 0], photo().convert("L")) <= 6


def test_cmyk_jpeg_keeps_its_colours():
    assert off(decode(encode(photo().convert("CMYK"), quality=95), "a"), photo()) < 20


def fixed(*values: float) -> bytes:
    return b"".join(round(value * 65536).to_bytes(4, "big", signed=True) for value in values)


P3_TO_SRGB = {
    (0.5151, 0.2412, -0.0011): (0.4360, 0.2225, 0.0139),
    (0.2920, 0.6922, 0.0419): (0.3851, 0.7169, 0.0971),
    (0.1571, 0.0666, 0.7841): (0.1431, 0.0606, 0.7141),
}


def display_p3() -> bytes:
    """A profile with Display P3's primaries (as adapted to D50) and a gamma of 2.2."""

    curve = b"curv" + bytes(4) + (1).to_bytes(4, "big") + round(2.2 * 256).to_bytes(2, "big") + bytes(2)
    text = b"Display P3\0"
    described = b"desc" + bytes(4) + len(text).to_bytes(4, "big") + text + bytes(79)
    tags = {
        b"desc": described,
        b"wtpt": b"XYZ " + bytes(4) + fixed(0.9642, 1.0, 0.8249),
        b"rXYZ": b"XYZ " + bytes(4) + fixed(0.5151, 0.2412, -0.0011),
        b"gXYZ": b"XYZ " + bytes(4) + fixed(0.2920, 0.6922, 0.0419),
        b"bXYZ": b"XYZ " + bytes(4) + fixed(0.1571, 0.0666, 0.7841),
        **dict.fromkeys((b"rTRC", b"gTRC", b"bTRC"), curve),
    }
    table, data, start = len(tags).to_bytes(4, "big"), b"", 128 + 4 + 12 * len(tags)
    for name, value in tags.items():
        table += name + (start + len(data)).to_bytes(4, "big") + len(value).to_bytes(4, "big")
        data += value + bytes(-len(value) % 4)
    header = bytearray(128)
    header[:4] = (start + len(data)).to_bytes(4, "big")
    header[8:24] = b"\x02\x40\0\0" + b"mntrRGB XYZ "
    header[36:40] = b"acsp"
    header[68:80] = fixed(0.9642, 1.0, 0.8249)
    return bytes(header) + table + data


@pytest.mark.parametrize("format", ["JPEG", "PNG"])
def test_colours_of_a_wide_gamut_become_srgb(format):
    orange = Image.new("RGB", (64, 48), (200, 120, 60))
    plain = decode(encode(orange, format), "a")
    wide = decode(encode(orange, format, icc_profile=display_p3()), "a")
    # The same numbers mean a stronger colour in a wider gamut: more red, less blue.
    assert wide.shape == plain.shape
    assert off(wide, np.full((48, 64, 3), (212, 116, 41))) <= 6


def test_the_conversion_of_colours_leaves_its_pixels_as_they_are():
    image = Image.open(io.BytesIO(encode(photo(), "PNG", icc_profile=display_p3())))
    pixels = np.asarray(photo()).copy()
    convert = conversion_of(image, b"")
    assert convert is not None
    assert off(convert(pixels), photo()) > 0
    assert off(pixels, photo()) == 0


@pytest.mark.parametrize("profile", [b"x", b"\0" * 200, b"y" * (1 << 20), "half"])
def test_a_profile_that_cannot_be_used_changes_nothing(profile):
    damaged = display_p3()[:300] if profile == "half" else profile
    assert off(decode(encode(photo(), "PNG", icc_profile=damaged), "a"), photo()) == 0


def profile(description: str, gamma: float, grey: bool = False) -> bytes:
    """A profile of sRGB's primaries, or of grey, with that gamma."""
    data = display_p3().replace(round(2.2 * 256).to_bytes(2, "big"), round(gamma * 256).to_bytes(2, "big"))
    for old, new in P3_TO_SRGB.items():
        data = data.replace(fixed(*old), fixed(*new))
    data = data.replace(b"Display P3\0", description.encode().ljust(10)[:10] + b"\0")
    return data.replace(b"mntrRGB ", b"mntrGRAY").replace(b"rTRC", b"kTRC") if grey else data


def srgb_levels(levels: np.ndarray, gamma: float) -> np.ndarray:
    light = (levels / 255) ** gamma
    return 255 * np.where(light <= 0.0031308, 12.92 * light, 1.055 * light ** (1 / 2.4) - 0.055)


RAMP = np.tile(np.arange(256, dtype=np.uint8), (8, 1))


def test_a_linear_profile_is_converted_whatever_its_name():
    data = encode(Image.fromarray(np.dstack([RAMP] * 3)), "PNG", icc_profile=profile("a sRGB one", 1.0))
    assert off(decode(data, "a"), srgb_levels(np.dstack([RAMP] * 3), 1.0)) <= 2
    srgb = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    assert off(decode(encode(photo(), "PNG", icc_profile=srgb), "a"), photo()) == 0


@pytest.mark.parametrize("format", ["PNG", "TIFF"])
def test_a_grey_profile_is_converted(format):
    data = encode(Image.fromarray(RAMP), format, icc_profile=profile("grey", 1.0, grey=True))
    assert off(decode(data, "a"), srgb_levels(np.dstack([RAMP] * 3), 1.0)) <= 2


def cmyk_profile() -> bytes:
    """A profile of a press that prints grey with any ink but black: a table of 16 colours."""
    inks = [(c, m, y, k) for c in (0, 1) for m in (0, 1) for y in (0, 1) for k in (0, 1)]
    colours = bytes(
        level for *colour, k in inks for level in (0 if k else 128 if any(colour) else 255, 128, 128)
    )
    identity = fixed(1, 0, 0, 0, 1, 0, 0, 0, 1)
    table = b"mft1" + bytes(4) + b"\x04\x03\x02\0" + identity + bytes(range(256)) * 4 + colours
    table += bytes(range(256)) * 3
    header = bytearray(128)
    header[:4] = (128 + 4 + 12 + len(table)).to_bytes(4, "big")
    header[8:24] = b"\x02\x40\0\0" + b"prtrCMYKLab "
    header[36:40] = b"acsp"
    header[68:80] = fixed(0.9642, 1.0, 0.8249)
    return bytes(header) + struct.pack(">I4sII", 1, b"A2B0", 144, len(table)) + table


@pytest.mark.parametrize("format", ["TIFF", "JPEG"])
def test_a_cmyk_profile_is_converted(format):
    for inks, level in {(0, 0, 0, 0): 255, (0, 0, 0, 255): 0, (255, 0, 0, 0): 119}.items():
        data = encode(Image.new("CMYK", (16, 16), inks), format, icc_profile=cmyk_profile())
        assert off(decode(data, "a"), np.full((16, 16, 3), level)) <= 4


@pytest.mark.parametrize("gamma", [1.0, 1.8, 2.2])
def test_the_gamma_of_a_png_is_converted(gamma):
    chunks = PngImagePlugin.PngInfo()
    chunks.add(b"gAMA", struct.pack(">I", round(100_000 / gamma)))
    data = encode(Image.fromarray(np.dstack([RAMP] * 3)), "PNG", pnginfo=chunks)
    wanted = RAMP if gamma == 2.2 else srgb_levels(RAMP, gamma)
    assert off(decode(data, "a"), np.dstack([wanted] * 3)) <= 2


def with_chunks(image, **chunks):
    """A PNG with chunks before its pixels."""
    info = PngImagePlugin.PngInfo()
    for name, data in chunks.items():
        info.add(name.encode(), data)
    return encode(image, "PNG", pnginfo=info)


P3_CHROMATICITIES = struct.pack(">8I", 31270, 32900, 68000, 32000, 26500, 69000, 15000, 6000)


def test_primaries_of_a_png_are_converted():
    """With those of Display P3, as its ICC profile is: by cHRM with a gamma, and by cICP."""
    image, gamma = photo(), struct.pack(">I", round(100_000 / 2.2))
    wanted = decode(encode(image, "PNG", icc_profile=display_p3()), "a")
    assert off(wanted, image) > 20
    data = with_chunks(image, gAMA=gamma, cHRM=P3_CHROMATICITIES)
    assert np.abs(decode(data, "a").astype(int) - wanted).mean() < 2
    assert np.abs(decode(with_chunks(image, cICP=bytes([12, 13, 0, 1])), "a").astype(int) - wanted).mean() < 2
    assert off(decode(with_chunks(image, cICP=bytes([1, 13, 0, 1])), "a"), image) == 0


@pytest.mark.parametrize(
    ("transfer", "level", "nits"),
    [(16, 0, 0), (16, 97, 26), (16, 148, 203), (18, 0, 0), (18, 97, 26), (18, 191, 203)],
)
def test_a_white_of_pq_and_hlg_is_halved(transfer, level, nits):
    """Levels by BT.2408: white is 203 cd/m², 58 % in PQ and 75 % in HLG; a grey card is 26, 38 % in both."""
    data = with_chunks(Image.new("RGB", (8, 8), (level,) * 3), cICP=bytes([9, transfer, 0, 1]))
    wanted = 255 * srgb_level(nits / 203 / 2)
    assert off(decode(data, "a"), np.full((8, 8, 3), wanted)) <= 4


@pytest.mark.parametrize(("transfer", "first", "last"), [(16, 148, 192), (18, 191, 255)])
def test_highlights_of_pq_and_hlg_fit_above_white(transfer, first, last):
    """From 203 to 1,000 cd/m² no two levels look alike, or only those that have no finer ones in sRGB."""
    ramp = np.arange(first, last + 1, dtype=np.uint8)
    data = with_chunks(Image.fromarray(np.dstack([ramp[None]] * 3)), cICP=bytes([9, transfer, 0, 1]))
    found = decode(data, "a")[0, :, 0].astype(int)
    assert found[-1] == 255
    assert np.diff(found).min() >= 0
    assert len(set(found.tolist())) > 0.9 * len(ramp)


def test_the_brightness_of_hlg_is_that_of_all_three_channels():
    """BT.2100: a display shows light × luminance^0.2, so that the ratio of channels is that of the scene."""
    data = with_chunks(Image.new("RGB", (8, 8), (100, 100, 60)), cICP=bytes([9, 18, 0, 1]))
    scene = (np.array([100, 100, 60]) / 255) ** 2 / 3
    luminance = scene @ (0.2627, 0.6780, 0.0593)
    light = 0.5 * scene * luminance**0.2 * 1000 / 203
    to_srgb = [[1.6605, -0.5876, -0.0728], [-0.1246, 1.1329, -0.0083], [-0.0182, -0.1006, 1.1187]]
    wanted = [255 * srgb_level(each) for each in to_srgb @ light]  # BT.2087
    assert off(decode(data, "a")[0, 0], wanted) <= 1


def test_a_gamma_with_other_primaries_is_no_curve_of_srgb():
    dark = Image.new("RGB", (8, 8), (12, 12, 12))
    data = with_chunks(dark, gAMA=struct.pack(">I", 45455), cHRM=P3_CHROMATICITIES)
    assert decode(data, "a")[0, 0].tolist() == [round(255 * srgb_level((12 / 255) ** 2.2))] * 3
    assert decode(with_chunks(dark, gAMA=struct.pack(">I", 45455)), "a")[0, 0].tolist() == [12] * 3


def test_browsers_agree_about_profiles_of_rgb_only():
    p3 = display_p3()
    alike = [encode(photo(), "JPEG", icc_profile=p3), encode(photo(), "PNG", icc_profile=p3), encode(photo())]
    alike += [with_chunks(photo(), cICP=bytes([1, 13, 0, 1]))]
    assert all(EncodedImage(data, "a").is_same_in_browsers for data in alike)
    cicp = PngImagePlugin.PngInfo()
    cicp.add(b"cICP", bytes([9, 16, 0, 1]))
    other = [encode(photo().convert("CMYK")), encode(photo(), "PNG", icc_profile=p3, pnginfo=cicp)]
    other += [with_chunks(photo(), gAMA=struct.pack(">I", 100_000))]
    assert not any(EncodedImage(data, "a").is_same_in_browsers for data in other)


@pytest.mark.parametrize(
    "points",
    [
        [(31270, 32900)] * 3,
        [(60000, 30000), (40000, 40000), (20000, 50000)],
        [(70000, 20000), (50000, 30000), (30000, 40000)],
    ],
)
def test_primaries_on_one_line_are_none(points):
    chromaticities = struct.pack(">8I", 31270, 32900, *sum(points, ()))
    image, gamma = photo(), struct.pack(">I", 45455)
    assert off(decode(with_chunks(image, gAMA=gamma, cHRM=chromaticities), "a"), image) == 0


def test_television_has_its_own_gamma_in_a_png():
    """BT.1886: 2.4; Chromium's, too, whereas it takes sRGB's for AVIF, which encoders mark so by default."""
    data = with_chunks(Image.new("RGB", (8, 8), (100, 100, 100)), cICP=bytes([1, 1, 0, 1]))
    assert decode(data, "a")[0, 0].tolist() == [round(255 * srgb_level((100 / 255) ** 2.4))] * 3


@pytest.mark.parametrize(("primaries", "transfer"), [(9, 200), (9, 2), (2, 13), (0, 0), (255, 16)])
def test_a_png_whose_numbers_are_unknown_has_the_colours_of_its_profile(primaries, transfer):
    wanted = decode(encode(photo(), "PNG", icc_profile=display_p3()), "a")
    info = PngImagePlugin.PngInfo()
    info.add(b"cICP", bytes([primaries, transfer, 0, 1]))
    data = encode(photo(), "PNG", icc_profile=display_p3(), pnginfo=info)
    assert off(decode(data, "a"), wanted) == 0
    assert EncodedImage(data, "a").is_same_in_browsers


def test_primaries_may_be_no_colours_that_a_display_could_show():
    """Number 10: CIE XYZ itself, with white of equal parts; light of sRGB's red, (0.64, 0.33), and white."""
    xyz = np.array([[0.64, 0.33, 0.03], [0.35, 0.35, 0.35]])
    pixels = Image.fromarray(np.rint(255 * xyz)[None].astype(np.uint8))
    red, white = decode(with_chunks(pixels, cICP=bytes([10, 8, 0, 1])), "a")[0].astype(int)
    assert red[0] == 255
    assert red[1:].max() < 40
    assert np.ptp(white) <= 1


def srgb_level(light: float) -> float:
    return 12.92 * light if light <= 0.0031308 else 1.055 * light ** (1 / 2.4) - 0.055


@pytest.mark.parametrize("format", ["AVIF", "HEIF"])
def test_the_colours_that_avif_and_heic_state_are_converted(format):
    register_heif_opener()
    data = bytearray(encode(photo(), format, quality=95))
    at = data.index(b"colrnclx") + 8
    plain = decode(bytes(data), "a")
    data[at + 1], data[at + 3] = 12, 13
    wanted = decode(encode(Image.fromarray(plain), "PNG", icc_profile=display_p3()), "a")
    assert np.abs(decode(bytes(data), "a").astype(int) - wanted).mean() < 2
    data[at + 1], data[at + 3] = 9, 16
    assert decode(bytes(data), "a").max() == 255
    assert np.abs(decode(bytes(data), "a").astype(int) - plain).mean() > 20


def test_colours_are_converted_before_they_are_laid_on_white():
    half = Image.new("RGBA", (8, 8), (0, 0, 0, 128))
    half.putpixel((0, 0), (100, 100, 100, 255))
    got = decode(encode(half, "PNG", icc_profile=profile("linear", 1.0)), "a")
    assert off(got[0, 0], srgb_levels(np.array(100), 1.0)) <= 2
    assert off(got[1:], np.full((7, 8, 3), 127)) <= 1


def test_transparency_of_sixteen_bits_is_white():
    values = np.array([[0, 1000, 65535]], np.uint16)
    data = encode(Image.fromarray(values), "PNG", transparency=1000)
    assert decode(data, "a")[0, :, 0].tolist() == [0, 255, 255]


def test_ycck_jpeg_is_read():
    # Adobe's marker with transform 2 says that a four-channel JPEG is YCCK.
    data = encode(photo().convert("CMYK"))
    adobe = data.index(b"Adobe")
    got = decode(data[: adobe + 11] + b"\x02" + data[adobe + 12 :], "a")
    assert got.shape == (40, 60, 3)


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("format", ["JPEG", "PNG", "TIFF", "WEBP"])
def test_exif_rotation_is_applied_as_pillow_does(orientation, format):
    exif = Image.Exif()
    exif[0x0112] = orientation
    options = {"lossless": True} if format == "WEBP" else {"quality": 95} if format == "JPEG" else {}
    data = encode(photo(), format, exif=exif, **options)
    wanted = ImageOps.exif_transpose(Image.open(io.BytesIO(data))).convert("RGB")
    got = decode(data, "a")
    assert got.shape == (wanted.height, wanted.width, 3)
    assert got.shape == ((60, 40, 3) if orientation >= 5 else (40, 60, 3))
    assert off(got, wanted) <= 6


@pytest.mark.parametrize("value", [0, 9, 65535])
def test_a_nonsensical_orientation_is_none(value):
    exif = Image.Exif()
    exif[0x0112] = value
    assert decode(encode(photo(), exif=exif), "a").shape == (40, 60, 3)


@pytest.mark.filterwarnings("ignore::UserWarning")  # Pillow's, of corrupt tags
def test_damaged_exif_is_none():
    data = encode(photo(), exif=b"Exif\0\0II*\0\xff\xff\xff\xff" + b"\xff" * 40)
    assert decode(data, "a").shape == (40, 60, 3)


@pytest.mark.parametrize("mode", ["RGBA", "LA", "P", "P by index"])
def test_transparency_is_laid_on_white(mode):
    image = Image.new("RGBA", (8, 8), (0, 0, 0, 0))
    image.paste((10, 20, 30, 255), (0, 0, 4, 8))
    if mode == "P":
        data = encode(image.quantize(), "PNG")
    elif mode == "P by index":
        data = encode(
            Image.fromarray(np.repeat([[0] * 4 + [9] * 4], 8, 0).astype(np.uint8)), "GIF", transparency=9
        )
    else:
        data = encode(image.convert(mode), "PNG")
    got = decode(data, "a")
    assert (got[:, 4:] == 255).all()
    assert got[:, :4].max() < 40


def test_half_transparent_black_is_middle_grey():
    got = decode(encode(Image.new("RGBA", (4, 4), (0, 0, 0, 128)), "PNG"), "a")
    assert got.min() == got.max() == 127


def test_a_transparent_colour_of_an_rgb_png_is_white():
    image = Image.new("RGB", (4, 4), (255, 0, 255))
    assert (decode(encode(image, "PNG", transparency=(255, 0, 255)), "a") == 255).all()


@pytest.mark.parametrize("format", ["PNG", "TIFF"])
def test_sixteen_bit_grey_is_scaled_not_clipped(format):
    ramp = np.linspace(0, 65535, 256).round().astype(np.uint16).reshape(16, 16)
    got = decode(encode(Image.fromarray(ramp), format), "a")
    assert (got[..., 0].ravel() == np.arange(256)).all()


def test_big_endian_sixteen_bit_tiff():
    ramp = np.linspace(0, 65535, 256).round().astype(">u2").reshape(16, 16)
    image = Image.frombytes("I;16B", (16, 16), ramp.tobytes())
    assert (decode(encode(image, "TIFF"), "a")[..., 0].ravel() == np.arange(256)).all()


@pytest.mark.parametrize(
    ("values", "wanted"),
    [
        ([0.0, 0.5, 1.0], [0, 128, 255]),
        ([-1.0, 0.0, 1.0], [0, 128, 255]),
        ([5e6, 0.0, 1e7], [128, 0, 255]),
        ([np.nan, 1.0, np.inf], [0, 255, 255]),
        ([0.0, np.nan, 1.0], [0, 0, 255]),
    ],
)
def test_float_tiff_is_scaled_by_its_range(values, wanted):
    image = Image.fromarray(np.array([values], np.float32))
    assert decode(encode(image, "TIFF"), "a")[0, :, 0].tolist() == wanted


def test_integer_tiff_is_scaled_by_its_range():
    for values, wanted in [([0, 100, 255], [0, 100, 255]), ([0, 32768, 65535], [0, 128, 255])]:
        image = Image.fromarray(np.array([values], np.int32))
        assert decode(encode(image, "TIFF"), "a")[0, :, 0].tolist() == wanted


def test_one_bit_images():
    image = Image.fromarray(np.eye(8, dtype=bool))
    assert (decode(encode(image, "PNG"), "a")[..., 0] == np.eye(8) * 255).all()


@pytest.mark.parametrize("format", ["GIF", "WEBP", "PNG", "TIFF"])
def test_the_first_frame_of_an_animation_counts(format):
    frames = [Image.new("RGB", (8, 8), colour) for colour in ("red", "lime", "blue")]
    options = {"lossless": True} if format == "WEBP" else {}
    data = encode(frames[0], format, save_all=True, append_images=frames[1:], **options)
    assert (decode(data, "a") == (255, 0, 0)).all()


@pytest.mark.parametrize("format", ["JPEG", "PNG", "WEBP", "BMP", "TIFF", "JPEG2000", "GIF", "AVIF", "HEIF"])
@pytest.mark.parametrize("part", [0.3, 0.6, 0.9])
def test_truncated_images_are_refused_by_name(format, part):
    register_heif_opener()
    noise = Image.fromarray(np.random.default_rng(0).integers(0, 255, (64, 64, 3), np.uint8))
    data = encode(noise, format)
    with pytest.raises(ImageError, match=r"^photos/a\.x: "):
        decode(data[: int(len(data) * part)], "photos/a.x")


@pytest.mark.parametrize(
    "data", [b"", b"\xff\xd8\xff", b"hello", b"<svg></svg>", b"%!PS-Adobe-3.0 EPSF-3.0\n"]
)
def test_what_is_no_image_is_refused_by_name(data):
    with pytest.raises(ImageError, match=r"^a\.x: ") as caught:
        decode(data, "a.x")
    assert "BytesIO" not in str(caught.value)


@pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning")
def test_a_huge_header_is_refused_before_it_is_decoded():
    for data in (png_header(50_000, 50_000), png_header(13_378, 13_378)):
        with pytest.raises(ImageError, match=str(MAX_PIXELS)):
            decode(data, "a.png")
    # A small JPEG whose header claims 65,000 × 65,000.
    jpeg = bytearray(encode(photo()))
    at = jpeg.index(b"\xff\xc0") + 5
    jpeg[at : at + 4] = struct.pack(">HH", 65_000, 65_000)
    with pytest.raises(ImageError, match=str(MAX_PIXELS)):
        decode(bytes(jpeg), "a.jpg")


@pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning")
def test_an_image_may_have_fewer_pixels_where_it_was_sent_by_others():
    data = encode(photo(), "PNG")
    assert decode(data, "a", max_pixels=2400).shape == (40, 60, 3)
    with pytest.raises(ImageError, match="more than 2399 pixels"):
        decode(data, "a", max_pixels=2399)


MEMORY = """
import io, sys
import numpy as np
from PIL import Image
from seesay.data.images import decode
side = 4000
kinds = {
    "PNG": [np.zeros((side, side), np.uint16), np.zeros((side, side, 4), np.uint8), np.eye(side, dtype=bool)],
    "TIFF": [np.zeros((side, side), np.float32), np.zeros((side, side), np.int32)],
}
def status(key):
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith(key))
for format, arrays in kinds.items():
    for array in arrays:
        out = io.BytesIO()
        Image.fromarray(array).save(out, format, **({"compress_level": 1} if format == "PNG" else {}))
        with open("/proc/self/clear_refs", "w") as file:
            file.write("5")  # the peak starts anew
        before = status("VmRSS")
        decode(out.getvalue(), "a")
        print(format, array.dtype, (status("VmHWM") - before) / side**2)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads the peak of memory from /proc")
def test_conversions_take_little_more_than_image_and_result():
    command = [sys.executable, "-c", MEMORY]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    lines = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
    for line in lines.splitlines():
        assert float(line.split()[-1]) < 12, line  # bytes a pixel: up to 4 in Pillow, 4 of the file, 3 of RGB
    assert len(lines.splitlines()) == 5


SHORTAGE = """
import resource, sys
from seesay.data.images import decode
from seesay.errors import UnavailableImageError
with open("/proc/self/statm") as file:
    now = int(file.read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (now + (64 << 20), now + (64 << 20)))
for name in sys.argv[1:]:
    with open(name, "rb") as file:
        data = file.read()
    try:
        decode(data, name)
    except UnavailableImageError as error:
        print(error)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="limits the address space")
def test_a_shortage_of_memory_is_no_damage(tmp_path):
    image = Image.new("RGB", (6000, 6000))
    names = []
    for format in ("PNG", "JPEG", "TIFF"):
        names.append(str(tmp_path / format))
        (tmp_path / format).write_bytes(
            encode(image, format, **({"compression": "tiff_lzw"} if format == "TIFF" else {}))
        )
    command = [sys.executable, "-c", SHORTAGE, *names]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "OPENBLAS_NUM_THREADS": "1"}
    lines = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
    assert [line.partition(": ")[0] for line in lines.splitlines()] == names


def test_the_header_of_a_tiff_of_many_directories_is_read_at_once():
    count = 20_000
    entries = [(256, 3, 1, 1), (257, 3, 1, 1), (258, 3, 1, 8), (259, 3, 1, 1), (262, 3, 1, 1), (273, 4, 1, 8)]
    entries += [(277, 3, 1, 1), (278, 3, 1, 1), (279, 4, 1, 1)]
    body = struct.pack("<H", len(entries)) + b"".join(struct.pack("<HHII", *entry) for entry in entries)
    parts = [b"II*\0", struct.pack("<I", 10), bytes(2)]
    for number in range(1, count + 1):
        parts += [body, struct.pack("<I", 10 + number * (len(body) + 4) if number < count else 0)]
    started = time.process_time()
    image = EncodedImage(b"".join(parts), "a")
    assert image.size == (1, 1)
    assert time.process_time() - started < 0.5


@pytest.mark.parametrize(
    ("size", "min_side", "wanted"),
    [
        ((1600, 1200), None, (1200, 1600)),
        ((1600, 1200), 64, (150, 200)),
        ((1600, 1200), 224, (450, 600)),
        ((1600, 1200), 1000, (1200, 1600)),
        ((60, 40), 224, (40, 60)),
    ],
)
def test_dct_scaling(size, min_side, wanted):
    assert decode(encode(photo(*size)), "a", min_side=min_side).shape[:2] == wanted


@settings(max_examples=40)
@given(st.integers(1, 700), st.integers(1, 700), st.integers(1, 300))
def test_scaling_never_goes_below_min_side(width, height, min_side):
    data = encode(Image.new("RGB", (width, height)))
    got = decode(data, "a", min_side=min_side)
    assert min(got.shape[:2]) >= min(min_side, width, height)


def test_scaling_does_not_change_a_squash():
    rng = np.random.default_rng(1)
    coarse = Image.fromarray(rng.integers(0, 255, (60, 80, 3), np.uint8))
    data = encode(coarse.resize((1600, 1200), Image.Resampling.BICUBIC), quality=90)

    def squash(array):
        return np.asarray(Image.fromarray(array).resize((224, 224), Image.Resampling.BICUBIC), float)

    error = squash(decode(data, "a")) - squash(decode(data, "a", min_side=224))
    assert 10 * np.log10(255**2 / np.mean(error**2)) > 40


def test_scaled_jpegs_are_turned_too():
    exif = Image.Exif()
    exif[0x0112] = 6
    assert decode(encode(photo(1600, 1200), exif=exif), "a", min_side=224).shape == (600, 450, 3)


def test_a_jpeg_that_libjpeg_warns_about_goes_to_pillow():
    data = encode(photo())
    odd = data[:-2] + bytes(9) + data[-2:]  # extraneous bytes before the last marker
    with pytest.raises(ValueError, match="extraneous"):
        simplejpeg.decode_jpeg(odd)
    assert off(decode(odd, "a"), decode(data, "a")) <= 6


@pytest.mark.parametrize("mode", ["RGB", "L", "CMYK"])
@pytest.mark.parametrize("progressive", [False, True])
@pytest.mark.parametrize("side", [None, 8])
def test_a_jpeg_that_only_lacks_its_end_marker_is_complete(mode, progressive, side):
    data = encode(photo().convert(mode), progressive=progressive)
    for cut in (1, 2):
        np.testing.assert_array_equal(decode(data[:-cut], "a", side), decode(data, "a", side))
    for cut in (3, 30, len(data) // 2):
        with pytest.raises(ImageError, match="damaged"):
            decode(data[:-cut], "a", side)


@pytest.mark.parametrize("format", ["PNG", "GIF", "WEBP", "TIFF", "HEIF"])
@pytest.mark.parametrize("picture", ["photo", "flat"])
def test_a_picture_is_complete_without_the_end_of_its_container(format, picture):
    """What follows the pixels: EXIF, a second frame, the end of the container."""
    image = photo() if picture == "photo" else Image.new("RGB", (200, 300), (10, 200, 30))
    exif = Image.Exif()
    exif[0x010F] = "A" * 300
    register_heif_opener()
    if format in ("WEBP", "HEIF"):
        data, end = encode(image, format, exif=exif), 300
    else:
        several = {"save_all": True, "append_images": [image.rotate(180)]} if format == "TIFF" else {}
        data, end = encode(image, format, **several), {"PNG": 12, "GIF": 1, "TIFF": 300}[format]
    for cut in sorted({1, 2, end // 2, end} - {0}):
        if cut <= end:
            np.testing.assert_array_equal(decode(data[:-cut], "a"), decode(data, "a"))
    alone = encode(image, format)
    for cut in (len(alone) // 2, len(alone) // 3):
        with pytest.raises(ImageError, match="damaged"):
            decode(alone[:-cut], "a")


def with_exif_last(avif: bytes) -> bytes:
    """An AVIF file whose EXIF follows its picture, as libheif writes it; Pillow puts it first."""
    first = avif.index(b"mdat") + 4
    at = avif.index(struct.pack(">I", first)) + 4  # in the table of places
    size = int.from_bytes(avif[at : at + 4], "big")
    head = avif[: first + size].replace(
        struct.pack(">II", first, size), struct.pack(">II", len(avif) - size, size)
    )
    head = head.replace(struct.pack(">I", first + size), struct.pack(">I", first))
    return head[:first] + avif[first + size :] + avif[first : first + size]


@pytest.mark.parametrize("part", [0.99, 0.9, 0.5, 0.1])
@pytest.mark.parametrize("format", ["AVIF", "HEIF", "WEBP", "TIFF", "JPEG", "PNG", "GIF", "JPEG2000"])
def test_a_cut_file_is_refused_unless_its_picture_is_whole(format, part):
    """With EXIF of a fifth of the file behind the picture, where the format has it there."""
    register_heif_opener()
    image = Image.effect_noise((300, 200), 90).convert("RGB")
    exif = Image.Exif()
    size = len(encode(image, format)) // 4
    exif[0x010F] = "A" * size
    data = encode(image, format, **({"exif": exif} if format in ("AVIF", "HEIF", "WEBP") else {}))
    data = with_exif_last(data) if format == "AVIF" else data
    is_whole = format in ("AVIF", "HEIF", "WEBP") and part >= 0.9
    cut = data[: int(len(data) * part)]
    if is_whole:
        np.testing.assert_array_equal(decode(cut, "a"), decode(data, "a"))
    else:
        with pytest.raises(ImageError, match="damaged"):
            decode(cut, "a")


@pytest.mark.parametrize("behind", ["xmp", "another image", "thumbnail"])
def test_a_heic_file_keeps_the_date_that_lies_before_its_cut(behind):
    date = Image.Exif()
    date.get_ifd(ExifTags.IFD.Exif)[ExifTags.Base.DateTimeOriginal] = "2019:06:30 12:00:00"
    file = from_pillow(photo(320, 240))
    if behind == "another image":
        file.add_from_pillow(photo(300, 200))
        file[1].info["exif"] = date.tobytes()
    file[0].info |= {"exif": date.tobytes()} | ({"thumbnails": [128]} if behind == "thumbnail" else {})
    file[0].info |= {"xmp": b"<" * 500} if behind == "xmp" else {}
    file.save(buffer := io.BytesIO(), save_all=True)
    data = buffer.getvalue()
    after = data.index(b"2019:06:30") + 20
    for cut in (after, (after + len(data)) // 2, len(data) - 1):
        image = EncodedImage(data[:cut], "a")
        assert image.taken == "2019-06-30T12:00:00"
        np.testing.assert_array_equal(image.pixels(), decode(data, "a"))
    lost = EncodedImage(data[: after - 1], "a")
    assert lost.taken == ""
    np.testing.assert_array_equal(lost.pixels(), decode(data, "a"))


@pytest.mark.parametrize(
    "table", [b"", b"iloc", b"\0\0\0\x10iloc" + b"\xff" * 20, b"\xff\xff\xff\xffiloc" + bytes(99)]
)
def test_a_cut_heic_file_with_a_damaged_table_of_items_is_refused(table):
    data = b"\0\0\0\x18ftypheic" + bytes(12) + b"infe\2\0\0\0\0\1\0\0Exif" + table + b"\0\0\xff\0mdat"
    with pytest.raises(ImageError, match="damaged"):
        decode(data, "a")


@pytest.mark.parametrize("seed", range(4))
def test_no_byte_of_a_lossless_webp_picture_may_be_missing(seed):
    """But for the zero that follows a picture of an odd number of bytes."""
    noise = np.random.default_rng(seed).integers(0, 256, (20 + seed, 30, 3), np.uint8)
    data = encode(Image.fromarray(noise), "WEBP", lossless=True)
    is_filled = int.from_bytes(data[16:20], "little") % 2
    for cut in range(1, 40):
        if cut <= is_filled:
            np.testing.assert_array_equal(decode(data[:-cut], "a"), noise)
        else:
            with pytest.raises(ImageError, match="damaged"):
                decode(data[:-cut], "a")


def test_an_avif_file_that_lacks_its_picture_is_refused_however_it_ends():
    """Its decoder shows something if nothing but the beginning of the picture is missing."""
    image = photo().convert("RGBA")
    image.putalpha(Image.linear_gradient("L").resize(image.size))
    data = encode(image, "AVIF")
    for cut in range(1, len(data) - 64, 7):
        with pytest.raises(ImageError, match="damaged"):
            decode(data[:-cut], "a")


def test_content_key_is_of_the_bytes():
    assert content_key(b"a") == content_key(b"a") != content_key(b"b")
    assert len(content_key(b"")) == 32
    int(content_key(b"a"), 16)


@pytest.mark.filterwarnings("ignore")
@settings(max_examples=100)
@given(st.binary(max_size=40), st.integers(0, 600), st.sampled_from(["JPEG", "PNG", "GIF", "WEBP", "TIFF"]))
def test_damage_anywhere_gives_pixels_or_an_image_error(damage, at, format):
    data = bytearray(encode(photo(), format))
    data[at : at + len(damage)] = damage
    try:
        got = decode(bytes(data), "a")
    except ImageError:
        return
    assert got.ndim == 3
    assert got.shape[2] == 3


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "TIFF"])
@pytest.mark.parametrize("orientation", [1, 3, 6, 8])
def test_size_is_that_of_the_decoded_image(kind, orientation):
    exif = Image.Exif()
    exif[0x0112] = orientation
    out = io.BytesIO()
    Image.new("RGB", (40, 30)).save(out, kind, exif=exif)
    height, width = decode(out.getvalue(), "x").shape[:2]
    assert EncodedImage(out.getvalue(), "x").size == (width, height)


def test_the_size_of_a_png_counts_exif_behind_its_pixels(tmp_path: Path) -> None:
    out, noise = io.BytesIO(), np.random.default_rng(0).integers(0, 256, (200, 300, 3), np.uint8)
    Image.fromarray(noise).save(out, "PNG")
    exif = Image.Exif()
    exif[0x0112] = 6  # taken with the camera on its side
    body = b"eXIf" + exif.tobytes().removeprefix(b"Exif\0\0")
    chunk = struct.pack(">I", len(body) - 4) + body + struct.pack(">I", zlib.crc32(body))
    data = out.getvalue()
    (tmp_path / "a.png").write_bytes(data[:-12] + chunk + data[-12:])
    pixels = EncodedImage((tmp_path / "a.png").read_bytes(), "a.png").pixels()
    assert (
        EncodedImage((tmp_path / "a.png").read_bytes(), "a.png").size
        == (pixels.shape[1], pixels.shape[0])
        == (200, 300)
    )


def test_no_image_is_an_error(tmp_path):
    path = tmp_path / "text.jpg"
    path.write_text("no image")
    with pytest.raises(ImageError):
        _ = EncodedImage(path.read_bytes(), "text.jpg").size


def test_file_source_reads_the_file(tmp_path):
    (tmp_path / "a.jpg").write_bytes(b"pixels")
    assert FileSource(tmp_path / "a.jpg").read() == b"pixels"


def test_missing_file_is_an_image_error_that_names_it(tmp_path):
    with pytest.raises(ImageError, match=r"gone\.jpg"):
        FileSource(tmp_path / "gone.jpg").read()


def test_a_file_too_large_for_an_image_is_not_read(tmp_path):
    path = tmp_path / "a.jpg"
    path.write_bytes(b"")
    os.truncate(path, MAX_BYTES + 1)  # sparse
    with pytest.raises(ImageError, match=f"at most {MAX_BYTES}"):
        FileSource(path).read()


def test_a_file_that_cannot_be_read_now_may_be_sound(tmp_path):
    for path in (tmp_path / "gone.jpg", tmp_path, tmp_path / ("long" * 2000)):
        with pytest.raises(UnavailableImageError, match="cannot be read"):
            FileSource(path).read()


def test_a_failure_of_the_system_is_not_one_of_the_image(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pillow loads plugins while it reads; an index must not drop photos because no file can be opened."""
    out = io.BytesIO()
    Image.new("RGB", (8, 6)).save(out, "PNG")

    def fail(*_: object, **__: object) -> None:
        raise OSError(errno.EMFILE, "Too many open files", "PngImagePlugin.py")

    monkeypatch.setattr("seesay.data.images.Image.open", fail)
    for attribute in ("format", "size"):
        with pytest.raises(UnavailableImageError, match="now"):
            getattr(EncodedImage(out.getvalue(), "x.png"), attribute)
    monkeypatch.undo()
    monkeypatch.setattr("seesay.data.images.to_rgb", fail)
    with pytest.raises(UnavailableImageError, match="decoded now"):
        decode(out.getvalue(), "x.png")


def jpeg_with(*segments: bytes, times: int = 1) -> bytes:
    """A JPEG with segments before all others, many times over."""
    data = encode(photo())
    whole = b"".join(s[:2] + struct.pack(">H", len(s)) + s[2:] for s in segments)
    return data[:2] + whole * times + data[2:]


def test_a_header_made_to_take_long_is_refused() -> None:
    image = EncodedImage(jpeg_with(b"\xff\xe1Exif\0\0" + bytes(8), times=100_000), "slow.jpg")
    for attribute in ("format", "size"):
        with pytest.raises(ImageError, match=r"^slow\.jpg: more than 100 blocks of EXIF"):
            getattr(image, attribute)
    assert image.taken == ""


def test_a_long_header_of_a_photo_is_read(tmp_path: Path) -> None:
    """Panoramas keep another photo and sound in hundreds of segments."""
    exif = Image.Exif()
    exif.get_ifd(0x8769)[0x9003] = "2019:06:30 12:00:00"
    xmp = b"\xff\xe1http://ns.adobe.com/xmp/extension/" + bytes(60_000)
    data = jpeg_with(b"\xff\xe1" + exif.tobytes(), *[xmp] * 200)
    image = EncodedImage(data, "long.jpg")
    assert (image.size, image.taken) == ((60, 40), "2019-06-30T12:00:00")
    assert image.pixels().shape == (40, 60, 3)
    assert PHOTOS.facts(data, "long.jpg") == {"taken": "2019-06-30T12:00:00"}


@pytest.mark.parametrize("format", ["JPEG", "PNG", "WEBP", "TIFF"])
@pytest.mark.parametrize("pixels_first", [True, False])
def test_an_image_is_opened_once_for_all_that_it_says(
    format: str, pixels_first: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    exif.get_ifd(0x8769)[0x9003] = "2019:06:30 12:00:00"
    data = encode(photo(), format, exif=exif)
    opened = []
    open_ = Image.open
    monkeypatch.setattr(Image, "open", lambda *args, **options: opened.append(1) or open_(*args, **options))
    image = EncodedImage(data, "turned")
    if pixels_first:
        assert image.pixels().shape == (60, 40, 3)
    taken = "" if format == "TIFF" else "2019-06-30T12:00:00"  # which Pillow does not write to a TIFF
    assert (image.size, image.taken, image.key) == ((40, 60), taken, content_key(data))
    assert image.format == format
    assert image.pixels().shape == (60, 40, 3)
    assert len(opened) == 1


def test_a_time_that_is_none_is_left_out() -> None:
    exif = Image.Exif()
    exif.get_ifd(0x8769).update({0x9003: "2019:02:30 12:00:00", 0x9004: "2019:03:02 12:00:00"})
    assert EncodedImage(encode(photo(), exif=exif), "a").taken == "2019-03-02T12:00:00"
    assert EncodedImage(b"no image", "a").taken == ""
