"""Rewrite hooks with the meaning of ordinary Python, and a way to load source that has no file."""

import itertools
import linecache
import operator

_OPS = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "==": operator.eq,
    "!=": operator.ne, "is": operator.is_, "is not": operator.is_not,
    "in": lambda a, b: a in b, "not in": lambda a, b: a not in b,
}  # fmt: skip
_numbers = itertools.count()


def load_source(source, **names):
    """Execute source that tracebacks and `linecache` can show; returns its globals."""
    filename = f"<source {next(_numbers)}>"
    linecache.cache[filename] = (len(source), None, source.splitlines(True), filename)
    names.setdefault("__name__", "loaded")
    exec(compile(source, filename, "exec"), names)
    return names


class Undefined:
    """Raises NameError wherever Python would have."""

    def __init__(self, name):
        self.name = name

    def _use(self, *_):
        raise NameError(self.name)

    __repr__ = __bool__ = __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = _use
    __lt__ = __gt__ = __le__ = __ge__ = __mod__ = __rmod__ = __iter__ = __call__ = _use
    __eq__ = __ne__ = _use
    __hash__ = object.__hash__


class PlainHooks:
    spell = None  # operators keep their meaning

    def __init__(self):
        self.names = []
        self.states = []

    def if_(self, test, then, orelse, names, state):
        self.states.append(names)
        if test:
            return then(*state)
        return orelse(*state) if orelse else state

    def while_(self, test, body, names, state, stop):
        self.states.append(names)
        assert stop is None or state[stop] is False
        while test(*state):
            state = body(*state)
        return state

    def for_(self, items, body, names, state, stop):
        self.states.append(names)
        assert stop is None or state[stop] is False
        for item in items:
            state = body(item, *state)
            if stop is not None and state[stop]:
                break
        return state

    def undefined(self, name):
        return Undefined(name)

    def named(self, shape, value):
        for part in value if isinstance(value, tuple) else [value]:
            if isinstance(part, Undefined):
                raise NameError(part.name)
        self.names.append(shape)
        return value

    def made(self, fn):
        return fn

    def call(self, fn):
        return fn

    def and_(self, *operands):
        value = True
        for operand in operands:
            value = operand()
            if not value:
                break
        return value

    def or_(self, *operands):
        value = False
        for operand in operands:
            value = operand()
            if value:
                break
        return value

    def not_(self, value):
        return not value

    def ifexp(self, test, then, orelse):
        return then() if test else orelse()

    def compare(self, left, links):
        result = True
        for op, right in links:
            value = right()
            result = _OPS[op](left, value)
            if not result:
                break
            left = value
        return result

    def in_(self, item, container):
        return item in container

    def iterate(self, items):
        return items

    def filter_(self, test):
        return test

    def assert_(self, test, message):
        if not test:
            raise AssertionError(*([message()] if message else []))

    def raise_(self):
        pass
