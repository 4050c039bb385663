"""Braid's fused products and the proof of an overlap, from PyTorch.

    comm = braid_overlap.Comm()                                   # the ranks of torch.distributed
    up = comm.gemm("ag_gemm", m, n, k, w_transposed=True)         # settings from the profile, else from a model
    up(x_shard, weight, out=y)

    verdict = braid_overlap.judge(compute, communicate, serial, overlapped)
    print(verdict)                                                # efficiency, hidden share, or why the run is void

`judge` takes any callables of the caller: A compute only, B communication only (or a dict of several), C one after the other, D
overlapped. Each becomes a CUDA graph of a few repeats; the graphs are replayed in random order behind a rendezvous of all ranks; the
slower rank counts; medians with 95 % intervals. A run is void unless |1 - (C - A) / B| <= 10 %, because then C is not A after B.

libbraid.so is searched in LIBBRAID, then beside this checkout (build/dev/lib, build/release/lib), then by the loader.
"""
import atexit
import ctypes
import dataclasses
import math
import os
import pathlib
import random
import statistics

import torch
import torch.distributed as dist

OPS = {"ag_gemm": 0, "gemm_rs": 1, "gemm_ar": 2}
DTYPES = {torch.bfloat16: 0, torch.float16: 1}
METHODS = {"auto": 0, "serial": 1, "ring_exchange": 2, "pipeline": 3, "bulk": 4}
W_TRANSPOSED, KEEP_GATHERED = 1, 2
MAX_ALGOS = 12
ALIGNMENT = 256  # what every tensor's address must be a multiple of; PyTorch's allocations are


class _Algo(ctypes.Structure):
    _fields_ = [("rows", ctypes.c_int64), ("adds", ctypes.c_int32), ("proposal", ctypes.c_int32)]


class Settings(ctypes.Structure):
    """struct braid_gemm_settings; zero in a field is its default."""
    _fields_ = [(name, ctypes.c_int32) for name in
                ("method", "num_splits", "lanes", "taper", "num_sm", "sm_margin", "own_splits", "signal", "direct", "reserved")] + \
               [("algos", _Algo * MAX_ALGOS)]


class _Desc(ctypes.Structure):
    _fields_ = [("size", ctypes.c_uint32), ("op", ctypes.c_int32), ("dtype", ctypes.c_int32), ("flags", ctypes.c_uint32),
                ("m", ctypes.c_int64), ("n", ctypes.c_int64), ("k", ctypes.c_int64), ("bulk_m", ctypes.c_int64),
                ("bulk_n", ctypes.c_int64), ("alignment", ctypes.c_uint32), ("reserved", ctypes.c_uint32),
                ("settings", Settings)]


class _Info(ctypes.Structure):
    _fields_ = [("settings", Settings), ("reason", ctypes.c_char * 160), ("window_bytes", ctypes.c_size_t),
                ("scratch_bytes", ctypes.c_size_t), ("model_us", ctypes.c_double), ("model_serial_us", ctypes.c_double)]


class _Error(ctypes.Structure):
    _fields_ = [("status", ctypes.c_int32), ("peer", ctypes.c_int32), ("flag", ctypes.c_uint32), ("seen", ctypes.c_uint32),
                ("waited_ns", ctypes.c_uint64), ("text", ctypes.c_char * 160)]


_RANK = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)
_GATHER = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)


class _Bootstrap(ctypes.Structure):
    _fields_ = [("context", ctypes.c_void_p), ("rank", _RANK), ("ranks", _RANK), ("allgather", _GATHER)]


def _library():
    root = pathlib.Path(__file__).resolve().parent.parent.parent
    names = [os.environ.get("LIBBRAID"), root / "build/dev/lib/libbraid.so", root / "build/release/lib/libbraid.so"]
    path = next((str(n) for n in names if n and pathlib.Path(n).exists()), "libbraid.so.0.1")
    library = ctypes.CDLL(path)
    library.braid_gemm_gathered.restype = ctypes.c_void_p
    return library


def _check(rc, what):
    if rc != 0:
        raise OSError(-rc, f"{what}: {os.strerror(-rc)}")


class Comm:
    """A Braid communicator over the ranks of a torch.distributed group; collective."""

    def __init__(self, group=None, timeout_s=60.0):
        self.lib, self.group = _library(), group
        self.rank, self.ranks = dist.get_rank(group), dist.get_world_size(group)
        self._callbacks = _Bootstrap(None, _RANK(lambda _: self.rank), _RANK(lambda _: self.ranks), _GATHER(self._allgather))
        self.handle = ctypes.c_void_p()
        _check(self.lib.braid_comm_create(ctypes.byref(self.handle), ctypes.byref(self._callbacks), None), "braid_comm_create")
        self.lib.braid_comm_set_timeout_ns(self.handle, ctypes.c_uint64(int(timeout_s * 1e9)))
        self._objects = []
        atexit.register(self.close)

    def _allgather(self, _, mine, everyone, count):
        try:
            device = "cuda" if dist.get_backend(self.group) == "nccl" else "cpu"
            data = torch.frombuffer(bytearray(ctypes.string_at(mine, count)) or bytearray(1), dtype=torch.uint8).to(device)
            parts = [torch.empty_like(data) for _ in range(self.ranks)]
            dist.all_gather(parts, data, group=self.group)
            for rank, part in enumerate(parts):
                if count:
                    ctypes.memmove(everyone + rank * count, part.cpu().numpy().tobytes(), count)
            return 0
        except Exception as error:  # an exception must not cross the C frames
            print(f"braid_overlap: all-gather failed: {error}", flush=True)
            return -5

    def gemm(self, op, m, n, k, dtype=torch.bfloat16, w_transposed=False, keep_gathered=False, **settings):
        """A fused product (class Gemm); collective. settings: method, num_splits, lanes, taper, num_sm, sm_margin, own_splits, signal,
        direct (struct braid_gemm_settings in include/braid/gemm_ops.h)."""
        found = Gemm(self, op, m, n, k, dtype, w_transposed * W_TRANSPOSED | keep_gathered * KEEP_GATHERED, None, settings)
        self._objects.append(found)
        return found

    def bulk(self, op, rows, width, dtype=torch.bfloat16, product=None, num_splits=4, **settings):
        """A collective (op "ag_gemm": all-gather of rows x width, "gemm_rs": reduce-scatter) to run beside other work; `product` is
        the (m, n, k) of a Braid product beside it, if there is one."""
        found = Gemm(self, op, *(product or (8 * self.ranks, 8, 8)), dtype, 0, (rows, width),
                     {"method": "bulk", "num_splits": num_splits, **settings})
        self._objects.append(found)
        return found

    def close(self):
        if self.handle:
            torch.cuda.synchronize()
            for one in self._objects:
                one.close()
            self.lib.braid_comm_destroy(self.handle)
            self.handle = None


class Gemm:
    """One fused product of one shape. Call it with (x, w, out=None) on the current stream."""

    def __init__(self, comm, op, m, n, k, dtype, flags, bulk, settings):
        self.comm, self.op, self.m, self.n, self.k, self.dtype, self.bulk = comm, op, m, n, k, dtype, bulk
        desc = _Desc(size=ctypes.sizeof(_Desc), op=OPS[op], dtype=DTYPES[dtype], flags=flags, m=m, n=n, k=k,
                     alignment=ALIGNMENT)
        if bulk:
            desc.bulk_m, desc.bulk_n = bulk
        for name, value in settings.items():
            setattr(desc.settings, name, METHODS[value] if name == "method" else int(value))
        self.handle = ctypes.c_void_p()
        _check(comm.lib.braid_gemm_create(comm.handle, ctypes.byref(desc), ctypes.byref(self.handle)), f"braid_gemm_create {op}")
        self._run = {"ag_gemm": comm.lib.braid_ag_gemm, "gemm_rs": comm.lib.braid_gemm_rs, "gemm_ar": comm.lib.braid_gemm_ar}[op]

    @staticmethod
    def _stream():
        return ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)

    @staticmethod
    def _pointer(tensor, rows, width):
        if tensor is None:
            return None
        if not tensor.is_contiguous() or tensor.numel() != rows * width:
            raise ValueError(f"needs a contiguous tensor of {rows} x {width}, not {tuple(tensor.shape)}")
        return ctypes.c_void_p(tensor.data_ptr())

    def __call__(self, x, w, out=None):
        x_rows = self.m // self.comm.ranks if self.op == "ag_gemm" else self.m
        y_rows = self.m // self.comm.ranks if self.op == "gemm_rs" else self.m
        if out is None:
            out = torch.empty(y_rows, self.n, dtype=self.dtype, device=x.device)
        _check(self._run(self.handle, self._pointer(x, x_rows, self.k), self._pointer(w, self.k, self.n),
                         self._pointer(out, y_rows, self.n), self._stream()), self.op)
        return out

    def compute(self, x, w, out):
        """The whole product on this GPU alone, m x n x k."""
        _check(self.comm.lib.braid_gemm_compute(self.handle, self._pointer(x, self.m, self.k), self._pointer(w, self.k, self.n),
                                                self._pointer(out, self.m, self.n), self._stream()), "braid_gemm_compute")
        return out

    def collective(self, send, recv=None):
        """A bulk object's collective alone; put it on a stream of its own beside other work. AG: the result is gathered()."""
        rows, width = self.bulk
        part = rows // self.comm.ranks
        _check(self.comm.lib.braid_gemm_bulk(self.handle, self._pointer(send, part if self.op == "ag_gemm" else rows, width),
                                             self._pointer(recv, part, width), None, None, None, self._stream()), "braid_gemm_bulk")
        return recv if self.op == "gemm_rs" else self.gathered()

    def gathered(self):
        """All rows in this rank's window (keep_gathered or bulk), valid until the next run."""
        address = self.comm.lib.braid_gemm_gathered(self.handle)
        if not address:
            raise ValueError("this object does not keep the gathered rows")
        rows, width = self.bulk or (self.m, self.k)
        return _view(address, rows, width, self.dtype)

    def tune(self):
        """Picks the fastest of cuBLASLt's algorithms for each product of the object."""
        torch.cuda.synchronize()
        _check(self.comm.lib.braid_gemm_tune(self.handle, self._stream()), "braid_gemm_tune")

    def info(self):
        info = _Info()
        _check(self.comm.lib.braid_gemm_describe(self.handle, ctypes.byref(info)), "braid_gemm_describe")
        names = {v: k for k, v in METHODS.items()}
        return {"method": names[info.settings.method], "num_splits": info.settings.num_splits, "lanes": info.settings.lanes,
                "taper": info.settings.taper, "num_sm": info.settings.num_sm, "signal": info.settings.signal,
                "direct": info.settings.direct, "reason": info.reason.decode(),
                "window_bytes": info.window_bytes, "scratch_bytes": info.scratch_bytes}

    def status(self):
        """None, or the text of the first wait that did not end."""
        error = _Error()
        return error.text.decode() if self.comm.lib.braid_gemm_status(self.handle, ctypes.byref(error)) != 0 else None

    def close(self):
        if self.handle:
            self.comm.lib.braid_gemm_destroy(self.handle)
            self.handle = None


def _view(address, rows, width, dtype):
    """A tensor over memory that Braid owns."""
    class Interface:
        __cuda_array_interface__ = {"shape": (rows, width), "typestr": "<i2", "data": (address, False), "version": 3}

    return torch.as_tensor(Interface(), device="cuda").view(dtype)


@dataclasses.dataclass
class Times:
    """Microseconds of one operation on the slower rank, one number a round."""
    values: list

    @property
    def median(self):
        return statistics.median(self.values)

    @property
    def interval(self):
        v, k = sorted(self.values), 0
        while k + 1 < len(v) // 2 and 2 * sum(math.comb(len(v), i) for i in range(k + 2)) / 2 ** len(v) <= 0.05:
            k += 1
        return v[k], v[-1 - k]


def capture(function, repeats):
    """A CUDA graph of `repeats` calls, or None with the reason printed when it cannot be captured."""
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(3):
            function()
    torch.cuda.synchronize()
    dist.barrier()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(repeats):
            function()
    torch.cuda.synchronize()
    return graph


def measure(variants, rounds=11, repeats=3, warm_up=3, group=None, progress=None):
    """{name: Times} of {name: callable}. All ranks call it with the same names."""
    graphs = {}
    for name, function in variants.items():
        try:
            graphs[name] = capture(function, repeats)
        except Exception as error:
            torch.cuda.synchronize()
            if dist.get_rank(group) == 0:
                print(f"{name}: not captured: {str(error).splitlines()[0][:120]}", flush=True)
    token, order = torch.zeros(1, device="cuda"), random.Random(1)
    times = {name: [] for name in graphs}
    for i in range(warm_up + rounds):
        names = list(graphs)
        order.shuffle(names)
        for name in names:
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            torch.cuda._sleep(400000)  # the host queues everything while the GPU is held back
            dist.all_reduce(token, group=group)
            begin.record()
            graphs[name].replay()
            end.record()
            torch.cuda.synchronize()
            slow = torch.tensor([begin.elapsed_time(end) * 1e3 / repeats], device="cuda")
            dist.all_reduce(slow, op=dist.ReduceOp.MAX, group=group)
            if i >= warm_up:
                times[name].append(slow.item())
        if progress:
            progress(i + 1, warm_up + rounds)
    return {name: Times(values) for name, values in times.items()}


@dataclasses.dataclass
class Verdict:
    """What the four medians say; microseconds and ratios."""
    a: float
    b: float           # the communication inside C
    b_fastest: float
    c: float
    d: float
    serial_error: float  # 1 - (C - A) / B
    sound: bool
    efficiency: float    # max(A, fastest B) / D
    hidden: float        # 1 - (D - A) / fastest B
    gain: float          # C / D

    def __str__(self):
        head = f"A {self.a:.1f}  B {self.b:.1f} (fastest {self.b_fastest:.1f})  C {self.c:.1f}  D {self.d:.1f} us: "
        if not self.sound:
            return head + f"void, the serial version misses A + B by {100 * self.serial_error:.0f} % of B"
        word = "proved" if self.gain > 1.02 else "refuted: no faster than serial"
        return head + (f"overlap {word}; efficiency {self.efficiency:.3f}, {100 * self.hidden:.0f} % of the communication hidden, "
                       f"{self.gain:.2f}x serial")


def verdict(a, b, b_fastest, c, d):
    error = 1 - (c - a) / b
    return Verdict(a, b, b_fastest, c, d, error, abs(error) <= 0.1, max(a, b_fastest) / d, 1 - (d - a) / b_fastest, c / d)


def judge(compute, communicate, serial, overlapped, **how):
    """Measures the four callables and returns a Verdict. `communicate` may be {name: callable}; the first is the one inside `serial`."""
    many = communicate if isinstance(communicate, dict) else {"communicate": communicate}
    found = measure({"compute": compute, **{f"B {k}": v for k, v in many.items()}, "serial": serial, "overlapped": overlapped}, **how)
    b = [found[f"B {k}"].median for k in many if f"B {k}" in found]
    return verdict(found["compute"].median, b[0], min(b), found["serial"].median, found["overlapped"].median)
