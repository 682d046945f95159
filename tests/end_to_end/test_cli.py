"""The commands as a person runs them, on a small drawn corpus and a few odd files."""

from __future__ import annotations

import errno
import io
import json
import os
import shutil
import subprocess
import sys
from contextlib import redirect_stdout
from pathlib import Path

import numpy as np
import pytest
import yaml
from PIL import Image
from typer.main import get_command

from seesay import __version__ as version
from seesay.cli import main, with_all_commands
from seesay.cli.printing import show_answer
from seesay.data.images import content_key
from seesay.data.readers import read_corpus
from seesay.device import chosen_device
from seesay.metrics import retrieval_metrics
from seesay.recipes.load import load_recipe
from seesay.search import Index
from tests.end_to_end.command import seesay
from tests.search import unprivileged
from tools.scenes import write_scenes

KEYS = {"protocol", "split", "about", "content", "metrics"}


@pytest.fixture(scope="module")
def run(scenes: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("cli") / "run"
    changes = ["encoders=[efficientnet-lite0]", "schedule.epochs=2", "matcher.dim=60", "batch_size=60"]
    # For two epochs of four batches.
    changes += ["matcher.standardise=false", "matcher.dropout=0.0", "schedule.average=null", "words=null"]
    options = [part for change in changes for part in ("--set", change)]
    done = seesay("train", "irmatch-s", "--data", scenes, "--out", out, *options, "--json")
    assert json.loads(done.stdout)["epochs"] == 2
    return out


@pytest.fixture(scope="module")
def photos(scenes: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("photos")
    for path in sorted(scenes.rglob("*.jpg"))[:6]:
        shutil.copy(path, folder)
    (folder / "below").mkdir()
    Image.new("CMYK", (40, 30), (0, 200, 200, 0)).save(folder / "below" / "cmyk.jpg")
    (folder / "broken.jpg").write_bytes(b"\xff\xd8 nothing")
    (folder / "notes.txt").write_text("no image")
    return folder


@pytest.fixture(scope="module")
def index(run: Path, photos: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cli") / "index"
    texts = folder.parent / "texts.txt"
    texts.write_text("a red circle\na blue square\n\n")
    done = seesay("index", photos, "--out", folder, "--run", run, "--sentences", texts, "--json")
    report = json.loads(done.stdout)
    assert (report["added"], report["images"], report["sentences"]) == (7, 7, 2)
    assert [path for path, _ in report["skipped"]] == ["broken.jpg"]
    return folder


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_control_characters_of_file_names_are_escaped_on_terminals(tmp_path: Path) -> None:
    photos = tmp_path / "photos"
    photos.mkdir()
    names = ("a\x1b[31m.png", "b\u202egnp.png", "c\n.png")
    for name in names:
        Image.new("RGB", (8, 8)).save(photos / name)
    (photos / "broken\x1b]0;title\x07.png").write_bytes(b"no image")
    done = seesay("index", photos, "--out", tmp_path / "index")
    assert "\x1b" not in done.stderr
    assert "broken\\x1b]0;title\\x07.png" in done.stderr
    with Index.open(tmp_path / "index") as index:
        hits = index.search("black")
        assert {hit.path for hit in hits} == set(names)
        for stream in (Terminal(), io.StringIO()):
            with redirect_stdout(stream):
                show_answer(hits, index, as_json=False, by_score=False)
            raw = [name for name in names if name in stream.getvalue()]
            assert raw == ([] if stream.isatty() else list(names))


def test_serving_makes_the_index_of_photos(photos: Path, tmp_path: Path, monkeypatch) -> None:
    served = []
    monkeypatch.setattr("seesay.web.app.serve", lambda indexes, *rest: served.append((indexes, rest[2])))
    missing = seesay("serve", tmp_path / "new.seesay", "--photos", tmp_path / "none", code=2)
    assert "not a folder" in missing.stderr
    assert not (tmp_path / "new.seesay").exists()
    seesay("serve", tmp_path / "new.seesay", "--photos", photos)
    ((indexes, options),) = served
    assert list(indexes) == list(options.photos) == ["new"]
    assert options.photos["new"] == [photos]
    both = seesay("serve", tmp_path / "new.seesay", tmp_path / "b.seesay", "--photos", photos, code=2)
    assert "--photos are for a single index" in both.stderr


def test_help_has_an_example_for_every_command() -> None:
    for command in (
        "train",
        "evaluate",
        "index",
        "search",
        "sentences",
        "ground",
        "serve",
        "data",
        "features",
        "export",
    ):
        assert "Example: seesay" in seesay(command, "--help").stdout


def test_nothing_in_a_help_text_is_taken_for_markup() -> None:
    for command in get_command(with_all_commands()).commands.values():
        for text in (
            command.help,
            command.epilog,
            *(getattr(option, "help", None) for option in command.params),
        ):
            assert "[" not in (text or ""), f"{command.name}: {text}"


def test_a_run_is_exported_to_a_folder(run: Path, tmp_path: Path) -> None:
    done = seesay("export", run, "--out", tmp_path / "given")
    assert "It needs seesay alone." in done.stdout
    assert "already exists" in seesay("export", run, "--out", tmp_path / "given", code=2).stderr
    written = json.loads(seesay("export", run, "--out", tmp_path / "other", "--json").stdout)
    assert written == {"folder": str(tmp_path / "other"), "extra": None}
    files = {path.name for path in (tmp_path / "other").iterdir()}
    assert {"run.json", "images.onnx", "sentences.onnx"} <= files


def test_the_version_is_that_of_the_package() -> None:
    assert seesay("--version").stdout == f"seesay {version}\n"


def test_the_device_is_checked_before_anything_is_read(photos: Path, tmp_path: Path) -> None:
    out = tmp_path / "i.seesay"
    said = 'device: expected one that PyTorch has here, such as "cpu", got "gpu"'
    for command in (("train", "irmatch-s"), ("index", photos, "--out", out), ("evaluate", "seesay-small")):
        assert said in seesay(*command, "--device", "gpu", code=2).stderr
    assert not out.exists()


def test_a_device_is_chosen_for_one_command_or_by_the_environment(
    run: Path, scenes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SEESAY_DEVICE", raising=False)
    assert "mR" in seesay("evaluate", run, "--device", "cpu").stdout
    assert chosen_device() is None
    monkeypatch.setenv("SEESAY_DEVICE", "meta:1")
    assert "mR" in seesay("evaluate", run, "--device", "cpu").stdout
    assert chosen_device() == "meta:1"


def test_a_recipe_is_printed_as_yaml_that_train_takes(scenes: Path, tmp_path: Path) -> None:
    mine, of_others = tmp_path / "mine.yaml", tmp_path / "of-others.yaml"
    mine.write_text(seesay("recipes", "projection").stdout)
    assert yaml.safe_load(mine.read_text()) == json.loads(seesay("recipes", "projection", "--json").stdout)
    given, read = load_recipe("projection", "scenes"), load_recipe(str(mine), "scenes")
    about = {"settings_of", "system", "departures"}
    assert read.model_dump(exclude=about) == given.model_dump(exclude=about)
    assert (read.system, read.departures) == (None, ())  # an edited copy is not the paper's
    of_others.write_text(seesay("recipes", "coco/irmatch-s").stdout)
    assert (
        load_recipe(str(of_others), "mine").schedule.epochs
        == load_recipe("coco/irmatch-s").schedule.epochs
        == 40
    )
    seesay("train", mine, "--data", scenes, "--out", tmp_path / "run", "--set", "epochs=1")
    assert "No recipe 'irmach-s'; did you mean 'irmatch-s'?" in seesay("recipes", "irmach-s", code=2).stderr


def test_a_run_remembers_which_of_several_tables_it_was_trained_on(scenes: Path, tmp_path: Path) -> None:
    corpus = read_corpus(scenes)
    lines = ["image,caption,split"]
    lines += [
        f"{image.name},{each.text},{image.split}"
        for each in corpus.sentences
        for image in [corpus.images[each.image]]
    ]
    for name in ("a.csv", "b.csv"):
        (tmp_path / name).write_text("\n".join(lines if name == "a.csv" else lines[:30]))
    given = ["--data", tmp_path / "a.csv", "--images", scenes, "--set", "epochs=1"]
    seesay("train", "projection", *given, "--out", tmp_path / "run")
    about = json.loads(seesay("evaluate", tmp_path / "run", "--json").stdout)
    assert about["content"]["images"] == len(corpus.split("test").images)


def test_lists() -> None:
    listed = seesay("recipes").stdout.splitlines()
    (line,) = [line for line in listed if line.startswith("  irmatch-s ")]
    assert listed[listed.index("IRMatch (Ke et al., 2017):") : listed.index(line) + 1][-1] == line
    assert "-printed " not in "\n".join(listed)
    assert "  sco-full-printed " in seesay("recipes", "--all").stdout
    assert line.endswith(" (flickr8k, flickr30k, coco)")
    rows = {row["name"]: row for row in json.loads(seesay("recipes", "--json").stdout)}
    assert rows["irmatch-s"].keys() == {"name", "about", "corpora", "paper"}
    assert rows["irmatch-s"]["corpora"] == ["flickr8k", "flickr30k", "coco"]
    names = {row["name"] for row in json.loads(seesay("encoders", "--json").stdout)}
    assert {
        "efficientnet-lite0",
        "{kind: efficientnet-lite0, crops: ten}",
        "{kind: concepts, run: RUN}",
    } <= names


def test_data_counts(scenes: Path) -> None:
    summary = json.loads(seesay("data", scenes, "--check", "--json").stdout)
    assert summary["images"] == 60
    assert summary["sentences"] == 300
    assert summary["rare_words"]["words"] > 10
    assert "train" in seesay("data", scenes).stdout


def test_data_compares_the_sentences_of_each_image(tmp_path: Path) -> None:
    write_scenes(tmp_path, images=8, seed=7)
    found = json.loads(seesay("data", tmp_path, "--similar", "--json").stdout)["similar_sentences"]
    assert (found["images"], len(found["by_pairs"])) == (8, 11)
    assert sum(found["by_pairs"]) == pytest.approx(100, abs=0.1)
    assert "Similar sentences: % of 8 images" in seesay("data", tmp_path, "--similar").stdout


def test_data_with_a_broken_image_exits_1(photos: Path) -> None:
    assert "broken.jpg" in seesay("data", photos, "--check", code=1).stdout


def test_evaluate_prints_the_object_and_records_the_row(run: Path, tmp_path: Path) -> None:
    done = seesay("evaluate", run, "--record", tmp_path, "--json")
    measured = json.loads(done.stdout)
    assert measured.keys() == KEYS | {"intervals", "resamples"}
    assert measured["about"]["images"] == 6
    low, high = measured["intervals"]["mR"]
    assert low <= measured["metrics"]["mR"] <= high
    (row,) = [json.loads(line) for line in (tmp_path / "scenes.jsonl").read_text().splitlines()]
    assert row["recipe"] == "irmatch-s"
    assert row["metrics"] == measured["metrics"]
    assert "intervals" not in row
    assert "val: 6 images" in seesay("evaluate", run, "--split", "val").stdout


def test_evaluate_names_the_mistake(run: Path, tmp_path: Path) -> None:
    assert "no protocol 'x'" in seesay("evaluate", run, "--protocol", "x", code=2).stderr.lower()
    assert "split 'dev'" in seesay("evaluate", run, "--split", "dev", code=2).stderr
    assert "no run there" in seesay("evaluate", tmp_path, code=2).stderr


def test_other_peoples_scores_ensembles_and_comparisons(run: Path, scenes: Path, tmp_path: Path) -> None:
    owners = read_corpus(scenes).split("test").image_of_sentence()
    scores = np.random.default_rng(0).normal(size=(6, 30)) + 3 * (np.arange(6)[:, None] == owners)
    np.save(tmp_path / "scores-test.npy", scores)
    given = tmp_path / "scores-test.npy"
    measured = json.loads(seesay("evaluate", given, "--data", scenes, "--json").stdout)["metrics"]
    assert measured["mR"] == round(retrieval_metrics(scores, owners)["mR"], 3)
    both = ("evaluate", run, given, "--combine")
    told = json.loads(seesay(*both, "mean", "--against", run, "--record", tmp_path, "--json", code=2).stdout)
    assert "files of scores have none" in told["error"]
    told = json.loads(seesay(*both, "mean", "--against", run, "--json").stdout)
    assert told["metrics"][f"{given.name}: mR"] == measured["mR"]
    assert told["against"]["name"] == "run"
    assert told["against"]["metrics"]["mR"]["theirs"] == told["metrics"]["run: mR"]
    assert "chooses weights on val; name runs alone" in seesay(*both, "learned", code=2).stderr
    seesay("evaluate", run, run, "--combine", "learned", "--record", tmp_path)
    (row,) = [json.loads(line) for line in (tmp_path / "scenes.jsonl").read_text().splitlines()]
    assert row["recipe"] == "learned of irmatch-s + irmatch-s"
    assert row["about"]["weights"] == {"run (1)": 0.5, "run (2)": 0.5}
    assert not row.keys() & {"members", "intervals", "against"}


def test_evaluate_says_what_goes_not_together(run: Path, scenes: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "s.npy", np.zeros((30, 6)))
    given = tmp_path / "s.npy"
    for arguments, said in (
        ((given,), "--data"),
        ((given, "--data", scenes), "expected scores (6, 30)"),
        ((run, run, "--data", scenes), "None for 2 runs; choose mean or learned"),
        ((run, "--combine", "mean"), "mean for 1 runs"),
        ((given, "--data", scenes, "--boxes", "any"), "boxes is for protocol 'grounding'"),
    ):
        assert said in " ".join(seesay("evaluate", *arguments, code=2).stderr.split())


def test_every_command_that_reads_a_corpus_takes_the_same_options(scenes: Path, tmp_path: Path) -> None:
    commands = get_command(with_all_commands()).commands
    reading = {"--images", "--format", "--allow-outside", "--image-column", "--caption-column"}
    taking = {
        name: {option for each in command.params for option in each.opts} & reading
        for name, command in commands.items()
    }
    assert {name for name, options in taking.items() if options} == {
        *("data", "train", "evaluate", "table", "report", "compare", "features")
    }
    assert all(options in (set(), reading) for options in taking.values())
    shutil.copy(scenes / "dataset_scenes.json", tmp_path)
    features = ("features", tmp_path, "--encoder", "efficientnet-lite0", "--out", tmp_path / "store")
    seesay(*features, code=2)
    assert seesay(*features, "--images", scenes / "images").stdout


def test_features_resume(scenes: Path, tmp_path: Path) -> None:
    command = ("features", scenes, "--encoder", "efficientnet-lite0", "--out", tmp_path / "store", "--json")
    assert json.loads(seesay(*command).stdout)["encoded"] == 60
    assert json.loads(seesay(*command).stdout)["encoded"] == 0


def test_search_prints_probability_and_path(index: Path, photos: Path) -> None:
    lines = seesay("search", index, "a red circle", "-k", 3).stdout.splitlines()
    assert len(lines) == 3
    scores = [float(line.split("  ", 1)[0]) for line in lines]
    assert scores == sorted(scores, reverse=True)
    assert all(Path(line.split("  ", 1)[1]).is_file() for line in lines)
    rows = json.loads(seesay("search", index, "a red circle", "-k", 3, "--json").stdout)["results"]
    assert [f"{row['probability']:.3f}  {row['path']}" for row in rows] == lines


def test_conditions_among_the_words_are_a_filter_as_on_the_page(index: Path) -> None:
    def found(*given: object) -> list[str]:
        return seesay("search", index, *given).stdout.splitlines()

    everything = found("a red circle", "-k", 60)
    (one,) = found("a red circle name:scene_00003")
    assert one in everything
    assert one not in found("a red circle - name:scene_00003", "--where", "taken:1970..", "-k", 60)
    assert found("a red circle", "--where", "name:scene_00003") == [one]


def test_an_image_is_a_query_alone_and_among_others(index: Path, photos: Path, tmp_path: Path) -> None:
    photo = min(photos.glob("*_*.jpg"))
    image = tmp_path / "my - photo.jpg"
    shutil.copy(photo, image)

    def found(query: object) -> list[dict[str, object]]:
        done = seesay("search", index, query, "--json", cwd=tmp_path)
        return json.loads(done.stdout)["results"]

    first = found(image)[0]
    assert first == found(f'image:"{image.name}"')[0]
    assert first["path"] == str(photo)
    assert first["score"] == pytest.approx(1, abs=5e-4)  # an index keeps half precision
    assert str(photo) not in [row["path"] for row in found(f"id:{first['id']}")]
    both = [row["path"] for row in found(f'image:"{image.name}" - a red circle')]
    assert both[0] == str(photo)


def test_unknown_words_are_named(index: Path) -> None:
    done = seesay("search", index, "a red xyzzy - a qwop", "-k", 1)
    assert "'xyzzy', 'qwop'" in done.stderr
    assert len(done.stdout.splitlines()) == 1
    told = json.loads(seesay("search", index, "a red xyzzy", "-k", 1, "--json").stdout)
    assert told["unknown_words"] == ["xyzzy"]
    assert "Not known" not in seesay("search", index, "a red circle", "-k", 1).stderr


def test_conditions_alone_print_the_newest_images_that_meet_them(index: Path) -> None:
    paths = seesay("search", index, "added:7d", "-k", 3).stdout.splitlines()
    assert len(paths) == 3
    assert all(Path(path).is_file() for path in paths)
    told = json.loads(seesay("search", index, f"name:{Path(paths[0]).name}", "--json").stdout)
    assert [row["path"] for row in told["results"]] == paths[:1]
    assert seesay("search", index, "name:nothing-is-called-so", code=1).stdout == ""


def test_misspelt_words_are_corrected_and_said_to_be(index: Path) -> None:
    typed, meant = seesay("search", index, "a red circcle"), seesay("search", index, "a red circle")
    assert typed.stdout == meant.stdout
    assert "Searched for 'circle', not for 'circcle'" in typed.stderr
    assert json.loads(seesay("search", index, "a red circcle", "--json").stdout)["corrected_words"] == {
        "circcle": "circle"
    }
    assert "Searched for" not in seesay("search", index, '"a red circcle"').stderr


def test_an_index_finds_its_run_again_where_it_was_moved_to(run: Path, photos: Path, tmp_path: Path) -> None:
    mine, moved, index = tmp_path / "mine", tmp_path / "moved", tmp_path / "index"
    shutil.copytree(run, mine)
    seesay("index", photos, "--out", index, "--run", mine)
    mine.rename(moved)
    done = seesay("search", index, "a red circle", code=2)
    assert f"{mine}, which no longer exists" in done.stderr
    hint = f"seesay index --out {index} --run FOLDER."
    assert hint in done.stderr
    seesay(*hint.replace("FOLDER.", str(moved)).split()[1:])
    assert seesay("search", index, "a red circle", "-k", 1).stdout


def test_files_that_are_gone_are_said_to_be_gone(run: Path, photos: Path, tmp_path: Path) -> None:
    shutil.copytree(photos, tmp_path / "photos")
    seesay("index", tmp_path / "photos", "--out", tmp_path / "index", "--run", run)
    min((tmp_path / "photos").glob("*_*.jpg")).unlink()
    assert "1 of these files are missing" in seesay("search", tmp_path / "index", "red", "-k", 100).stderr
    rows = json.loads(seesay("search", tmp_path / "index", "red", "-k", 100, "--json").stdout)["results"]
    assert [Path(row["path"]).exists() for row in rows] == ["gone" not in row for row in rows]
    assert sum("gone" in row for row in rows) == 1
    newest = ("search", tmp_path / "index", "added:7d", "-k", 100)
    assert "1 of these files are missing; update the index" in seesay(*newest).stderr
    rows = json.loads(seesay(*newest, "--json").stdout)["results"]
    assert [Path(row["path"]).exists() for row in rows] == ["gone" not in row for row in rows]


def test_text_read_in_pictures_is_listed_and_in_json(run: Path, photos: Path, tmp_path: Path) -> None:
    shutil.copytree(photos, tmp_path / "photos")
    seesay("index", tmp_path / "photos", "--out", tmp_path / "index", "--run", run)
    read, gone, *_ = sorted((tmp_path / "photos").glob("*_*.jpg"))
    with Index.open(tmp_path / "index") as index, index.store.write() as writer:
        for file, words in ((read, " dinner on friday "), (gone, " chat dinner friday ")):
            writer.put_text(content_key(file.read_bytes()), words, "[]")
    gone.unlink()
    search = ("search", tmp_path / "index", "a chat about dinner on Friday", "-k", 3)
    done, told = seesay(*search), json.loads(seesay(*search, "--json").stdout)
    assert [line.strip() for line in done.stdout.splitlines()[:2]] == [str(gone), str(read)]
    for note in ("pictures: 3 of 3 words:", "pictures: 2 of 3 words:", "What pictures show:"):
        assert note in done.stderr
    found = [(hit["words"], hit["of"], hit["path"], "gone" in hit) for hit in told["text_hits"]]
    assert found == [(3, 3, str(gone), True), (2, 3, str(read), False)]
    assert len(told["results"]) == 3


def test_an_index_of_several_folders(run: Path, photos: Path, tmp_path: Path) -> None:
    image = min(photos.glob("*_*.jpg"))
    first, second = tmp_path / "first", tmp_path / "second"
    for number, folder in enumerate((first, second)):
        folder.mkdir()
        Image.open(image).rotate(90 * number).save(folder / "a.png")
    assert "name the folder" in seesay("index", "--out", tmp_path / "index", code=2).stderr
    seesay("index", first, second, "--out", tmp_path / "index", "--run", run)
    found = seesay("search", tmp_path / "index", "a red circle").stdout.splitlines()
    assert sorted(line.split("  ")[-1] for line in found) == [str(first / "a.png"), str(second / "a.png")]
    second.rename(tmp_path / "away")
    said = seesay("search", tmp_path / "index", "a red circle").stderr
    assert f"1 of these files are missing; connect {second}, or update the index" in said
    report = seesay("index", "--out", tmp_path / "index")
    assert "2 images (1 unchanged)" in report.stdout
    assert f"{second}: missing or empty; its images stay in the index." in report.stderr
    done = seesay("index", "--out", tmp_path / "index", "--remove", second, "--json")
    assert f"{second}: 1 images removed" in done.stderr
    assert [json.loads(done.stdout)[name] for name in ("deleted", "images")] == [1, 1]
    (texts := tmp_path / "texts.txt").write_text("a red circle\n")
    last = seesay("index", "--out", tmp_path / "index", "--remove", first, "--sentences", texts, "--json")
    assert [json.loads(last.stdout)[name] for name in ("deleted", "sentences_added")] == [1, 1]
    assert "no images" in seesay("search", tmp_path / "index", "red", code=1).stderr


def test_an_index_without_results_exits_1(photos: Path, tmp_path: Path) -> None:
    with Index.create(tmp_path / "index"):
        pass
    assert "no images" in seesay("search", tmp_path / "index", "a dog", code=1).stderr
    image = photos / "below" / "cmyk.jpg"
    assert "no sentences" in seesay("sentences", tmp_path / "index", image, code=1).stderr


def test_a_query_is_no_markup(index: Path) -> None:
    assert len(seesay("search", index, "a cat [/b] x", "-k", 1).stdout.splitlines()) == 1


def test_a_closed_pipe_makes_no_noise() -> None:
    command = f"{sys.executable} -m seesay recipes | true"
    command += "; exit ${PIPESTATUS[0]}"  # nothing was wrong
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=60)
    assert (done.stderr, done.returncode) == ("", 0)


def test_json_is_utf_8_everywhere() -> None:
    command = [sys.executable, "-m", "seesay", "search", "missing 🐶.seesay", "dög", "--json"]
    done = subprocess.run(
        command, capture_output=True, env=os.environ | {"PYTHONIOENCODING": "latin-1"}, timeout=60
    )
    assert "missing 🐶.seesay" in json.loads(done.stdout.decode("utf-8"))["error"]


def test_sentences_of_an_image(index: Path, photos: Path) -> None:
    rows = json.loads(seesay("sentences", index, photos / "below" / "cmyk.jpg", "--json").stdout)["results"]
    assert {row["sentence"] for row in rows} == {"a red circle", "a blue square"}
    assert "broken.jpg" in seesay("sentences", index, photos / "broken.jpg", code=2).stderr


def test_indexing_again_takes_up_what_changed(run: Path, photos: Path, tmp_path: Path) -> None:
    folder = tmp_path / "photos"
    shutil.copytree(photos, folder)
    out = tmp_path / "index"
    seesay("index", folder, "--out", out, "--run", run)
    moved, deleted, *_ = sorted(folder.glob("*_*.jpg")) or sorted(folder.glob("*.jpg"))
    moved.rename(folder / "below" / "moved.jpg")
    deleted.unlink()
    Image.new("RGB", (50, 50), (10, 200, 10)).save(folder / "new.png")
    report = json.loads(seesay("index", folder, "--out", out, "--json").stdout)
    assert (report["moved"], report["deleted"], report["added"]) == (1, 1, 1)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("frob",), "No such command"),
        (("search", "nowhere", "a dog"), "nowhere"),
        (("search", "y" * 5000, "a dog"), "File name too long; choose another name"),
        (("evaluate", "y" * 5000), "File name too long; choose another name"),
        (("search", "nowhere", "a dog + "), "nothing follows"),
        (("search", "nowhere", "id:x"), "an id is a number"),
        (("search", "nowhere", "taken:2021"), "nowhere"),
        (("index", "nowhere", "--out", "x"), "nowhere"),
        (("train", "nope", "--data", "."), ""),
        (("data", "nowhere"), "nowhere"),
        (("features", ".", "--encoder", "nope", "--out", "x"), "No image encoder 'nope'"),
        (("search", "nowhere", "a dog", "-k", "0"), "-k"),
        (("search",), "INDEX"),
        (("runs", "nowhere"), "nowhere"),
    ],
)
def test_mistakes_are_one_line_and_exit_2(arguments: tuple[str, ...], words: str, tmp_path: Path) -> None:
    told = seesay(*arguments, code=2, cwd=tmp_path).stderr
    assert words in told
    assert len(told.splitlines()) == 1
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(sys.platform != "linux", reason="drops the capabilities of root")
@pytest.mark.parametrize("command", ["search", "evaluate", "info", "data"])
def test_what_may_not_be_read_is_one_line_in_a_closed_folder(tmp_path: Path, command: str) -> None:
    (tmp_path / "closed/inner").mkdir(parents=True)
    (tmp_path / "closed").chmod(0)
    query = ["a dog"] if command == "search" else []
    code = f"""
import contextlib, sys
from seesay.cli import main
sys.stderr = sys.stdout
with contextlib.suppress(SystemExit):
    main([{command!r}, sys.argv[1], *{query}])
"""
    try:
        told = unprivileged.run(code, tmp_path / "closed/inner")
    finally:
        (tmp_path / "closed").chmod(0o755)
    assert "closed/inner" in told
    assert "Permission denied" in told
    assert len(told.splitlines()) == 1


def test_no_runs_exits_1_but_shipped_ones_count(run: Path) -> None:
    assert str(run) in seesay("runs", run.parent).stdout


def test_completion_is_there() -> None:
    assert "--show-completion" in seesay("--help").stdout


def test_a_disk_that_cannot_be_read_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """That of seesay's own modules, too."""

    def broken(name: str) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO), "use.py")

    monkeypatch.setattr("seesay.cli.import_module", broken)
    said = seesay("runs", code=2).stderr
    assert (
        said.strip() == "seesay: use.py: Input/output error; check the disk and run the same command again."
    )


def test_ctrl_c_says_how_to_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    def pressed(folder: Path) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("seesay.runs.summary.list_runs", pressed)
    assert "run the same command again to continue" in seesay("runs", code=130).stderr


def test_a_command_ends_although_a_thread_does_not() -> None:
    code = (
        "import sys, threading; from seesay import cli; cli._END_SECONDS = 0.2; "
        "sys.argv = ['seesay', {0!r}]; "
        "threading.Thread(target=threading.Event().wait).start(); cli.main()"
    )
    for command, status in (("recipes", 0), ("nonsense", 2)):
        ended = subprocess.run([sys.executable, "-c", code.format(command)], capture_output=True, timeout=100)
        assert ended.returncode == status


def test_names_that_are_no_text_can_be_printed(tmp_path: Path) -> None:
    (tmp_path / "\udcff").mkdir()
    out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")  # as strict as standard output usually is
    with redirect_stdout(out), pytest.raises(SystemExit):
        main(["info", str(tmp_path / "\udcff"), "--json"])
    out.flush()
    assert "\udcff" in json.loads(out.buffer.getvalue())["error"]


def test_output_that_cannot_be_written_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(name: str) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("seesay.cli.import_module", full)
    assert seesay("runs", code=2).stderr.startswith("seesay: standard output: No space left on device")


def test_options_of_the_server_are_read_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEESAY_SERVE_PORT", "70000")
    assert "'--port': 70000 is not in the range" in seesay("serve", "photos.seesay", code=2).stderr


def test_an_empty_folder_leaves_no_index(tmp_path: Path) -> None:
    (tmp_path / "empty" / "deeper").mkdir(parents=True)
    (tmp_path / "empty" / "notes.txt").write_text("no photo")
    error = seesay("index", "empty", "--out", "new.seesay", code=2, cwd=tmp_path).stderr
    assert "no images" in error
    assert [path.name for path in tmp_path.iterdir()] == ["empty"]


def test_an_error_is_an_object_where_json_is_asked_for(tmp_path: Path) -> None:
    for command in (
        ("info", "nowhere", "--json"),
        ("index", "nowhere", "--out", "x", "--json"),
        ("evaluate", "nowhere.npy", "--json"),
        ("search", "--json"),  # an argument is missing
    ):
        done = seesay(*command, code=2, cwd=tmp_path)
        assert json.loads(done.stdout)["error"] in done.stderr
        assert len(done.stderr.splitlines()) == 1
    assert seesay("info", "nowhere", code=2, cwd=tmp_path).stdout == ""
