#!/bin/bash
# What the installed programs say to a person who asks for help, for the version, or for something that is not there. tools.sh FOLDER
set -u
folder=$1
version=$(sed -n 's/.*VERSION_STRING "\(.*\)"/\1/p' "$(dirname "$0")/../../include/braid/version.h")
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
failed=0

# says CODE STREAM LINES TOOL ARGUMENTS...: exit code CODE and that many lines (or "some") on out or err, nothing on the other one.
says() {
    local code=$1 stream=$2 lines=$3 rc=0 got other=err
    shift 3
    timeout 20 "$folder/$1" "${@:2}" > "$scratch/out" 2> "$scratch/err" < /dev/null || rc=$?
    [ "$stream" = out ] || other=out
    got=$(wc -l < "$scratch/$stream")
    if [ $rc != "$code" ] || [ -s "$scratch/$other" ] || { [ "$lines" = some ] && [ "$got" -lt 1 ]; } || { [ "$lines" != some ] && [ "$got" != "$lines" ]; }; then
        echo "$*: exit code $rc, not $code, or not $lines line(s) on std$stream alone:"
        head -n 4 "$scratch/out" "$scratch/err"
        failed=1
    fi
}

for tool in braid-info braid-tune braid-netperf braid-overlap; do
    [ -x "$folder/$tool" ] || continue # braid-overlap needs the CUDA compiler
    says 0 out some $tool --help
    says 0 out 1 $tool --version
    [ "$(cat "$scratch/out")" = "$tool $version" ] || { echo "$tool --version is not $version"; failed=1; }
    says 2 err 1 $tool nonsense
    says 2 err 1 $tool --nonsense
done
for command in topo params net; do
    says 0 out some braid-info $command --help
    says 2 err 1 braid-info $command --nonsense
done
for command in explain diff calibrate exercise judge fit predict waves; do
    says 0 out some braid-tune $command --help
    says 2 err some braid-tune $command --nonsense
done
for command in diff fit judge "waves --mnk 1,2" "explain --bytes x" "explain --profile /nowhere/x.profile"; do
    # shellcheck disable=SC2086
    says 2 err some braid-tune $command
done
says 1 err 1 braid-info topo /nowhere/machine.xml
says 2 err 1 braid-info net nonsense
for arguments in "" "--plugin x --patterns nonsense" "--plugin x --rounds many" "--plugin x --comms 99"; do
    # shellcheck disable=SC2086
    says 2 err 1 braid-netperf $arguments
done
says 1 err 1 braid-netperf --plugin x --json /nowhere/rows.jsonl
says 2 err 1 braid-netperf --plugin x@y
says 2 err 1 braid-netperf --plugin x@7:99
if [ -x "$folder/braid-overlap" ]; then
    says 2 err 1 braid-overlap ag_gemm:1,2
    says 2 err 1 braid-overlap ag_gemm:7,16,16
    says 2 err 1 braid-overlap --model nonsense
fi
[ $failed = 0 ] && echo "the tools' answers are right"
exit $failed
