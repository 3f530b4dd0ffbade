"""`eas.torch_op`: schemas, fakes, gradients, vmap, torch.compile, autocast, and what it refuses."""

from __future__ import annotations

import itertools
import shutil

import pytest

import eas
from eas import mk

torch = pytest.importorskip("torch")
from torch import Tensor  # noqa: E402

needs_compiler = pytest.mark.skipif(shutil.which("g++") is None, reason="torch.compile needs a C++ compiler (g++)")
_numbers = itertools.count()


@eas.kernel
def square_kernel(x, y, N, BLOCK: eas.constexpr):
    offs = mk.program_id(0) * BLOCK + mk.arange(0, BLOCK)
    value = mk.load(x, offs, offs < N)
    mk.store(y, offs, value * value, offs < N)


@eas.kernel
def slope_kernel(grad, x, dx, N, BLOCK: eas.constexpr):
    offs = mk.program_id(0) * BLOCK + mk.arange(0, BLOCK)
    mk.store(dx, offs, 2 * mk.load(x, offs, offs < N) * mk.load(grad, offs, offs < N), offs < N)


@eas.kernel
def add_to_kernel(x, y, N, BLOCK: eas.constexpr):
    offs = mk.program_id(0) * BLOCK + mk.arange(0, BLOCK)
    mk.store(y, offs, mk.load(x, offs, offs < N) + mk.load(y, offs, offs < N), offs < N)


def square_backward(grad: Tensor, x: Tensor) -> Tensor:
    dx = torch.empty(x.shape, dtype=x.dtype)
    slope_kernel(grad, x, dx, x.numel(), BLOCK=64)
    return dx


@eas.torch_op("eas_test::square", backward=square_backward, vmap="elementwise")
def square(x: Tensor) -> Tensor:
    y = torch.empty(x.shape, dtype=x.dtype)
    square_kernel(x, y, x.numel(), BLOCK=64)
    return y


@eas.torch_op("eas_test::add_to", mutates_args=("y",))
def add_to(x: Tensor, y: Tensor) -> None:
    add_to_kernel(x, y, x.numel(), BLOCK=64)


def new_name():
    return f"eas_test::made_{next(_numbers)}"


def test_operator_computes_and_passes_opcheck():
    x = torch.randn(3, 5, requires_grad=True)
    assert torch.equal(square(x), x * x)
    assert set(torch.library.opcheck(square, (x,)).values()) == {"SUCCESS"}
    assert set(torch.library.opcheck(square, (torch.randn(4, 6).T,)).values()) == {"SUCCESS"}
    assert torch.equal(torch.ops.eas_test.square(x), x * x)


def test_gradients():
    assert torch.autograd.gradcheck(square, torch.randn(3, 5, dtype=torch.float64, requires_grad=True))
    x = torch.randn(3, 5, requires_grad=True)
    square(x).sum().backward()
    assert torch.equal(x.grad, 2 * x)


def test_an_operator_that_writes_its_argument():
    x, y = torch.randn(10), torch.ones(10)
    version = y._version
    add_to(x, y)
    assert torch.equal(y, x + 1)
    assert y._version > version
    assert set(torch.library.opcheck(add_to.op, (x, y)).values()) == {"SUCCESS"}
    with pytest.raises(eas.LostWrite, match="a torch tensor that requires grad: autograd would miss the write"):
        add_to(x, torch.ones(10, requires_grad=True))


def test_vmap_of_elementwise_operators_is_one_call():
    x = torch.randn(4, 3, 5)
    for axis in (0, 1, 2):
        assert torch.equal(torch.vmap(square, in_dims=axis)(x), (x * x).movedim(axis, 0))


def test_vmap_of_other_operators_loops():
    @eas.torch_op(new_name(), fake=lambda x: (torch.empty_like(x), torch.empty_like(x)))
    def both(x: Tensor) -> tuple[Tensor, Tensor]:
        return x.clone(), x * 2

    x = torch.randn(4, 3)
    once, twice = torch.vmap(both, in_dims=1)(x)
    assert torch.equal(once, x.T)
    assert torch.equal(twice, 2 * x.T)


def test_name_comes_from_the_function():
    @eas.torch_op
    def eas_test_named(x: Tensor) -> Tensor:
        return x.clone()

    assert eas_test_named._name.endswith("::eas_test_named")
    with pytest.raises(eas.ArgumentError, match="'no name' is no name of an operator"):
        eas.torch_op("no name")(lambda x: x)


def test_strings_and_numbers_reach_the_backward_by_name():
    def back(grad: Tensor, factor: float, kind: str) -> Tensor:
        return grad * factor if kind == "times" else grad

    @eas.torch_op(new_name(), backward=back)
    def scaled(x: Tensor, factor: float, kind: str = "times") -> Tensor:
        return x * factor if kind == "times" else x + factor

    x = torch.randn(3, requires_grad=True)
    scaled(x, 3.0).sum().backward()
    assert x.grad.tolist() == [3, 3, 3]
    x.grad = None
    scaled(x, 3.0, "plus").sum().backward()
    assert x.grad.tolist() == [1, 1, 1]


def test_an_absent_tensor_gets_no_gradient():
    def back(grad: Tensor, x: Tensor, bias: Tensor | None) -> tuple[Tensor, Tensor]:
        return grad.clone(), grad.new_empty(0) if bias is None else grad.clone()

    @eas.torch_op(new_name(), backward=back)
    def add(x: Tensor, bias: Tensor | None) -> Tensor:
        return x.clone() if bias is None else x + bias

    x, bias = torch.randn(3, requires_grad=True), torch.randn(3, requires_grad=True)
    add(x, None).sum().backward()
    add(x, bias).sum().backward()
    assert (x.grad.tolist(), bias.grad.tolist()) == ([2, 2, 2], [1, 1, 1])


def test_an_operator_without_backward_says_so():
    """Torch would warn, and leave the gradient out."""

    @eas.torch_op(f"easy_tests::plain{next(_numbers)}")
    def plain(x: Tensor) -> Tensor:
        y = torch.empty_like(x)
        square_kernel(x, y, x.numel(), BLOCK=64)
        return y

    x = torch.ones(3, requires_grad=True)
    assert plain(x).tolist() == [1.0] * 3
    with pytest.raises(eas.ArgumentError, match=r"has no gradient(.|\n)*hint: pass backward= to eas.torch_op"):
        plain(x).sum().backward()


def test_an_operator_that_writes_has_no_backward():
    def write(x: Tensor, y: Tensor) -> None: ...

    with pytest.raises(eas.ArgumentError, match=r"write writes y and has a backward(.|\n)*hint: return new tensors"):
        eas.torch_op(f"easy_tests::write{next(_numbers)}", mutates_args=("y",), backward=square_backward)(write)


def test_autocast_casts_floats():
    @eas.torch_op(new_name(), autocast=torch.float32)
    def same(x: Tensor) -> Tensor:
        return x.clone()

    with torch.autocast("cpu", torch.bfloat16):
        assert same(torch.ones(3, dtype=torch.bfloat16)).dtype is torch.float32
    assert same(torch.ones(3, dtype=torch.bfloat16)).dtype is torch.bfloat16


@needs_compiler
def test_compile_without_a_graph_break():
    compiled = torch.compile(lambda x: square(x + 1).sum(), fullgraph=True)
    x = torch.randn(6, 7, requires_grad=True)
    loss = compiled(x)
    loss.backward()
    assert torch.allclose(loss, ((x + 1) ** 2).sum())
    assert torch.allclose(x.grad, 2 * (x + 1))


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: eas.torch_op(new_name())(two_results), r"returns Tensor, Tensor: eas.torch_op cannot know the shapes(.|\n)*hint: pass fake="),
        (lambda: eas.torch_op(new_name(), backward=wrong_parameter)(one_result), r"has the parameter 'weight', which is neither a parameter of it nor a result(.|\n)*hint: use grad"),
        (lambda: eas.torch_op(new_name(), backward=two_gradients)(one_result), "is declared to return Tensor, Tensor, one Tensor is needed for each of x"),
        (lambda: eas.torch_op(new_name(), backward=square_backward, differentiates=("z",))(one_result), "has no parameter 'z' to differentiate by"),
        (lambda: eas.torch_op(new_name(), vmap="rows"), "vmap is 'elementwise', 'leading' or 'loop', not 'rows'"),
    ],
)  # fmt: skip
def test_declarations_that_cannot_work_are_refused(make, text):
    with pytest.raises(eas.ArgumentError, match=text):
        make()


def one_result(x: Tensor) -> Tensor:
    return x.clone()


def two_results(x: Tensor) -> tuple[Tensor, Tensor]:
    return x.clone(), x.clone()


def wrong_parameter(grad: Tensor, weight: Tensor) -> Tensor:
    return grad.clone()


def two_gradients(grad: Tensor) -> tuple[Tensor, Tensor]:
    return grad.clone(), grad.clone()
