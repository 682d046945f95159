"""What a photo's EXIF says, read without its pixels."""

import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image
from PIL.TiffImagePlugin import IFDRational
from pillow_heif import register_heif_opener

from seesay.data.decoders import PHOTOS
from seesay.data.exif import facts_of
from seesay.errors import ImageError


@pytest.mark.parametrize("format", ["HEIF", "AVIF", "WEBP", "JPEG", "PNG"])
def test_facts_are_read_in_another_process(tmp_path: Path, format: str) -> None:
    exif = Image.Exif()
    exif[0x010F], exif[0x0110] = "NIKON CORPORATION", "NIKON D90"
    register_heif_opener()
    Image.new("RGB", (60, 40)).save(tmp_path / "photo", format, exif=exif.tobytes())
    asked = [
        "import sys",
        "from pathlib import Path",
        "from PIL import Image",
        "opened = []",
        "before = Image.open",
        "Image.open = lambda *given, **options: opened.append(given) or before(*given, **options)",
        "from seesay.data.decoders import PHOTOS",
        "from seesay.data.images import file_format",
        "from seesay.paths import open_file",
        "file = open_file(Path(sys.argv[1]))",
        "print(file_format(file), PHOTOS.facts(file.readall(), 'photo'), len(opened))",
    ]
    command = [sys.executable, "-c", "\n".join(asked), str(tmp_path / "photo")]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert told == f"{format} {{'camera': 'NIKON D90'}} 0\n"


@pytest.mark.parametrize(
    ("seconds", "said"), [((1, 250), "1/250 s"), ((1, 3), "0.3 s"), ((10, 13), "0.8 s"), ((5, 2), "2.5 s")]
)
def test_an_exposure_is_said_as_cameras_say_it(seconds: tuple[int, int], said: str) -> None:
    exif = Image.Exif()
    exif.get_ifd(0x8769)[0x829A] = IFDRational(*seconds)
    assert facts_of(exif)["exposure"] == said


def test_what_only_begins_like_a_photo_has_no_facts() -> None:
    for head in (b"RIFF\0\0\0\0WEBP", b"\0\0\0\x10ftypheic\0\0\0\0", b"\0\0\0\0ftyp"):
        with pytest.raises(ImageError):
            PHOTOS.facts(head, "a")
