#!/usr/bin/env bash
# Indexes $PHOTOS (or a gallery of freely licensed photographs), searches it by three sentences and, unless
# SERVE=0, serves the search page.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
seesay=.venv/bin/seesay

if [ -n "${PHOTOS:-}" ]; then
    photos=${PHOTOS/#\~/$HOME}
    index=demo/photos-$(printf %s "$photos" | cksum | cut -d' ' -f1).seesay
    queries=("people smiling at the camera" "a building under a blue sky" "an animal outdoors")
else
    photos=demo/gallery
    index=demo/gallery.seesay
    queries=("a close up of a cat" "a man with a camera" "a temple by the water")
    .venv/bin/python tools/gallery.py "$photos"
fi

mkdir -p demo
"$seesay" index "$photos" --out "$index"
for query in "${queries[@]}"; do
    echo
    echo "“$query”"
    "$seesay" search "$index" "$query" -k 3
done

echo
echo "The command is $seesay, or seesay after: source .venv/bin/activate"
if [ "${SERVE:-1}" != 0 ]; then
    echo
    exec "$seesay" serve "$index" --port "${PORT:-8000}"
fi
