#!/bin/bash
# What needs many cores, as Markdown on standard output: the ablation of phases, fusion and
# weight-centric runs (DeepCPU, figures 3c and 4a) with 1, 2, 4 .. threads, where ops that wait for
# nothing share the threads (Graphi); and the engine with every number of teams x threads that fills
# the CPUs (DeepCPU's P x Q). Runs on any number of CPUs; nothing else should run beside it.
#
# Usage: scripts/bench-cores.sh [milliseconds a shape, default 1000] [seconds a team set-up, default 5]
set -eu
cd "$(dirname "$0")/.."
bench=${OUT:-build/release}/cellbatch-bench
ms=${1:-1000}
seconds=${2:-5}
cpus=$(nproc)
shapes=256x256x1x100,1024x1024x1x100,256x256x10x100,1024x1024x10x20

number() { sed -n "s/.*\"$1\":\([0-9.eE+-]*\).*/\1/p" <<<"$2"; }

echo "# Many cores"
echo
echo "$(date +%F), $cpus CPUs, $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1), commit" \
    "$(git rev-parse --short HEAD 2>/dev/null || echo unknown), load average" \
    "$(cut -d ' ' -f 1 /proc/loadavg) at the start: \`scripts/bench-cores.sh $ms $seconds\`"
echo
echo "## Ablation"
echo
echo '```'
for ((threads = 1; ; threads *= 2)); do
    threads=$((threads < cpus ? threads : cpus))
    "$bench" kernels --ablate --cells lstm,gru --shapes "$shapes" --threads "$threads" --ms "$ms" |
        grep -v '^# seed'
    if ((threads == cpus)); then
        break
    fi
done
echo '```'
echo
echo "## Teams and threads"
echo
echo "Requests of 24 steps, as many inside as 16 for each CPU; LSTM."
echo
echo "| inputs x units | teams | threads of each | requests/s | mean rows | of the bare kernels |"
echo "|---|---:|---:|---:|---:|---:|"
for lstm in 64x64 256x256 1024x1024; do
    for ((teams = 1; teams <= cpus; teams++)); do
        if ((cpus % teams != 0)); then
            continue
        fi
        threads=$((cpus / teams))
        run=$("$bench" engine --lstm "$lstm" --teams "$teams" --threads "$threads" --pin \
            --requests-present $((16 * cpus)) --seconds "$seconds" --json)
        echo "| $lstm | $teams | $threads | $(number requests_per_s "$run") |" \
            "$(number mean_rows "$run") | $(number ideal_ratio "$run") |"
    done
done
