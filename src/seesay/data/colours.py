"""Conversion of colours to sRGB, by what an image's profile contains and not by its name.

The colours are described by an ICC profile (RGB, grey or CMYK), by the numbers of ITU-T H.273 (cICP of a PNG,
nclx of AVIF and HEIC), or by the gamma and primaries of a PNG. PQ and HLG, in which cameras and phones store
highlights, are mapped as Chromium does, by the reference white tone mapping of SMPTE ST 2094-50: a white of
203 cd/m² is halved, so that highlights of up to 1,000 cd/m² fit above it. Other colours stay as they are:
slightly wrong ones are better than none. `benchmarks/colours.py` compares the pixels with a browser's.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageCms

from seesay.arrays import Floats, Pixels

Conversion = Callable[[Pixels], Pixels]
"""Converts RGB pixels, (h, w, 3)."""

_MAX_PROFILE = 1 << 20  # bytes of a colour profile; those of displays and cameras have a few thousand
_MODES = {"RGB": "RGB", "GRAY": "L", "CMYK": "CMYK"}  # the colours of profiles, and modes of Pillow
_SAMPLE = np.stack(np.meshgrid(*[np.linspace(0, 255, 6)] * 3), axis=-1).reshape(1, -1, 3).astype(np.uint8)
_SAME = 2  # levels by which a profile of sRGB may change colours
_WHITE = 203.0  # cd/m²
_SRGB = (0.3127, 0.3290, 0.64, 0.33, 0.30, 0.60, 0.15, 0.06)  # x and y of white, red, green and blue
_PRIMARIES = {  # by their numbers in H.273
    1: _SRGB,
    4: (0.310, 0.316, 0.67, 0.33, 0.21, 0.71, 0.14, 0.08),
    5: (0.3127, 0.3290, 0.64, 0.33, 0.29, 0.60, 0.15, 0.06),
    **dict.fromkeys((6, 7), (0.3127, 0.3290, 0.630, 0.340, 0.310, 0.595, 0.155, 0.070)),
    8: (0.310, 0.316, 0.681, 0.319, 0.243, 0.692, 0.145, 0.049),
    9: (0.3127, 0.3290, 0.708, 0.292, 0.170, 0.797, 0.131, 0.046),
    10: (1 / 3, 1 / 3, 1, 0, 0, 1, 0, 0),
    11: (0.314, 0.351, 0.680, 0.320, 0.265, 0.690, 0.150, 0.060),
    12: (0.3127, 0.3290, 0.680, 0.320, 0.265, 0.690, 0.150, 0.060),
    22: (0.3127, 0.3290, 0.630, 0.340, 0.295, 0.605, 0.155, 0.077),
}
_PQ, _HLG = 16, 18  # by their numbers in H.273
_LUMINANCE = np.array([0.2627, 0.6780, 0.0593], np.float32)  # of BT.2020's primaries
_BRIGHTEST = 1000 / _WHITE  # of the display for which HLG is graded; also assumed for PQ
_BRADFORD = np.array([[0.8951, 0.2664, -0.1614], [-0.7502, 1.7135, 0.0367], [0.0389, -0.0685, 1.0296]])
_LEAST_AREA = 0.001  # of the triangle of primaries, twice; that of sRGB has 0.22
_STEPS = 1 << 14  # of light, whose levels are in a table


def conversion_of(image: Image.Image, data: bytes) -> Conversion | None:
    """Return how to convert an opened image's decoded RGB pixels; None if they are in sRGB, or undescribed.

    CMYK is converted by `cmyk_transform`; `data` are the encoded bytes.
    """
    profile = _profile(image)
    numbers = _coding_points(data, image.format)
    if profile and not (numbers and image.format == "PNG"):
        transform = _transform(profile, image.mode == "CMYK", len(image.getbands()) < 3)
        if transform is None or transform.input_mode == "CMYK":
            return None
        if transform.input_mode == "L":
            levels = Image.fromarray(np.arange(256, dtype=np.uint8)[None])
            return _by_table(np.asarray(ImageCms.applyTransform(levels, transform))[0, :, 0])
        return lambda pixels: np.asarray(ImageCms.applyTransform(Image.fromarray(pixels), transform))
    if numbers:
        known = _light(numbers[1], is_video=image.format == "PNG")
        tone = {_PQ: _tone_mapped, _HLG: _displayed}.get(numbers[1])
        return None if known is None else _by_light(known, _PRIMARIES.get(numbers[0], _SRGB), tone)
    gamma = image.info.get("gamma")
    if image.format != "PNG" or "srgb" in image.info or not isinstance(gamma, float) or not 0.05 < gamma < 5:
        return None
    primaries = image.info.get("chromaticity", _SRGB)
    triangle = np.column_stack([np.reshape(primaries, (4, 2))[1:], np.ones(3)])
    has_area = abs(np.linalg.det(triangle)) > _LEAST_AREA
    primaries = primaries if min(primaries[1::2]) > 0 and has_area else _SRGB
    is_srgb = abs(gamma - 1 / 2.2) < 0.01 and np.allclose(primaries, _SRGB, atol=0.002)
    return _by_light(_srgb_light() if is_srgb else np.linspace(0, 1, 256) ** (1 / gamma), primaries)


def is_converted_alike(image: Image.Image, data: bytes) -> bool:
    """Whether all browsers show the colours as `conversion_of` makes them.

    They convert by a profile of RGB or grey. Chromium makes RGB of CMYK before it uses the profile, and not
    all of them know the other descriptions, or have the same mapping of PQ and HLG.
    """
    if image.mode == "CMYK":
        return False
    by_profile = bool(_profile(image)) and not (image.format == "PNG" and _coding_points(data, "PNG"))
    return by_profile or conversion_of(image, data) is None


def cmyk_transform(image: Image.Image) -> ImageCms.ImageCmsTransform | None:
    """Return the transform from a CMYK image's profile to sRGB; None if it has no usable one."""
    profile = _profile(image)
    return _transform(profile, True, False) if profile and image.mode == "CMYK" else None


def _profile(image: Image.Image) -> bytes:
    profile = image.info.get("icc_profile")
    return profile if isinstance(profile, bytes) and len(profile) <= _MAX_PROFILE else b""


@lru_cache(32)  # making one takes about as long as decoding a small photo, and photos share a few profiles
def _transform(profile: bytes, is_cmyk: bool, is_grey: bool) -> ImageCms.ImageCmsTransform | None:
    """Return the transform of a profile, if it fits an image of such channels and changes its colours."""
    try:
        own = ImageCms.getOpenProfile(io.BytesIO(profile))
        mode = _MODES.get(own.profile.xcolor_space.strip(), "")
        if not {"RGB": not is_cmyk, "L": is_grey, "CMYK": is_cmyk}.get(mode):
            return None
        # The shortcut for grey is several levels wrong in the dark; only its 256 levels are converted.
        flags = ImageCms.Flags.NOOPTIMIZE if mode == "L" else ImageCms.Flags.NONE
        srgb = ImageCms.createProfile("sRGB")
        transform = ImageCms.buildTransform(own, srgb, mode, "RGB", flags=flags)
        if mode == "RGB":
            changed = ImageCms.applyTransform(Image.fromarray(_SAMPLE), transform)
            return None if np.abs(np.asarray(changed, int) - _SAMPLE).max() <= _SAME else transform
    except (ImageCms.PyCMSError, OSError, ValueError, TypeError):
        return None
    return transform


def _coding_points(data: bytes, format: str | None) -> tuple[int, int] | None:
    """Return the numbers of primaries and transfer of a PNG, AVIF or HEIC file (H.273); None without them.

    A PNG may also have a profile or a gamma for programs that do not know its numbers: None for these, too.
    """
    if format in ("AVIF", "HEIF"):
        at = data.find(b"colrnclx", 0, 1 << 16) + 8
        return (data[at + 1], data[at + 3]) if 8 <= at < len(data) - 4 else None
    at = 8
    while format == "PNG" and data[at + 4 : at + 8] not in (b"IDAT", b""):
        if data[at + 4 : at + 8] == b"cICP":
            known = data[at + 8] in _PRIMARIES and _light(data[at + 9], is_video=True) is not None
            return (data[at + 8], data[at + 9]) if known else None
        at += 12 + int.from_bytes(data[at : at + 4], "big")
    return None


def _light(transfer: int, is_video: bool) -> Floats | None:
    """Return the light of the 256 levels of a transfer function, white being 1; None for an unknown one.

    Those of television have the gamma of its displays (ITU-R BT.1886) if `is_video`, as in a PNG, where only
    frames of videos are marked so. Photographs in AVIF and HEIC that are marked so usually have sRGB's curve.
    """
    level = np.linspace(0, 1, 256)
    if transfer == _PQ:  # SMPTE ST 2084
        power = level ** (1 / 78.84375)
        ratio = np.maximum(power - 0.8359375, 0) / (18.8515625 - 18.6875 * power)
        return np.asarray(ratio ** (1 / 0.1593017578125) * 10_000 / _WHITE)
    if transfer == _HLG:  # of the scene: ITU-R BT.2100
        return np.where(
            level <= 0.5, level**2 / 3, (np.exp((level - 0.55991073) / 0.17883277) + 0.28466892) / 12
        )
    television = (1, 6, 11, 14, 15)
    gammas = {4: 2.2, 5: 2.8, 8: 1.0} | dict.fromkeys(television if is_video else (), 2.4)
    gamma = gammas.get(transfer)
    if gamma is not None:
        return np.asarray(level**gamma)
    if transfer == 17:  # SMPTE ST 428-1, of cinemas
        return np.asarray(52.37 / 48 * level**2.6)
    if transfer == 7:  # SMPTE ST 240
        return np.where(level < 0.0913, level / 4, ((level + 0.1115) / 1.1115) ** (1 / 0.45))
    known = (13,) if is_video else (2, 13, *television)  # 2 is "unspecified"
    return _srgb_light() if transfer in known else None


def _displayed(scene: Floats) -> Floats:
    """Return what a display of 1,000 cd/m² gives for a scene in HLG (BT.2100), (…, 3), tone-mapped."""
    luminance = scene @ _LUMINANCE
    return _tone_mapped(scene * (_BRIGHTEST * luminance**0.2)[..., None])


def _tone_mapped(light: Floats) -> Floats:
    """Return light of BT.2020's primaries, (…, 3), white being 1, with its highlights brought below 1.

    The largest of the three channels is halved up to white, and follows a parabola (a quadratic Bézier curve)
    from there to the brightest; the other two keep their ratio to it (SMPTE ST 2094-50).
    """
    largest = light.max(axis=-1)
    (x0, y0), (x1, y1), (x2, y2) = (1, 0.5), (1.65, 0.825), (_BRIGHTEST, 1)
    bend, slope = x0 - 2 * x1 + x2, x1 - x0
    t = (np.sqrt(slope**2 + bend * (largest.clip(x0, x2) - x0)) - slope) / bend
    mapped = (1 - t) ** 2 * y0 + 2 * t * (1 - t) * y1 + t**2 * y2
    return np.asarray(light * (mapped / largest.clip(x0))[..., None])


def _srgb_light() -> Floats:
    level = np.linspace(0, 1, 256)
    return np.where(level <= 0.04045, level / 12.92, ((level + 0.055) / 1.055) ** 2.4)


def _by_light(
    light: Floats, primaries: tuple[float, ...], tone: Callable[[Floats], Floats] | None = None
) -> Conversion | None:
    """Return the conversion of colours with that light of each level and those primaries.

    `tone` changes light of BT.2020's primaries.
    """
    steps = np.linspace(0, 1, _STEPS + 1)
    levels = np.where(steps <= 0.0031308, 12.92 * steps, 1.055 * steps ** (1 / 2.4) - 0.055)
    levels = np.rint(255 * levels).astype(np.uint8)
    between = _PRIMARIES[9] if tone else primaries
    first, matrix = (
        np.linalg.solve(_to_xyz(to), _to_xyz(of)).T.astype(np.float32)
        for to, of in ((between, primaries), (_SRGB, between))
    )
    if np.abs(matrix - np.eye(3)).max() < 0.01:
        table = levels[np.rint(light.clip(0, 1) * _STEPS).astype(int)]
        return None if np.abs(table.astype(int) - np.arange(256)).max() <= _SAME else _by_table(table)
    own = light.astype(np.float32)

    def convert(pixels: Pixels) -> Pixels:
        light = own[pixels]
        mixed = (light if tone is None else tone((light @ first).clip(0))) @ matrix
        return np.asarray(levels[np.rint(mixed.clip(0, 1) * _STEPS).astype(np.int32)])

    return convert


def _to_xyz(primaries: tuple[float, ...]) -> Floats:
    """Return the matrix from light of these primaries to XYZ, adapted to the white of sRGB (Bradford)."""
    white, *colours = (np.array([x, y, 1 - x - y]) for x, y in np.reshape(primaries, (4, 2)))
    wanted = np.array([_SRGB[0] / _SRGB[1], 1, (1 - _SRGB[0] - _SRGB[1]) / _SRGB[1]])
    white /= white[1]
    matrix = np.column_stack(colours) * np.linalg.solve(np.column_stack(colours), white)
    gains = (_BRADFORD @ wanted) / (_BRADFORD @ white)
    return np.asarray(np.linalg.solve(_BRADFORD, gains[:, None] * (_BRADFORD @ matrix)))


def _by_table(table: NDArray[np.uint8]) -> Conversion:
    return lambda pixels: table[pixels]
