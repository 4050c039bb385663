#!/usr/bin/env bash
# Runs a command with a /dev/shm of its own, so that processes of other tests are not counted there. Skipped where that needs more rights.
unshare --mount true 2>/dev/null || {
  echo "skipped: unshare --mount is not permitted"
  exit 77
}
exec unshare --mount bash -c 'mount -t tmpfs none /dev/shm && exec "$@"' own_shm "$@"
