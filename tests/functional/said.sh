#!/usr/bin/env bash
# Runs a command and looks for a line in what it prints: said.sh COUNT PATTERN COMMAND...  succeeds when the command does and exactly COUNT lines
# match the extended regular expression PATTERN. A command that is skipped (77) is, and one that prints what SKIPPED_IF matches.
count=$1 pattern=$2
shift 2
log=$(mktemp)
trap 'rm -f "$log"' EXIT
"$@" >"$log" 2>&1
rc=$?
[ $rc = 0 ] || { tail -40 "$log"; exit $rc; }
if [ -n "${SKIPPED_IF-}" ] && why=$(grep -Em1 -- "$SKIPPED_IF" "$log"); then
  echo "skipped: $why"
  exit 77
fi
got=$(grep -Ec -- "$pattern" "$log")
echo "$got lines match \"$pattern\""
[ "$got" = "$count" ] || { tail -40 "$log"; exit 1; }
