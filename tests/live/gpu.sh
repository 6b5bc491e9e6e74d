#!/usr/bin/env bash
# The nightly's work on a CUDA machine, without a network: a random model, served with a pool of known size.
#
#   tests/live/gpu.sh OUT [WHEELS]
#
# Needs a python3 with torch and transformers; WHEELS is a folder of wheels for what else is missing there. Run
# directories, bisection and the closing table go to OUT. Exit 0 when everything came out as it must, else 1.
# DEVICE=cpu DTYPE=float32 MODEL='64 2 4 2 32' tries the script itself where there is no GPU.
set -uo pipefail
out=$(realpath -m "${1:?name a folder for the results}")
wheels=${2:-}
root=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d)
block=32
device=${DEVICE:-cuda}
dtype=${DTYPE:-bfloat16}
model=${MODEL:-1024 12 16 8 64}
mkdir -p "$out" "$work/hub"

if [ -n "$wheels" ]; then
    python3 -m pip install -q --no-index --no-deps --no-compile --target "$work/site" "$wheels"/*.whl || exit 1
fi
# /v1/models of this engine answers 500 where its cache folder does not exist, and an older one lists no local model.
export PYTHONPATH="$work/site:$root${PYTHONPATH:+:$PYTHONPATH}" HF_HUB_CACHE="$work/hub" HF_HUB_OFFLINE=1 TRANSFORMERS_OFFLINE=1 PYTHONUNBUFFERED=1
kvstress() { python3 -c 'import sys; from kvstress.cli.main import main; sys.argv[0] = "kvstress"; sys.exit(main())' "$@"; }
server=$(command -v transformers) || { echo "no transformers program beside python3"; exit 1; }
serve() { echo "$server serve $work/model --host 127.0.0.1 --port {port} --device $device --dtype $dtype --continuous-batching --cb-block-size $block --cb-num-blocks $1"; }
label="$(nvidia-smi --query-gpu=name --format=csv,noheader 2>/dev/null | head -1 || uname -m), transformers $(python3 -c 'import transformers; print(transformers.__version__)')"
wrong=0

# check NAME WANTED GOT
check() {
    local line="ok    $1: $3"
    if [ "$2" != "$3" ]; then line="WRONG $1: $3, and $2 was expected" wrong=1; fi
    echo "$line" | tee -a "$out/table.txt"
}
field() { python3 -c 'import json, sys; value = json.load(open(sys.argv[1]))
for key in sys.argv[2].split("."): value = (value or {}).get(key)
print(value)' "$1" "$2"; }
# go NAME VERDICT BLOCKS WORDS...
go() {
    local name=$1 wanted=$2 blocks=$3
    shift 3
    echo "== $name"
    kvstress run --model "$work/model" --ready-timeout 120s --timeout 60s --launch "$(serve "$blocks")" --out "$out/$name" --overwrite --hardware "$label" "$@" 2>&1 | tail -n 25
    check "$name" "$wanted" "$(field "$out/$name/verdict.json" verdict)"
}

: >"$out/table.txt"
python3 "$root/tests/live/models/dense.py" "$work/model" $model "$dtype" || exit 1

# 65,536 tokens hold every prompt of the two sizes; this engine shows no pool, so only hits and fill are not asked for.
go speedbench PASS 2048 --workload speedbench --set 'coverage.keys=[]' --max-steps 8
# The same again, held against the first as the nightly holds a night against the last one.
go speedbench-again PASS 2048 --workload speedbench --set 'coverage.keys=[]' --max-steps 8
kvstress gate "$out/speedbench-again" --baseline "$out/speedbench" -r 'first_failure >= baseline' -r 'findings.new == 0' \
    -r 'e2e_prime_p50 <= 2x' --out "$out/gate" 2>&1 | tail -n 12
check "gate against the run before" PASS "$(field "$out/gate/gate.json" verdict)"
kvstress compare "$out/speedbench" --with "$out/speedbench-again" --out "$out/compare" 2>&1 | tail -n 25
# 32,768 tokens: prompts grow until one does not fit.
go ramp FAIL 1024 --workload ramp --set start=8k --set end=64k --set source.steps=8
capacity=$((1024 * block))
check "largest prompt that fitted is under $capacity, the failing one over it" yes "$(python3 - "$out/ramp/prompts.csv" "$capacity" <<'EOF'
import csv, sys
rows = list(csv.DictReader(open(sys.argv[1])))
sizes = [int(row["prime_prompt_tokens"]) for row in rows[:-1]]
from kvstress.core.units import tokens
print("yes" if max(sizes) < int(sys.argv[2]) < tokens(rows[-1]["context"]) else f"{sizes} then {rows[-1]['context']}")
EOF
)"

echo "== bisect"
longest=12000
needed=$(((longest + 64 + block - 1) / block))
kvstress bisect --model "$work/model" --ready-timeout 120s --timeout 60s --launch "$(serve '{blocks}')" --low 360 --high 392 --workload speedbench --set "contexts=4000,$longest" \
    --set source.spread=0.0 --set 'coverage.keys=[]' --max-steps 2 --out "$out/bisect" --overwrite --hardware "$label" 2>&1 | tail -n 25
check "bisect, failing" "$((needed - 1))" "$(field "$out/bisect/bisect.json" boundary.failing)"
check "bisect, passing" "$needed" "$(field "$out/bisect/bisect.json" boundary.passing)"

rm -rf "$work"
cat "$out/table.txt"
exit $wrong
