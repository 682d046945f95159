"""Training by two workers of Ray Train learns what one process learns."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

import seesay

CHANGES = {
    "encoders": ["efficientnet-lite0"],
    "epochs": 2,
    "batch_size": 25,
    # No dropout, which each process draws for itself.
    "word_dropout": 0,
    "matcher": {
        "kind": "order-embeddings",
        "dim": 16,
        "word_dim": 8,
        "image_dropout": 0,
        "sentence_dropout": 0,
    },
    "loss": {"kind": "margin", "margin": 0.05},
}


@pytest.mark.slow
@pytest.mark.usefixtures("one_thread")
def test_two_workers_of_ray_train_learn_what_one_process_learns(scenes: Path, tmp_path: Path) -> None:
    ray = pytest.importorskip("ray", reason="Ray is not installed: pip install 'seesay[cluster]'")
    from ray.train import RunConfig, ScalingConfig
    from ray.train.torch import TorchTrainer

    seesay.train("order-embeddings", scenes, out=tmp_path / "one", **CHANGES)

    def train() -> None:
        seesay.train("order-embeddings", scenes, out=tmp_path / "two", **CHANGES)

    variables = {name: os.environ[name] for name in ("SEESAY_CACHE", "PYTHONPATH") if name in os.environ}
    ray.init(address="local", num_cpus=2, object_store_memory=100 << 20, runtime_env={"env_vars": variables})
    try:
        TorchTrainer(
            train,
            scaling_config=ScalingConfig(num_workers=2, resources_per_worker={"CPU": 0.5}),
            run_config=RunConfig(storage_path=str(tmp_path / "ray")),
        ).fit()
    finally:
        ray.shutdown()
    one, two = (load_file(tmp_path / name / "checkpoint.safetensors") for name in ("one", "two"))
    assert one.keys() == two.keys()
    for key in one:
        if key.startswith("matcher."):
            assert torch.allclose(one[key], two[key], rtol=1e-3, atol=1e-4), key
