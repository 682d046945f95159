"""Vision towers of timm, open_clip and transformers by name: the `hub` extra.

Their weights come from a hub the first time; `@random` behind a timm name keeps the seeded initial weights,
which needs no network and is how the code is tested.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from seesay.encoders import register_image_encoder
from seesay.encoders.images.base import Arrays, ImageEncoder, Pixels
from seesay.errors import SeesayError

if TYPE_CHECKING:
    from torch import Tensor, nn

    # Module, how it is called, side in pixels, and mean and deviation of the channels.
    Tower = tuple[nn.Module, Callable[[Tensor], Tensor], int, tuple[float, ...], tuple[float, ...]]


@register_image_encoder("open_clip")
@register_image_encoder("timm")
@register_image_encoder("transformers")
class HubEncoder(ImageEncoder):
    """A vision tower of a library."""

    variants: ClassVar = {":NAME": "any vision tower of that library by name; needs seesay[hub]"}

    @classmethod
    def load(cls, name: str, device: str) -> ImageEncoder:
        library, _, which = name.partition(":")
        load = {"timm": _timm, "open_clip": _open_clip, "transformers": _transformers}[library]
        try:
            import torch

            module, forward, size, *channels = load(which)
        except ImportError as missing:
            raise SeesayError(
                f"{name} needs the hub extra: pip install 'seesay[hub]' ({missing})."
            ) from missing
        except Exception as failure:  # whatever a hub's client raises for an unknown name or no network
            reason = (str(failure).splitlines() or [type(failure).__name__])[0]
            raise SeesayError(f"{library} could not load '{which}': {reason}") from failure
        module = module.eval().to(device)
        shift, scale = (torch.tensor(each, device=device).view(1, 3, 1, 1) for each in channels)

        @torch.inference_mode()
        def run(pixels: Pixels) -> Arrays:
            images = torch.from_numpy(np.ascontiguousarray(pixels)).to(device).permute(0, 3, 1, 2)
            pooled = forward((images.float() / 255 - shift) / scale)
            return {"pooled": pooled.float().cpu().numpy()}

        dim = run(np.zeros((1, size, size, 3), np.uint8))["pooled"].shape[1]
        return cls(name, _weights_hash(module), size, {"pooled": dim}, run)


def _weights_hash(module: nn.Module) -> str:
    import torch

    digest = hashlib.blake2b(digest_size=16)
    for key, value in module.state_dict().items():
        digest.update(key.encode())
        digest.update(value.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def _timm(which: str) -> Tower:
    import timm
    import torch

    architecture, _, weights = which.partition("@")
    with torch.random.fork_rng(devices=[]):  # the caller's own seed goes on as it was
        torch.manual_seed(0)
        module = timm.create_model(architecture, pretrained=weights != "random", num_classes=0)
    config = timm.data.resolve_model_data_config(module)
    return module, module, int(config["input_size"][-1]), config["mean"], config["std"]


def _open_clip(which: str) -> Tower:
    import open_clip

    architecture, _, pretrained = which.partition("/")
    module = open_clip.create_model(architecture, pretrained=pretrained or None)
    visual: Any = module.visual
    size = visual.image_size[0] if isinstance(visual.image_size, tuple) else visual.image_size
    return module, module.encode_image, int(size), tuple(visual.image_mean), tuple(visual.image_std)


def _transformers(which: str) -> Tower:
    from transformers import AutoImageProcessor, AutoModel

    processor = AutoImageProcessor.from_pretrained(which)
    module = AutoModel.from_pretrained(which)
    from torch import Tensor

    edge = processor.size.get("height") or processor.size.get("shortest_edge")

    def forward(images: Tensor) -> Tensor:
        encode = getattr(module, "get_image_features", module)
        output = encode(pixel_values=images)
        if isinstance(output, Tensor):  # get_image_features before transformers 5
            return output
        pooled = getattr(output, "pooler_output", None)
        chosen: Tensor = pooled if pooled is not None else output.last_hidden_state[:, 0]
        return chosen.flatten(1)  # some CNNs keep the two pooled axes

    return module, forward, int(edge), tuple(processor.image_mean), tuple(processor.image_std)
