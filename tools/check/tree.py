"""What the checks share: the list of the tree's files and a way to report. Imported by the scripts beside it."""
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


def files(*suffixes):
    """Tracked and untracked, not ignored files below the root that end in one of the suffixes, sorted."""
    try:
        out = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True)
    except FileNotFoundError:
        out = None
    if out and out.returncode == 0:
        names = out.stdout.split("\n")
    else:  # an unpacked archive, or no git
        names = [str(p.relative_to(ROOT)) for p in ROOT.rglob("*") if p.is_file() and p.relative_to(ROOT).parts[0] != "build"]
    return sorted(n for n in set(names) if n.endswith(suffixes) and (ROOT / n).is_file())


def finish(problems, good):
    """Prints each problem, or the one line `good`; returns the exit code."""
    for problem in problems:
        print(problem)
    print(f"{len(problems)} problem(s)" if problems else good)
    return 1 if problems else 0


def skip(reason):
    print(f"skipped: {reason}")
    sys.exit(77)
