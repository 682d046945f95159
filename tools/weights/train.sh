#!/usr/bin/env bash
# Trains seesay-small and puts it, with its encoders in 8 bits, into the package.
#
#     tools/weights/train.sh FLICKR8K TEXTBOOKS NAMED-PHOTOS
#
# Called again after an interruption, it continues. A finished runs/seesay-small* stays as it is: remove them to start
# again. The third and fourth step read the new encoders from the package, so what an interrupted call leaves there
# does not fit together yet.
set -euo pipefail
[ $# = 3 ] || { sed -n '/^#  /s/^# *//p' "$0" >&2; exit 2; }
flickr8k=$(realpath -e -- "$1")
textbooks=$(realpath -e -- "$2")
named=$(realpath -e -- "$3")
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
seesay=.venv/bin/seesay python=.venv/bin/python
included=src/seesay/weights recipes=tools/weights/seesay_weights/recipes
mkdir -p runs/corpora # where the recipes name the other corpora
ln -sfn "$textbooks" runs/corpora/textbook-train
[ -e runs/corpora/named-photos ] || "$python" -m seesay_weights.named "$named" runs/corpora/named-photos
for corpus in "$flickr8k" runs/corpora/*; do "$seesay" data "$corpus" > /dev/null; done

# train RECIPE ARGUMENT...: trains runs/RECIPE, or continues there.
train() {
    local recipe=$1 resume=()
    shift
    if [ -e "runs/$recipe/run.json" ] || [ -e "runs/$recipe/members" ]; then resume=(--resume); fi
    echo "== $recipe"
    [ -e "runs/$recipe/training.json" ] ||
        "$seesay" train "$recipes/$recipe.yaml" --data "$flickr8k" "$@" "${resume[@]}"
}

train seesay-small-tuned
"$python" -m seesay_weights.quantise runs/seesay-small-tuned "$flickr8k" "$included/encoders"
"$python" -m seesay_weights.ship runs/seesay-small-tuned runs/seesay-small-int8
"$python" -m seesay_weights.reduce "$recipes/seesay-small-joint.yaml" runs/seesay-small-int8 runs/seesay-small-reduced \
    "$flickr8k" runs/corpora/textbook-train runs/corpora/named-photos
train seesay-small-joint --from runs/seesay-small-reduced
"$python" -m seesay_weights.ship runs/seesay-small-joint runs/seesay-small-joint-half
train seesay-small --from runs/seesay-small-joint-half
"$python" -m seesay_weights.ship runs/seesay-small "$included/seesay-small"
"$seesay" evaluate seesay-small --data "$flickr8k" --split val
