# mypy: ignore-errors
# ruff: noqa: B023, C400, F842, RET501, RET502, RET503, RET505, RUF021
"""Functions whose control flow is odd on purpose, each with the calls to compare."""

LOG = []


def emit(value):
    LOG.append(repr(value))
    return value


SAME = []


def same(*calls):
    def add(fn):
        SAME.append((fn, calls))
        return fn

    return add


PAIRS = [(a, b) for a in range(-2, 5) for b in range(-1, 4)]
SINGLES = [(n,) for n in range(-2, 9)]


@same(*SINGLES)
def early_return(n):
    if n < 0:
        return "negative"
    if n == 0:
        emit("zero")
        return
    if n > 5:
        if n > 7:
            return "huge"
        emit("large")
    else:
        emit("small")
    return n * 2


@same(*SINGLES)
def falls_off_the_end(n):
    if n > 3:
        return n
    emit(n)


@same(*SINGLES)
def bare_returns(n):
    emit("start")
    if n < 2:
        return
    if n < 4:
        emit("two or three")
        if n == 3:
            return None
        emit("two")
    emit("end")


@same(*PAIRS)
def return_in_every_branch(a, b):
    if a > b:
        return "gt"
    elif a == b:
        return "eq"
    else:
        return "lt"


@same(*PAIRS)
def return_inside_nested_loops(a, b):
    for i in range(a):
        for j in range(b):
            emit((i, j))
            if i * j == 2:
                return i, j
        else:
            emit("inner done")
        emit("row")
    else:
        emit("outer done")
    emit("after")
    return a + b


@same(*PAIRS)
def return_from_while_true(a, b):
    n = 0
    while True:
        n += 1
        if n > a:
            if b > 1:
                return n, "b"
            emit(n)
        if n > 5:
            return n


@same(*PAIRS)
def while_true_inside_for(a, b):
    for i in range(a):
        n = i
        while True:
            n += 1
            if n == 3:
                break
            if n > b + 3:
                return "gone", i, n
        emit(n)
    return "done"


@same(*PAIRS)
def breaks_and_continues(a, b):
    total = 0
    for i in range(6):
        if i == a:
            continue
        if i > 2:
            if i == b + 2:
                emit("break")
                break
            emit("big")
        else:
            if i == b:
                emit("skip")
                continue
        total += i
    else:
        total += 100
    return total, i


@same(*PAIRS)
def while_else(a, b):
    while a < b and emit(a) < 10:
        a += 1
        if a == 2:
            break
    else:
        emit("no break")
        return "else"
    return a


@same(*PAIRS)
def for_else_with_jumps(a, b):
    found = []
    for i in range(4):
        for j in range(4):
            if j == a:
                continue
            if j > b:
                break
        else:
            emit("continue outer")
            continue
        found.append((i, j))
        if i == 2:
            break
    else:
        return "all", found
    return found


@same(*SINGLES)
def dead_code(n):
    for i in range(n):
        if i == 3:
            break
            emit("never")
        continue
        emit("never")
    if n > 4:
        raise ValueError("n")
        emit("never")
    return n
    emit("never")


@same(*PAIRS)
def complex_while_test(a, b):
    while not (a >= b or a < -1) and (0 <= a < 3 or a % 2) and (a if b else True):
        emit(a)
        a += 1
    return a


@same(*PAIRS)
def evaluation_order(a, b):
    x = emit(a) and emit(b) or emit("neither")
    y = emit("yes") if emit(a) else emit("no")
    z = emit(a) < emit(b) < emit(2) != emit(9)
    w = not emit(a)
    v = emit(a) in [emit(b), 1] or emit(b) not in (emit(a), 2)
    return x, y, z, w, v, a is b, a is not None


@same(*SINGLES)
def possibly_unbound(n):
    if n > 2:
        late = n
    emit("before")
    return late


@same(*SINGLES)
def unbound_after_loop(n):
    for i in range(n):
        square = i * i
    return i, square


@same(*SINGLES)
def tuple_targets(n):
    pairs = [(i, (i + 1, [i, i, i])) for i in range(n)]
    rest = None
    for a, (b, [first, *rest]) in pairs:
        a, b = b, a
        emit((a, b, first, rest))
    [x, *y], z = ("abc", n)
    p = q = r = [n]
    return rest, x, y, z, p is q is r


@same(*SINGLES)
def odd_targets(n):
    store = {}
    box = [0, 0]
    for store[emit("key")] in range(n):
        box[0], box[1] = box[1] + 1, store["key"]
    for box[0], other in zip(range(n), "abc", strict=False):
        emit(other)
    box[n > 2] += 5
    return store, box


@same(*SINGLES)
def augmented_on_lists(n):
    kept = seen = []
    for i in range(n):
        seen += [i]
        if i % 2:
            seen *= 2
    count: int = 0
    unset: int
    count -= n
    return kept is seen, kept, count


@same(*SINGLES)
def comprehensions(n):
    i = "outer"
    a = [i * j for i in range(n) if i % 2 for j in range(i) if j > 1 and i != j]
    b = {k: v for k, v in enumerate("abc") if k < n}
    c = {x % 3 for x in range(n)}
    d = sum(x + y for x in range(n) for y in (1, 2) if 0 < x < 4)
    return i, a, b, c, d, list(x if x else -1 for x in range(n))


@same(*SINGLES)
def walrus(n):
    if (m := n * 2) > 4:
        m += 1
    x = [k := 3, k + m]
    return m, x, k


@same(*SINGLES)
def nested_functions(n):
    total = 0

    def add(x, by=n + 1, *, twice=False):
        if twice:
            return x + 2 * by
        for i in range(x):
            if i == 2:
                return i + total
        return x + by

    for i in range(n):
        total = add(i) + add(i, twice=i > 1)

        def scaled(x):
            return x * i + total

        emit(scaled(2))
    pick = (lambda x, k=3: x if x > k else -x) if n > 2 else (lambda x: not x)
    return total, pick(n)


@same(*SINGLES)
def closures_see_later_changes(n):
    acc = 0

    def read():
        return acc

    fs = []
    for i in range(n):
        acc += 1
        emit(read())
        fs.append(lambda: (i, acc))
        if acc > 2:
            acc += 10
            emit(read())
    acc += 1
    return [f() for f in fs], read(), sum(acc for _ in range(2))


@same(*SINGLES)
def static_helpers(n):
    return helper(helper(n, k=2), 5), sorted([3, n, 1], key=lambda x: -x), f"{n!r:>4}{helper(n)}"


def helper(n, k=1):
    return n + k if n > k else k - n


@same(*SINGLES)
def raises(n):
    if n > 6:
        raise ValueError(f"bad {n}")
    for i in range(n):
        if i == 4:
            raise KeyError(i) from None
    if n < 0:
        return "neg"
    else:
        raise ArithmeticError("end")


@same(*SINGLES)
def only_a_loop(n):
    for _ in range(n):
        pass


@same(*SINGLES)
def only_pass(n):
    pass


@same(*SINGLES)
def docstring_only(n):
    """Nothing else."""


@same((1,), (1, 2), (1, 2, 3))
def star_args(*args):
    out = {}
    for i, arg in enumerate(args):
        out = dict(out, **{f"k{i}": arg})
        if i == 1:
            args = (*args, *out)
    return out, args


@same(*SINGLES)
def reused_name(n):
    t = "text"
    emit(t)
    for i in range(n):
        t = i
        emit(t)
        if t > 2:
            t = [t]
            emit(t)
    t = None
    while n > 0:
        t, n = n, n - 2
        emit(t)
    return n
