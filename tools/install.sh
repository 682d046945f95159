#!/usr/bin/env bash
# Makes .venv and installs seesay into it, editable, with the extras named, if any: tools/install.sh dev,docs
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
extras=${1:-}

find_python() {
    local candidate
    for candidate in ${PYTHON:-} python3 python3.13 python3.12 python3.11 python3.14; do
        if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            echo "$candidate"
            return
        fi
    done
    echo "seesay needs Python 3.11 or newer, and found none. Install one, or name it: make install PYTHON=/path/to/python3" >&2
    return 1
}

# For developers and CI, modules are compiled when they are first imported: most never are.
no_compile=
if [[ $extras =~ dev ]]; then
    no_compile=--no-compile
fi

pip() {
    # pip warns once for each folder it does not own; nothing there is about this installation.
    .venv/bin/python -m pip --disable-pip-version-check --no-input "$@" 2> >(grep -v '^WARNING: Location' >&2)
}

install_torch() {
    .venv/bin/python -c 'import torch' 2>/dev/null && return
    # Where there is no GPU, the build without GPU libraries saves gigabytes; not every index has it.
    if ! command -v nvidia-smi >/dev/null; then
        pip install -q $no_compile 'torch==2.13.0+cpu' 2>/dev/null && return
    fi
    pip install -q $no_compile 'torch==2.13.0' 2>/dev/null && return
    echo "  no torch 2.13.0 here: the newest that pyproject.toml allows is taken"
}

if [ ! -x .venv/bin/python ]; then
    python=$(find_python)
    echo "Making .venv with $("$python" --version) …"
    "$python" -m venv .venv || {
        rm -rf .venv
        echo "$python cannot make virtual environments; on Debian: apt-get install python3-venv" >&2
        exit 1
    }
fi
if [[ $extras =~ train|dev|hub ]]; then
    echo "Installing PyTorch …"
    install_torch
fi
echo "Installing seesay${extras:+[$extras]} and what it needs …"
pip install -q $no_compile -e ".${extras:+[$extras]}"
if [[ $extras =~ dev ]]; then
    pip install -q $no_compile --no-deps -e tools/weights # what makes the included weights
fi
echo "Installed in .venv: .venv/bin/seesay --help"
