"""The gate values t of a fusion of metrics (GVSE, eq. 4)."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from seesay.matchers.gvse import GVSE
from seesay.runs.inputs import Inputs
from seesay.runs.run import Run

_AT_ONCE = 512  # images or sentences


@torch.inference_mode()
def gate_values(run: Run, inputs: Inputs) -> tuple[NDArray[np.float64], NDArray[np.float64]] | None:
    """Return t of the split's n images, (n,), and of its m sentences, (m,); None for a run without gates."""
    matcher = run.matcher
    if not isinstance(matcher, GVSE) or not matcher.asymmetric:
        return None
    images = torch.split(torch.from_numpy(inputs.features), _AT_ONCE)
    of_images = [matcher.image_weights(part.to(run.device)) for part in images]
    parts = inputs.sentences.split(_AT_ONCE)
    of_sentences = [matcher.sentence_weights(part.to_tensors(run.device)) for part in parts]
    both = [torch.cat(t).double().cpu().numpy() for t in (of_images, of_sentences)]
    return both[0], both[1]
