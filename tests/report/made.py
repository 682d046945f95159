"""Runs made in a moment: with the weights that training begins with, and all files that a run has."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path

import torch

from seesay.data.corpus import Corpus
from seesay.encoders.sentences.base import load_sentence_encoder
from seesay.encoders.settings import EncoderSettings
from seesay.recipes.load import load_recipe
from seesay.runs.prepare import recipe_encoders
from seesay.runs.run import Run
from seesay.runs.torch_backend import new_matcher, save_weights
from seesay.text.concepts import FILE, frequent_concepts, save_concepts
from seesay.text.vocabulary import Vocabulary
from seesay.training.sentence_task import task_for

_HEAD = (
    "name: {name}\ncorpus: flickr8k\nabout: small\nbatch_size: 40\nschedule: {{epochs: 2}}\nmin_count: 2\n"
)
_MARGIN = "loss: {kind: margin, margin: 0.2}\n"
RECIPES = {
    "common": "system: IRMatchS\ndepartures: [one crop]\n"
    + _MARGIN
    + "encoders: [efficientnet-lite0]\nmatcher: {kind: sco, dim: 10, word_dim: 8, fusion: context}\n",
    "other": _MARGIN
    + "encoders: [{kind: efficientnet-lite0, crops: ten}]\nmatcher: {kind: vse++, dim: 12, word_dim: 8}\n",
    "fused": _MARGIN
    + "encoders: [efficientnet-lite0, {kind: efficientnet-lite0, crops: ten}]\n"
    + "matcher: {kind: metric-fusion, members: [HERE/other.yaml, HERE/common.yaml], gate: {hidden: 8}}\n",
    "attends": _MARGIN
    + "encoders: [{kind: instances, boxes: grid}]\nsentence_encoder: minilm\n"
    + "matcher: {kind: uncommon-vse, dim: 16, instances: 36, steps: 2, attention: 8}\n",
    "reads": _MARGIN
    + "encoders: [efficientnet-lite0, {kind: concepts, run: HERE/concepts}]\n"
    + "matcher: {kind: sco, dim: 10, word_dim: 8, fusion: gate}\n",
    "concepts": "loss: {kind: multi-label}\nencoders: [efficientnet-lite0]\nmatcher: {kind: concepts}\n",
}


def write_recipes(folder: Path) -> None:
    for name, text in RECIPES.items():
        (folder / f"{name}.yaml").write_text(_HEAD.format(name=name) + text.replace("HERE", str(folder)))


def untrained(name: str, folder: Path, corpus: Corpus, *changes: str) -> Run:
    """A run of that recipe in `folder`, its weights drawn once and for all."""
    recipe, texts = load_recipe(name, changes=changes), corpus.split("train").texts()
    vocabulary = Vocabulary.from_texts(texts, recipe.min_count)
    folder.mkdir(parents=True)
    if recipe.matcher.predicts_concepts:
        concepts = frequent_concepts(texts, min_count=2)
        save_concepts(concepts, folder / FILE)
        vocabulary = Vocabulary(concept.word for concept in concepts)
    encoder = (
        load_sentence_encoder("minilm") if recipe.sentence_encoder == EncoderSettings("minilm") else None
    )
    grounds = recipe.regions is not None
    dims = (
        task_for(recipe, corpus, vocabulary, encoder).image_dims
        if grounds
        else [encoder.dims[name] for encoder in recipe_encoders(recipe) for name in recipe.arrays]
    )
    torch.manual_seed(5)
    matcher = new_matcher(recipe, vocabulary, encoder, dims)
    if name.endswith("fused.yaml"):
        for gate in (matcher.image_gate, matcher.sentence_gate):  # which begin alike for all queries
            torch.nn.init.normal_(gate.score.weight)
    Run.from_matcher(folder, recipe, vocabulary, encoder, matcher, dims).save_inputs()
    save_weights(folder, matcher.state_dict())
    return Run.load(str(folder))


class Elements(HTMLParser):
    """The elements of a page, each with its attributes and all the text in it; none is left open."""

    VOID = ("meta", "img", "link", "br", "input")

    def __init__(self, page: str) -> None:
        super().__init__()
        self._open: list[dict] = []
        self.all: list[dict] = []
        self.feed(page)
        self.close()
        assert not self._open, self._open[-1]

    def handle_starttag(self, tag: str, attrs: list) -> None:
        element = {"tag": tag, "text": "", **{key: value or "" for key, value in attrs}}
        self.all.append(element)
        if tag not in self.VOID:
            self._open.append(element)

    def handle_startendtag(self, tag: str, attrs: list) -> None:
        self.all.append({"tag": tag, "text": "", **dict(attrs)})

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop()["tag"] == tag

    def handle_data(self, data: str) -> None:
        for element in self._open:
            element["text"] += data

    def of(self, tag: str, **attributes: str) -> list[dict]:
        wanted = {key.rstrip("_"): value for key, value in attributes.items()}
        return [e for e in self.all if e["tag"] == tag and wanted.items() <= e.items()]
