"""What is refused, each in one line."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

from seesay.encoders import load_image_encoder
from seesay.errors import SeesayError, install_command
from tests.encoders.towers.conftest import Model


def refusal(name: str) -> str:
    with pytest.raises(SeesayError) as caught:
        Model(name)
    message = str(caught.value)
    assert "\n" not in message
    return message


def test_a_missing_open_clip_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "open_clip", None)  # as if it were not installed
    assert f"{install_command('hub')}." in refusal("open_clip:anything")


def test_a_missing_timm_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "timm", None)
    with pytest.raises(SeesayError, match=r"pip install .*\[hub\]'"):
        load_image_encoder({"kind": "timm", "model": "anything"})


@pytest.mark.parametrize(
    "failure",
    [
        RuntimeError("Unknown model\nand a long list of others"),
        ImportError("\nUnknown model"),  # of another package than the library
        TimeoutError(),
    ],
)
def test_a_failing_library_is_one_line(failure: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    def create_model(*_: object, **__: object) -> None:
        raise failure

    timm = ModuleType("timm")
    timm.create_model = create_model
    monkeypatch.setitem(sys.modules, "timm", timm)
    reason = "Unknown model" if str(failure) else "TimeoutError"
    with pytest.raises(SeesayError, match=f"^timm could not load 'unknown': {reason}$"):
        load_image_encoder({"kind": "timm", "model": "unknown"})


def test_open_clip_without_weights(open_clip: Any) -> None:
    assert "open_clip:ViT-B-32/WEIGHTS; there are openai" in refusal("open_clip:ViT-B-32")
    assert "did you mean 'laion2b_s34b_b79k'?" in refusal("open_clip:ViT-B-32/laion2b_s34b_b79")
    assert "did you mean 'ViT-B-32'?" in refusal("open_clip:ViT-B32/openai")


class Evil:
    """Touches a file when it is unpickled."""

    def __init__(self, ran: Path) -> None:
        self.ran = ran

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.ran,)


def test_pickled_code_is_not_run(open_clip: Any, clip: Path, tmp_path: Path) -> None:
    ran, folder = tmp_path / "ran", tmp_path / "clip"
    folder.mkdir()
    shutil.copy(clip / "open_clip_config.json", folder)
    for weights in (tmp_path / "weights.pt", folder / "open_clip_pytorch_model.bin"):
        torch.save({"state_dict": Evil(ran)}, weights)
    unsafe = "is no safetensors file; others could run code."
    assert f"weights.pt {unsafe}" in refusal(f"open_clip:ViT-B-32/{tmp_path / 'weights.pt'}")
    assert f"its weights {unsafe}" in refusal(f"open_clip:{folder}")
    assert not ran.exists()


def bring_code(folder: Path, module: str) -> Path:
    """Put a module into a folder, and return the file that is there once the module has run."""
    ran = folder / "ran"
    (folder / f"{module}.py").write_text(
        "from pathlib import Path\n"
        f"Path({str(ran)!r}).touch()\n"
        "from transformers import PreTrainedTokenizerFast as Evil\n"
    )
    return ran


@pytest.fixture
def consenting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Say yes to whatever transformers asks on the terminal."""
    monkeypatch.setattr("builtins.input", lambda _: "y")


@pytest.mark.usefixtures("consenting")
def test_a_tokenizer_of_open_clip_that_brings_code(clip: Path, siglip: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(clip, tmp_path / "evil")
    ran = bring_code(folder, "tokenization_evil")
    auto_map = {"AutoTokenizer": [None, "tokenization_evil.Evil"]}
    settings = {"tokenizer_class": "Evil", "auto_map": auto_map}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    shutil.copy(siglip / "tokenizer.json", folder)
    config = json.loads((folder / "open_clip_config.json").read_text())
    trusting = {"tokenizer_kwargs": {"trust_remote_code": True}}
    for options in (trusting, {}):
        config["model_cfg"]["text_cfg"] |= {"hf_tokenizer_name": "x", "tokenizer_kwargs": {}} | options
        (folder / "open_clip_config.json").write_text(json.dumps(config))
        refused = refusal(f"open_clip:{folder}")
        assert ("models that bring code are rejected" if options else "custom code") in refused
        assert not ran.exists()


@pytest.mark.usefixtures("consenting")
def test_a_text_tower_of_open_clip_that_brings_code(clip: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(clip, tmp_path / "evil")
    ran = bring_code(folder, "configuration_evil")
    auto_map = {"AutoConfig": "configuration_evil.Evil"}
    (folder / "config.json").write_text(json.dumps({"model_type": "evil", "auto_map": auto_map}))
    config = json.loads((folder / "open_clip_config.json").read_text())
    config["model_cfg"]["text_cfg"]["hf_model_name"] = str(folder)
    (folder / "open_clip_config.json").write_text(json.dumps(config))
    assert "custom code" in refusal(f"open_clip:{folder}")
    assert not ran.exists()


def test_a_tokenizer_that_fails_is_one_line(siglip: Path, tmp_path: Path) -> None:
    def failing(name: str, **changed: object) -> str:
        folder = shutil.copytree(siglip, tmp_path / name)
        parts = json.loads((siglip / "tokenizer.json").read_text()) | changed
        (folder / "tokenizer.json").write_text(json.dumps(parts))
        return f"open_clip:{folder}"

    normalizer = {"type": "Precompiled", "precompiled_charsmap": "A"}
    assert "open_clip could not load" in refusal(failing("load", normalizer=normalizer))
    first, second = ({"Sequence": {"id": each, "type_id": 0}} for each in "AB")
    for special in (99_999, 0):  # a number without a vector; a sentence where there is no second one
        single = [{"SpecialToken": {"id": "x", "type_id": 0}}, first if special else second]
        about = {"x": {"id": "x", "ids": [special], "tokens": ["x"]}}
        post = {"type": "TemplateProcessing", "single": single, "pair": [first], "special_tokens": about}
        model = Model(failing(f"encode-{special}", post_processor=post))
        with pytest.raises(SeesayError, match=r"could not read a sentence with '.*': .*index out of"):
            model.text.encode(["a dog"])


def test_a_model_that_is_not_there(open_clip: Any, tmp_path: Path) -> None:
    assert "no such folder" in refusal(f"open_clip:{tmp_path}/nowhere/at/all")
    assert "open_clip could not load" in refusal("open_clip:hf-hub:nowhere/at/all")
