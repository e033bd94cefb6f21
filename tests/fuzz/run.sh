#!/bin/sh
# Fuzzes every target for so many seconds each, starting from the kept corpus. What it finds new stays
# in build-fuzz; an input that breaks a property is kept there too, and named.
set -eu

seconds=${1:-60}
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
build=$root/build-fuzz

if ! command -v clang >/dev/null; then
	echo "fuzzing needs clang: apt-get install clang" >&2
	exit 1
fi
if [ ! -f "$build/build.ninja" ]; then
	CC=clang meson setup "$build" "$root" -Dfuzzers=true -Dbuildtype=debugoptimized \
		-Db_sanitize=address,undefined -Db_lundef=false >/dev/null
fi
ninja -C "$build" fuzzers >/dev/null || ninja -C "$build" fuzzers

failed=0
for program in "$build"/tests/fuzz/fuzz_*; do
	[ -f "$program" ] && [ -x "$program" ] || continue
	name=$(basename "$program" | sed 's/^fuzz_//')
	mkdir -p "$build/found/$name"
	printf '%-10s ' "$name"
	if "$program" -max_total_time="$seconds" -timeout=20 -rss_limit_mb=2048 -max_len=65536 \
		-print_final_stats=1 -artifact_prefix="$build/found/$name-" \
		"$build/found/$name" "$here/corpus/$name" >"$build/found/$name.log" 2>&1; then
		sed -n 's/^stat::number_of_executed_units: *\(.*\)/\1 inputs, nothing found/p' \
			"$build/found/$name.log"
	else
		failed=1
		echo "FAILED: see build-fuzz/found/$name.log"
		grep -E 'ERROR|bug:|runtime error|Test unit written' "$build/found/$name.log" | head -5
	fi
done
exit $failed
