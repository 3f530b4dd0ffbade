"""`eas.autotune`: what is chosen, when it is timed again, what is kept on disk, and what stays untouched."""

from __future__ import annotations

import pickle
import re
import threading

import numpy as np
import pytest

import eas
from eas import mk
from eas.runtime import debug, keys
from eas.runtime.disk_cache import default_cache
from eas.runtime.interp import InterpRuntime
from eas.schedule.target import AVX2, AVX512

SIZES = (32, 64, 128)
CONFIGS = [eas.Config({"BLOCK": n}) for n in SIZES]


@eas.kernel
def double_kernel(x, y, N, BLOCK: eas.constexpr):
    offs = mk.program_id(0) * BLOCK + mk.arange(0, BLOCK)
    mk.store(y, offs, mk.load(x, offs, offs < N) * 2, offs < N)


@eas.kernel
def increment_kernel(x, N, BLOCK: eas.constexpr):
    offs = mk.program_id(0) * BLOCK + mk.arange(0, BLOCK)
    mk.store(x, offs, mk.load(x, offs, offs < N) + 1, offs < N)


@eas.kernel
def count_kernel(total, N, BLOCK: eas.constexpr):
    mk.atomic_add(total, 0, mk.sum(mk.arange(0, BLOCK) * 0 + 1))


class Launches:
    """A clock that moves only while a kernel runs, by what `cost` says of its grid."""

    def __init__(self):
        self.now = 0.0
        self.grids = []
        self.cost = lambda grid: float(grid[0])

    def clock(self):
        return self.now


@pytest.fixture
def launches(monkeypatch):
    seen, run = Launches(), InterpRuntime.run

    def timed(self, executable, args, grid, **options):
        seen.grids.append(grid)
        seen.now += seen.cost(grid)
        run(self, executable, args, grid, **options)

    monkeypatch.setattr(InterpRuntime, "run", timed)
    monkeypatch.setenv("EAS_BACKEND", "interp")
    return seen


@pytest.fixture
def debug_1(monkeypatch):
    monkeypatch.setenv("EAS_DEBUG", "1")
    monkeypatch.setattr(debug, "_ledger", debug.Ledger())
    monkeypatch.setattr("atexit.register", lambda fn: None)


def tuned(kernel, launches, configs=CONFIGS, key=("N",), **options):
    made = eas.autotune(configs=configs, key=list(key), **{"warmup": 1, "repeat": 3, **options})(kernel)
    made.clock = launches.clock
    return made


def arrays(n=256):
    return np.arange(n, dtype=np.float32), np.zeros(n, np.float32)


# --- choosing -----------------------------------------------------------------------------------


def test_fastest_config_is_launched(launches):
    x, y = arrays()
    kernel = tuned(double_kernel, launches)
    assert kernel.best_config is None
    kernel(x, y, 256)
    np.testing.assert_array_equal(y, 2 * x)
    assert kernel.best_config == eas.Config({"BLOCK": 128})  # fewest programs
    assert len(launches.grids) == 3 * (1 + 3) + 1
    launches.cost = lambda grid: 1.0 / grid[0]
    kernel(x, y, 200)
    assert kernel.best_config == eas.Config({"BLOCK": 32})


def test_rounds_are_interleaved(launches):
    tuned(double_kernel, launches, warmup=0, repeat=2)(*arrays(), 256)
    assert [g[0] for g in launches.grids] == [8, 4, 2, 8, 4, 2, 2]


def test_median_decides_not_the_fastest_moment(launches):
    times = iter([1, 5, 9, 5, 9, 5, 0])  # rounds of two configs, then the launch
    launches.cost = lambda grid: next(times)
    kernel = tuned(double_kernel, launches, configs=CONFIGS[:2], warmup=0)
    kernel(*arrays(), 256)
    assert kernel.best_config == CONFIGS[1]


def test_first_of_equals_wins(launches):
    launches.cost = lambda grid: 1.0
    kernel = tuned(double_kernel, launches)
    kernel(*arrays(), 256)
    assert kernel.best_config == CONFIGS[0]


def test_tuned_once_per_key(launches):
    x, y = arrays()
    kernel = tuned(double_kernel, launches)
    kernel(x, y, 256)
    launches.grids.clear()
    kernel(x, y, 256)
    kernel(x, y, np.int64(256))
    assert len(launches.grids) == 2
    kernel(x, y, 255)
    assert len(launches.grids) == 2 + 3 * 4 + 1
    assert list(kernel.cache.values()) == [CONFIGS[2]] * 2


def test_every_level_of_the_cpu_is_tuned_on_its_own(launches, monkeypatch):
    x, y = arrays()
    kernel = tuned(double_kernel, launches)
    for target in (AVX2, AVX512):
        monkeypatch.setattr(keys, "settings_now", lambda target=target: keys.Settings(False, False, str(target)))
        monkeypatch.setitem(eas.autotune.__globals__, "host_key", lambda target=target: str(target))
        launches.grids.clear()
        kernel(x, y, 256)
        assert len(launches.grids) == 13


def test_argument_outside_the_key_does_not_tune(launches):
    x, y = arrays()
    kernel = tuned(double_kernel, launches, key=())
    kernel(x, y, 256)
    launches.grids.clear()
    kernel(x, y, 255)
    assert len(launches.grids) == 1


def test_key_names_a_buffer_by_shape_and_dtype(launches):
    kernel = tuned(double_kernel, launches, key=["x"])
    x, y = arrays()
    kernel(x, y, 256)
    kernel(x + 1, y, 200)
    assert len(kernel.cache) == 1
    kernel(x.reshape(2, 128), y, 256)
    assert len(kernel.cache) == 2


def test_every_dtype_is_tuned_on_its_own(launches):
    x, y = arrays()
    kernel = tuned(double_kernel, launches, key=())
    kernel(x, y, 256)
    kernel(x.astype(np.float16), y, 256)
    kernel(x, y.astype(np.float64), 256)
    assert len(kernel.cache) == 3


def test_single_config_is_not_timed(launches):
    kernel = tuned(double_kernel, launches, configs=CONFIGS[:1])
    kernel(*arrays(), 256)
    assert len(launches.grids) == 1
    assert kernel.best_config == CONFIGS[0]


def test_empty_launch_is_neither_timed_nor_remembered(launches):
    x, y = arrays()
    kernel = tuned(double_kernel, launches, key=())
    kernel(x, y, 0)
    assert launches.grids == []
    assert kernel.cache == {}
    kernel(x, y, 256)
    assert kernel.best_config == CONFIGS[2]


def test_callable_grid_sees_the_chosen_meta(launches):
    x, y = arrays()
    seen = []

    def grid(meta, args):
        seen.append(meta["BLOCK"])
        return mk.cdiv(args["N"], meta["BLOCK"])

    tuned(double_kernel, launches)[grid](x, y, 256)
    assert seen[-1] == 128
    assert set(seen) == set(SIZES)
    np.testing.assert_array_equal(y, 2 * x)


def test_plain_function_becomes_a_kernel(launches):
    kernel = tuned(double_kernel.fn, launches)
    x, y = arrays()
    kernel(x, y, 256)
    np.testing.assert_array_equal(y, 2 * x)
    assert kernel.fn is double_kernel.fn


def test_prune_sees_the_arguments_and_chooses(launches):
    def small(configs, args):
        assert args["N"] == 256
        assert set(args) == {"x", "y", "N"}
        return [c for c in configs if c.meta["BLOCK"] < 100]

    kernel = tuned(double_kernel, launches, prune=small)
    kernel(*arrays(), 256)
    assert kernel.best_config == CONFIGS[1]


def test_threads_tune_once(launches):
    kernel = tuned(double_kernel, launches)
    x = arrays()[0]
    results = [np.zeros_like(x) for _ in range(4)]
    threads = [threading.Thread(target=kernel, args=(x, y, 256)) for y in results]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(launches.grids) == 3 * 4 + 4
    assert all(np.array_equal(y, 2 * x) for y in results)


# --- data ---------------------------------------------------------------------------------------


def test_in_place_kernel_runs_once_for_the_caller(launches):
    x = np.arange(256, dtype=np.int32)
    tuned(increment_kernel, launches)(x, 256)
    np.testing.assert_array_equal(x, np.arange(1, 257))


def test_atomics_count_one_launch(launches):
    total = np.full(1, 7, np.int32)
    tuned(count_kernel, launches)(total, 256, _grid=2)
    assert total[0] == 7 + 2 * 32  # all configs have the same grid, so the first one is taken


def test_every_timed_launch_starts_from_the_callers_data(monkeypatch, launches):
    x = np.full(256, 5, np.int32)
    starts, run = [], InterpRuntime.run

    def watched(self, executable, args, grid, **options):
        starts.append(int(args[0][0]))
        run(self, executable, args, grid, **options)

    monkeypatch.setattr(InterpRuntime, "run", watched)
    tuned(increment_kernel, launches)(x, 256)
    assert starts == [5] * 13
    starts.clear()
    tuned(increment_kernel, launches, reset_to_zero=["x"])(x, 255)
    assert starts == [0] * 12 + [6]
    assert x[0] == 7


def test_strided_argument_is_tuned_on_copies(launches):
    whole = np.zeros(512, np.int32)
    tuned(increment_kernel, launches)(whole[::2], 256)
    np.testing.assert_array_equal(whole, np.tile([1, 0], 256).astype(np.int32))


def test_failing_kernel_leaves_the_data_and_names_the_config(launches):
    x = np.arange(100, dtype=np.int32)
    with pytest.raises(eas.OutOfBounds) as caught:
        tuned(increment_kernel, launches)(x, 256)
    np.testing.assert_array_equal(x, np.arange(100))
    assert caught.value.__notes__ == ["  while autotune tried Config({'BLOCK': 32})"]


def test_read_only_output_is_refused(launches):
    x, y = arrays()
    y.flags.writeable = False
    with pytest.raises(eas.LostWrite, match="read-only"):
        tuned(double_kernel, launches)(x, y, 256)


# --- configs that do not suit --------------------------------------------------------------------


@eas.kernel
def picky_kernel(x, y, N, BLOCK: eas.constexpr):
    offs = mk.program_id(0) * BLOCK + mk.arange(0, BLOCK)
    zero = (mk.arange(0, BLOCK) + mk.arange(0, 32)) * 0  # fits one BLOCK only
    mk.store(y, offs, mk.load(x, offs, offs < N) + zero, offs < N)


@pytest.mark.usefixtures("debug_1")
def test_unsuitable_config_is_skipped(launches, capsys):
    x, y = arrays()
    kernel = tuned(picky_kernel, launches, configs=[CONFIGS[0], CONFIGS[2], eas.Config({"BLOCK": 16})])
    kernel(x, y, 256, _grid=lambda meta, args: 256 // meta["BLOCK"])
    assert kernel.best_config == CONFIGS[0]
    assert "Config({'BLOCK': 32}) with 8000000.00us, best of 3, 2 skipped" in capsys.readouterr().err


def test_all_unsuitable_lists_each_reason(launches):
    x, y = arrays()
    with pytest.raises(eas.ShapeMismatch) as caught:
        tuned(picky_kernel, launches, configs=[CONFIGS[2], eas.Config({"BLOCK": 16})])(x, y, 256)
    text = str(caught.value)
    assert text.startswith("no config of picky_kernel suits these arguments:\n  Config({'BLOCK': 128}): ShapeMismatch: ")
    assert "\n  Config({'BLOCK': 16}): ShapeMismatch: " in text
    assert text.endswith("hint: add a config that does")


def test_missing_grid_is_still_a_grid_error(launches):
    x, y = arrays()

    @eas.kernel
    def sizeless(x, y, M, BLOCK: eas.constexpr):
        offs = mk.program_id(0) * BLOCK + mk.arange(0, BLOCK)
        mk.store(y, offs, mk.load(x, offs, offs < M), offs < M)

    with pytest.raises(eas.GridError, match="N not given"):
        tuned(sizeless, launches, key=["M"])(x, y, 256)


# --- staleness and disk -------------------------------------------------------------------------


def test_next_process_knows_the_choice(launches):
    x, y = arrays()
    tuned(double_kernel, launches)(x, y, 256)
    launches.grids.clear()
    fresh = tuned(eas.Kernel(double_kernel.fn), launches)
    fresh(x, y, 256)
    assert launches.grids == [(2, 1, 1)]
    assert fresh.best_config == CONFIGS[2]


@pytest.mark.parametrize("damage", [b"", b"9", b"-1", b"\xff\x00", b"{}"], ids=["empty", "range", "negative", "binary", "foreign"])
def test_senseless_entry_is_tuned_again(launches, monkeypatch, damage):
    x, y = arrays()
    cache = default_cache()
    monkeypatch.setattr(type(cache), "get", lambda self, key: damage)
    tuned(double_kernel, launches)(x, y, 256)
    assert len(launches.grids) == 13


def test_damaged_file_is_tuned_again(launches):
    x, y = arrays()
    tuned(double_kernel, launches)(x, y, 256)
    for path in default_cache().root.rglob("*.eas"):
        path.write_bytes(path.read_bytes()[:-1])
    launches.grids.clear()
    tuned(eas.Kernel(double_kernel.fn), launches)(x, y, 256)
    assert len(launches.grids) == 13


@pytest.mark.parametrize("change", ["configs", "key", "version", "noopt", "machine", "cpu"])
def test_disk_entry_serves_only_what_it_was_made_for(launches, monkeypatch, change):
    x, y = arrays()
    tuned(double_kernel, launches)(x, y, 256)
    launches.grids.clear()
    if change == "version":
        monkeypatch.setitem(eas.autotune.__globals__, "__version__", "0")
    if change == "noopt":
        monkeypatch.setenv("EAS_NOOPT", "1")
    if change == "machine":
        monkeypatch.setattr("platform.node", lambda: "elsewhere")
    if change == "cpu":
        monkeypatch.setitem(eas.autotune.__globals__, "host_key", lambda: "another level")
    configs = CONFIGS[::-1] if change == "configs" else CONFIGS
    tuned(double_kernel, launches, configs=configs)(x, y, 255 if change == "key" else 256)
    assert len(launches.grids) == 13


def test_without_disk_cache_each_process_tunes(launches, monkeypatch):
    monkeypatch.setenv("EAS_CACHE", "0")
    x, y = arrays()
    tuned(double_kernel, launches)(x, y, 256)
    tuned(eas.Kernel(double_kernel.fn), launches)(x, y, 256)
    assert len(launches.grids) == 2 * 13


FACTOR = 3


@eas.kernel
def factor_kernel(x, y, N, BLOCK: eas.constexpr):
    offs = mk.program_id(0) * BLOCK + mk.arange(0, BLOCK)
    mk.store(y, offs, mk.load(x, offs, offs < N) * FACTOR, offs < N)


def test_edited_kernel_is_tuned_anew(launches, monkeypatch):
    x, y = arrays()
    kernel = tuned(factor_kernel, launches)
    kernel(x, y, 256)
    launches.cost = lambda grid: 1.0 / grid[0]
    monkeypatch.setitem(globals(), "FACTOR", 4)
    kernel(x, y, 256)
    np.testing.assert_array_equal(y, 4 * x)
    assert kernel.best_config == CONFIGS[0]
    launches.grids.clear()
    kernel(x, y, 256)
    assert len(launches.grids) == 1


# --- the rest of the surface --------------------------------------------------------------------


def test_compile_follows_the_choice(launches):
    x, y = arrays()
    kernel = tuned(double_kernel, launches)
    assert kernel.compile(x, y, 256).block_size == 32  # not tuned yet: the first config
    kernel(x, y, 256)
    assert kernel.compile(x, y, 256).block_size == 128
    assert kernel.compile(x, y, 256, BLOCK=64).block_size == 64
    assert len(launches.grids) == 13


def test_to_msl_delegates(launches):
    assert "kernel void double_kernel" in tuned(double_kernel, launches).to_msl(*arrays(), 256)


def test_names_follow_the_function(launches):
    kernel = tuned(double_kernel, launches)
    assert kernel.__name__ == "double_kernel"
    assert repr(kernel) == "<eas.autotune of <eas.kernel double_kernel(x, y, N, BLOCK)>, 3 configs>"
    assert kernel.configs == tuple(CONFIGS)


@pytest.mark.parametrize("how", ["keyword", "position"])
def test_tuned_meta_given_by_the_caller_is_refused(launches, how):
    x, y = arrays()
    kernel = tuned(double_kernel, launches)
    args, meta = ((x, y, 256, 64), {}) if how == "position" else ((x, y, 256), {"BLOCK": 64})
    with pytest.raises(eas.ArgumentError) as caught:
        kernel(*args, **meta)
    assert str(caught.value) == (
        "double_kernel was given `BLOCK`, which autotune chooses\n"
        "  hint: leave it out, or launch double_kernel.kernel(...)"
    )
    kernel.kernel(*args, **meta)
    np.testing.assert_array_equal(y, 2 * x)


def test_grid_given_twice_is_refused(launches):
    with pytest.raises(eas.ArgumentError, match="was also given _grid"):
        tuned(double_kernel, launches)[4](*arrays(), 256, _grid=4)


def test_used_as_a_helper_it_is_its_function(launches):
    @eas.kernel
    def twice_inside(x, y, N, BLOCK: eas.constexpr):
        helper(x, y, N, BLOCK)

    helper = tuned(double_kernel, launches)
    x, y = arrays()
    twice_inside(x, y, 256, BLOCK=64)
    np.testing.assert_array_equal(y, 2 * x)


@pytest.mark.usefixtures("debug_1")
def test_debug_tells_the_choice(launches, capsys):
    x, y = arrays()
    tuned(double_kernel, launches)(x, y, 256)
    tuned(eas.Kernel(double_kernel.fn), launches)(x, y, 256)
    told = [line for line in capsys.readouterr().err.splitlines() if line.startswith("autotune")]
    assert told == [
        "autotune double_kernel on interp: 3 configs",
        "autotune double_kernel on interp: Config({'BLOCK': 128}) with 2000000.00us, best of 3",
        "autotune double_kernel on interp: Config({'BLOCK': 128}), known from an earlier run",
    ]


def test_errors_show_no_frames_of_ours(launches):
    with pytest.raises(eas.GridError) as caught:
        tuned(double_kernel, launches)(*arrays(), -1)
    files = [str(entry.path) for entry in caught.traceback[1:]]
    assert not [f for f in files if re.search(r"/eas/(kernel|runtime)", f)]


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"configs": []}, "autotune of double_kernel needs a list of eas.Config, got []"),
        ({"configs": [{"BLOCK": 1}]}, "autotune of double_kernel needs a list of eas.Config"),
        ({"configs": [eas.Config({"BLOK": 1})]}, "a config of autotune names `BLOK`, which is not one of the meta-parameters of double_kernel: BLOCK\n  hint: did you mean `BLOCK`?"),
        ({"configs": [eas.Config({"N": 1})]}, "a config of autotune names `N`"),
        ({"key": ["M"]}, "key of autotune names `M`"),
        ({"key": ["BLOCK"]}, "key of autotune names `BLOCK`, which is not one of the arguments that no config sets of double_kernel: x, y, N"),
        ({"reset_to_zero": ["z"]}, "reset_to_zero of autotune names `z`"),
        ({"restore_value": ["BLOCK"]}, "restore_value of autotune names `BLOCK`"),
        ({"repeat": 0}, "autotune of double_kernel got warmup=1, repeat=0"),
        ({"prune": lambda configs, args: []}, "prune of double_kernel returned no config"),
        ({"prune": lambda configs, args: [eas.Config({"BLOCK": 1})]}, "prune of double_kernel returned Config({'BLOCK': 1})"),
    ],
)
def test_wrong_options_are_refused(launches, options, text):
    with pytest.raises(eas.ArgumentError, match=re.escape(text)):
        tuned(double_kernel, launches, **options)(*arrays(), 256)


# --- Config -------------------------------------------------------------------------------------


def test_config_is_frozen_and_prints_as_written():
    meta = {"BLOCK": 128}
    made = eas.Config(meta, num_warps=4, num_stages=None)
    meta["BLOCK"] = 1
    assert repr(made) == "Config({'BLOCK': 128}, num_warps=4)"
    with pytest.raises(AttributeError, match="cannot be changed"):
        made.meta = {}
    with pytest.raises(TypeError):
        made.meta["BLOCK"] = 1


def test_config_compares_by_content():
    first, second = (eas.Config({"A": [1], "B": 2}) for _ in range(2))
    assert first == second
    assert hash(first) == hash(second)
    assert first != eas.Config({"A": [1], "B": 3})
    assert first != eas.Config({"A": [1], "B": 2}, num_warps=4)


def test_config_survives_pickle():
    made = eas.Config({"BLOCK": 128}, num_warps=4)
    assert pickle.loads(pickle.dumps(made)) == made


def test_config_refuses_unknown_options():
    with pytest.raises(eas.ArgumentError) as caught:
        eas.Config({}, BLOCK=128)
    assert str(caught.value) == (
        "Config has no option `BLOCK`\n"
        "  hint: its options are num_warps, num_stages; meta-parameters go into the dict: Config({'BLOCK': ...})"
    )
