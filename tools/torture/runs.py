"""A downloaded run whose files were changed by somebody who knows their formats, checksums included."""

from __future__ import annotations

import hashlib
import json
import shutil
import struct
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import onnx

from seesay.runs.folder import run_folder
from tools.scenes import write_scenes
from tools.torture.base import Outcome, Stage, attack
from tools.torture.disk import ask, failing_process, wrong_with

ODD: tuple[Any, ...] = (
    None,
    True,
    -1,
    0,
    1.5,
    2**63,
    1e999,
    "",
    "x",
    "../../x",
    "/etc/passwd",
    "\0",
    [],
    {},
    [[]],
    {"a": 1},
)
DEEP = 100_000


def mutate_json(draw: Random, value: Any) -> Any:
    """Return the value with one of its parts removed, doubled, or replaced by something odd."""
    if isinstance(value, dict) and value and draw.random() < 0.9:
        key = draw.choice(list(value))
        changed = dict(value)
        if draw.random() < 0.1:
            del changed[key]
        else:
            changed[key] = mutate_json(draw, value[key])
        return changed
    if isinstance(value, list) and value and draw.random() < 0.8:
        place = draw.randrange(len(value))
        return [*value[:place], mutate_json(draw, value[place]), *value[place + draw.randrange(2) :]]
    return draw.choice(ODD)


def mutate_safetensors(draw: Random, data: bytes) -> bytes:
    """Change the header of tensors, its length, or cut what follows it."""
    (size,) = struct.unpack("<Q", data[:8])
    header, rest = json.loads(data[8 : 8 + size]), data[8 + size :]
    if draw.random() < 0.1:
        return struct.pack("<Q", draw.choice((0, 1, size + 1, 1 << 40, (1 << 64) - 1))) + data[8:]
    text = b"[" * DEEP if draw.random() < 0.05 else json.dumps(mutate_json(draw, header)).encode()
    return struct.pack("<Q", len(text)) + text + (rest[: len(rest) // 2] if draw.random() < 0.1 else rest)


def mutate_onnx(draw: Random, data: bytes) -> bytes:
    """Change a node, a type, a size or a version of a graph, or some of its bytes."""
    if draw.random() < 0.3:
        place = draw.randrange(len(data))
        return data[:place] + draw.randbytes(draw.choice((1, 4))) + data[place + draw.choice((0, 1, 4)) :]
    model = onnx.load_from_string(data)
    graph, number = model.graph, draw.choice((-1, 0, 1, 1 << 20, 1 << 40, (1 << 63) - 1))
    node = draw.choice(graph.node)
    change = draw.randrange(7)
    if change == 0:
        node.op_type = draw.choice(("If", "Loop", "Gather", "Reshape", "Expand", "Tile", "Nonsense"))
    elif change == 1 and node.input:
        node.input[draw.randrange(len(node.input))] = draw.choice(graph.node).output[0]
    elif change == 2:
        graph.node.remove(node)
    elif change == 3 and graph.initializer:
        tensor = draw.choice(graph.initializer)
        if tensor.dims:
            tensor.dims[draw.randrange(len(tensor.dims))] = number
        tensor.data_type = draw.randrange(1, 20)
    elif change == 4 and graph.initializer:  # another file's content in place of a weight
        tensor = draw.choice(graph.initializer)
        tensor.data_location = onnx.TensorProto.EXTERNAL
        tensor.external_data.add(key="location", value=draw.choice(("../../../etc/passwd", "/etc/passwd")))
    elif change == 5 and node.attribute:
        attribute = draw.choice(node.attribute)
        attribute.i, attribute.f = number, float(number)
        attribute.ints[:] = [number] * len(attribute.ints)
    else:
        model.opset_import[0].version = draw.choice((0, 1, 7, 10_000))
    return bytes(model.SerializeToString())


def mutate_npy(draw: Random, data: bytes) -> bytes:
    """Change the shape, the type or the order of an array, or cut it."""
    descr = draw.choice(("<f4", "|O", "<U9", ">f2", "<c16", "<i8", "|V0", "(9,9)<f4", "<f4, <i4"))
    shape = draw.choice(("(12, 60)", "(1, )", "()", "(-1, 60)", "(0, 0)", f"({1 << 40}, 60)", "(12, 60, 1)"))
    header = f"{{'descr': {descr!r}, 'fortran_order': {draw.choice((True, False, 3))}, 'shape': {shape}}}"
    text = (draw.choice((header, header, header, "[" * DEEP, "__import__('os')")) + "\n").encode()
    version = draw.choice((b"\x01\x00", b"\x02\x00", b"\x03\x00", b"\x09\x00"))
    size = struct.pack("<H" if version[0] == 1 else "<I", len(text) % (1 << 16))
    return b"\x93NUMPY" + version + size + text + data[128 : draw.choice((129, len(data)))]


MUTATIONS = {
    ".json": lambda draw, data: json.dumps(mutate_json(draw, json.loads(data))).encode(),
    ".safetensors": mutate_safetensors,
    ".onnx": mutate_onnx,
    ".npy": mutate_npy,
}


@attack(
    "runs",
    "run.json, SafeTensors, ONNX and NPY files manipulated with valid structure and checksums: "
    "exit status 0 to 2 within a minute, no traceback or crash",
)
def runs(stage: Stage) -> Outcome:
    """Change one file, correct the checksums that name it, and measure with it."""
    outcome, folder = Outcome(), stage.folder.resolve() / "runs"
    sound, copy, corpus, scores = (folder / name for name in ("sound", "copy", "corpus", "scores.npy"))
    folder.mkdir()
    write_scenes(corpus, images=12, seed=0)
    shutil.copytree(run_folder("seesay-small"), sound)
    np.save(folder / "sound.npy", np.zeros((12, 60), np.float32))
    files = [file for file in sorted(sound.iterdir()) if file.suffix in MUTATIONS]
    with failing_process(folder, preload=False) as process:
        use = ("evaluate", str(copy), "--data", str(corpus), "--json")
        while stage.goes_on:
            file = stage.draw.choice([*files, folder / "sound.npy"])
            shutil.rmtree(copy, ignore_errors=True)
            shutil.copytree(sound, copy)
            changed = MUTATIONS[file.suffix](stage.draw, file.read_bytes())
            if file.suffix == ".npy":
                scores.write_bytes(changed)
                ended = ask(process, ("evaluate", str(scores), *use[2:]), 0, 0, 0)
            else:
                (copy / file.name).write_bytes(changed)
                _correct_checksums(copy)
                ended = ask(process, use, 0, 0, 0)
            wrong = wrong_with(ended, {0, 1, 2})
            if wrong:
                kept = hashlib.sha256(changed).hexdigest()[:8]
                wrong = f"{kept}: {wrong}"
            outcome.check(not wrong, f"{file.name}: {wrong}")
    return outcome


def _correct_checksums(run: Path) -> None:
    """Let run.json name the files that are there, unless it is what was changed."""
    try:
        about = json.loads((run / "run.json").read_text())
        for name, graph in about["graphs"].items():
            graph["digest"] = hashlib.sha256((run / f"{name}.onnx").read_bytes()).hexdigest()
        about["weights"] = hashlib.sha256((run / "weights.safetensors").read_bytes()).hexdigest()
    except (OSError, ValueError, TypeError, LookupError, AttributeError):
        return
    (run / "run.json").write_text(json.dumps(about))
