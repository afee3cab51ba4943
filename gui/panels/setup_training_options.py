"""The options of how a step is made and repeated: optimizer, schedule, scaler, number formats."""

from __future__ import annotations

from gui.panels.setup_option import Group, Option, Shape, automatic, switch

OPTIMIZER = Group(
    "Optimization",
    (
        Option(
            "optimizer.name",
            "Optimizer",
            "How the weights are changed from the gradients.",
            Shape.CHOICE,
            choices=(("adamw", "AdamW"), ("adam", "Adam"), ("sgd", "SGD")),
        ),
        Option("optimizer.learning_rate", "Learning rate", "How far each step moves the weights."),
        Option("optimizer.weight_decay", "Weight decay", "How strongly the weights are pulled towards zero."),
        Option("optimizer.momentum", "Momentum", "How much of the last step SGD carries into the next."),
        Option(
            "step.gradient_accumulation",
            "Accumulate",
            "Each step adds up the gradients of so many batches: a large batch in the memory of a small one.",
            Shape.WHOLE,
            unit="batches",
        ),
        Option(
            "step.clip_norm",
            "Clip norm",
            "Gradients longer than this are shortened to it, after unscaling. Empty: no clipping.",
            hint="no clipping",
        ),
        Option(
            "label_smoothing",
            "Label smoothing",
            "How much of each label is spread over the other classes, so that the model is less sure of "
            "itself; 0 is none.",
        ),
        automatic(
            "optimizer.fused",
            "Fused",
            "One GPU program changes all the weights at once, and the scaler needs not wait. "
            "Auto: as the speed recipe has it.",
        ),
    ),
)

SCHEDULE = Group(
    "Learning rate over time",
    (
        Option(
            "schedule.name",
            "Schedule",
            "How the learning rate goes over the run. Its peak is the learning rate above.",
            Shape.CHOICE,
            choices=(
                ("constant", "Constant"),
                ("cosine", "Cosine"),
                ("one-cycle", "One cycle"),
                ("step", "In steps"),
            ),
        ),
        Option(
            "schedule.warmup_steps",
            "Rise over",
            "Over so many steps at the start the learning rate rises in a straight line; 0 is not at all.",
            Shape.WHOLE,
            unit="steps",
        ),
        Option(
            "schedule.final_fraction",
            "Falls to",
            "What is left of the learning rate at the last step, as a part of the peak: 0.1 is a tenth.",
            unit="of peak",
        ),
        Option(
            "schedule.rise_fraction",
            "Rises for",
            "The part of the run over which the learning rate rises to its peak; it falls for the rest.",
            unit="of run",
        ),
        Option(
            "schedule.decay_epochs",
            "Falls every",
            "After each so many epochs the learning rate falls.",
            Shape.WHOLE,
            unit="epochs",
        ),
        Option(
            "schedule.decay_factor",
            "Falls by",
            "What the learning rate is multiplied by when it falls.",
            unit="×",
        ),
    ),
)

SCALER = Group(
    "Loss scaling",
    (
        Option(
            "scaler.mode",
            "Scaler",
            "Scales the loss up so that small FP16 gradients do not vanish. Auto: for FP16 AMP only.",
            Shape.CHOICE,
            choices=(("auto", "Auto"), ("on", "On"), ("off", "Off")),
        ),
        Option("scaler.init_scale", "First scale", "The scale that the run begins with."),
        Option("scaler.growth_factor", "Growth", "The scale is multiplied by this after enough clean steps."),
        Option("scaler.backoff_factor", "Back-off", "The scale is multiplied by this after an overflow."),
        Option(
            "scaler.growth_interval",
            "Grow after",
            "How many clean steps in a row before the scale grows.",
            Shape.WHOLE,
            unit="steps",
        ),
    ),
)

FORMATS = Group(
    "Number formats and memory",
    (
        Option(
            "step.fp32_modules",
            "Keep in FP32",
            "Parts of the model that AMP leaves in FP32, by name or pattern, with commas between: "
            "fc, layer4.*. Empty: what PyTorch chooses.",
            Shape.TEXT,
            hint="names or patterns, such as layer4.*",
            wide=True,
        ),
        switch(
            "step.autocast_tf32",
            "TF32 within AMP",
            "Lets what AMP leaves in FP32 use the faster, coarser TF32 of newer NVIDIA cards.",
        ),
        switch(
            "step.activation_checkpointing",
            "Recompute",
            "Forgets the activations in between and computes them again on the way back: less memory, slower "
            "steps. Known as activation checkpointing.",
        ),
    ),
)
