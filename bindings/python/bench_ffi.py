"""What a crossing costs by ctypes and by cffi's two modes, with the same
Python around it: the best of five rounds."""

import ctypes
import struct
import time

import cffi

from build_native import declarations, include

TIMERS = 100_000
BATCH = 1024
FAR = 10**15
MANUAL = 3
ABS = 1
decode = struct.Struct("=QQQII").iter_unpack


def round_of(at, advance, buffer):
    """Nanoseconds to arm a timer, and to fetch and decode an event."""
    begin = time.perf_counter_ns()
    for cookie in range(TIMERS):
        at(cookie * 1000, cookie)
    armed = time.perf_counter_ns()
    view, total, count = memoryview(buffer), 0, BATCH
    while count == BATCH:
        count = advance(FAR)
        for _, cookie, _, _, _ in decode(view[: count * 32]):
            total += cookie
    done = time.perf_counter_ns()
    assert total == TIMERS * (TIMERS - 1) // 2
    return (armed - begin) / TIMERS, (done - armed) / TIMERS


def by_cffi(ffi, lib):
    options = ffi.new("struct hwheel_options *")
    options.size, options.clock = ffi.sizeof(options[0]), MANUAL
    made = ffi.new("struct hwheel **")
    assert lib.hwheel_create(options, made) == 0
    wheel = ffi.gc(made[0], lib.hwheel_destroy)
    events = ffi.new("struct hwheel_event[]", BATCH)
    u64, null = ffi.typeof("uint64_t *"), ffi.NULL

    def at(deadline, cookie):
        out = ffi.new(u64)
        if lib.hwheel_once(wheel, deadline, null, cookie, ABS, out) < 0:
            raise OSError
        return out[0]

    return round_of(
        at, lambda now: lib.hwheel_advance(wheel, now, events, BATCH, null), ffi.buffer(events)
    )


def by_cffi_abi():
    ffi = cffi.FFI()
    with open(f"{include}/hwheel.h") as header:
        text = declarations(header.read())
    ffi.cdef("\n".join(line for line in text.splitlines() if not line.startswith("#")))
    return by_cffi(ffi, ffi.dlopen("libhwheel.so.0"))


def by_cffi_api():
    from hwheel._native import ffi, lib

    return by_cffi(ffi, lib)


def by_ctypes():
    lib = ctypes.CDLL("libhwheel.so.0")
    u32, u64, pointer = ctypes.c_uint32, ctypes.c_uint64, ctypes.c_void_p
    lib.hwheel_once.argtypes = [pointer, u64, pointer, u64, u32, pointer]
    lib.hwheel_advance.argtypes = [pointer, u64, pointer, u32, pointer]
    lib.hwheel_destroy.argtypes = [pointer]
    # size, clock, tick_ns, levels, slots, max_timers, flags, start_ns
    options = struct.pack("=IIQIIIIQ", 40, MANUAL, 0, 0, 0, 0, 0, 0)
    wheel = pointer()
    assert lib.hwheel_create(options, ctypes.byref(wheel)) == 0
    events = (ctypes.c_char * (32 * BATCH))()

    def at(deadline, cookie):
        out = u64()
        if lib.hwheel_once(wheel, deadline, None, cookie, ABS, ctypes.byref(out)) < 0:
            raise OSError
        return out.value

    try:
        return round_of(at, lambda now: lib.hwheel_advance(wheel, now, events, BATCH, None), events)
    finally:
        lib.hwheel_destroy(wheel)


print("| | arm, ns | event of a batch, ns |")
print("| --- | --- | --- |")
for name, by in ("ctypes", by_ctypes), ("cffi, ABI", by_cffi_abi), ("cffi, API", by_cffi_api):
    arm, event = (min(times) for times in zip(*(by() for _ in range(5))))
    print(f"| {name} | {arm:.0f} | {event:.0f} |")
