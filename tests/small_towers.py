"""Small models with random weights, saved to folders of open_clip."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch

CAPTIONS = [
    f"{number} {colour} {animal} {verb} {place} ."
    for number in ("a", "two", "many", "some", "three", "no")
    for colour in ("black", "white", "brown", "small", "spotted", "wet")
    for animal in ("dogs", "cats", "horses", "children", "birds", "sheep", "skaters")
    for verb in ("running", "playing", "sleeping", "jumping", "standing", "looking")
    for place in ("in the snow", "on the beach", "near a tree", "behind the fence", "at the lake")
]
VISION = {"image_size": 32, "layers": 2, "width": 64, "patch_size": 8}
TEXT = {"context_length": 20, "vocab_size": 49408, "width": 32, "heads": 2, "layers": 2}
HALF = {"mean": [0.5] * 3, "std": [0.5] * 3}


def save_clip(open_clip: Any, folder: Path) -> Path:
    """CLIP: the last layer at the end of the sentence, the middle of the image."""
    return save_model(open_clip, folder, {}, {"resize_mode": "shortest"})


def save_siglip(open_clip: Any, folder: Path) -> Path:
    """SigLIP: a vocabulary of transformers, cleaned sentences, a scale and a bias, squashed images."""
    cleaned = {"hf_tokenizer_name": "here", "tokenizer_kwargs": {"clean": "canonicalize"}}
    text = {"vocab_size": save_vocabulary(folder), "no_causal_mask": True, "pool_type": "last"} | cleaned
    biased = {"embed_dim": 32, "init_logit_bias": -12.5, "init_logit_scale": 4.5}
    return save_model(open_clip, folder, biased, {"resize_mode": "squash"} | HALF, text)


def save_model(
    open_clip: Any,
    folder: Path,
    options: dict[str, Any],
    preprocessing: dict[str, Any],
    text: dict[str, Any] | None = None,
) -> Path:
    """Save a model, of 24 dimensions unless `options` name others, to a folder."""
    from safetensors.torch import save_file

    torch.manual_seed(0)
    folder.mkdir(exist_ok=True)
    config = {"embed_dim": 24, "vision_cfg": VISION, "text_cfg": TEXT | (text or {})} | options
    written = {"model_cfg": config | {"custom_text": bool(options)}, "preprocess_cfg": preprocessing}
    (folder / "open_clip_config.json").write_text(json.dumps(written))
    model = (open_clip.CustomTextCLIP if options else open_clip.CLIP)(**config)
    weights = {key: value.contiguous() for key, value in model.state_dict().items()}
    save_file(weights, folder / "open_clip_model.safetensors")
    return folder


def save_vocabulary(folder: Path) -> int:
    """Save a tokenizer of transformers that has read CAPTIONS to a new folder; return its size."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors, trainers
    from transformers import PreTrainedTokenizerFast

    special = {"pad_token": "<pad>", "eos_token": "</s>", "unk_token": "<unk>"}
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.normalizer = normalizers.NFKC()
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    trainer = trainers.UnigramTrainer(
        vocab_size=300, special_tokens=list(special.values()), unk_token="<unk>", show_progress=False
    )
    tokenizer.train_from_iterator(CAPTIONS, trainer)
    end = tokenizer.token_to_id("</s>")
    tokenizer.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", end)])
    made = PreTrainedTokenizerFast(tokenizer_object=tokenizer, **special)
    folder.mkdir(exist_ok=True)
    made.save_pretrained(folder)
    return tokenizer.get_vocab_size()
