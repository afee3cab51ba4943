"""Forecasts: fake tensors against real ones, how CUDA differs from a CPU, and presets that fit a card."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torchao.optim import subclass_4bit, subclass_8bit

from engine.experiment.built_in import LANGUAGE_SIZES
from engine.experiment.checks import Catalog, DeviceEntry, problems
from engine.experiment.experiment import Experiment, Precision, experiment_from
from engine.experiment.presets import BUILT_IN, preset
from engine.experiment.problem import Kind
from engine.protocol.trials import needed_mib
from engine.training.data.batches import cut_batches, generated_samples
from engine.training.data.datasets import dataset_entries
from engine.training.doctor import read_catalog
from engine.training.forecast import CPU_LIBRARIES_MIB, LIBRARIES_MIB, forecast
from engine.training.measuring.memory import LiveBytes, breakdown_of
from engine.training.models.build import build_loss, count_parameters, model_entries
from engine.training.models.forward import make_bfloat16
from engine.training.precision import Processor, cpu_precisions, cuda_precisions
from engine.training.runs import workload
from engine.training.runs.plan import RunPlan
from engine.training.runs.prepare import build, build_plain_step
from engine.training.runs.trial import _model_mib
from engine.training.steps.imagined import ImaginedStep
from engine.training.steps.optimizers import build_optimizer
from engine.training.steps.plain import PlainStep, RecipeRecord

from .conftest import refusal

MIB = 2**20
BATCH = 16
ON_CPU = {"device": "cpu", "batch_size": BATCH}
SMALL = {**ON_CPU, "model": "small-cnn", "dataset": "fashion"}
RESNET = {**ON_CPU, "model": "resnet18", "dataset": "synthetic", "image_size": 64, "num_classes": 10}
TOKENS = {"dataset": "synthetic-tokens", "sequence_length": 32, "num_classes": 100}
LANGUAGE = {**ON_CPU, **TOKENS, "model": "causal-lm-tiny"}


@pytest.fixture(autouse=True)
def fewer_layers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two of the language model's four layers, each of which takes long to trace."""
    sizes = LANGUAGE_SIZES["causal-lm-tiny"]._replace(num_hidden_layers=2)
    monkeypatch.setitem(LANGUAGE_SIZES, "causal-lm-tiny", sizes)


def with_a_card() -> Catalog:
    """The machine's catalog and a CUDA card, which it may not have: a forecast never touches it."""
    catalog = read_catalog()
    card = DeviceEntry(name="cuda:7", title="A card", memory_mib=24_576, precisions=cuda_precisions((8, 0)))
    return catalog.model_copy(update={"devices": (*catalog.devices, card)})


def on_a_card(settings: dict[str, object]) -> Experiment:
    return experiment_from({**settings, "device": "cuda:7"})


def real_peak_mib(experiment: Experiment) -> float:
    """The peak of the second step on real tensors, counted as the forecast counts."""
    plan = RunPlan(experiment, read_catalog())
    model = build(plan, plan.experiment)
    device = torch.device("cpu")
    with LiveBytes() as live:
        # every parameter and buffer is counted once it is a result
        model._apply(lambda tensor: tensor.clone())
        samples = generated_samples(BATCH)
        if plan.model_entry.task == "language":
            text = torch.zeros((samples, experiment.sequence_length), dtype=torch.int64)
            drawn = (text.clone(), text.clone())
        else:
            size = plan.facts.image_size
            pictures = torch.zeros(samples, plan.workload.channels, size, size)
            drawn = (pictures, torch.zeros(samples, dtype=torch.int64))
        step = PlainStep(
            model.train(),
            build_loss(plan.model_entry.task),
            plan.experiment,
            device,
            optimizer=build_optimizer(model, plan.experiment),
            record=RecipeRecord(()),
        )
        group = cut_batches(drawn, BATCH)[: experiment.step.gradient_accumulation]
        if plan.experiment.precision is Precision.BF16_PURE:
            make_bfloat16(model)
        step(group)
        live.restart()
        step(group)
        return max(live.timeline) / MIB


@pytest.mark.slow
@pytest.mark.parametrize(
    "settings",
    [
        {**RESNET, "step": {"gradient_accumulation": 2, "clip_norm": 1.0}},
        {
            **RESNET,
            "optimizer": {"name": "sgd", "momentum": 0.9},
            "step": {"activation_checkpointing": True},
        },
        {**RESNET, "step": {"fp32_modules": "layer4"}, "precision": "bf16"},
        LANGUAGE,
        {**LANGUAGE, "precision": "bf16"},
        {**LANGUAGE, "precision": "bf16-pure"},
        {**LANGUAGE, "optimizer": {"name": "muon"}},
        {**LANGUAGE, "step": {"activation_checkpointing": "selective"}},
    ],
    ids=[
        "accumulated",
        "sgd-recomputed",
        "kept-in-fp32",
        "text",
        "text-bf16",
        "text-pure",
        "text-muon",
        "text-selective",
    ],
)
def test_fake_tensors_take_what_real_ones_take(settings):
    experiment = experiment_from(settings)
    made = forecast(experiment)
    assert made.libraries_mib == CPU_LIBRARIES_MIB
    tensors_mib = made.needed_mib - made.libraries_mib
    assert tensors_mib == pytest.approx(real_peak_mib(experiment), rel=0.02, abs=0.5)


@pytest.mark.slow
def test_the_parts_are_those_of_the_model():
    made = forecast(experiment_from(SMALL))
    plan = RunPlan(made.experiment, read_catalog())
    parameters = sum(tensor.numel() for tensor in build(plan, plan.experiment).parameters())
    assert made.parameters_mib == pytest.approx(4 * parameters / MIB, rel=0.01)
    assert made.gradients_mib == pytest.approx(made.parameters_mib, rel=0.01)
    assert made.optimizer_state_mib == pytest.approx(2 * made.parameters_mib, rel=0.01)
    assert 0 < made.activations_mib < made.needed_mib


@pytest.mark.slow
@pytest.mark.parametrize(
    "settings",
    [
        {"precision": "bf16-pure"},
        {"precision": "bf16-pure", "optimizer": {"stochastic_rounding": True}},
        {"precision": "bf16-pure", "optimizer": {"name": "adamw-8bit"}},
        *({"precision": "bf16", "optimizer": {"name": f"adamw-{bits}"}} for bits in ("8bit", "4bit", "fp8")),
    ],
    ids=["pure", "pure-rounded", "pure-8bit", "8bit", "4bit", "fp8"],
)
def test_states_in_fewer_bits_are_forecast_as_they_are_made(settings):
    for module in (subclass_4bit, subclass_8bit):
        # as in a new process
        module.get_qmap_signed.cache_clear()
        module.get_qmap_unsigned.cache_clear()
    experiment = experiment_from({**LANGUAGE, **settings})
    made, plan = forecast(experiment), RunPlan(experiment, read_catalog())
    model = build(plan, plan.experiment)
    step = build_plain_step(plan, plan.experiment, model.state_dict())
    for parameter in step.model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    torch.compiler.set_stance("force_eager")
    try:
        step.optimizer.step()
    finally:
        torch.compiler.set_stance("default")
    parts = breakdown_of(step.model, step.optimizer)
    assert made.optimizer_state_mib == pytest.approx(parts.optimizer_state_mib, rel=0.01)
    assert made.parameters_mib == pytest.approx(parts.parameters_mib, rel=0.01)
    whole = parts.parameters_mib + parts.gradients_mib + parts.optimizer_state_mib
    assert _model_mib(plan, count_parameters(model)) == pytest.approx(whole, rel=0.1)


@pytest.mark.slow
def test_one_forecast_is_good_for_every_batch():
    small, large = (forecast(experiment_from({**RESNET, "batch_size": size})) for size in (4, 512))
    assert needed_mib(small.lines, 512) == pytest.approx(large.needed_mib)
    assert large.needed_mib > small.needed_mib


def test_a_dataset_on_the_device_counts():
    kept = forecast(experiment_from({**SMALL, "data": {"on_device": True}}))
    loaded = forecast(experiment_from({**SMALL, "data": {"on_device": False}}))
    pictures = 7_000 * (28 * 28 + 8) / MIB
    assert kept.fixed_mib - loaded.fixed_mib == pytest.approx(pictures, rel=0.1)


def test_a_card_keeps_softmax_in_float32_under_autocast(monkeypatch):
    def softmax(*_, **__):
        return nn.Sequential(nn.Linear(64, 64), nn.Softmax(-1), nn.Flatten(), nn.Linear(3 * 64 * 64, 10))

    monkeypatch.setattr(workload, "build_model", softmax)
    settings = {**RESNET, "precision": "bf16", "batch_size": 512}
    on_cpu, on_card = forecast(experiment_from(settings)), forecast(on_a_card(settings), with_a_card())
    assert on_card.per_sample_mib > 1.05 * on_cpu.per_sample_mib
    assert on_card.quantity == "allocated" and on_cpu.quantity == "resident"


@pytest.mark.slow
def test_a_card_keeps_a_byte_of_each_dropped_element():
    settings = {**RESNET, "model": "vgg11", "image_size": 32}
    on_cpu, on_card = forecast(experiment_from(settings)), forecast(on_a_card(settings), with_a_card())
    # two dropouts of 4,096 elements: three of the mask's four bytes
    assert on_cpu.activations_mib - on_card.activations_mib == pytest.approx(
        2 * 4_096 * 3 * BATCH / MIB, rel=0.1
    )


@pytest.mark.slow
def test_libraries_and_the_optimizers_copies_count_on_a_card():
    plain, fused = (
        forecast(on_a_card({**LANGUAGE, "batch_size": 1, "optimizer": {"fused": is_fused}}), with_a_card())
        for is_fused in (False, True)
    )
    assert plain.libraries_mib == LIBRARIES_MIB
    assert plain.needed_mib - fused.needed_mib > 0.4 * plain.parameters_mib


class _ReadsItsNumbers(nn.Module):
    def forward(self, pictures: torch.Tensor) -> torch.Tensor:
        return pictures if pictures.sum().item() > 0 else -pictures


def test_a_model_that_reads_its_numbers_has_no_forecast(monkeypatch):
    monkeypatch.setattr(workload, "build_model", lambda *_, **__: _ReadsItsNumbers())
    problem = refusal(forecast, experiment_from(SMALL))
    assert problem.kind is Kind.INTERNAL and "cannot be estimated" in problem.message
    # nor has an experiment that cannot run
    assert refusal(forecast, experiment_from({**SMALL, "precision": "tf32"})).key == "precision"


CARD = DeviceEntry(
    name="cuda:0", title="a card", memory_mib=24 * 1024, tensor_cores=True, precisions=cuda_precisions((8, 9))
)


@pytest.fixture(scope="module")
def catalog() -> Catalog:
    cpu = DeviceEntry(
        name="cpu",
        title="a processor",
        memory_mib=8 * 1024,
        precisions=cpu_precisions(Processor("a processor", 8 * 1024)),
    )
    return Catalog(devices=(cpu,), models=model_entries(), datasets=dataset_entries())


@pytest.mark.parametrize("name", BUILT_IN)
@pytest.mark.parametrize("has_gpu", [True, False])
def test_a_preset_fits_the_machine_it_is_for(catalog: Catalog, name: str, has_gpu: bool) -> None:
    machine = catalog.model_copy(update={"devices": (CARD, *catalog.devices)}) if has_gpu else catalog
    for label, experiment in preset(name).experiments(has_gpu):
        assert problems(experiment, machine) == (), label
        # long enough for a speed, but where the point is another
        dataset = machine.dataset(experiment.dataset)
        assert dataset is not None
        samples = dataset.train_samples or experiment.samples
        steps = experiment.steps or (experiment.epochs or 1) * (samples // experiment.step_samples)
        is_measured = name not in ("hello-amp", "resnet50-memory", "batch-limit")
        assert (steps >= experiment.least_steps) == is_measured


@pytest.mark.slow
def test_several_devices_hold_their_gradients_through_the_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.experiment.checks.os.cpu_count", lambda: 2)
    alone = forecast(experiment_from(LANGUAGE))
    both = forecast(experiment_from({**LANGUAGE, "devices": 2}))
    sharded = forecast(experiment_from({**LANGUAGE, "devices": 2, "ranks": {"strategy": "fsdp"}}))
    # beside the activations they count in full, at the end of the backward pass they were there before
    assert alone.needed_mib < both.needed_mib <= alone.needed_mib + alone.gradients_mib + 1e-6
    assert sharded.needed_mib == alone.needed_mib


@pytest.mark.slow
def test_offloaded_activations_take_next_to_no_memory_of_a_card():
    kept, offloaded = (
        forecast(on_a_card({**LANGUAGE, "step": {"offload_activations": offloads}}), with_a_card())
        for offloads in (False, True)
    )
    assert offloaded.activations_mib < 0.2 * kept.activations_mib
    assert offloaded.needed_mib < kept.needed_mib


def test_a_budget_is_estimated_for_the_graphs_of_a_compiled_model(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = [{"activation_checkpointing": kind} for kind in ("none", "1", "0.25")]
    made = [experiment_from({**LANGUAGE, "step": {"recipe": "compile", **step}}) for step in steps]
    uncompiled, whole, quarter = map(forecast, made)
    assert uncompiled.note is not None and whole.note == quarter.note != uncompiled.note
    assert quarter.activations_mib < 0.6 * whole.activations_mib < 0.6 * uncompiled.activations_mib
    assert quarter.needed_mib < whole.needed_mib < uncompiled.needed_mib

    def fail(*given: object) -> None:
        raise RuntimeError("the model cannot be traced")

    monkeypatch.setattr(ImaginedStep, "compile_for", fail)
    other = forecast(made[-1])
    assert other.needed_mib == uncompiled.needed_mib
    assert other.note is not None and "without its activation budget" in other.note
