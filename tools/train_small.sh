#!/usr/bin/env bash
# Trains seesay-small from the start and puts it, with its encoders in 8 bits, into the package: under an hour on two
# cores. Called again after an interruption, it continues with the step that was not finished.
#
#     tools/train_small.sh FLICKR8K TEXTBOOKS NAMED_PHOTOS
set -euo pipefail
[ $# = 3 ] || { sed -n '/^#  /s/^# *//p' "$0" >&2; exit 2; }
flickr8k=$(realpath "$1") textbooks=$(realpath "$2") named=$(realpath "$3")
cd "$(dirname "${BASH_SOURCE[0]}")/.."
seesay=.venv/bin/seesay python=.venv/bin/python included=src/seesay/weights

# Trains runs/RECIPE, or continues there; a finished run stays as it is.
train() {
    local resume=()
    [ ! -e "runs/$1" ] || resume=(--resume)
    echo "== $1"
    [ -e "runs/$1/training.json" ] || "$seesay" train "$@" "${resume[@]}"
}

train seesay-small-tuned --data "$flickr8k"
"$python" -m tools.quantise runs/seesay-small-tuned "$flickr8k" "$included/encoders"
"$python" tools/ship.py runs/seesay-small-tuned runs/seesay-small-int8
corpora=(--data "$flickr8k" --data "$textbooks" --data "$named")
train seesay-small-joint --from runs/seesay-small-int8 "${corpora[@]}"
"$python" tools/ship.py runs/seesay-small-joint runs/seesay-small-joint-half
train seesay-small --from runs/seesay-small-joint-half "${corpora[@]}"
"$python" tools/ship.py runs/seesay-small "$included/seesay-small"
"$python" tools/calibrate.py "$included/seesay-small" "$flickr8k:val"
"$seesay" evaluate seesay-small --data "$flickr8k" --split val
