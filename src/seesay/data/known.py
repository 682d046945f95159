"""Published corpora, recognised by the sizes of their splits or the usual names of their files.

Recipes have settings, and papers print rows, for the names that are returned here.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

from seesay.data.corpus import CorpusImage

_BY_SIZES = {  # images of train and val
    (29_000, 1_014): "flickr30k",
    (29_783, 1_000): "flickr30k",
    (82_783, 5_000): "coco",
    (113_287, 5_000): "coco",
}
_ALIASES = {
    "f8k": "flickr8k",
    "f30k": "flickr30k",
    "mscoco": "coco",
    **{f"{name}{year}": "coco" for name in ("coco", "mscoco") for year in ("14", "17", "2014", "2017")},
}
_ALIASES |= {name: name for name in ("flickr8k", "flickr30k", "coco")}
_WITH_BOXES = {"flickr8k": "flickr8k-phrases", "flickr30k": "flickr30k-entities"}
# What the names of files and folders of features and annotations also contain.
_FURTHER = re.compile(
    "annotations|bottomup|butd|captions|dataset|data|entities|features|images|karpathy|phrases|precomp"
    "|sentences|splits?|(faster)?rcnn|resnet[0-9]*|vgg[0-9]*"
)


def known_name(name: str, images: Iterable[CorpusImage], has_boxes: bool) -> str:
    """Return the name of the published corpus that a corpus is, or its own name if it is none.

    Sizes of splits are trusted more than names, which may be those of another corpus or of nothing.

    Args:
        name: of the folder or file, or the one that the file states.
        images: of all splits.
        has_boxes: whether they are described by phrases with boxes.

    Example:
        >>> [known_name(name, (), has_boxes=False) for name in ("f30k_precomp", "MSCOCO", "coco-text")]
        ['flickr30k', 'coco', 'coco-text']
        >>> known_name("Flickr30kEntities", (), has_boxes=True)
        'flickr30k-entities'
    """
    splits = Counter(image.split for image in images)
    letters = "".join(re.findall("[a-z0-9]", name.casefold()))
    found = _BY_SIZES.get((splits["train"], splits["val"])) or _ALIASES.get(_FURTHER.sub("", letters))
    if found is None:
        return name
    return _WITH_BOXES.get(found, found) if has_boxes else found
