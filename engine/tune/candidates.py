"""Candidates for a faster experiment: values for each kind of change, and exclusions with reasons.

A candidate has one value of each kind. The first value of each kind is the one in plain FP32.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Any, get_args

from engine.experiment.catalog import OWN_FAMILY, Catalog, DatasetEntry, DeviceEntry, ModelEntry, Precision
from engine.experiment.checks import core_count, dataset_of
from engine.experiment.experiment import Experiment, changed, flattened
from engine.experiment.own.library_models import ModelRef
from engine.experiment.setting import FormValues
from engine.experiment.settings import (
    COMPILE_MODES,
    FULL,
    GRAPH_MODES,
    NARROW_KERNELS,
    NO_CHECKPOINTING,
    PLAIN,
    RECIPE_PARTS,
    SELECTIVE,
    RecipePart,
    Step,
    joined,
)
from engine.protocol.tune import CHANGE_KINDS, ChangeKind, TuningPlan
from engine.words.names import checkpointing_words, listed, recipe_title
from engine.words.numbers import counted

Changes = Mapping[str, Any]
Places = tuple[int, ...]
"""A candidate: for each of `CHANGE_KINDS`, the index of its option."""

BASELINE: Places = (0,) * len(CHANGE_KINDS)

_MOST_DOUBLINGS, _MOST_HALVINGS = 6, 2
_LOADER_WORKERS = (2, 4, 8)
_BUDGETS = ("0.5", "0.25")


@dataclass(frozen=True)
class Option:
    """A value to try in a tuning: its name, such as "BF16 AMP", and the settings to change, by dotted key.

    `needs` are the optimizations that it requires.
    """

    words: str
    changes: Changes
    needs: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Space:
    """The search space of a tuning: the options to try of each kind of change. The first is the baseline's.

    `not_tried` are the reasons why other options are excluded. On a device where an allocation beyond the
    memory does not fail, such as a CPU, no candidate may need more than `careful_mib`.
    """

    experiment: Experiment
    options: Mapping[ChangeKind, tuple[Option, ...]]
    not_tried: tuple[str, ...] = ()
    careful_mib: float | None = None

    @property
    def size(self) -> int:
        """Return the number of combinations."""
        return prod(len(self.options[kind]) for kind in CHANGE_KINDS)

    def places(self, kind: ChangeKind) -> range:
        """Return the indexes of the options of a kind."""
        return range(len(self.options[kind]))

    def chosen(self, places: Places) -> Iterator[tuple[ChangeKind, Option]]:
        """Yield the options that differ from the baseline's, each with its kind."""
        for kind, place in zip(CHANGE_KINDS, places, strict=True):
            if place:
                yield kind, self.options[kind][place]

    def changes(self, places: Places) -> dict[str, Any]:
        """Return the settings that differ from the baseline's, by dotted key."""
        return {key: value for _, option in self.chosen(places) for key, value in option.changes.items()}

    def parts(self, places: Places) -> frozenset[str]:
        """Return the parts that a run may have to skip: its optimizations, and FP8."""
        changes = self.changes(places)
        return frozenset((*_parts(changes), *(["fp8"] if changes.get("precision") == "fp8" else [])))

    def is_possible(self, places: Places) -> bool:
        """Return True if the candidate has the optimizations that its other changes need.

        Neither a compile mode that records CUDA graphs nor offloading is combined with a captured step, nor
        an attention kernel for 16-bit inputs with a wider precision.
        """
        changes, given, parts = self.changes(places), self.experiment.step, self.parts(places)
        mode = changes.get("step.compile_mode", given.compile_mode)
        makes_graphs = "compile" in parts and mode in GRAPH_MODES
        offloads = changes.get("step.offload_activations", given.offload_activations)
        if changes.get("step.attention") in NARROW_KERNELS:
            precision = Precision(changes.get("precision", self.experiment.precision))
            if not precision.is_narrow:
                return False
        # each excludes the others
        return all(option.needs <= parts for _, option in self.chosen(places)) and (
            makes_graphs + offloads + ("capture" in parts) <= 1
        )

    def places_for(self, changes: Changes) -> Places:
        return tuple(self._value_in(changes, kind) for kind in CHANGE_KINDS)

    def _value_in(self, changes: Changes, kind: ChangeKind) -> int:
        options = self.options[kind]
        # the one with the most of them: a value of the loader may be part of another
        fitting = [place for place, option in enumerate(options) if option.changes.items() <= changes.items()]
        return max(fitting, key=lambda place: len(options[place].changes))

    def words(self, places: Places) -> str:
        """The candidate's name: "BF16 AMP, channels last"."""
        return ", ".join(option.words for _, option in self.chosen(places)) or "FP32, plain"


def _parts(changes: Changes) -> tuple[RecipePart, ...]:
    return Step(recipe=changes.get("step.recipe", PLAIN)).parts


def with_value(places: Places, kind: ChangeKind, place: int) -> Places:
    """Return the places of a candidate with another value of one kind."""
    at = CHANGE_KINDS.index(kind)
    return (*places[:at], place, *places[at + 1 :])


def value_of(places: Places, kind: ChangeKind) -> int:
    """Return the index of a candidate's value of one kind."""
    return places[CHANGE_KINDS.index(kind)]


def baseline_of(experiment: Experiment) -> Experiment:
    """Return the experiment in plain FP32, without settings that FP32, or compiling it, would contradict."""
    step = experiment.step
    scaler = {"scaler.mode": "auto"} if experiment.scaler.mode == "on" else {}
    plain = {"precision": Precision.FP32.value, "step.recipe": PLAIN, **scaler}
    if step.activation_budget is not None:
        plain["step.activation_checkpointing"] = NO_CHECKPOINTING
    if step.attention in NARROW_KERNELS:
        plain["step.attention"] = "auto"
    if step.compile_mode in GRAPH_MODES and (step.gradient_accumulation > 1 or step.offload_activations):
        plain["step.compile_mode"] = COMPILE_MODES[0]
    return changed(experiment, plain)


def space_of(baseline: Experiment, plan: TuningPlan, catalog: Catalog, left_out: Mapping[str, str]) -> Space:
    """Return the candidates for a resolved experiment on its device, without optimizations in `left_out`."""
    device, dataset = catalog.device(baseline.device), dataset_of(baseline, catalog)
    model = catalog.model(baseline.model)
    assert device is not None and dataset is not None and model is not None  # the experiment is resolved
    values = _Values(baseline, plan, device, dataset, model, left_out, core_count(catalog))
    options = {
        kind: (Option("as given", {}), *(_OF_KIND[kind](values) if kind in plan.kinds else ()))
        for kind in CHANGE_KINDS
    }
    tried = {part for option in options["recipe"] for part in _parts(option.changes)}
    unmet = [each for kind in CHANGE_KINDS for each in options[kind] if not each.needs <= tried]
    options = {kind: tuple(each for each in options[kind] if each not in unmet) for kind in CHANGE_KINDS}
    if unmet:
        words = listed([each.words for each in unmet])
        values.not_tried.append(f"{words[:1].upper()}{words[1:]}: compiling, which they need, is not tried.")
    kinds = [kind for kind in CHANGE_KINDS if kind != "exchange" or baseline.devices > 1]
    unwanted = [_UNWANTED[kind] for kind in kinds if kind not in plan.kinds]
    return Space(
        baseline,
        options,
        (*values.not_tried, *unwanted),
        # the ranks of a run share a CPU's memory, and a trial's peak is of the rank with the largest
        careful_mib=None if device.is_gpu else device.memory_mib / baseline.devices,
    )


COARSE: Mapping[Precision, str] = {
    Precision.FP8: "8-bit numbers change the training more than autocast does",
    Precision.BF16_PURE: "small updates are lost to rounding",
}
"""Precisions that are tried only where that is allowed, each with the reason."""

NO_ATTENTION = "Attention kernels: the model does not call scaled_dot_product_attention."

_UNWANTED: Mapping[ChangeKind, str] = {
    "precision": "Other precisions: not selected.",
    "recipe": "Other optimizations: not selected.",
    "batch": "Other batch sizes: not selected.",
    "attention": "Other attention kernels: not selected.",
    "checkpointing": "Activation checkpointing: not selected.",
    "exchange": "Other ways to synchronize gradients: not selected.",
    "loader": "Other loader settings: not selected.",
    "compile": "Other compile modes: not selected.",
}


@dataclass
class _Values:
    experiment: Experiment
    plan: TuningPlan
    device: DeviceEntry
    dataset: DatasetEntry
    model: ModelEntry
    left_out: Mapping[str, str]
    cores: int
    not_tried: list[str] = field(default_factory=list)

    def precisions(self) -> Iterator[Option]:
        has_tf32 = self.device.precision(Precision.TF32).available
        usual = (Precision.TF32, Precision.DEFAULT, Precision.FP16, Precision.BF16)
        for precision in (*usual, *COARSE):
            entry = self.device.precision(precision)
            if not entry.available:
                self.not_tried.append(f"{precision.label} cannot be used: {entry.reason}.")
            elif entry.hardly_faster:
                self.not_tried.append(f"{precision.label} was skipped: {entry.hardly_faster}.")
            elif precision is Precision.DEFAULT and not has_tf32:
                self.not_tried.append(f"{precision.label}: without TF32 it is the same as FP32.")
            elif precision is Precision.FP8 and (why := self._why_not_fp8()):
                self.not_tried.append(f"{precision.label}: {why}.")
            elif precision in COARSE and not self.plan.coarse_formats:
                reason = f"{precision.label}: {COARSE[precision]}."
                self.not_tried.append(f"{reason} Allow lower precisions to try it.")
            elif precision is Precision.FP8:
                for scaling in get_args(Step.model_fields["fp8_recipe"].annotation):
                    changes = {"precision": precision.value, "step.fp8_recipe": scaling}
                    yield Option(f"{precision.label} {scaling}", changes)
            else:
                yield Option(precision.label, {"precision": precision.value})
        self.not_tried.append(
            f"{Precision.FP16_UNSCALED.label}: without a loss scaler small gradients underflow."
        )

    def recipes(self) -> Iterator[Option]:
        reasons = {part: self._why_not(part) for part in RECIPE_PARTS}
        self.not_tried += filter(None, reasons.values())
        parts = [part for part, reason in reasons.items() if reason is None]
        groups = [parts, *([part] for part in parts), *([p for p in parts if p != part] for part in parts)]
        names = dict.fromkeys(joined(group) for group in groups)
        for name in names:
            # a captured step needs a fused optimizer
            if name != PLAIN and ("capture" not in name or "fused" in name):
                yield Option(recipe_title(name), {"step.recipe": name})

    def batches(self) -> Iterator[Option]:
        experiment, accumulated = self.experiment, self.experiment.step.gradient_accumulation
        given = experiment.batch_size
        if not self.plan.changes_batch:
            for times in (2**power for power in range(1, _MOST_DOUBLINGS + 1)):
                if accumulated % times == 0:
                    yield _batch(given * times, accumulated // times)
            self.not_tried.append(
                f"Batches other than {experiment.step_samples:,} samples per step: they change the training. "
                "Allow other batch sizes to try them."
            )
            return
        most = (self.dataset.train_samples or experiment.samples) // (accumulated * experiment.devices)
        larger = [given * 2**power for power in range(1, _MOST_DOUBLINGS + 1)]
        smaller = [given // 2**power for power in range(1, _MOST_HALVINGS + 1)]
        for size in (*(size for size in larger if size <= most), *(size for size in smaller if size >= 1)):
            yield _batch(size, accumulated)

    def attention(self) -> Iterator[Option]:
        if self._is_known and self.model.task != "language" and not self.model.name.startswith("vit_"):
            self.not_tried.append(NO_ATTENTION)
            return
        kernels = ("flash", "efficient", "cudnn", "math") if self.device.kind == "cuda" else ("math",)
        for kernel in kernels:
            if kernel != self.experiment.step.attention:
                yield Option(f"{kernel} attention", {"step.attention": kernel})

    def checkpointing(self) -> Iterator[Option]:
        if self.experiment.step.activation_checkpointing == NO_CHECKPOINTING:
            for value in (SELECTIVE, FULL, *_BUDGETS):
                needs = frozenset(("compile",) if value in _BUDGETS else ())
                yield Option(checkpointing_words(value), {"step.activation_checkpointing": value}, needs)
        if self.device.kind in ("cuda", "xpu") and not self.experiment.step.offload_activations:
            yield Option("offloaded activations", {"step.offload_activations": True})
        if self.experiment.optimizer.name == "adamw":
            self.not_tried.append("Low-bit AdamW: it saves memory, not time. It cannot be fused or captured.")

    def exchanges(self) -> Iterator[Option]:
        ranks = self.experiment.ranks
        if self.experiment.devices == 1:
            return
        larger, short = {"ranks.bucket_mib": 4 * ranks.bucket_mib}, {"ranks.reduction": "bf16"}
        larger_words, short_words = f"buckets of {4 * ranks.bucket_mib:g} MiB", "gradients in BF16"
        if ranks.strategy == "ddp":
            yield Option(larger_words, larger)
        if ranks.reduction == "fp32":
            yield Option(short_words, short)
        if ranks.strategy == "ddp" and ranks.reduction == "fp32":
            yield Option(f"{short_words} and {larger_words}", {**larger, **short})
        is_varied = ranks.find_unused_parameters or self.experiment.step.gradient_accumulation > 1
        if ranks.strategy == "ddp" and not (ranks.static_graph or is_varied):
            yield Option("static graph", {"ranks.static_graph": True})

    def loaders(self) -> Iterator[Option]:
        experiment, dataset, is_on_cpu = self.experiment, self.dataset, not self.device.is_gpu
        text = flattened(experiment)
        own = experiment.own_code
        defines = own.defines if own else frozenset()
        chosen = FormValues(lambda key: str(text[key]), (experiment.precision,), is_on_cpu, defines)
        if not (chosen.loads() or chosen.loads_own()):
            self.not_tried.append(f"Loader settings: {dataset.name} does not use a data loader.")
            return
        data = experiment.data
        if chosen.loads() and dataset.fits_device and not data.on_device:
            yield Option("dataset on device", {"data.on_device": True})
        off = {"data.on_device": False} if chosen.loads() and data.on_device is not False else {}
        pinned = {} if is_on_cpu or data.pin_memory else {"data.pin_memory": True}
        if off:
            yield Option("loaded during training", {**off, "data.workers": 0})
        # every rank has loader workers of its own
        most = self.cores // experiment.devices
        for workers in (count for count in _LOADER_WORKERS if count <= most and count != data.workers):
            # a deeper queue evens out samples that take longer
            changes = {**off, **pinned, "data.workers": workers, "data.prefetch": max(4, data.prefetch)}
            yield Option(f"{workers} loader workers", changes)
        if most < _LOADER_WORKERS[-1]:
            cores = counted(self.cores, "core")
            each = f" for {experiment.devices:,} devices" if experiment.devices > 1 else ""
            limit = counted(most, "loader worker")
            self.not_tried.append(f"More than {limit}: the machine has {cores}{each}.")

    def compile_modes(self) -> Iterator[Option]:
        given, can_graph = self.experiment.step, self.device.name.startswith("cuda")
        for mode in COMPILE_MODES:
            if mode in GRAPH_MODES and not can_graph:
                self.not_tried.append(f"Compile mode {mode}: only CUDA devices have CUDA graphs.")
            elif mode in GRAPH_MODES and given.gradient_accumulation > 1:
                self.not_tried.append(f"Compile mode {mode}: its CUDA graphs cannot accumulate gradients.")
            elif mode != given.compile_mode:
                needs = frozenset({"compile"})
                yield Option(f"compile mode {mode}", {"step.compile_mode": mode}, needs)

    @property
    def _is_known(self) -> bool:
        # of a file's or a library's model only a worker knows
        return self.model.family != OWN_FAMILY and ModelRef(self.model.name).library is None

    def _why_not_fp8(self) -> str | None:
        if self._is_known and self.model.is_convolutional:
            return "it does not apply to convolutions"
        if self.experiment.devices > 1 and self.experiment.ranks.strategy == "fsdp":
            return "Ammeter does not combine it with FSDP2"
        return None

    def _why_not(self, part: RecipePart) -> str | None:
        if part in self.left_out:
            return f"{recipe_title(part)}: {self.left_out[part]}."
        code = self.experiment.own_code
        if part == "channels_last" and self._is_known and not self.model.is_convolutional:
            return "Channels last: the model has no convolutions."
        if part in ("fused", "capture") and code is not None and {"optimizer", "step"} & code.defines:
            return f"{recipe_title(part)}: the model file has its own optimizer."
        if part == "fused" and self.experiment.optimizer.fused is not None:
            return "Fused optimizer: it is already set explicitly."
        if part == "capture" and not self.device.name.startswith("cuda"):
            return "Captured steps: only CUDA devices have CUDA graphs."
        if part == "compile" and not self.device.is_gpu and self.model.is_convolutional:
            return "Compiling: no gain for convolutions on a CPU."
        return None


_OF_KIND = {
    "precision": _Values.precisions,
    "recipe": _Values.recipes,
    "batch": _Values.batches,
    "attention": _Values.attention,
    "checkpointing": _Values.checkpointing,
    "exchange": _Values.exchanges,
    "loader": _Values.loaders,
    "compile": _Values.compile_modes,
}


def _batch(size: int, accumulated: int) -> Option:
    split = f" × {accumulated:,}" if accumulated > 1 else ""
    return Option(f"batch {size:,}{split}", {"batch_size": size, "step.gradient_accumulation": accumulated})
