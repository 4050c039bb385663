"""The parts of braid_overlap.py and plot.py that need no GPU and no PyTorch: layouts, intervals, verdicts, rows.

Usage: python_test.py PROGRAM, where PROGRAM prints the C sizes (sizes.c).
"""
import ctypes
import json
import pathlib
import subprocess
import sys
import tempfile
import types

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[3] / "tools/braid-overlap"))
try:
    import torch  # noqa: F401
except ImportError:  # the names that are read at import are enough
    torch = types.ModuleType("torch")
    torch.bfloat16, torch.float16, torch.distributed = "bf16", "fp16", types.ModuleType("torch.distributed")
    sys.modules |= {"torch": torch, "torch.distributed": torch.distributed}
import braid_overlap as b  # noqa: E402
import plot  # noqa: E402


def test_layouts():
    want = list(map(int, subprocess.run([sys.argv[1]], capture_output=True, text=True, check=True).stdout.split()))
    have = [ctypes.sizeof(b.Settings), ctypes.sizeof(b._Desc), b._Desc.settings.offset, ctypes.sizeof(b._Info),
            ctypes.sizeof(b._Error), ctypes.sizeof(b._Bootstrap), b.MAX_ALGOS]
    assert have == want, (have, want)


def test_numbers():
    times = b.Times([9, 1, 5, 3, 7, 2, 8, 4, 6, 11, 10])
    assert times.median == 6 and times.interval == (2, 10)
    good = b.verdict(2675.9, 337.1, 221.1, 3011.8, 2725.0)
    assert good.sound and abs(good.efficiency - 0.982) < 1e-3 and "proved" in str(good)
    assert "void" in str(b.verdict(27.8, 31.5, 31.5, 54.8, 74.2))
    assert "refuted" in str(b.verdict(100.0, 50.0, 50.0, 150.0, 151.0))


def test_rows():
    rows = [{"bench": "overlap", "case": "ag_gemm/8x8x8/bf16/default", "metric": "efficiency_ratio", "value": 0.9},
            {"bench": "overlap", "case": "ag_gemm/8x8x8/bf16/serial/1", "metric": "D_us", "value": 3},
            {"bench": "overlap", "case": "gemm_rs/8x8x8/bf16/default", "metric": "A_us", "value": 3}, {"bench": "gin"}]
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as file:
        file.write("\n".join(map(json.dumps, rows)))
        file.flush()
        assert list(plot.load([file.name])) == ["ag_gemm/8x8x8/bf16"]
    assert plot.label("gemm_rs/8192x4096x1024/bf16") == "GEMM+RS\n8192\n4096\n1024"
    times = {"A_us": {"value": 700}, "B_us": {"value": 200}, "efficiency_ratio": {"value": 0.9}}
    assert plot.target(times) == 0.97 and plot.target({**times, "B_us": {"value": 701}}) == 0.85
    assert plot.target({"efficiency_ratio": {"value": 0.9}}) is None
    assert plot.target({**times, "efficiency_ratio": {"value": 0.9, "limit": 0.5}}) == 0.5


for name, test in list(globals().items()):
    if name.startswith("test_"):
        test()
        print("ok", name)
