#!/usr/bin/env bash
# The browser tests drive Chromium. Installs Debian's where it is missing and that is possible.
set -euo pipefail
command -v chromium >/dev/null || command -v chromium-browser >/dev/null && exit 0
if command -v apt-get >/dev/null && [ "$(id -u)" = 0 ]; then
    echo "Installing Chromium for the browser tests …"
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium >/dev/null && exit 0
fi
echo "No Chromium here and no way to install it: the browser tests are skipped (apt-get install chromium)." >&2
