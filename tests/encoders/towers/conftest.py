"""Small models with random weights, saved to folders by their own libraries."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from seesay.encoders import IMAGE_ENCODERS, SENTENCE_ENCODERS
from seesay.encoders.spec import EXPORTED
from seesay.encoders.towers.opened import open_towers
from tests.small_towers import CAPTIONS, VISION, save_siglip_weights


class Model:
    """Both towers of a model as encoders."""

    def __init__(self, name: str, device: str | None = None) -> None:
        towers = open_towers(name, device)
        image, text = IMAGE_ENCODERS[EXPORTED], SENTENCE_ENCODERS[EXPORTED]
        self.image, self.text = image(name, towers), text(name, towers)
        self.dim = self.text.dim
        self.logit_scale, self.logit_bias = towers.about["logit_scale"], towers.about["logit_bias"]
        self.fingerprint = self.image.fingerprint, self.text.fingerprint


# What tokenizers tend to read differently.
ODD = [
    "",
    " ",
    "  A  dog\tand\na CAT ",
    "don't they've I'LL 's",
    "ﬁne ＡＢＣ １２３ ½ ²",
    "café cafe\u0301 ÉCOLE Straße İstanbul",
    "&amp; &lt;b&gt; &eacute;",
    "“quotes” ‘single’ — dash…",
    "schÃ¶n",
    "犬が走る Собака عربي हिन्दी",
    "🐕‍🦺👩‍👩‍👧 :-)",
    "a_b_c !!! #hash @at U.S.A.",
    "▁hello ▁ world",
    "\u200bzero\xa0width",
    "\x00\x07control \x1b[31mred\x1b[0m",
    "x" * 300,
    "many words " * 80,
]


@pytest.fixture(scope="session")
def open_clip(transformers: Any) -> Any:
    return pytest.importorskip("open_clip", reason="open_clip is not installed")


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("models")


@pytest.fixture(scope="module", autouse=True)
def _every_module_has_its_own_cache(own_cache: None) -> None:
    """See `own_cache`."""


@pytest.fixture(scope="session")
def siglip2(transformers: Any, models: Path) -> Path:
    """SigLIP 2: the same with Gemma's tokenizer."""
    torch.manual_seed(2)
    folder = models / "siglip2"
    letters = sorted({letter for caption in CAPTIONS for letter in caption.replace(" ", "▁")})
    special = ["<pad>", "<eos>", "<bos>", "<unk>", "<mask>", *(f"<0x{byte:02X}>" for byte in range(256))]
    vocabulary = {piece: i for i, piece in enumerate([*special, *letters, "do", "gs", "dogs"])}
    merges = [("d", "o"), ("g", "s"), ("do", "gs")]
    tokenizer = transformers.Siglip2Tokenizer(
        vocab=vocabulary,
        merges=merges,
        model_input_names=["input_ids"],
        padding_side="right",
        model_max_length=64,
    )
    tokenizer.save_pretrained(folder)
    save_siglip_weights(transformers, folder, len(vocabulary))
    return folder


@pytest.fixture(scope="session")
def vit(transformers: Any, models: Path) -> Path:
    """A vision model without a text tower."""
    torch.manual_seed(3)
    transformers.ViTModel(transformers.ViTConfig(**VISION)).save_pretrained(models / "vit")
    processor = transformers.ViTImageProcessorPil(size={"height": 32, "width": 32})
    processor.save_pretrained(models / "vit")
    return models / "vit"


@pytest.fixture(scope="session")
def open_clip_folders(open_clip: Any, models: Path) -> dict[str, Path]:
    """Models of open_clip, one for each way of resizing, the second with a bias."""
    from safetensors.torch import save_file

    torch.manual_seed(4)
    vision = {"image_size": 32, "layers": 2, "width": 64, "patch_size": 8}
    text = {"context_length": 20, "vocab_size": 49408, "width": 64, "heads": 2, "layers": 2}
    config = {"embed_dim": 24, "vision_cfg": vision, "text_cfg": text}
    half = {"mean": [0.5] * 3, "std": [0.5] * 3}
    kinds: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
        "shortest": ({}, {"resize_mode": "shortest"}),
        "squash": ({"init_logit_bias": -10, "custom_text": True}, {"resize_mode": "squash"} | half),
        "longest": ({}, {"resize_mode": "longest", "interpolation": "bilinear", "fill_color": 20}),
    }
    folders = {}
    for kind, (more, preprocessing) in kinds.items():
        folders[kind] = models / f"open-clip-{kind}"
        folders[kind].mkdir()
        made = (config | more, preprocessing)
        written = json.dumps(dict(zip(("model_cfg", "preprocess_cfg"), made, strict=True)))
        (folders[kind] / "open_clip_config.json").write_text(written)
        built = {key: value for key, value in (config | more).items() if key != "custom_text"}
        model = (open_clip.CustomTextCLIP if more else open_clip.CLIP)(**built)
        weights = {key: value.contiguous() for key, value in model.state_dict().items()}
        save_file(weights, folders[kind] / "open_clip_model.safetensors")
    return folders
