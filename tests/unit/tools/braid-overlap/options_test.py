"""Every option that `braid-overlap --help` names is taken. Usage: options_test.py BRAID_OVERLAP"""
import re
import subprocess
import sys


def run(*arguments):
    return subprocess.run([sys.argv[1], *arguments], capture_output=True, text=True, check=False)


values = {"--model": "llama3-8b", "--dtype": "fp16", "--also": "ring_exchange/4/3lane/taper/copied"}
usage = run("--help").stdout
options = sorted(set(re.findall(r"--[a-z]+", usage)) - {"--help", "--version"})
assert len(options) > 10, usage
for option in options:
    with_value = re.search(option + r" [A-Z]|" + option + r" bf16", usage)
    done = run(*([option, values.get(option, "3")] if with_value else [option]), "--help")
    assert done.returncode == 0 and done.stdout == usage, (option, done.stderr[:200])
assert run("--nonsense").returncode == 2 and run("--rounds", "0").returncode == 2 and run("--also", "ring/4").returncode == 2 and run("ag_gemm:1,2").returncode == 2
print("ok", *options)
