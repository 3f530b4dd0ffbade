"""Strided arguments run on copies that are written back, or are refused when that would lose a write."""

import numpy as np
import pytest

from eas.base.errors import LostWrite
from eas.interop.arguments import Staging, view


def shares(a, b):
    return np.shares_memory(a, b)


def run(fn, *uses):
    """Call `fn` on the prepared arrays, then finish; a use is (array, "r" | "w" | "rw" | "")."""
    staging = Staging()
    flat = [
        staging.prepare(view(a, f"arg{i}"), "w" in mode, "r" in mode)
        for i, (a, mode) in enumerate(uses)
    ]
    for f in flat:
        assert f.ndim == 1
        assert f.flags.c_contiguous
        assert f.flags.aligned
    fn(*flat)
    staging.finish()


def lost(*uses):
    def never(*flat):
        raise AssertionError("must not run")

    with pytest.raises(LostWrite) as caught:
        run(never, *uses)
    assert isinstance(caught.value, ValueError)
    return str(caught.value)


def fill(*flat):
    flat[-1][:] = np.arange(1, flat[-1].size + 1)


def test_contiguous_array_is_not_copied():
    a = np.arange(6.0).reshape(2, 3)
    staging = Staging()
    assert shares(staging.prepare(view(a, "a"), True, True), a)
    s = np.array(3.0)
    assert shares(staging.prepare(view(s, "s"), True, True), s)


@pytest.mark.parametrize(
    "pick",
    [
        lambda a: a.T,
        lambda a: a[::2, 1::3],
        lambda a: a[::-1],
        lambda a: a[:, ::-2],
        lambda a: a[1:3, 2:5],
        lambda a: a.reshape(4, 2, 3).transpose(2, 0, 1),
        lambda a: a[:0, ::2],
        lambda a: a[2:3, ::2],
        lambda a: np.asfortranarray(a),
    ],
)
def test_strided_array_is_seen_in_logical_order_and_written_back(pick):
    base = np.arange(24.0).reshape(4, 6)
    a = pick(base)
    want = base.copy()
    if np.shares_memory(a, base):
        pick(want)[...] = a * 10
    expected = a * 10

    def times_ten(flat):
        assert flat.tolist() == a.ravel().tolist()
        flat *= 10

    run(times_ten, (a, "rw"))
    assert np.array_equal(a, expected)
    assert np.array_equal(base, want)


def test_elements_that_a_write_only_kernel_skips_keep_their_values():
    base = np.arange(10)
    run(lambda flat: flat.__setitem__(0, -1), (base[::2], "w"))
    assert base.tolist() == [-1, 1, 2, 3, 4, 5, 6, 7, 8, 9]


def test_misaligned_array_runs_on_a_copy():
    raw = np.zeros(17, np.uint8)
    a = raw[1:].view(np.float32)
    run(fill, (a, "w"))
    assert a.tolist() == [1, 2, 3, 4]


def test_failed_launch_writes_nothing_back():
    base = np.zeros(6)
    staging = Staging()
    staging.prepare(view(base[::2], "x"), True, True)[:] = 7
    del staging  # the kernel raised: nobody calls finish
    assert not base.any()


def test_finish_twice_writes_once():
    base = np.zeros(6)
    staging = Staging()
    staging.prepare(view(base[::2], "x"), True, True)[:] = 7
    staging.finish()
    base[:] = 0
    staging.finish()
    assert not base.any()


def test_array_that_is_only_read_is_not_written_back():
    base = np.zeros(6)
    base.flags.writeable = False
    run(fill, (base[::2], "r"))
    assert not base.any()


def test_untouched_array_may_be_anything():
    frozen = np.broadcast_to(np.float32(1), (3, 3))
    base = np.zeros(6)
    run(lambda a, b, c: fill(c), (frozen, ""), (base[::2], ""), (base, "w"))
    assert base.tolist() == [1, 2, 3, 4, 5, 6]


def test_broadcast_array_may_be_read():
    a = np.lib.stride_tricks.as_strided(np.arange(3.0), (2, 3), (0, 8))
    seen = []
    run(lambda flat: seen.extend(flat), (a, "r"))
    assert seen == [0, 1, 2, 0, 1, 2]


@pytest.mark.parametrize(
    ("shape", "strides"),
    [
        ((2, 3), (0, 8)),
        ((3, 2), (8, 0)),
        ((3, 3), (8, 8)),
        ((4, 3), (16, 8)),
        ((3, 5), (32, 16)),
        ((2, 2, 2), (8, 16, 24)),
    ],
)
def test_write_to_elements_that_share_memory_is_refused(shape, strides):
    a = np.lib.stride_tricks.as_strided(np.zeros(64), shape, strides)
    message = lost((a, "w"))
    assert "the kernel writes argument 'arg0', but several of its elements share memory" in message
    assert f"(shape {shape}, strides {tuple(s // 8 for s in strides)})" in message
    assert "hint: pass np.ascontiguousarray(arg0), and read the results from that array" in message


@pytest.mark.parametrize(
    ("shape", "strides"),
    [
        ((3, 2), (16, 24)),  # interleaved: 0 2 4 and 3 5 7
        ((2, 3), (8, 16)),
        ((1, 3), (0, 16)),
        ((0, 3), (0, 0)),
        ((2, 2, 2), (8, 16, 32)),
    ],
)
def test_strided_elements_that_do_not_share_memory_are_written(shape, strides):
    a = np.lib.stride_tricks.as_strided(np.zeros(64), shape, strides)
    run(fill, (a, "w"))
    assert a.ravel().tolist() == list(range(1, a.size + 1))


def test_self_overlap_agrees_with_counting():
    rng = np.random.default_rng(0)
    buffer = np.zeros(512, np.int8)
    for _ in range(400):
        rank = int(rng.integers(1, 4))
        shape = tuple(int(n) for n in rng.integers(1, 5, rank))
        strides = tuple(int(n) for n in rng.integers(-12, 13, rank))
        a = np.lib.stride_tricks.as_strided(buffer[256:], shape, strides)
        offsets = sum(i * s for i, s in zip(np.indices(shape), strides, strict=True)).ravel()
        if len(set(offsets.tolist())) == offsets.size:
            run(fill, (a, "w"))
        else:
            lost((a, "w"))


def test_write_to_read_only_array_is_refused():
    for a in (np.zeros(4), np.zeros(8)[::2]):
        a.flags.writeable = False
        message = lost((a, "rw"))
        assert "the kernel writes argument 'arg0', which is read-only" in message
        assert "hint: pass arg0.copy()" in message
    lost((b"abc", "w"))


def test_write_to_torch_tensor_that_requires_grad_is_refused():
    torch = pytest.importorskip("torch")
    p = torch.nn.Parameter(torch.zeros(3))
    message = lost((p, "w"))
    assert "a torch tensor that requires grad: autograd would miss the write" in message
    assert "hint: pass arg0.detach(), or launch under torch.no_grad()" in message
    with torch.no_grad():
        run(fill, (p, "w"))
    assert p.tolist() == [1, 2, 3]


def test_autograd_notices_that_a_saved_tensor_was_written():
    torch = pytest.importorskip("torch")
    saved = torch.ones(3)
    w = torch.ones(3, requires_grad=True)
    loss = (w * saved).sum()
    run(fill, (saved, "w"))
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_strided_torch_tensor_is_written_back():
    torch = pytest.importorskip("torch")
    t = torch.zeros(2, 3, dtype=torch.float16)
    run(fill, (t.t(), "w"))
    assert t.tolist() == [[1, 3, 5], [2, 4, 6]]


# --- arguments that share memory ----------------------------------------------------------------


def test_contiguous_arguments_may_share_memory():
    a = np.zeros(6)
    run(lambda x, y: y.__setitem__(slice(None), x + 1), (a, "r"), (a, "w"))
    assert a.tolist() == [1] * 6
    run(lambda x, y: fill(y), (a[:4], "rw"), (a[2:], "w"))
    assert a.tolist() == [1, 1, 1, 2, 3, 4]


@pytest.mark.parametrize(("first", "second"), [("r", "w"), ("w", "r"), ("rw", "rw"), ("r", "r")])
def test_equal_strided_arguments_share_one_copy(first, second):
    base = np.arange(6.0)

    def bump(x, y):
        assert shares(x, y)
        y += 1

    run(bump, (base[::2], first), (base[::2], second))
    assert base.tolist() == ([1, 1, 3, 3, 5, 5] if "w" in first + second else list(range(6)))


def test_read_only_twin_does_not_stop_the_writable_one():
    base = np.zeros(6)
    frozen = base[::2]
    frozen.flags.writeable = False
    run(fill, (frozen, "r"), (base[::2], "w"))
    assert base.tolist() == [1, 0, 2, 0, 3, 0]


@pytest.mark.parametrize("swap", [False, True])
@pytest.mark.parametrize(("mode_a", "mode_b"), [("r", "w"), ("w", "r"), ("w", "w")])
@pytest.mark.parametrize(
    ("pick_a", "pick_b"),
    [
        (lambda x: x[::2], lambda x: x),
        (lambda x: x[::2], lambda x: x[::3]),
        (lambda x: x[::-1], lambda x: x[:3]),
        (lambda x: x[::2], lambda x: x[::2].view(np.int64)),
        (lambda x: x[::2], lambda x: x[:6:2]),
    ],
)
def test_strided_argument_that_shares_written_memory_is_refused(
    pick_a, pick_b, mode_a, mode_b, swap
):
    base = np.arange(12.0)
    uses = [(pick_a(base), mode_a), (pick_b(base), mode_b)]
    message = lost(*(reversed(uses) if swap else uses))
    assert "arguments 'arg0' and 'arg1' share memory and one of them is written, but" in message
    assert "is not contiguous, so the kernel would run on a copy of it" in message
    assert "hint: pass np.ascontiguousarray(arg" in message
    assert base.tolist() == list(range(12))


def test_strided_arguments_that_interleave_are_fine():
    base = np.zeros(6)
    run(lambda x, y: fill(y), (base[::2], "rw"), (base[1::2], "w"))
    assert base.tolist() == [0, 1, 0, 2, 0, 3]


def test_shared_memory_that_is_only_read_is_fine():
    base = np.zeros(6)
    run(lambda x, y: None, (base[::2], "r"), (base, "r"))


def test_twin_that_is_written_later_still_conflicts_with_a_third():
    base = np.zeros(6)
    message = lost((base[::2], "r"), (base, "r"), (base[::2], "w"))
    assert "'arg1' and 'arg2' share memory" in message
