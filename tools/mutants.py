"""The bugs that `tools/mutate.py` plants: what goes wrong, where, and the tests that should notice.

Each is a mistake that a person could make and that gives wrong numbers, a hang or an unsafe acceptance: a bound
one off, a sign forgotten, a check dropped. `old` stands exactly once in the file; a test keeps the list true.
"""

from __future__ import annotations

from dataclasses import dataclass

EDGES, GUARDS, CPU = "tests/backend/test_edges.py", "tests/backend/test_guard_pages.py", "--backend cpu"


@dataclass(frozen=True)
class Mutant:
    """One planted bug, and arguments of pytest: the fewest tests that should notice it."""

    name: str
    file: str
    old: str
    new: str
    tests: str


MUTANTS = (
    # --- schedule: masks as bounds of loops -----------------------------------------------------------
    Mutant("offs > K one lane early", "eas/schedule/masks.py", 'int(name in ("le", "gt")))', 'int(name == "le"))', f"{EDGES} -k 'comparison and gt or across and gt' {CPU}"),
    Mutant("offs <= K one lane short", "eas/schedule/masks.py", 'int(name in ("le", "gt")))', 'int(name == "gt"))', f"{EDGES} -k 'across and le' {CPU}"),
    Mutant("u32 >= K taken as signed", "eas/schedule/masks.py", "not (a.dtype.is_signed and self._starts_late(", "not (self._starts_late(", f"{EDGES} -k 'comparison and u32' {CPU}"),
    Mutant("a bound of every second element rounds down", "eas/schedule/masks.py", "self.e.const(step - 1, I64)), self.e.const(step, I64))", "self.e.const(0, I64)), self.e.const(step, I64))", f"{EDGES} -k few_elements {CPU}"),
    Mutant("comparisons are not mirrored", "eas/schedule/masks.py", '_MIRRORED = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}', '_MIRRORED = {"lt": "lt", "le": "le", "gt": "gt", "ge": "ge"}', f"{EDGES} -k 'comparison and i32' {CPU}"),
    Mutant("64-bit bounds that wrap are large", "eas/schedule/masks.py", 'e.emit("select", e.emit("lt", count, zero), most,', 'e.emit("select", e.emit("gt", count, zero), count,', f"tests/backend/test_mask_numbers.py -k 64_bits {CPU}"),
    Mutant("a scalar condition is forgotten", "eas/schedule/masks.py", "self.e.const(_FAR, I64), self.e.const(0, I64))", "self.e.const(_FAR, I64), self.e.const(_FAR, I64))", f"tests/backend/test_memory.py tests/fuzz/test_user_kernels_random.py {CPU}"),
    Mutant("the first of two lower ends wins", "eas/schedule/masks.py", 'first = self.e.emit("max", first, candidate)', "first = candidate", f"{EDGES} -k 'both_sides or windows' {CPU}"),
    Mutant("limits of a loop's last iteration dropped", "eas/schedule/counter_ends.py", "    bounds.limits += last.limits\n", "", f"{EDGES} -k windows {CPU}"),
    Mutant("lower ends of a loop's last iteration dropped", "eas/schedule/counter_ends.py", "    bounds.starts += last.starts\n", "", f"{EDGES} -k windows {CPU}"),
    Mutant("the last iteration is one too early", "eas/schedule/counter_ends.py", 'e.emit("sub", end, e.const(1, end.type)) if is_last', 'e.emit("sub", end, e.const(2, end.type)) if is_last', f"{EDGES} -k windows {CPU}"),
    Mutant("squares of counters move evenly", "eas/schedule/counter_ends.py", '(inst.op.name == "mul" and all(known))', "False", f"{EDGES} -k there_and_back {CPU}"),
    # --- schedule: ends, tails, order -----------------------------------------------------------------
    Mutant("lanes behind the bound add once", "eas/schedule/tails.py", 'return e.emit("mul", value, many)', "return value", f"tests/backend/test_tails.py -k every_lane {CPU}"),
    Mutant("`other` behind the bound is 0", "eas/schedule/tails.py", "            return (yield inst.operands[2], self.index)\n", "            yield inst.operands[2], self.index\n", f"tests/backend/test_tails.py -k every_lane {CPU}"),
    Mutant("xor repeats like a maximum", "eas/schedule/combines.py", 'IDEMPOTENT = frozenset({"max", "min", "and", "or"})', 'IDEMPOTENT = frozenset({"max", "min", "and", "or", "xor"})', f"tests/backend/test_tails.py tests/backend/test_reductions.py -k 'shortcut or xor' {CPU}"),
    Mutant("a slot is filled one step too short", "eas/schedule/tails.py", 'up = e.emit("add", bounds.stop(extent), e.const(step - 1))', "up = bounds.stop(extent)", f"tests/backend/test_tails.py {CPU}"),
    Mutant("stores and loads of overlapping buffers swap", "eas/schedule/nest_memory.py", "            may_meet(p, q)\n", "            False\n", f"tests/backend/test_in_place.py {CPU}"),
    Mutant("stores pass earlier loads", "eas/schedule/nest_memory.py", "kinds = (self._written, self._read) if", "kinds = (self._written,) if", f"tests/backend/test_in_place.py {CPU}"),
    Mutant("equal addresses count as different", "eas/schedule/collisions.py", "if known[axis] <= reach:", "if known[axis] < reach:", f"tests/backend/test_in_place.py {CPU}"),
    Mutant("extents of equal addresses are forgotten", "eas/schedule/collisions.py", "reach += known[axis] * (shape[axis] - 1)", "reach += known[axis]", f"tests/backend/test_in_place.py {CPU}"),
    Mutant("overlapping ends where masks differ", "eas/schedule/overlaps.py", 'fits = e.emit("and", fits, e.emit("eq", count, stop))', "pass", f"tests/backend/test_short_rows.py -k masks {CPU}"),
    Mutant("the last vector ends one element early", "eas/schedule/overlaps.py", 'last=e.emit("sub", count, e.const(lanes)))', 'last=e.emit("sub", count, e.const(lanes + 1)))', f"tests/backend/test_tuple_reductions.py {EDGES} -k 'any_length or rows_in_blocks' {CPU}"),
    # --- schedule: threads of Metal -------------------------------------------------------------------
    Mutant("no barrier between a read and the next write", "eas/schedule/barriers.py", "(pending.writes & (reads | writes)) | (pending.reads & writes)", "pending.writes & (reads | writes)", "tests/unit/test_golden_msl.py"),
    Mutant("barriers forget the next iteration", "eas/schedule/barriers.py", "            if joined == state:\n", "            if True:\n", "tests/unit/test_golden_msl.py"),
    Mutant("ordered reductions swap lanes", "eas/schedule/lane_reduce.py", 'first = [e.emit("select", is_upper, o, v)', 'first = [e.emit("select", is_upper, v, o)', "tests/backend/test_reductions.py -k order --backend sim"),
    Mutant("a NaN is never the largest", "eas/schedule/lane_reduce.py", 'has_it = e.emit("or", has_it, e.emit("isnan", value))', "pass", "tests/backend/test_reductions.py -k argmax --backend sim"),
    Mutant("padding takes part in scans", "eas/schedule/lane_scan.py", "self.has_padding = not bool(self.layout.is_inside().all())", "self.has_padding = False", "tests/backend/test_scan_relayout.py -k scans --backend sim"),
    # --- codegen --------------------------------------------------------------------------------------
    Mutant("unsigned offsets sign-extended", "eas/codegen/llvm_memory.py", 'word = "sext" if inst.operands[1].dtype.is_signed else "zext"', 'word = "sext"', f"{EDGES} -k offsets {CPU}"),
    Mutant("`other` ignored for f16 and bf16 masked loads", "eas/codegen/llvm_memory.py", "    value = from_memory(t, t.let(phi, element, lanes), kind)\n    return value if other is None or is_plain else t.select(mask, value, other)", "    return from_memory(t, t.let(phi, element, lanes), kind)", f"{EDGES} -k 'other and f16' {CPU}"),
    Mutant("`other` ignored in gathers", "eas/codegen/llvm_memory.py", "return value if other is None else t.select(active, value, t.splat(other, lanes))", "return value", f"{EDGES} -k 'other and gathered' {CPU}"),
    Mutant("bounds checks let the element behind the end pass", "eas/codegen/llvm_memory.py", 'inside = t.compare("icmp ult", index, size)', 'inside = t.compare("icmp ule", index, size)', "tests/backend/test_check_bounds.py --backend cpu"),
    Mutant("bounds checks take negative places for large ones", "eas/codegen/llvm_memory.py", 'inside = t.compare("icmp ult", index, size)', 'inside = t.compare("icmp slt", index, size)', "tests/backend/test_check_bounds.py --backend cpu"),
    Mutant("f64 to f16 rounds twice", "eas/codegen/llvm_casts.py", "return rounded(t, _to_odd(t, x), dst)", 'return rounded(t, t.convert("fptrunc", x, "float"), dst)', f"tests/backend/test_casts.py -k follows {CPU}"),
    Mutant("bf16 rounds half up", "eas/codegen/llvm_casts.py", "half = t.op(\"add\", last, t.like((1 << (dropped - 1)) - 1, bits))", "half = t.like(1 << (dropped - 1), bits)", f"tests/backend/test_casts.py -k follows {CPU}"),
    Mutant("float to int wraps", "eas/codegen/llvm_casts.py", 'return t.select(t.compare("fcmp ogt", x, t.like(top, x)), t.like(dst.max, inside), inside)', "return inside", f"tests/backend/test_casts.py -k follows {CPU}"),
    Mutant("large 64-bit integers round twice", "eas/codegen/llvm_casts.py", "        x = _sticky(t, x)\n", "        pass\n", f"tests/backend/test_casts.py -k 'follows and i64' {CPU}"),
    Mutant("negative quotients round to zero", "eas/codegen/llvm_ops.py", 'if floor and dtype.is_signed:', "if False:", f"tests/backend/test_division.py {CPU}"),
    Mutant("INT_MIN // -1 traps", "eas/codegen/llvm_ops.py", "safe = t.select(minus, one, safe)", "pass", f"tests/backend/test_division.py tests/backend/test_ops.py -k div {CPU}"),
    Mutant("shifts by the width keep the value", "eas/codegen/llvm_ops.py", 'too_far = t.compare("icmp uge", n, t.like(dtype.bits, n))', 'too_far = t.compare("icmp ugt", n, t.like(dtype.bits, n))', f"tests/backend/test_ops.py -k sh {CPU}"),
    Mutant("reciprocals divide half a unit off", "eas/codegen/divide_by_scalar.py", 'shift = t.op("fsub", t.op("fmul", size, half), half)', "shift = t.number(-0.5, \"double\")", f"tests/backend/test_division.py tests/backend/test_flat_index.py {CPU}"),
    Mutant("x % 0 is x", "eas/codegen/divide_by_scalar.py", "kept = t.select(by_zero, t.like(0, d), t.like(-1, d))", "kept = t.like(-1, d)", f"tests/backend/test_division.py tests/backend/test_flat_index.py {CPU}"),
    Mutant("strided loads end past the last element", "eas/codegen/strided.py", "        starts[-1] -= step - 1\n", "        pass\n", f"tests/backend/test_strided_rows.py -k behind {CPU}"),
    Mutant("every third element from the wrong register", "eas/codegen/strided.py", "places = [i * step - starts[k] for i, k in enumerate(where)]", "places = [i * step % wide for i, k in enumerate(where)]", f"tests/backend/test_strided_rows.py {CPU}"),
    Mutant("Metal loads below unmasked", "eas/codegen/msl_memory.py", "    if mask is None or mask in m.held:\n        m.define(inst, element)", "    if True:\n        m.define(inst, element)", f"{EDGES} -k 'other and i32' --backend sim"),
    Mutant("large integers round twice to bf16 on Metal", "eas/codegen/msl_casts.py", "if ((kept << lost) != size) kept |= 1;", "", "tests/backend/test_casts.py -k 'follows and i64' --backend sim"),
    Mutant("fp8 on Metal rounds half up", "eas/codegen/msl_casts.py", "uint even = (magnitude >> {drop}) & 1;", "uint even = 1;", "tests/backend/test_casts.py -k 'follows and f8' --backend sim"),
    Mutant("masked atomics return the element", "eas/codegen/msl_atomics.py", 'm.lines.add(f"if ({condition.text}) {m.exprs[inst.out].text} = {done.text};")', 'm.lines.add(f"{m.exprs[inst.out].text} = {done.text};")', "tests/backend/test_atomics.py --backend sim"),
    # --- passes and analyses --------------------------------------------------------------------------
    Mutant("x - x is 0 for floats", "eas/passes/algebra_laws.py", 'case "sub" | "xor" if not x.dtype.is_float:', 'case "sub" | "xor":', "tests/unit/test_passes_simplify_algebra.py"),
    Mutant("not (a < b) is a >= b for NaN", "eas/passes/algebra_laws.py", 'if compare.operands[0].dtype.is_float and compare.op.name not in ("eq", "ne"):', "if False:", "tests/unit/test_passes_simplify_algebra.py"),
    Mutant("-0.0 + 0.0 is -0.0", "eas/passes/algebra_laws.py", 'case "add" if c == 0 and math.copysign(1, c) < 0:', 'case "add" if c == 0:', "tests/unit/test_passes_simplify_algebra.py"),
    Mutant("narrow offsets are added before they are extended", "eas/passes/memory_laws.py", "return x is not None and y is not None and a.dtype.min <= x + y <= a.dtype.max", "return True", "tests/unit/test_passes_simplify_algebra.py"),
    Mutant("a load that is never on reads 0 instead of `other`", "eas/passes/memory_laws.py", "        return (inst.operands[index + 1],)\n", "        pass\n", "tests/unit/test_passes_simplify_algebra.py"),
    Mutant("loads leave loops that write there", "eas/passes/hoist_invariants.py", "return not memory.is_written(", "return memory is not None or memory.is_written(", "tests/unit/test_passes_hoist_invariants.py"),
    Mutant("loads leave loops that may not run", "eas/passes/hoist_invariants.py", 'runs = (bool(trip_count(inst, rw)),) if inst.op.name == "for" else (True, False)', 'runs = (True,) if inst.op.name == "for" else (True, True)', "tests/unit/test_passes_hoist_invariants.py"),
    Mutant("one array as two arguments does not overlap", "eas/passes/effects.py", "return a.space is Space.DEVICE and not (self._unaliased[a.root] or self._unaliased[b.root])", "return False", "tests/unit/test_passes_hoist_invariants.py tests/unit/test_passes_merge_common.py"),
    Mutant("a < b is known where a may equal b", "eas/ranges/transfer.py", "return True if a.hi < b.lo else False if a.lo >= b.hi else None", "return True if a.hi <= b.lo else False if a.lo >= b.hi else None", "tests/unit/test_ranges.py tests/unit/test_fold_masks.py"),
    Mutant("x // 0 is never 0", "eas/ranges/transfer.py", "quotients = [0] if b.lo <= 0 <= b.hi else []", "quotients = [0] if b.lo == b.hi == 0 else []", "tests/unit/test_ranges.py -k outside"),
    Mutant("a condition narrows one too far", "eas/ranges/conditions.py", 'gap = int(name == "lt")', "gap = 1", "tests/unit/test_ranges.py"),
    Mutant("steps of negative strides bound the wrong way", "eas/indexing/boxes.py", "(form.offset + ONE, -stride)", "(form.offset, -stride)", "tests/unit/test_indexing.py"),
    Mutant("a loop counter ends one late", "eas/indexing/bounds.py", "form.offset - Linear(int(last))", "form.offset", "tests/unit/test_indexing.py tests/unit/test_fold_masks.py"),
    Mutant("sums under a condition with infinite factors", "eas/passes/unguard_sums.py", "return any(zeros) and all(z or self._is_finite(v) for z, v in zip(zeros, inst.operands, strict=True))", "return any(zeros)", "tests/unit/test_passes_unguard_sums.py"),
    Mutant("mixed signs keep the width", "eas/dtypes.py", "if d.bits > unsigned.bits and d.bits >= signed.bits", "if d.bits >= unsigned.bits and d.bits >= signed.bits", "tests/unit/test_dtypes.py"),
    Mutant("empty sums lose the sign of zero", "eas/schedule/combines.py", '"add": lambda d: -0.0 if d.is_float else 0', '"add": lambda d: 0.0 if d.is_float else 0', f"{EDGES} -k neutral_element {CPU}"),
    Mutant("the largest of negative integers is 0", "eas/schedule/combines.py", "float(\"-inf\") if d.is_float else d.min", "float(\"-inf\") if d.is_float else 0", f"{EDGES} -k integers_are_reduced {CPU}"),
    Mutant("a simdgroup counts its own total twice", "eas/schedule/lane_scan.py", 'is_before = e.emit("lt", group, mine)', 'is_before = e.emit("le", group, mine)', "tests/backend/test_scan_relayout.py -k scans --backend sim"),
    Mutant("negative keys are counted on Metal", "eas/schedule/lane_rows.py", "if key.dtype.min < 0:", "if False:", "tests/backend/test_order.py -k histogram --backend sim"),
    Mutant("padding is sorted into rows on Metal", "eas/schedule/lane_rows.py", 'both = e.emit("lt", e.emit("max", i, j), e.const(self.n))', 'both = e.emit("le", e.emit("max", i, j), e.const(self.n))', "tests/backend/test_order.py -k 'sort and i32' --backend sim"),
    Mutant("stores past the cache at half an alignment", "eas/codegen/past_cache.py", "low = t.op(\"and\", address, t.like(STREAM_NBYTES - 1, address))", "low = t.op(\"and\", address, t.like(STREAM_NBYTES // 2 - 1, address))", f"{GUARDS} -k rows {CPU}"),
    Mutant("a piece past the cache though a lane is off", "eas/codegen/past_cache.py", 'symbol = f"@llvm.vector.reduce.and.v{flags.lanes}i1"', 'symbol = f"@llvm.vector.reduce.or.v{flags.lanes}i1"', f"{GUARDS} -k 'rows or neighbours' {CPU}"),
    Mutant("the last panel reads a column too many", "eas/codegen/panels.py", 'self.t.compare("icmp sgt", lanes, Reg(f"<{ids}>", "i64", self.wide))', 'self.t.compare("icmp sge", lanes, Reg(f"<{ids}>", "i64", self.wide))', f"{GUARDS} -k 'products and float32 and rows' {CPU}"),
    Mutant("every other column is read one too far", "eas/codegen/panels.py", "*range(wide + 1, 2 * wide, 2)]\n        for v in range(self.vectors):\n            starts = (2 * v * wide, 2 * v * wide + wide - 1)", "*range(wide, 2 * wide, 2)]\n        for v in range(self.vectors):\n            starts = (2 * v * wide, 2 * v * wide + wide)", f"tests/backend/test_contractions.py -k two_apart {CPU}"),
    Mutant("windows of neighbours are read whole", "eas/codegen/near_lanes.py", 'mask = t.compare("icmp sle", numbers, t.splat(last, WIDE))', 'mask = t.compare("icmp sle", numbers, t.splat(t.like(WIDE, last), WIDE))', f"{GUARDS} -k 'apart and shared' {CPU}"),
    Mutant("unsigned atomics compare as signed", "eas/codegen/llvm_atomics.py", 'word = kind if dtype.is_signed else "u" + kind', "word = kind", f"tests/backend/test_atomics.py {CPU}"),
    Mutant("a swap that fails is stored", "eas/codegen/llvm_atomics.py", 'bits = t.select(t.compare("icmp eq", current, wanted), bits, current)', "pass", f"tests/backend/test_atomics.py -k cas {CPU}"),
    Mutant("random words after nine rounds", "eas/codegen/llvm_ops.py", "for _ in range(10):", "for _ in range(9):", f"tests/backend/test_random.py {CPU}"),
    Mutant("masked stores of Metal's vectors go whole", "eas/codegen/msl_vectors.py", "    if (all(mask)) {{\n", "    if (any(mask)) {{\n", f"{EDGES} -k 'across and lt' --backend sim"),
    # --- interop --------------------------------------------------------------------------------------
    Mutant("overlapping written strides accepted", "eas/interop/arguments.py", "if not view.is_contiguous and _overlaps_itself(view.addresses):", "if False:", "tests/unit/test_staging.py"),
    Mutant("a write through a copy is lost", "eas/interop/arguments.py", "                use.view.write_back(use.copy)\n", "                pass\n", "tests/unit/test_staging.py"),
    Mutant("gaps of strided outputs are invented", "eas/interop/views.py", 'return self.array.copy(order="C").reshape(-1)', "return np.zeros(self.array.size, self.array.dtype)", "tests/unit/test_staging.py"),
    Mutant("copies of shared memory are not refused", "eas/interop/arguments.py", "if staged is None or use.view.home != other.view.home or not _share_memory(use.view.addresses, other.view.addresses):", "if True:", "tests/unit/test_staging.py"),
    Mutant("read-only arrays are written", "eas/interop/arguments.py", "    if view.readonly:\n", "    if False:\n", "tests/unit/test_staging.py"),
    Mutant("strides of 2^31 are accepted", "eas/interop/arguments.py", "if found >= 1 << 31:", "if found >= 1 << 33:", "tests/unit/test_arguments.py -k strides_fit"),
    Mutant("DLPack memory may be NULL", "eas/interop/dlpack.py", "return not content.data and all(_shape(content))", "return False", "tests/unit/test_arguments.py -k memory"),
    Mutant("bf16 leaves as uint16", "eas/interop/dlpack.py", "    if dtype in _CODE_OF_EXTENSION:\n        content.code = _code(dtype)\n", "", "tests/unit/test_dlpack.py"),
    # --- runtime --------------------------------------------------------------------------------------
    Mutant("launches that only read the same memory wait, writers do not", "eas/runtime/launch_queue.py", "and (a.is_written or b.is_written)", "and (a.is_written and b.is_written)", "tests/unit/test_launch_queue.py"),
    Mutant("launches side by side in memory overlap", "eas/runtime/launch_queue.py", "a.begin < b.end and b.begin < a.end and (", "a.begin <= b.end and b.begin <= a.end and (", "tests/unit/test_launch_queue.py"),
    Mutant("one helper thread too many", "eas/runtime/pool_worker_llvm.py", "%has_room = icmp slt i32 %helpers, %limit", "%has_room = icmp sle i32 %helpers, %limit", "tests/unit/test_native_pool.py -k no_more_threads"),
    Mutant("a run of programs loses its last one", "eas/runtime/pool_worker_llvm.py", "%run_end = add i64 %run_begin, %size", "%run_end = add i64 %run_begin, %share", "tests/unit/test_native_pool.py -k exactly_once"),
    Mutant("multiples of 8 are multiples of 16", "eas/facts.py", "return int(value) % 16 == 0", "return int(value) % 8 == 0", "tests/unit/test_facts.py"),
    Mutant("multiples of 8 are multiples of 16, natively", "eas/runtime/launch_llvm.py", "%low4 = and i64 %word, 15", "%low4 = and i64 %word, 7", "tests/unit/test_fast_launch.py -k hold_exactly"),
    Mutant("0 is positive, natively", "eas/runtime/launch_llvm.py", "%is_positive = icmp sgt i64 %word, 0", "%is_positive = icmp sge i64 %word, 0", "tests/unit/test_fast_launch.py -k hold_exactly"),
    Mutant("shifted views are in place, natively", "eas/runtime/launch_llvm.py", "%differ = icmp ne i64 %lo, %lo2", "%differ = icmp ult i64 %lo, %lo2", "tests/unit/test_facts.py"),
    Mutant("views that share one element are apart, natively", "eas/runtime/launch_llvm.py", "%c1 = icmp ult i64 %lo, %hi2\n", "%hi2.1 = sub i64 %hi2, 4\n  %c1 = icmp ult i64 %lo, %hi2.1\n", "tests/unit/test_fast_launch.py -k hold_exactly"),
    Mutant("2^31 elements fit 32 bits", "eas/facts.py", "e.size <= 0x7FFFFFFF", "e.size <= 0x80000000", "tests/unit/test_facts.py"),
    Mutant("blocks of the memory pool end past their memory", "eas/interop/pool.py", "memory = np.empty(size + ALIGNMENT, np.uint8)", "memory = np.empty(size, np.uint8)", "tests/unit/test_tensor_memory.py"),
    Mutant("a resized storage lacks one element", "eas/interop/views.py", "return int((tensor.storage_offset() + reach) * tensor.element_size())", "return int((tensor.storage_offset() + reach - 1) * tensor.element_size())", "tests/unit/test_arguments.py -k resized"),
    Mutant("grids round down", "eas/runtime/grid.py", "_extent(info, -(-extent // block), \"axis 0\")", "_extent(info, max(1, extent // block), \"axis 0\")", "tests/unit/test_grid.py"),
    Mutant("grids of 2^31 programs are accepted", "eas/runtime/grid.py", "MAX_GRID_EXTENT = 2**31 - 1", "MAX_GRID_EXTENT = 2**32", "tests/unit/test_grid.py"),
    Mutant("1025 threads are accepted", "eas/metal_sim/grids.py", "if total < 1 or total > min(limit, MAX_THREADS):", "if total < 1 or total > MAX_THREADS + 1:", "tests/unit/test_metal_sim.py tests/sim/test_sim_strict.py -k 'grids or limits'"),
    Mutant("constants of more than 4 KB are accepted", "eas/metal_sim/arguments.py", "if len(data) > MAX_CONSTANT_NBYTES:", "if False:", "tests/unit/test_metal_sim.py tests/sim -k 'limits or bytes or constants'"),
    Mutant("numbers that do not fit are cut", "eas/metal_sim/arguments.py", "or number != given or not lo <= number <= hi:", "or number != given:", "tests/unit/test_metal_sim.py tests/sim -k 'limits or bytes or constants'"),
    # --- found by random and fresh mutants, each of which survived the whole suite once ------------------
    Mutant("and, or of a mask that a formula decides are mixed up", "eas/passes/fold_masks.py", "return (other if bool(literal) == neutral else this,)", "return (other if bool(literal) != neutral else this,)", f"tests/backend/test_mask_numbers.py -k formulas_decide {CPU}"),
    Mutant("quotients by negative numbers are joined", "eas/passes/join_quotients.py", "is_positive = c > 0 and all(self.atoms[i][0] in self.positive for i in monomial)", "is_positive = c > 0", f"tests/backend/test_flat_index.py -k another_order {CPU}"),
    Mutant("an argument of unknown sign is a positive one", "eas/passes/join_quotients.py", 'a.attr("range", (0, 0))[0] > 0}', 'a.attr("range", (0, 0))[0] >= 0}', f"tests/backend/test_flat_index.py -k another_order {CPU}"),
    Mutant("native launches read -1 for huge integers", "eas/runtime/launch_read_llvm.py", "%in_range = icmp eq i32 %over, 0\n  %low", "%in_range = icmp eq i32 0, 0\n  %low", "tests/unit/test_repeat_launch.py -k more_than_64"),
    Mutant("barriers forget threadgroup memory", "eas/codegen/msl_control.py", "has_memory = any(other", "has_memory = all(other", "tests/unit/test_msl.py -k barriers_name"),
    Mutant("top-k looks at the last place but one", "eas/codegen/sort_rows.py", "%last.i = sub i64 %count, 1", "%last.i = sub i64 %count, 2", f"tests/backend/test_order.py -k far_behind {CPU}"),
    Mutant("known kernels write strides that overlap by one", "eas/interop/quick.py", "(place.is_written and step <= last)", "(place.is_written and step < last)", "tests/unit/test_tensor_launch.py -k every_kind"),
    Mutant("known kernels do not see torch's negative bit", "eas/interop/quick.py", " or tensor.is_nested or tensor.is_neg():", " or tensor.is_nested:", "tests/unit/test_tensor_launch.py -k odd_tensors"),
    Mutant("private maxima of unsigned numbers are signed", "eas/codegen/llvm_atomics.py", "{'s' if dtype.is_signed else 'u'}{kind}", "s{kind}", f"tests/backend/test_atomics.py -k keep_copies {CPU}"),
    Mutant("shuffles read behind the last thread", "eas/schedule/simdgroups.py", 'inside = p.e.emit("and", inside, p.e.emit("lt", target, p.e.const(threads)))', "pass", f"tests/backend/test_simd.py -k not_there {CPU}"),
    Mutant("short numbers below the largest one are all", "eas/schedule/narrow_integers.py", 'is_outside = rw.emit("gt", number, most) if name', 'is_outside = rw.emit("ge", number, most) if name', f"tests/backend/test_narrow_integers.py -k ends_of_a_short {CPU}"),
    Mutant("32 bytes are 64, natively", "eas/runtime/launch_llvm.py", "%low6 = and i64 %word, 63", "%low6 = and i64 %word, 31", "tests/unit/test_fast_launch.py -k of_alignment"),
    Mutant("32 bytes are 64", "eas/facts.py", "return extents[fact.arg].begin % 64 == 0", "return extents[fact.arg].begin % 32 == 0", "tests/unit/test_facts.py -k alignment"),
    Mutant("equal floats are added as one product", "eas/passes/derive_inductions.py", "    if param.type.dtype.is_float and not param.type.is_pointer:\n", "    if False:\n", f"tests/backend/test_control.py -k equal_floats {CPU}"),
    Mutant("what an assertion sees behind the edge is not computed", "eas/schedule/contractions.py", "(user.op.is_pure and user.op.has(Trait.ELEMENTWISE) and not user.regions)", "(user.op.has(Trait.ELEMENTWISE) and not user.regions)", f"tests/backend/test_contractions.py -k that_are_seen {CPU}"),
)  # fmt: skip
