#!/bin/sh
# What postgresql.yaml starts, without containers, beside a PostgreSQL that runs already:
#     openssl rand -hex 32 > token
#     export PHOTOS=~/Pictures SEESAY_HOST=photos.example.org
#     deploy/postgresql.sh postgresql://seesay@localhost/seesay#photos [--prefix /photos]
# The arguments are the index, and options of both servers. It needs `seesay` and `caddy`.
set -eu
: "${PHOTOS:?name the folder of the photos}" "${SEESAY_HOST:?name the host, such as photos.example.org}"
index=$1
host=${SEESAY_HOST#http://} # without TLS, for a test
export SEESAY_SERVE_ALLOW_HOST="${host%:*}" SEESAY_SERVE_PROXY=127.0.0.1 SEESAY_SERVE_ACCESS_LOG=true
export SEESAY_SERVE_TOKEN_FILE="${SEESAY_SERVE_TOKEN_FILE:-token}"
one=${SEESAY_PORTS:-8001 8002}
two=${one#* } one=${one% *}

trap 'kill $running 2>/dev/null || true; wait' EXIT
trap 'exit 0' INT TERM
seesay serve "$@" --port "$one" --photos "$PHOTOS" --watch & # creates the index and updates it
running=$!
until seesay info "$index" >/dev/null 2>&1; do
	kill -0 "$running" # otherwise it has said why it ended
	sleep 1
done
seesay serve "$@" --port "$two" &
running="$running $!"
SEESAY_SERVER="127.0.0.1:$one 127.0.0.1:$two" caddy run --config "$(dirname "$0")/Caddyfile" --adapter caddyfile &
running="$running $!"
wait
