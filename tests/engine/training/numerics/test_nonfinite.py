"""The first NaN or Inf that does harm is named, twice the same; what does no harm is not."""

from __future__ import annotations

import pytest

from engine.experiment.catalog import Precision
from engine.experiment.experiment import Experiment, layered
from engine.protocol.numerics import Cause

from .conftest import FEW, TINY, fault_named, searched


@pytest.mark.parametrize(
    "name",
    [
        "a gradient overflows at any loss scale",
        "the gradient of a square root at zero",
        "an FP32 island that gives more than FP16 holds",
        "a softmax over nothing but -Inf",
        "a learning rate that is too large",
        "a batch that is not finite",
    ],
)
def test_the_planted_fault_is_named(name, tmp_path):
    fault = fault_named(name)
    search = searched(fault.experiment(tmp_path))
    assert fault.is_named_by(search), search
    assert search.first is not None and search.first.step <= search.steps and search.reproduced == 2


@pytest.mark.parametrize(
    ("precision", "recipe"), [("fp8", "tensorwise"), ("fp8", "rowwise"), ("bf16-pure", "tensorwise")]
)
def test_an_overflow_is_named_at_its_layer_where_others_go_on_with_it(precision, recipe, planted):
    if precision == "fp8":
        pytest.importorskip("torchao")
    text = """
    def model():
        net = nn.Sequential(nn.Linear(8, 32), nn.Sigmoid(), nn.Linear(32, 32), nn.Linear(32, 4))
        with torch.no_grad():
            net[2].weight.fill_(3e38)
        return nn.Sequential(net, nn.Linear(4, 32), nn.Linear(32, 32), nn.Linear(32, 4))
    """
    first = searched(planted(text, precision=precision, steps=2, step={"fp8_recipe": recipe})).first
    assert first is not None and first.cause is Cause.OVERFLOW, first
    assert (first.module, first.direction, first.step) == ("0.2", "forward", 1)
    operation = ("aten.mm", {"float8_e4m3fn"}) if precision == "fp8" else ("aten.addmm", {"bfloat16"})
    assert (first.operation, set(first.inputs)) == operation


_IN_FP32 = "with torch.autocast('cpu', enabled=False): "


@pytest.mark.parametrize(
    "passed_on",
    [
        # the way of the value from what overflows in FP16 to the next layer, by tensors of other kinds
        "return torch.view_as_real(torch.view_as_complex(x.view(-1, 4, 2)) * self.turn).flatten(1)",
        "return torch.view_as_real(torch.view_as_complex(x.view(-1, 4, 2)).mul_(2j)).flatten(1)",
        "return torch.view_as_real(torch.view_as_complex(x.half().view(-1, 4, 2)) * 2.0).flatten(1)",
        "return (torch.view_as_complex(x.view(-1, 4, 2)).conj() * 2j).conj().abs().repeat(1, 2)",
        "return torch.fft.irfft(torch.fft.rfft(x), n=8)",
        "return torch.zeros(16, 8, dtype=torch.complex128).copy_(x).real.float()",
        f"{_IN_FP32}return torch.sparse.mm(x.to_sparse(), torch.eye(8))",
        f"{_IN_FP32}return x.to_sparse_csr() @ torch.eye(8)",
        "return torch.nested.nested_tensor_from_jagged(x, torch.tensor([0, 3, 16])).mul(2).values()",
        "return torch.nested.nested_tensor([x[:3], x[3:]]).mul(2).to_padded_tensor(0.0).flatten(0, 1)[:16]",
    ],
)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_an_overflow_is_named_whatever_tensors_carry_it(passed_on, planted):
    text = f"""
    class Carry(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("turn", torch.full((4,), 1j))

        def forward(self, x):
            x = (x * 3e5).float()
            {passed_on}

    def model():
        return nn.Sequential(nn.Linear(8, 8), Carry(), nn.Linear(8, 4))
    """
    first = searched(planted(text, steps=1)).first
    assert first is not None and first.cause is Cause.OVERFLOW, first
    assert (first.operation, first.module, first.outputs) == ("aten.mul", "1", ("float16",))


@pytest.mark.parametrize(
    ("kind", "cause"),
    [
        ("nn.Parameter(torch.full((8,), math.nan, dtype=torch.cfloat))", Cause.INITIAL),
        ("torch.full((8,), math.nan, dtype=torch.cfloat)", Cause.UNKNOWN),
        ("torch.full((16,), math.nan).diag().to_sparse()", Cause.UNKNOWN),
    ],
)
def test_a_weight_or_buffer_of_any_kind_that_holds_nan_is_told_from_an_operation(kind, cause, planted):
    text = f"""
    class Scale(nn.Module):
        def __init__(self):
            super().__init__()
            self.kept = {kind}

        def forward(self, x):
            return torch.sparse.mm(self.kept, x) if self.kept.is_sparse else (x * self.kept).abs()

    def model():
        return nn.Sequential(Scale(), nn.Linear(8, 4))
    """
    first = searched(planted(text, precision="fp32", steps=1)).first
    assert first is not None and first.cause is cause
    assert "operation constant" not in first.sentence and "the cause is unknown" not in first.sentence


@pytest.mark.parametrize("change", ["x.to(torch.cfloat)", "x.to_sparse()"])
def test_a_batch_of_any_kind_that_holds_nan_is_named(change, planted):
    text = f"""
    def model():
        return nn.Sequential(Do(lambda x: x.to_dense().abs()), nn.Linear(8, 4))

    del dataset

    def batch(size):
        x = torch.randn(size, 8)
        x[0, 0] = math.nan
        return {change}, torch.randint(4, (size,))
    """
    first = searched(planted(text, precision="fp32", steps=1)).first
    assert first is not None and first.cause is Cause.INPUT


def test_weights_that_grew_are_blamed_also_where_they_are_nan_by_then(tmp_path):
    experiment = fault_named("a learning rate that is too large").experiment(tmp_path)
    search = searched(experiment.model_copy(update={"precision": Precision.FP16_UNSCALED}))
    assert search.first is not None and search.first.cause is Cause.WEIGHT, search


@pytest.mark.parametrize("value", ["nan", "inf"])
def test_weights_that_are_not_finite_from_the_start_are_no_matter_of_the_learning_rate(value, planted):
    text = f"""
    def model():
        net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
        net[2].weight.data[1, 2] = math.{value}
        return net
    """
    first = searched(planted(text, precision="fp32")).first
    assert first is not None and first.cause is Cause.INITIAL and first.changes == ()
    assert first.sentence.startswith("The weight 2.weight contains 1 ") and "before step 1" in first.sentence
    assert "initialization" in first.remedy and "rate" not in first.remedy


@pytest.mark.parametrize(
    ("precision", "trouble_step"),
    [("fp32", None), ("fp16", None), ("fp16-unscaled", None), ("bf16", None), ("fp32", 3)],
)
def test_a_healthy_run_raises_no_alarm_and_trouble_that_does_not_come_again_is_said(precision, trouble_step):
    experiment = Experiment.model_validate(layered(TINY, FEW, {"precision": precision}))
    search = searched(experiment, trouble_step=trouble_step)
    assert search.first is None and search.steps == 4 and search.trouble_step == trouble_step
    assert search.sentence.endswith("at step 3, but this did not recur.") == (trouble_step is not None)


MASKED = """
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear, self.head = nn.Linear(8, 8), nn.Linear(8, 4)
            self.register_buffer("mask", torch.full((8, 8), -math.inf).triu(1))

        def forward(self, x):
            x = self.linear(x)
            masked = F.softmax(x[:, None] + self.mask, -1).sum(1)
            unused = torch.log(torch.relu(x.detach()))
            bent = torch.tanh(1e4 * x.half() * 1e4)
            return self.head(masked + torch.nan_to_num(unused, neginf=0.0) + bent)

    def model():
        return Net()
"""
TWO_LAYERS = """
    def model():
        return nn.Sequential(nn.Linear(8, 16), nn.Linear(16, 4))
"""
LARGE_LOSS = """
    def loss(outputs, targets):
        return F.cross_entropy(outputs.float(), targets, reduction="sum") * 10.0
"""


@pytest.mark.parametrize(
    ("text", "settings", "skipped"),
    [
        (MASKED, {"steps": 3}, range(1)),
        (TWO_LAYERS + LARGE_LOSS, {"steps": 12}, range(1, 10)),
        (TWO_LAYERS, {"scaler": {"init_scale": 2.0**40}}, range(16, 100)),
    ],
    ids=["masks and unharmful infinities", "a scaler on its way", "a scaler far above its scale"],
)
def test_what_does_no_harm_raises_no_alarm(text, settings, skipped, planted):
    search = searched(planted(text, **settings))
    assert search.first is None and search.trouble_step is None and search.skipped in skipped
    assert ("as usual while it finds its scale" in search.sentence) == (search.skipped > 0)


def test_an_overflow_by_the_scale_alone_gives_the_scale_at_which_it_ends(planted):
    search = searched(planted(TWO_LAYERS, scaler={"init_scale": 2.0**60}))
    assert search.first is not None and search.first.cause is Cause.SCALE
    ((key, value),) = search.first.changes
    again = searched(planted(TWO_LAYERS, scaler={"init_scale": float(value)}, steps=2))
    assert key == "scaler.init_scale" and again.skipped == 0


def test_what_does_not_come_again_is_not_claimed(planted):
    text = """
    class Once(nn.Module):
        calls = 0

        def forward(self, x):
            Once.calls += 1
            return x / 0.0 if Once.calls == 3 else x

    def model():
        return nn.Sequential(nn.Linear(8, 16), Once(), nn.Linear(16, 4))
    """
    search = searched(planted(text))
    assert search.first is None and search.trouble_step == 3
    assert "did not recur" in search.sentence


def test_the_modules_proposed_for_fp32_are_those_that_help(tmp_path):
    experiment = fault_named("a convolution overflows").experiment(tmp_path)
    first = searched(experiment).first
    assert first is not None
    ((key, modules),) = first.changes
    assert (key, modules) == ("step.fp32_modules", "second, head")  # its result is too large for the next
    step = experiment.step.model_copy(update={"fp32_modules": tuple(modules.split(", "))})
    assert searched(experiment.model_copy(update={"step": step, "steps": 4})).first is None


def test_a_step_of_the_files_own_is_searched_too(planted):
    text = """
    def model():
        return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), Do(torch.log), nn.Linear(16, 4))

    def step(train, batch):
        with train.autocast():
            loss = F.cross_entropy(train.model(batch[0]), batch[1])
        train.backward(loss)
        train.step(train.optimizer)
    """
    first = searched(planted(text)).first
    assert first is not None and (first.module, first.cause) == ("2", Cause.LOG_OF_ZERO)
