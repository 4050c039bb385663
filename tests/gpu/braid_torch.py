"""libbraid from PyTorch through ctypes, as the measurements use it: communicator over torch.distributed, windows as tensors, collectives."""
import ctypes as C
import os

import torch
import torch.distributed as dist

F32, F16, BF16, F8E4M3, F8E5M2 = range(5)
AUTO, PACKETS, ONE_SHOT, TWO_SHOT, STAGED, DIRECT, ENGINE, PULL = range(8)
NO_OVERLAP = 1
NUMBERS = {torch.float32: F32, torch.float16: F16, torch.bfloat16: BF16}

CALL_INT = C.CFUNCTYPE(C.c_int, C.c_void_p)
CALL_GATHER = C.CFUNCTYPE(C.c_int, C.c_void_p, C.c_void_p, C.c_void_p, C.c_size_t)


class Bootstrap(C.Structure):
    _fields_ = [("context", C.c_void_p), ("rank", CALL_INT), ("ranks", CALL_INT), ("allgather", CALL_GATHER)]


class Options(C.Structure):
    _fields_ = [("size", C.c_size_t), ("method", C.c_uint32), ("sms", C.c_uint32), ("scale", C.c_float), ("flags", C.c_uint32)]


class OpsConfig(C.Structure):
    _fields_ = [("size", C.c_size_t), ("slot", C.c_uint32), ("reserved", C.c_uint32), ("packet_bytes", C.c_size_t), ("staging_bytes", C.c_size_t)]


class Memory:
    """GPU memory at an address, for torch.as_tensor."""

    def __init__(self, address, size):
        self.__cuda_array_interface__ = {"shape": (size,), "typestr": "|u1", "data": (address, False), "version": 3}


def options(method=AUTO, sms=0, scale=1.0, flags=0):
    return Options(C.sizeof(Options), method, sms, scale, flags)


class Braid:
    """One rank's communicator and collectives over a CPU process group of torch.distributed."""

    def __init__(self, group, packet_bytes=6 << 20, staging_bytes=64 << 20, slot=0xFFFFFFFF):
        here = os.path.dirname(os.path.abspath(__file__))
        self.lib = lib = C.CDLL(os.environ.get("TRY_LIBRARY", os.path.join(here, "../../build/dev/lib/libbraid.so")))
        self.rank, self.ranks = dist.get_rank(group), dist.get_world_size(group)

        def allgather(_, mine, everyone, size):
            try:
                src = torch.frombuffer(bytearray(C.string_at(mine, size)), dtype=torch.uint8)
                parts = [torch.empty_like(src) for _ in range(self.ranks)]
                dist.all_gather(parts, src, group=group)
                data = bytes(torch.cat(parts).numpy())
                C.memmove(everyone, data, len(data))
                return 0
            except Exception as error:  # an exception must not cross C
                print("bootstrap:", error, flush=True)
                return -5

        self.boot = Bootstrap(None, CALL_INT(lambda _: self.rank), CALL_INT(lambda _: self.ranks), CALL_GATHER(allgather))
        self.comm, self.ops = C.c_void_p(), C.c_void_p()
        for name in ("braid_window_address", "braid_window_device", "braid_comm_device", "braid_comm_error_text", "braid_ops_explain"):
            getattr(lib, name).restype = C.c_void_p
        self.check(lib.braid_comm_create(C.byref(self.comm), C.byref(self.boot), None), "braid_comm_create")
        config = OpsConfig(C.sizeof(OpsConfig), slot, 0, packet_bytes, staging_bytes)
        self.check(lib.braid_ops_create(C.byref(self.ops), self.comm, C.byref(config)), "braid_ops_create")

    @staticmethod
    def check(rc, what):
        if rc != 0:
            raise RuntimeError(f"{what}: {os.strerror(-rc)}")

    def window(self, size):
        """A new window: (handle, this rank's memory as a uint8 tensor)."""
        window = C.c_void_p()
        self.check(self.lib.braid_window_alloc(self.comm, C.c_size_t(size), C.byref(window)), "braid_window_alloc")
        return window, torch.as_tensor(Memory(self.address(window, self.rank), size), device="cuda")

    def address(self, window, rank):
        return self.lib.braid_window_address(window, C.c_int(rank))

    def error(self):
        reason, text = C.create_string_buffer(128), C.create_string_buffer(300)
        if self.lib.braid_comm_error(self.comm, reason) == 0:
            return None
        self.lib.braid_comm_error_text(reason, text, C.c_size_t(300))
        return text.value.decode()

    def explain(self, operation, size, in_window=True):
        text = C.create_string_buffer(200)
        self.lib.braid_ops_explain(self.ops, operation.encode(), C.c_size_t(size), C.c_int(in_window), text, C.c_size_t(200))
        return text.value.decode()

    def _call(self, name, *arguments):
        stream = C.c_void_p(torch.cuda.current_stream().cuda_stream)
        self.check(getattr(self.lib, name)(self.ops, *arguments, stream), name)

    def all_reduce(self, src, dst, how=None):
        self._call("braid_all_reduce", C.c_void_p(src.data_ptr()), C.c_void_p(dst.data_ptr()), C.c_size_t(dst.numel()), C.c_int(NUMBERS[src.dtype]),
                   C.byref(how) if how else None)

    def reduce_scatter(self, src, dst, how=None):
        self._call("braid_reduce_scatter", C.c_void_p(src.data_ptr()), C.c_void_p(dst.data_ptr()), C.c_size_t(dst.numel()), C.c_int(NUMBERS[src.dtype]),
                   C.byref(how) if how else None)

    def all_gather(self, src, dst, how=None):
        self._call("braid_all_gather", C.c_void_p(src.data_ptr()), C.c_void_p(dst.data_ptr()), C.c_size_t(src.numel() * src.element_size()),
                   C.byref(how) if how else None)

    def all_to_all(self, src, dst, how=None):
        self._call("braid_all_to_all", C.c_void_p(src.data_ptr()), C.c_void_p(dst.data_ptr()),
                   C.c_size_t(src.numel() * src.element_size() // self.ranks), C.byref(how) if how else None)

    def close(self):
        self.lib.braid_ops_destroy(self.ops)
        return self.lib.braid_comm_destroy(self.comm)
