#!/usr/bin/env bash
# Trains seesay-small and puts it, with its encoders in 8 bits, into the package: under an hour on two cores.
#
#     tools/train_small.sh FLICKR8K .../textbook-train .../named-photos
#
# Called again after an interruption, it continues. A finished runs/seesay-small* stays as it is: remove them to start
# again. The second and third step read the new encoders from the package, so what an interrupted call leaves there
# does not fit together yet.
set -euo pipefail
[ $# = 3 ] || { sed -n '/^#  /s/^# *//p' "$0" >&2; exit 2; }
flickr8k=$(realpath -e -- "$1")
textbooks=$(realpath -e -- "$2")
named=$(realpath -e -- "$3")
for corpus in "$textbooks=textbook-train" "$named=named-photos"; do
    [ "$(basename "${corpus%=*}")" = "${corpus##*=}" ] || {
        echo "${corpus%=*}: the recipe knows this corpus as ${corpus##*=}; call its folder so." >&2
        exit 2
    }
done
cd "$(dirname "${BASH_SOURCE[0]}")/.."
seesay=.venv/bin/seesay python=.venv/bin/python included=src/seesay/weights
for corpus in "$flickr8k" "$textbooks" "$named"; do "$seesay" data "$corpus" > /dev/null; done

# train RECIPE ARGUMENT...: trains runs/RECIPE, or continues there.
train() {
    local resume=()
    if [ -e "runs/$1/run.json" ] || [ -e "runs/$1/members" ]; then resume=(--resume); fi
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
