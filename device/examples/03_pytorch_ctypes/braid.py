"""Braid's host API through ctypes, as far as the example needs it: communicators over torch.distributed, windows as tensors,
kernels compiled at run time with NVRTC."""
import ctypes
import glob
import os
import pathlib
import sys

import torch
import torch.distributed as dist

RANK_FN = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)
ALLGATHER_FN = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)
EIO = 5


class Bootstrap(ctypes.Structure):
    _fields_ = [("context", ctypes.c_void_p), ("rank", RANK_FN), ("ranks", RANK_FN), ("allgather", ALLGATHER_FN)]


class Config(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("device", ctypes.c_int), ("signals", ctypes.c_uint32), ("barriers", ctypes.c_uint32),
                ("slots", ctypes.c_uint32), ("timeout_ns", ctypes.c_uint64), ("first_epoch", ctypes.c_uint32),
                ("allow_partial", ctypes.c_uint32)]


class Error(ctypes.Structure):
    _fields_ = [("status", ctypes.c_int32), ("wait", ctypes.c_uint32), ("peer", ctypes.c_int32), ("index", ctypes.c_uint32),
                ("expected", ctypes.c_uint64), ("seen", ctypes.c_uint64), ("waited_ns", ctypes.c_uint64),
                ("block", ctypes.c_uint32), ("thread", ctypes.c_uint32), ("reserved", ctypes.c_uint32 * 4)]


def load(name, *folders):
    """The first of `name` in the folders, or wherever the loader finds it."""
    for folder in folders:
        for path in sorted(glob.glob(os.path.join(folder, name))):
            return ctypes.CDLL(path)
    return ctypes.CDLL(name.replace("*", ""))


ROOT = pathlib.Path(__file__).resolve().parents[3]
lib = load("libbraid.so", os.environ.get("LIBBRAID_FOLDER", str(ROOT / "build/dev/lib")))
for function in ("braid_comm_device", "braid_window_device", "braid_window_address", "braid_comm_error_text"):
    getattr(lib, function).restype = ctypes.c_void_p


def check(rc, what):
    if rc != 0:
        raise OSError(-rc, f"{what}: {os.strerror(-rc)}")


class Comm:
    """A device communicator over a torch.distributed group that can gather CPU tensors (gloo)."""

    def __init__(self, group, timeout_s=10.0):
        def allgather(_, mine, everyone, size):
            try:
                part = torch.frombuffer(bytearray(ctypes.string_at(mine, size)), dtype=torch.uint8)
                parts = [torch.empty_like(part) for _ in range(dist.get_world_size(group))]
                dist.all_gather(parts, part, group=group)
                ctypes.memmove(everyone, torch.cat(parts).numpy().tobytes(), size * len(parts))
                return 0
            except Exception as error:  # an exception must not leave a C callback
                print(f"all-gather failed: {error}", file=sys.stderr)
                return -EIO

        self.bootstrap = Bootstrap(None, RANK_FN(lambda _: dist.get_rank(group)), RANK_FN(lambda _: dist.get_world_size(group)),
                                   ALLGATHER_FN(allgather))  # kept: Braid calls back whenever a window is made
        config = Config()
        lib.braid_comm_config_init(ctypes.byref(config))
        config.device = torch.cuda.current_device()
        config.timeout_ns = int(timeout_s * 1e9)
        self.handle = ctypes.c_void_p()
        check(lib.braid_comm_create(ctypes.byref(self.handle), ctypes.byref(self.bootstrap), ctypes.byref(config)), "communicator")

    @property
    def device(self):
        """Address of the struct braid_devcomm that kernels take by value."""
        return lib.braid_comm_device(self.handle)

    def launch(self, kernel, ctas, threads, *arguments):
        """Launches on PyTorch's current stream. Arguments: addresses of structs (int), or ctypes values."""
        kept = [a if isinstance(a, int) else ctypes.addressof(a) for a in arguments]
        pointers = (ctypes.c_void_p * len(kept))(*kept)
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        check(lib.braid_comm_launch(self.handle, kernel, ctas, threads, ctypes.c_size_t(0), stream, pointers), "launch")

    def raise_failure(self):
        """Raises when a wait in a kernel has failed; call it after synchronising."""
        reason = Error()
        if lib.braid_comm_error(self.handle, ctypes.byref(reason)) != 0:
            text = ctypes.create_string_buffer(256)
            lib.braid_comm_error_text(ctypes.byref(reason), text, ctypes.c_size_t(256))
            raise TimeoutError(text.value.decode())

    def close(self):
        check(lib.braid_comm_destroy(self.handle), "destroy")
        self.handle = None


class Window:
    """Memory that every rank of the communicator reaches; `tensor` is this rank's part. Keep the window while you use it."""

    def __init__(self, comm, shape, dtype=torch.float32):
        count = 1
        for n in shape:
            count *= n
        self.handle = ctypes.c_void_p()
        size = ctypes.c_size_t(count * torch.empty((), dtype=dtype).element_size())
        check(lib.braid_window_alloc(comm.handle, size, ctypes.byref(self.handle)), "window")
        rank = lib.braid_comm_rank(comm.handle)
        kind = {torch.float32: "<f4", torch.int32: "<i4", torch.float16: "<f2", torch.uint8: "|u1"}[dtype]
        self.__cuda_array_interface__ = {"shape": tuple(shape), "typestr": kind, "version": 3, "strides": None,
                                         "data": (lib.braid_window_address(self.handle, rank), False)}
        self.tensor = torch.as_tensor(self, device=f"cuda:{torch.cuda.current_device()}")

    @classmethod
    def over(cls, comm, tensor, pointers=None):
        """A window over a tensor that exists. `pointers`: where each rank's part is mapped here (PyTorch symmetric memory knows), or
        None for memory of cudaMalloc, which Braid then shares itself."""
        self = cls.__new__(cls)
        self.tensor, self.handle = tensor, ctypes.c_void_p()
        peers = (ctypes.c_uint64 * len(pointers))(*pointers) if pointers else None
        check(lib.braid_window_register(comm.handle, ctypes.c_void_p(tensor.data_ptr()), ctypes.c_size_t(tensor.nbytes), peers,
                                        ctypes.byref(self.handle)), "window over a tensor")
        return self

    @property
    def device(self):
        """Address of the struct braid_devwin that kernels take by value."""
        return lib.braid_window_device(self.handle)


def compile_kernel(source, name):
    """Compiles CUDA source that includes <braid/device.cuh> and returns the kernel as a CUfunction."""
    site = [str(pathlib.Path(p) / "nvidia/*/lib") for p in sys.path if p.endswith("site-packages")]
    nvrtc = load("libnvrtc.so.1*", *site, "/usr/local/cuda/lib64")
    cuda = ctypes.CDLL("libcuda.so.1")
    program, size = ctypes.c_void_p(), ctypes.c_size_t()
    major, minor = torch.cuda.get_device_capability()
    options = [f"--gpu-architecture=sm_{major}{minor}".encode(), b"-std=c++17",
               b"-I" + os.environ.get("LIBBRAID_INCLUDE", str(ROOT / "include")).encode()]
    check(nvrtc.nvrtcCreateProgram(ctypes.byref(program), source.encode(), b"kernel.cu", 0, None, None), "NVRTC")
    rc = nvrtc.nvrtcCompileProgram(program, len(options), (ctypes.c_char_p * len(options))(*options))
    nvrtc.nvrtcGetProgramLogSize(program, ctypes.byref(size))
    log = ctypes.create_string_buffer(size.value + 1)
    nvrtc.nvrtcGetProgramLog(program, log)
    if rc != 0:
        raise RuntimeError(log.value.decode())
    check(nvrtc.nvrtcGetCUBINSize(program, ctypes.byref(size)), "NVRTC")
    cubin = ctypes.create_string_buffer(size.value)
    check(nvrtc.nvrtcGetCUBIN(program, cubin), "NVRTC")
    module, kernel = ctypes.c_void_p(), ctypes.c_void_p()
    check(cuda.cuModuleLoadData(ctypes.byref(module), cubin), "cuModuleLoadData")
    check(cuda.cuModuleGetFunction(ctypes.byref(kernel), module, name.encode()), "cuModuleGetFunction")
    return kernel
