#!/usr/bin/env python3
"""What tools/check/count_tests says of results as CTest writes them: a test that could not be run must not pass for a skipped one."""
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[4]
CASES = {
    "good": '<testcase name="good" time="1" status="run"><system-out>fine</system-out></testcase>',
    "skip": '<testcase name="skip" time="0" status="notrun"><skipped message="SKIP_RETURN_CODE=77"/><system-out>much\nskipped: no GPU\n</system-out></testcase>',
    "absent": '<testcase name="absent" time="0" status="notrun"><skipped message="Unable to find executable"/><system-out>Unable to find</system-out></testcase>',
    "fail": '<testcase name="fail" time="2.5" status="fail"><failure message=""/><system-out>' + "\n".join(f"line {i}" for i in range(40))
            + "</system-out></testcase>",
}


def count(folder, *names, missing=False):
    path = pathlib.Path(folder) / "junit-dev.xml"
    path.write_text("<testsuite>" + "".join(CASES[n] for n in names) + "</testsuite>")
    files = [str(path)] + ([str(pathlib.Path(folder) / "junit-asan.xml")] if missing else [])
    run = subprocess.run([sys.executable, str(ROOT / "tools/check/count_tests"), *files], capture_output=True, text=True)
    return run.returncode, run.stdout.strip().split("\n")


def main():
    with tempfile.TemporaryDirectory() as folder:
        code, lines = count(folder, "good", "skip")
        assert (code, lines) == (0, ["skipped: dev: skip: skipped: no GPU", "1 passed, 0 failed, 1 skipped"]), lines
        code, lines = count(folder, "good", "absent")
        assert code == 1 and lines[-1] == "1 passed, 1 failed, 0 skipped" and lines[0].startswith("FAILED: dev: absent"), lines
        code, lines = count(folder, "good", "fail")
        assert code == 1 and lines[0] == "FAILED: dev: fail after 2.5 s, its last 15 of 40 lines", lines
        assert [line.strip() for line in lines[1:-1]] == [f"line {i}" for i in range(25, 40)], lines
        code, lines = count(folder, "good", missing=True)
        assert code == 1 and lines[-1] == "1 passed, 1 failed, 0 skipped" and lines[0].startswith("FAILED: asan:"), lines
        assert count(folder)[0] == 1  # nothing ran
    print("count_tests: right")


main()
