"""Two small models with random weights, saved to folders by transformers: CLIP and SigLIP."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

CAPTIONS = [
    f"{number} {colour} {animal} {verb} {place} ."
    for number in ("a", "two", "many", "some", "three", "no")
    for colour in ("black", "white", "brown", "small", "spotted", "wet")
    for animal in ("dogs", "cats", "horses", "children", "birds", "sheep", "skaters")
    for verb in ("running", "playing", "sleeping", "jumping", "standing", "looking")
    for place in ("in the snow", "on the beach", "near a tree", "behind the fence", "at the lake")
]
SMALL = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
VISION = SMALL | {"image_size": 32, "patch_size": 8}


def save_clip(transformers: Any, folder: Path) -> Path:
    """CLIP: byte pairs, the last layer at the end of the sentence, crop from the middle."""
    torch.manual_seed(0)
    vocabulary, merges = byte_pairs()
    end = vocabulary["<|endoftext|>"]
    text = SMALL | {
        "vocab_size": len(vocabulary),
        "bos_token_id": 0,
        "eos_token_id": end,
        "pad_token_id": end,
    }
    config = transformers.CLIPConfig(text_config=text, vision_config=VISION, projection_dim=24)
    transformers.CLIPModel(config).save_pretrained(folder)
    transformers.CLIPTokenizer(vocab=vocabulary, merges=merges, model_max_length=77).save_pretrained(folder)
    size = {"height": 32, "width": 32}
    processor = transformers.CLIPImageProcessorPil(size={"shortest_edge": 32}, crop_size=size)
    processor.save_pretrained(folder)
    return folder


def save_siglip(transformers: Any, folder: Path) -> Path:
    """SigLIP: sentencepiece, padded to 64 without a mask, a bias, squashed images."""
    sentencepiece = pytest.importorskip("sentencepiece", reason="sentencepiece is not installed")
    torch.manual_seed(1)
    folder.mkdir()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(CAPTIONS),
        model_prefix=str(folder / "spiece"),
        vocab_size=50,
        pad_id=0,
        eos_id=1,
        unk_id=2,
        bos_id=-1,
        minloglevel=2,
    )
    tokenizer = transformers.SiglipTokenizer(str(folder / "spiece.model"), model_input_names=["input_ids"])
    tokenizer.save_pretrained(folder)
    save_siglip_weights(transformers, folder, 50)
    return folder


def save_siglip_weights(transformers: Any, folder: Path, words: int) -> None:
    """Save small towers with a vocabulary of so many pieces, a scale and a bias."""
    config = transformers.SiglipConfig(text_config=SMALL | {"vocab_size": words}, vision_config=VISION)
    model = transformers.SiglipModel(config)
    torch.nn.init.constant_(model.logit_scale, 4.5)
    torch.nn.init.constant_(model.logit_bias, -12.5)
    model.save_pretrained(folder)
    transformers.SiglipImageProcessorPil(size={"height": 32, "width": 32}).save_pretrained(folder)


def byte_pairs() -> tuple[dict[str, int], list[tuple[str, str]]]:
    """Byte pairs of CLIP's kind that CAPTIONS have been read with."""
    from tokenizers import Regex, Tokenizer, models, pre_tokenizers, trainers

    letters = pre_tokenizers.ByteLevel.alphabet()
    tokenizer = Tokenizer(models.BPE(end_of_word_suffix="</w>"))
    words = pre_tokenizers.Split(Regex(r"[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"), "removed", invert=True)
    in_bytes = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([words, in_bytes])
    trainer = trainers.BpeTrainer(
        vocab_size=400,
        end_of_word_suffix="</w>",
        initial_alphabet=letters,
        special_tokens=["<|startoftext|>", "<|endoftext|>"],
        show_progress=False,
    )
    tokenizer.train_from_iterator(CAPTIONS, trainer)
    model = json.loads(tokenizer.to_str())["model"]
    vocabulary: dict[str, int] = model["vocab"]
    for letter in sorted(letters):
        vocabulary.setdefault(f"{letter}</w>", len(vocabulary))
    return vocabulary, [(first, second) for first, second in model["merges"]]


# The beginning of a program that remembers in `opened` the names of the networks that it opens.
REMEMBER_NETWORKS = """
import sys
from pathlib import Path
import onnxruntime
opened = []
session = onnxruntime.InferenceSession
def remembered(path, *args, **kwargs):
    opened.append(Path(path).name)
    return session(path, *args, **kwargs)
onnxruntime.InferenceSession = remembered
"""
