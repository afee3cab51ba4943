"""The optimizer, the scaler and the loss of a script, as Python source."""

from __future__ import annotations

from engine.experiment import Optimizer, Scaler
from engine.exports.script.literals import LINE, call, literal
from engine.exports.script.model import ModelKind

_OPTIMIZERS = {"adamw": "AdamW", "adam": "Adam", "sgd": "SGD"}
_ROOM = LINE - len("    optimizer = ")
_SCALER_SETTINGS = ("init_scale", "growth_factor", "backoff_factor", "growth_interval")


def optimizer_expression(settings: Optimizer, *, is_fused: bool) -> str:
    """The optimizer of `model`, whose rate is `LEARNING_RATE`; PyTorch's own settings left out."""
    given = {"lr": "LEARNING_RATE"}
    if settings.weight_decay or settings.name == "adamw":  # AdamW's own is not 0
        given["weight_decay"] = literal(settings.weight_decay)
    if settings.momentum:
        given["momentum"] = literal(settings.momentum)
    if is_fused:
        given["fused"] = "True"
    return call(_ROOM, f"torch.optim.{_OPTIMIZERS[settings.name]}", "model.parameters()", **given)


def scaler_expression(settings: Scaler) -> str:
    """A loss scaler for `DEVICE`; PyTorch's own settings left out."""
    usual = Scaler()
    changed = [name for name in _SCALER_SETTINGS if getattr(settings, name) != getattr(usual, name)]
    given = {name: literal(getattr(settings, name)) for name in changed}
    return call(_ROOM, "torch.amp.GradScaler", "DEVICE.type", **given)


def loss_expression(kind: ModelKind, outputs: str, label_smoothing: float, *, indent: int) -> str:
    """The loss of `outputs`, an expression itself, for `targets`; its statement is indented so far."""
    room = LINE - indent - len("loss = ")
    if kind == "linear":
        return call(room, "nn.functional.mse_loss", outputs, "targets")
    parts = (outputs, "targets")
    if kind == "language":
        parts = (f"{outputs}.flatten(0, 1)", "targets.flatten()")
    given = {"label_smoothing": literal(label_smoothing)} if label_smoothing else {}
    return call(room, "nn.functional.cross_entropy", *parts, **given)
