"""The options of what a run reads, keeps and runs on: data, validation, checkpoints, machine."""

from __future__ import annotations

from gui.panels.setup_option import Group, Option, Shape, automatic, switch

DATA = Group(
    "Data",
    (
        Option(
            "image_size",
            "Image size",
            "Pixels a side; pictures are resized to it. Empty: the dataset's own.",
            Shape.WHOLE,
            unit="px",
            hint="its own",
        ),
        Option(
            "num_classes",
            "Classes",
            "How many classes, or words in the vocabulary, synthetic samples have. Empty: the usual number.",
            Shape.WHOLE,
            hint="its own",
        ),
        Option(
            "sequence_length",
            "Sequence length",
            "How many tokens make one sample of text.",
            Shape.WHOLE,
            unit="tokens",
        ),
        Option("samples", "Samples", "How many synthetic samples make one epoch.", Shape.WHOLE),
        switch(
            "data.augment",
            "Augment",
            "Shifts and flips the training pictures at random, lest the model learn them by heart.",
        ),
        switch(
            "data.skip_broken",
            "Skip broken",
            "Trains on the next picture in place of one that cannot be read, and names it in the log. Off: "
            "the pictures are opened before the run, and a broken one stops the run.",
        ),
        automatic(
            "data.on_device",
            "Keep on device",
            "Puts the whole dataset into the device's memory once, so that no step waits for it. "
            "Auto: where it is small.",
        ),
        Option(
            "data.workers",
            "Loader workers",
            "How many processes read the samples beside the training; 0: the training reads them itself.",
            Shape.WHOLE,
        ),
        Option(
            "data.prefetch",
            "Prefetch",
            "How many batches are made ready ahead of time.",
            Shape.WHOLE,
            unit="batches",
        ),
        switch(
            "data.pin_memory",
            "Pinned memory",
            "Holds batches where a GPU can fetch them while it computes.",
        ),
        switch(
            "data.persistent_workers",
            "Keep workers",
            "The loader's processes stay from one epoch to the next, instead of starting anew.",
        ),
    ),
)

KEEPING = Group(
    "Validation and checkpoints",
    (
        Option(
            "validation.every",
            "Validate every",
            "How many epochs lie between two validations; 0 is never.",
            Shape.WHOLE,
            unit="epochs",
        ),
        Option(
            "validation.limit",
            "Validate on",
            "The most samples that one validation looks at. Empty: all of them.",
            Shape.WHOLE,
            unit="samples",
            hint="all",
        ),
        switch(
            "checkpoint.best",
            "Save the best",
            "Saves the model's state whenever a validation is the best so far.",
        ),
        switch(
            "checkpoint.last",
            "Save the last",
            "Saves the run's state as it goes, so that it can be resumed after it was stopped.",
        ),
        Option(
            "checkpoint.every",
            "Save every",
            "How many epochs lie between two such checkpoints; one more is saved when the run is stopped.",
            Shape.WHOLE,
            unit="epochs",
        ),
    ),
)

MACHINE = Group(
    "Machine and measuring",
    (
        Option(
            "device", "Device", "Where the run trains. Auto: the first GPU, or else the CPU.", Shape.CHOICE
        ),
        Option(
            "memory_cap_gib",
            "Memory cap",
            "Trains as if the card had only this much memory for tensors: CUDA itself takes some hundred MiB "
            "more of a real one. Empty: all of it.",
            unit="GiB",
            hint="none",
        ),
        Option("seed", "Seed", "Where the random numbers begin; the same seed repeats a run.", Shape.WHOLE),
        Option(
            "on_nan",
            "On NaN",
            "What to do when the loss is no longer a number.",
            Shape.CHOICE,
            choices=(("continue", "Go on"), ("stop", "Stop the run"), ("fail", "Fail the run")),
        ),
        Option(
            "measure.warmup_steps",
            "Warm-up",
            "The first steps are trained but not counted in the speed.",
            Shape.WHOLE,
            unit="steps",
        ),
        Option(
            "measure.block_steps",
            "Block",
            "Speed is the median over blocks of this many steps.",
            Shape.WHOLE,
            unit="steps",
        ),
    ),
)
