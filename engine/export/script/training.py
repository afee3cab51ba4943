"""The training of a script: number formats, optimizer, scaler, loss, learning rate, steps, validation."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from importlib.resources import files

from pydantic import ValidationError

from engine.experiment.experiment import Experiment, Precision, Scaler, Schedule, Step, setting_error
from engine.experiment.problem import ProblemError, unknown_name
from engine.experiment.settings import FAST, PLAIN, RECIPE_PARTS, RecipePart
from engine.export.script.data import DataFacts
from engine.export.script.model import ModelFacts
from engine.export.script.source import OwnFacts, call, literal
from engine.store.record import RunRecord

_SCALER_SETTINGS = ("init_scale", "growth_factor", "backoff_factor", "growth_interval")


_FORMATS = {
    Precision.FP16: "torch.float16",
    Precision.FP16_UNSCALED: "torch.float16",
    Precision.BF16: "torch.bfloat16",
    Precision.FP8: "torch.bfloat16",
}


@dataclass(frozen=True)
class TrainingFacts:
    """The properties of a training that decide the script's code. `parts` are the applied optimizations.

    `epoch_steps` are the steps per epoch that the run reported, needed only if the data do not determine
    them.
    """

    experiment: Experiment
    model: ModelFacts
    data: DataFacts
    parts: tuple[RecipePart, ...]
    epoch_steps: int | None

    @property
    def own(self) -> OwnFacts | None:
        """The model's own file, if it has one."""
        return self.model.own

    @property
    def own_step(self) -> bool:
        return self.own is not None and self.own.defines("step")

    @property
    def own_optimizer(self) -> bool:
        return self.own is not None and self.own.defines("optimizer")

    @property
    def uses_defaults(self) -> bool:
        """True if the script calls the model and computes its loss by functions that the file may omit."""
        return self.data.validates or not self.own_step

    @property
    def count(self) -> str:
        """The expression for the samples of a batch."""
        if self.data.own is None:
            return "len(targets)"
        if self.data.own.defines("batch_size"):
            return "batch_size(inputs, targets)"
        return "BATCH_SIZE" if self.data.is_synthetic else "samples_in(inputs, targets)"

    @property
    def several(self) -> bool:
        """True if one process per device runs the script."""
        return self.experiment.devices > 1

    @property
    def was_sharded(self) -> bool:
        """True if FSDP2 trained the run. The script uses DistributedDataParallel, which does not shard."""
        return self.several and self.experiment.ranks.strategy == "fsdp"

    @property
    def shares_order(self) -> bool:
        """True if the processes share the samples of each epoch, instead of generating their own."""
        return self.several and not self.data.is_synthetic

    @property
    def device(self) -> str:
        """The expression for the device, or for this process's device of several."""
        if self.several:
            kind, _, first = self.experiment.device.partition(":")
            local = 'int(os.environ["LOCAL_RANK"])'
            number = f"{first} + {local}" if int(first or 0) else local
            return f"torch.device({literal(kind)}{'' if kind == 'cpu' else f', {number}'})"
        if self.experiment.device == "auto":
            return 'torch.accelerator.current_accelerator() or torch.device("cpu")'
        return f"torch.device({literal(self.experiment.device)})"

    @property
    def backend(self) -> str:
        """The backend that synchronizes gradients between devices of that kind."""
        return {"cuda": "nccl", "xpu": "xccl"}.get(self.experiment.device.partition(":")[0], "gloo")

    @property
    def parallel(self) -> str:
        """The expression for `model` in several processes."""
        ranks, arguments = self.experiment.ranks, {}
        if self.backend != "gloo":
            arguments["device_ids"] = "[DEVICE]"
        arguments |= {"bucket_cap_mb": literal(ranks.bucket_mib), "gradient_as_bucket_view": "True"}
        if ranks.static_graph:
            arguments["static_graph"] = "True"
        if ranks.find_unused_parameters:
            arguments["find_unused_parameters"] = "True"
        wrapper = "DistributedDataParallel" if self.own is None else "Shared"
        return call(wrapper, "model", **arguments)

    @property
    def compiled(self) -> str:
        """The expression for the compiled model, without a mode that is PyTorch's default."""
        step, arguments = self.experiment.step, dict[str, str]()
        if step.compile_mode != "default":
            arguments["mode"] = literal(step.compile_mode)
        arguments["dynamic"] = literal(bool(step.compile_dynamic))
        return call("torch.compile", "parallel" if self.several else "model", **arguments)

    @property
    def cap_gib(self) -> float | None:
        """The memory cap, if it applies to a GPU."""
        return self.experiment.memory_cap_gib if self.experiment.device.startswith("cuda") else None

    @property
    def schedule(self) -> Schedule | None:
        """The schedule, or None for a constant learning rate."""
        schedule = self.experiment.schedule
        return schedule if schedule.name != "constant" or schedule.warmup_steps else None

    @property
    def decay_steps(self) -> int | None:
        """The optimizer steps between decays of the rate. Raises ProblemError if unknown."""
        schedule = self.experiment.schedule
        if schedule.name != "step":
            return None
        return schedule.decay_epochs * self._steps_per_epoch

    @property
    def logged_steps(self) -> int | None:
        """The run's length in steps, if the learning rate needs it. Raises ProblemError if unknown."""
        epochs = self.experiment.epochs
        if epochs is None or self.experiment.schedule.name not in ("cosine", "one-cycle"):
            return None
        return epochs * self._steps_per_epoch

    @property
    def _steps_per_epoch(self) -> int:
        if self.data.samples is not None:
            return math.ceil(
                self.data.samples // self.experiment.devices / self.experiment.device_step_samples
            )
        if self.epoch_steps is None:
            name = self.experiment.schedule.name
            message = f"is '{name}', which depends on the number of samples."
            remedy = "Train the run first, or select a constant learning rate."
            raise setting_error("schedule.name", message, remedy, value=name)
        return self.epoch_steps

    @property
    def tf32(self) -> bool:
        precision = self.experiment.precision
        return precision is Precision.TF32 or (precision.is_autocast and self.experiment.step.autocast_tf32)

    @property
    def attention_backend(self) -> str:
        """The name of the attention kernel in `torch.nn.attention.SDPBackend`."""
        name = self.experiment.step.attention.upper()
        return name if name == "MATH" else f"{name}_ATTENTION"

    @property
    def autocast_dtype(self) -> str | None:
        return _FORMATS.get(self.experiment.precision)

    @property
    def fp8_small(self) -> bool:
        """True if layers that are too small to get faster are converted to FP8 too."""
        takes_small = self.experiment.step.fp8_small_layers
        return self.experiment.device == "cpu" if takes_small is None else takes_small

    @property
    def scaler(self) -> str | None:
        """The expression for the loss scaler without PyTorch's defaults, or None if the run had none."""
        if not self.experiment.uses_scaler:
            return None
        settings, defaults = self.experiment.scaler, Scaler()
        changed = [name for name in _SCALER_SETTINGS if getattr(settings, name) != getattr(defaults, name)]
        arguments = {name: literal(getattr(settings, name)) for name in changed}
        return call("torch.amp.GradScaler", "DEVICE.type", **arguments)

    @property
    def optimizer(self) -> str:
        """The source that creates the optimizer of `model` with the rate `LEARNING_RATE`, without arguments
        that are PyTorch's defaults.
        """
        if self.own_optimizer:
            return "make_optimizer(model)"
        settings, arguments = self.experiment.optimizer, {"lr": "LEARNING_RATE"}
        kind = settings.kind
        if settings.weight_decay or kind.decays_by_default:
            arguments["weight_decay"] = literal(settings.weight_decay)
        if settings.momentum:
            arguments["momentum"] = literal(settings.momentum)
        if self._is_fused:
            arguments["fused"] = "True"
        if kind.takes_model:
            return call(kind.class_name, "model", **arguments)
        name = kind.class_name if kind.is_low_bit else "_AdamW"
        if not self.is_of_torchao:
            name = f"torch.optim.{kind.class_name}"
        elif self.experiment.rounds_stochastically:
            arguments["bf16_stochastic_round"] = "True"
        return call(name, "model.parameters()", **arguments)

    @property
    def optimizer_class(self) -> str | None:
        """The source of the optimizer's class, if it is Ammeter's own."""
        kind = self.experiment.optimizer.kind
        if self.own_optimizer or not kind.takes_model:
            return None
        path = kind.library.removeprefix("engine.").replace(".", "/")
        source = (files("engine") / f"{path}.py").read_text(encoding="utf-8")
        return source.partition("\n\n\n")[2].rstrip()  # below its imports

    @property
    def is_of_torchao(self) -> bool:
        """True if the optimizer is torchao's, whose learning rate is a tensor."""
        return self.experiment.optimizer.kind.is_low_bit or self.experiment.rounds_stochastically

    @property
    def zero_momentum(self) -> bool:
        return self._is_fused and bool(self.experiment.optimizer.momentum)

    @property
    def _is_fused(self) -> bool:
        if self.own_optimizer or self.is_of_torchao or not self.experiment.optimizer.kind.has_fused:
            return False
        fused = self.experiment.optimizer.fused
        return "fused" in self.parts if fused is None else fused

    @property
    def outputs(self) -> str:
        if self.own is not None:
            return (
                "outputs_of(model, inputs)"
                if self.data.own or self.own.defines("forward")
                else "model(inputs)"
            )
        return "model(inputs).logits" if self.model.has_named_logits else "model(inputs)"

    @property
    def training_loss(self) -> str:
        """The loss of the model's outputs for `inputs`."""
        called = "compiled" if "compile" in self.parts else "parallel" if self.several else "model"
        return self._loss(re.sub(r"\bmodel\b", called, self.outputs))

    @property
    def loss(self) -> str:
        """The loss of `outputs` in the validation."""
        return self._loss("outputs")

    def _loss(self, outputs: str) -> str:
        if self.own is not None:
            return call("loss_of", outputs, "targets")
        if self.model.kind == "linear":
            return call("nn.functional.mse_loss", outputs, "targets")
        parts = (outputs, "targets")
        if self.model.is_of_text:
            parts = (f"{outputs}.flatten(0, 1)", "targets.flatten()")
        smoothing = self.experiment.label_smoothing
        arguments = {"label_smoothing": literal(smoothing)} if smoothing else {}
        return call("nn.functional.cross_entropy", *parts, **arguments)

    @property
    def validation_when(self) -> str | None:
        """The condition for validating after an epoch, or None for every epoch."""
        every = self.experiment.validation.every
        if every == 1:
            return None
        return f"epoch % {every} == 0" + (" or step == STEPS" if self.experiment.steps else "")


def applied_parts(run: RunRecord) -> tuple[RecipePart, ...]:
    """Return the parts of the recipe that the run applied, or all requested parts if unknown."""
    if run.summary is None or run.summary.recipe is None:
        is_captured = run.experiment.devices == 1
        return tuple(part for part in run.experiment.step.parts if part != "capture" or is_captured)
    try:
        return Step.model_validate({"recipe": run.summary.recipe}).parts
    except ValidationError:
        known = (PLAIN, FAST, *RECIPE_PARTS)
        raise ProblemError(unknown_name("recipe", run.summary.recipe, known, "recipe")) from None
