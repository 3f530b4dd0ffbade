"""Repeated launches on Metal go through one native call, and mean the same as the first ones."""

from __future__ import annotations

from tests.unit.test_metal_runtime import pytestmark, run

__all__ = ["pytestmark"]

REPEATED = """
n = 256
def tensor(value, size=n):
    return eas.tensor(np.full(size, value, np.float32), device="mps")
x, y, one = tensor(0), tensor(0), tensor(1)
s = eas.Stream()
for _ in range(5):  # two variants: arrays that overlap, and arrays that do not
    add_kernel(one, one, y, n, BLOCK=64)
    add_kernel(x, y, x, n, BLOCK=64)
x.copy_(np.zeros(n, np.float32))
plain = runtime.run
def count(*args, **options):
    counted.append(args[0].name)
    plain(*args, **options)
counted = []
runtime.run = count
"""


def test_repeated_launches_do_not_come_by_in_python():
    run(REPEATED + """
for k in range(20):
    add_kernel(x, one, x, n, BLOCK=64)
    assert x._array[0] == 4 * k + 1  # waited for
    add_kernel(x, one, x, n, BLOCK=64, _sync=False)
    add_kernel[4](x, one, x, n, BLOCK=64, _sync=False, _stream=s)
    with s:
        add_kernel[(4,)](x, one, x, N=n, BLOCK=64)
    assert x._array[0] == 4 * k + 4
assert not counted
assert runtime.native_stream(1).statistics["commits"] >= 20

part = tensor(0, 2 * n)[100 : 100 + n]  # another variant: it is not aligned
for _ in range(5):
    add_kernel(part, one, part, n, BLOCK=64)
assert part.numpy()[0] == 5 and len(counted) == 1
add_kernel(x, one, x, 3, BLOCK=64)  # other facts of n
add_kernel(x.numpy()[:8], one.numpy()[:8], x.numpy()[:8], 8, BLOCK=64)
a, b = np.ones(n, np.float32), np.zeros(n, np.float32)
add_kernel(a, a, b, n, BLOCK=64)
assert b[0] == 2 and runtime.copies == 2
""")


def test_memory_of_repeated_launches_is_kept_until_they_have_ended():
    run(REPEATED + """
import weakref
gc.disable()
hooks.hold(True)
add_kernel(one, one, x, n, BLOCK=64, _sync=False)
places = set()
for k in range(30):  # each has memory of its own, however soon nobody looks at it
    lost = tensor(k)
    places.add(lost._array.ctypes.data)
    add_kernel(x, lost, x, n, BLOCK=64, _sync=False)
del lost
assert len(places) == 30 and not counted
hooks.hold(False)
eas.synchronize()
assert x.numpy()[0] == 2 + sum(range(30))
eas.empty(1, device="mps")
buffers = hooks.live_objects("FakeBuffer")
for k in range(100):
    add_kernel(x, tensor(k), x, n, BLOCK=64)
assert hooks.live_objects("FakeBuffer") <= buffers + 2
""")


def test_repeated_launches_fail_as_others_do():
    run(REPEATED + """
def raised(make):
    try:
        make()
    except BaseException as error:
        return error
    raise SystemExit("nothing was raised")
hooks.inject("page")
error = raised(lambda: add_kernel(x, one, x, n, BLOCK=64))
assert type(error) is eas.LaunchError and "kernel add_kernel failed on the GPU (fault)" in str(error) and "at <string>:" in str(error)
hooks.inject("timeout")
add_kernel(x, one, y, n, BLOCK=64, _sync=False)
s.record().wait()
runtime.native_stream(0).wait()
assert type(raised(lambda: add_kernel(y, one, x, n, BLOCK=64))) is eas.FailedDependency
add_kernel(y, one, x, n, BLOCK=64, _sync=False, _stream=s)
add_kernel(one, one, one, n, BLOCK=64)
error = raised(eas.synchronize)
assert [type(e) for e in error.exceptions] == [eas.LaunchError, eas.FailedDependency]
add_kernel(one, one, x, n, BLOCK=64)
assert x.numpy()[0] == 4 and not counted

import signal, threading
signal.signal(signal.SIGINT, signal.default_int_handler)
hooks.hold(True)
threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()
assert type(raised(lambda: add_kernel(x, one, x, n, BLOCK=64))) is KeyboardInterrupt
sys.stdout.flush()
pid = os.fork()
if not pid:
    print(raised(lambda: add_kernel(x, one, x, n, BLOCK=64)), flush=True)
    os._exit(0)
os.waitpid(pid, 0)
hooks.hold(False)
eas.synchronize()
add_kernel(x, one, x, n, BLOCK=64)
assert x.numpy()[0] == 8 and not counted
""")
