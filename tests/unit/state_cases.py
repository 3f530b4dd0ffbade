"""Ways in which a kernel can read what is not among its arguments, each as a small program."""

from typing import NamedTuple


class Case(NamedTuple):
    """`value` is a number in a kernel that depends on `n` after `change` has run with this `n`."""

    name: str
    setup: str
    change: str
    value: str
    seen_in_process: bool = True
    """Whether a change between two launches of one process is seen; docs/launching.md names what is not."""


CASES = [
    Case("sys_argv", "import sys", "sys.argv = ['x'] * n", "len(sys.argv)"),
    Case("sys_attribute", "import sys", "sys.my_setting = n", "sys.my_setting"),
    Case("argv_in_place", "import sys", "sys.argv[:] = ['x', str(n)]", "int(sys.argv[1])"),
    Case("builtin_constant", "import builtins", "builtins.MY_CONST = n", "MY_CONST"),
    Case("builtin_attribute", "import builtins", "builtins.MY_OTHER = n", "builtins.MY_OTHER"),
    Case("builtin_list", "import builtins", "builtins.MY_LIST = [n]", "MY_LIST[0]"),
    Case("builtin_replaced", "import builtins", "builtins.divmod = lambda a, b: n", "divmod(1, 1)"),
    Case("builtin_shadowed", "", "globals().update({'sum': (lambda x: n)})", "sum(())"),
    Case("environment", "import os", "os.environ['STATE_CASE'] = str(n)", "int(os.environ['STATE_CASE'])"),
    Case("environment_get", "import os", "os.environ['STATE_CASE'] = str(n)", "int(os.environ.get('STATE_CASE', '0'))"),
    Case("environment_by_name", "from os import environ", "environ['STATE_CASE2'] = str(n)", "int(environ['STATE_CASE2'])"),
    Case("getenv", "import os", "os.environ['STATE_CASE3'] = str(n)", "int(os.getenv('STATE_CASE3'))", False),
    Case("recursion_limit", "import sys", "sys.setrecursionlimit(5000 + n)", "sys.getrecursionlimit() - 5000", False),
    Case("random", "import random", "random.seed(n)", "random.random()", False),
    Case("numpy_generator", "import numpy as np", "globals().update(RNG=np.random.default_rng(n))", "RNG.random()"),
    Case("numpy_random", "import numpy as np", "np.random.seed(n)", "np.random.rand()", False),
    Case("numpy_array", "import numpy as np\nWEIGHTS = np.zeros(3)", "WEIGHTS[:] = n", "WEIGHTS[1]"),
    Case("numpy_matrix_item", "import numpy as np\nMATRIX = np.zeros((3, 3), np.float32).T", "MATRIX[2, 1] = n", "MATRIX[2, 1].item()"),
    Case("numpy_scalar", "import numpy as np", "globals().update(SCALAR=np.float32(n))", "SCALAR"),
    Case("patched_math", "import math", "math.pi = float(n)", "math.pi"),
    Case("patched_math_function", "import math", "math.state = lambda: n", "math.state()"),
    Case("patched_numpy", "import numpy as np", "np.my_constant = n", "np.my_constant"),
    Case("patched_eas", "", "eas.my_constant = n", "eas.my_constant"),
    Case("patched_language", "", "mk.my_constant = n", "mk.my_constant"),
    Case("frompyfunc", "import numpy as np\nCOUNT = [0]\nUFUNC = np.frompyfunc(lambda x: COUNT[0] + x, 1, 1)", "COUNT[0] = n", "UFUNC(0)", False),
    Case("frozen_ufunc", "import numpy as np", "globals().update(UF=np.frompyfunc((lambda x: n + x), 1, 1))", "UF(0)"),
    Case("memory_map", "import numpy as np, tempfile\nFILE = tempfile.mkstemp()[1]", "np.full(4, n, np.float32).tofile(FILE)", "np.memmap(FILE, np.float32)[0]", False),
    Case("module_attribute", "import types\nCFG = types.ModuleType('cfg')", "CFG.scale = n", "CFG.scale"),
    Case("nested_modules", "import types\nA = types.ModuleType('a')\nA.b = types.ModuleType('b')\nA.b.c = types.ModuleType('c')", "A.b.c.scale = n", "A.b.c.scale"),
    Case("module_for_a_helper", "import types\nM1 = types.ModuleType('m1')\ndef scale_of(m):\n    return m.scale", "M1.scale = n", "scale_of(M1)"),
    Case("library_for_a_helper", "import sys\ndef argument_of(s):\n    return len(s.argv)", "sys.argv = ['x'] * n", "argument_of(sys)"),
    Case("module_in_a_container", "import types\nM2 = types.ModuleType('m2')\nMODULES = {'one': [M2]}", "M2.scale = n", "MODULES['one'][0].scale"),
    Case("module_getattr", "import types\nM3 = types.ModuleType('m3')\nexec('VALUES = {}\\ndef __getattr__(name): return VALUES[name]', vars(M3))", "M3.VALUES['scale'] = n", "M3.scale"),
    Case("module_subclass", "import types\nHIDDEN = [0]\nclass Lazy(types.ModuleType):\n    @property\n    def scale(self):\n        return HIDDEN[0]\nM4 = Lazy('m4')", "HIDDEN[0] = n", "M4.scale"),
    Case("imported_inside", "import sys, types\nsys.modules['inner_cfg'] = types.ModuleType('inner_cfg')\nclass Imports:\n    @property\n    def x(self):\n        import inner_cfg\n        return inner_cfg.scale\nIMPORTS = Imports()", "sys.modules['inner_cfg'].scale = n", "IMPORTS.x"),
    Case("imported_from", "import sys, types\nsys.modules['inner_cfg2'] = types.ModuleType('inner_cfg2')\nclass Imports2:\n    def __getitem__(self, i):\n        from inner_cfg2 import scale\n        return scale\nIMPORTS2 = Imports2()", "sys.modules['inner_cfg2'].scale = n", "IMPORTS2[0]"),
    Case("instance", "class Cfg:\n    pass\nCFG2 = Cfg()", "CFG2.scale = n", "CFG2.scale"),
    Case("deep_instance", "class Node:\n    pass\nROOT = Node()\nROOT.a = Node()\nROOT.a.b = Node()\nROOT.a.b.c = Node()\nROOT.a.b.c.d = Node()", "ROOT.a.b.c.d.scale = n", "ROOT.a.b.c.d.scale"),
    Case("instances_in_a_list", "class Layer:\n    pass\nLAYERS = [Layer(), Layer()]", "LAYERS[1].scale = n", "LAYERS[1].scale"),
    Case("class_attribute", "class Base:\n    scale = 0\nclass Derived(Base):\n    pass", "Base.scale = n", "Derived.scale"),
    Case("class_attribute_of_instance", "class Base2:\n    scale = 0\nOBJECT = Base2()", "Base2.scale = n", "OBJECT.scale"),
    Case("slots", "class Slotted:\n    __slots__ = ('scale',)\nSLOTTED = Slotted()", "SLOTTED.scale = n", "SLOTTED.scale"),
    Case("slots_and_getattr", "class Slotted2:\n    __slots__ = ('scale', 'unset')\n    def __getattr__(self, name):\n        raise KeyError(name)\nSLOTTED2 = Slotted2()", "SLOTTED2.scale = n", "SLOTTED2.scale"),
    Case("property", "class Prop:\n    @property\n    def scale(self):\n        return self._hidden + 1\nPROP = Prop()", "PROP._hidden = n", "PROP.scale"),
    Case("property_of_a_global", "STORE = {}\nclass Prop2:\n    @property\n    def scale(self):\n        return STORE['x']\nPROP2 = Prop2()", "STORE['x'] = n", "PROP2.scale"),
    Case("descriptor", "class Field:\n    def __get__(self, owner, kind):\n        return self.held\nFIELD = Field()\nclass Described:\n    scale = FIELD\nDESCRIBED = Described()", "FIELD.held = n", "DESCRIBED.scale"),
    Case("getattr_method", "class Any:\n    def __getattr__(self, name):\n        return TABLE_OF_ANY[name]\nTABLE_OF_ANY = {}\nANY = Any()", "TABLE_OF_ANY['scale'] = n", "ANY.scale"),
    Case("getitem_method", "class Items:\n    def __getitem__(self, key):\n        return self.rows[key]\nITEMS = Items()\nITEMS.rows = {}", "ITEMS.rows['a'] = n", "ITEMS['a']"),
    Case("operator_method", "class Num:\n    def __add__(self, other):\n        return self.inner + other\nNUM = Num()", "NUM.inner = n", "NUM + 1"),
    Case("callable_object", "class Call:\n    def __call__(self):\n        return self.inner2\nCALL = Call()", "CALL.inner2 = n", "CALL()"),
    Case("bound_method", "class Meth:\n    def get(self):\n        return self.inner3\nBOUND = Meth().get", "BOUND.__self__.inner3 = n", "BOUND()"),
    Case("container_method", "D = {}\nLOOKUP = D.get", "D['k'] = n", "LOOKUP('k')"),
    Case("dataclass", "import dataclasses\n@dataclasses.dataclass\nclass Data:\n    scale: int = 0\nDATA = Data()", "DATA.scale = n", "DATA.scale"),
    Case("frozen_dataclass", "import dataclasses\n@dataclasses.dataclass(frozen=True)\nclass Data2:\n    scale: int", "globals().update(DATA2=Data2(n))", "DATA2.scale"),
    Case("enum", "import enum", "globals().update(COLOR=enum.Enum('COLOR', {'RED': n}))", "COLOR.RED.value"),
    Case("enum_member", "import enum", "globals().update(MEMBER=enum.IntEnum('C2', {'RED': n}).RED)", "MEMBER.value"),
    Case("named_tuple", "import collections\nPair = collections.namedtuple('Pair', 'a b')", "globals().update(PAIR=Pair(n, 2))", "PAIR.a"),
    Case("namespace", "import types\nNS = types.SimpleNamespace()", "NS.scale = n", "NS.scale"),
    Case("mapping_proxy", "import types\nBEHIND = {}\nPROXY = types.MappingProxyType(BEHIND)", "BEHIND['a'] = n", "PROXY['a']"),
    Case("deque", "import collections\nDEQUE = collections.deque([0])", "DEQUE[0] = n", "DEQUE[0]"),
    Case("default_dict", "import collections\nDD = collections.defaultdict(int)", "DD['a'] = n", "DD['a']"),
    Case("bytearray", "RAW = bytearray(1)", "RAW[0] = n", "RAW[0]"),
    Case("array", "import array\nARRAY = array.array('i', [0])", "ARRAY[0] = n", "ARRAY[0]"),
    Case("ctypes_array", "import ctypes\nCARRAY = (ctypes.c_int * 2)()", "CARRAY[1] = n", "CARRAY[1]"),
    Case("context_variable", "import contextvars\nVAR = contextvars.ContextVar('VAR')", "VAR.set(n)", "VAR.get()"),
    Case("partial", "import functools\ndef give(x):\n    return x", "globals().update(PARTIAL=functools.partial(give, n))", "PARTIAL()"),
    Case("partial_keywords", "import functools\ndef give2(x):\n    return x\nPARTIAL2 = functools.partial(give2, x=0)", "PARTIAL2.keywords['x'] = n", "PARTIAL2()"),
    Case("cached_helper", "import functools\nCACHED = [0]\n@functools.lru_cache\ndef cached():\n    return CACHED[0]", "CACHED[0] = n; cached.cache_clear()", "cached()"),
    Case("lambda_in_container", "", "globals().update(OPS={'a': [(lambda n: lambda: n)(n)]})", "OPS['a'][0]()"),
    Case("closure", "def make():\n    inner = [0]\n    def get():\n        return inner[0]\n    return inner, get\nINNER, GET = make()", "INNER[0] = n", "GET()"),
    Case("default_argument", "def with_default(x=0):\n    return x", "with_default.__defaults__ = (n,)", "with_default()"),
    Case("keyword_default", "def with_kw(*, x=0):\n    return x", "with_kw.__kwdefaults__ = {'x': n}", "with_kw()"),
    Case("mutable_default", "def with_list(x=[0]):\n    return x[0]", "with_list.__defaults__[0][0] = n", "with_list()"),
    Case("object_as_default", "class Held:\n    pass\ndef with_object(x=Held()):\n    return x.scale", "with_object.__defaults__[0].scale = n", "with_object()"),
    Case("function_attribute", "def tagged():\n    return 0", "tagged.scale = n", "tagged.scale"),
    Case("replaced_code", "def swapped():\n    return 0", "swapped.__code__ = eval(f'lambda: {n}').__code__", "swapped()"),
    Case("key_function", "WEIGHT = [0]\ndef weight(x):\n    return x * WEIGHT[0]", "WEIGHT[0] = n - 2", "max((1, 2), key=weight)"),
    Case("getattr_by_string", "import types\nM5 = types.ModuleType('m5')", "M5.scale = n", "getattr(M5, 'scale')"),
    Case("globals_by_string", "", "globals().update(BY_STRING=n)", "globals()['BY_STRING']"),
    Case("vars_by_string", "import types\nM6 = types.ModuleType('m6')", "M6.scale = n", "vars(M6)['scale']"),
    Case("hasattr", "import types\nM7 = types.ModuleType('m7')", "M7.__dict__.update({'scale': n} if n == 2 else {})", "1 if hasattr(M7, 'scale') else 0", False),
    Case("dict_of_a_module", "import types\nM8 = types.ModuleType('m8')", "M8.scale = n", "M8.__dict__['scale']"),
    Case("globals_of_a_function", "def anchor():\n    return 0", "globals().update(ANCHORED=n)", "anchor.__globals__['ANCHORED']"),
    Case("attrgetter", "import operator, types\nM9 = types.ModuleType('m9')", "M9.scale = n", "operator.attrgetter('scale')(M9)"),
    Case("string_format", "import types\nM10 = types.ModuleType('m10')", "M10.scale = n", "int('{0.scale}'.format(M10))"),
    Case("file", "import tempfile\nPATH = tempfile.mkstemp()[1]", "open(PATH, 'w').write(str(n))", "int(open(PATH).read())", False),
    Case("time", "import time", "globals().update(NOW=n)", "NOW + 0 * time.time()"),
    Case("eval", "", "globals().update(EVALUATED=n)", "eval('EVALUATED')"),
    Case("star_import", "import sys, types\nSTAR = types.ModuleType('star')\nsys.modules['star'] = STAR\nSTAR.STARRED = 0", "STAR.STARRED = n; exec('from star import *', globals())", "STARRED"),
    Case("comprehension", "ROW = [0]", "ROW[0] = n", "sum_of([r for r in ROW])"),
]

PRELUDE = """
import eas
from eas import mk

def sum_of(items):
    total = 0
    for item in items:
        total = total + item
    return total

"""


def module_text() -> str:
    """All cases as one module: a kernel, a plain function and a change for each."""
    parts = [PRELUDE]
    for case in CASES:
        parts.append(
            f"{case.setup}\n"
            f"@eas.kernel\ndef kernel_{case.name}(out):\n    mk.store(out, 0, float({case.value}))\n\n"
            f"def plain_{case.name}():\n    return float({case.value})\n\n"
            f"def change_{case.name}(n):\n    {case.change}\n\n"
        )
    return "\n".join(parts)
