"""The command line on this GPU: every kind of run, a resumed run, a script, `engine` and `doctor`.

Runs share the GPU, so their throughput means nothing. `speed` and `tax` measure.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from day.work import AMMETER, ROOT, StepError, Work, json_in, settings
from engine.cli.options import parse
from engine.experiment.experiment import experiment_from
from engine.store.store import Store
from engine.worker.launcher import Target

_RESNET = {
    "model": "resnet50",
    "dataset": "synthetic",
    "num_classes": 1000,
    "image_size": 224,
    "batch_size": 64,
}
_TEXT = {"model": "causal-lm-tiny", "dataset": "synthetic-tokens", "batch_size": 4, "steps": 70}
_FASHION, _LOADED = "fashion", "resnet18-fakedata"
_STOPPED, _START_SECONDS = "stopped half-way", 60.0
_SHORT = {"steps": 20, "measure__warmup_steps": 5}
MEANT_TO_FAIL = "ResNet-50 FP32 under 1 GiB"

RUNS: Mapping[str, tuple[str | None, Mapping[str, Any]]] = {
    "hello-amp": ("hello-amp", {}),
    "small-cnn FP32": (_FASHION, {"precision": "fp32", "steps": 200}),
    "small-cnn FP16": (_FASHION, {"precision": "fp16", "steps": 200}),
    "small-cnn FP16 fast": (_FASHION, {"precision": "fp16", "recipe": "fast", "steps": 200}),
    "small-cnn BF16 capture, SGD": (
        _FASHION,
        {"precision": "bf16", "recipe": "fused+capture", "optimizer__name": "sgd", "steps": 200},
    ),
    "small-cnn TF32": (_FASHION, {"precision": "tf32", "steps": 200}),
    "small-cnn default": (_FASHION, {"precision": "default", "steps": 200}),
    "small-cnn FP16 unscaled": (_FASHION, {"precision": "fp16-unscaled", "steps": 200}),
    "ResNet-50 FP32": (None, {**_RESNET, "precision": "fp32", "steps": 70}),
    "ResNet-50 FP16": (None, {**_RESNET, "precision": "fp16", "steps": 70}),
    "ResNet-50 FP16 fast": (None, {**_RESNET, "precision": "fp16", "recipe": "fast", "steps": 70}),
    "ResNet-50 FP16 capture": (
        None,
        {**_RESNET, "precision": "fp16", "recipe": "fused+capture", "steps": 70},
    ),
    "ResNet-50 FP16 capture, checkpointing": (
        None,
        {
            **_RESNET,
            "precision": "fp16",
            "recipe": "fused+capture",
            "step__activation_checkpointing": "true",
            "steps": 30,
        },
    ),
    "ResNet-50 BF16, layer4 in FP32": (
        None,
        {**_RESNET, "precision": "bf16", "step__fp32_modules": "layer4", "steps": 30},
    ),
    "causal LM FP16 fast, 4 batches, clipped": (
        None,
        {
            **_TEXT,
            "precision": "fp16",
            "recipe": "fast",
            "step__gradient_accumulation": 4,
            "step__clip_norm": 1,
        },
    ),
    "ResNet-18 FP16, 4 loaders": (_LOADED, _SHORT),
    "ResNet-18 FP16 capture, 4 loaders": (_LOADED, {**_SHORT, "recipe": "fused+capture"}),
    MEANT_TO_FAIL: (None, {**_RESNET, "precision": "fp32", "memory_cap_gib": 1, "steps": 30}),
}
_SMALL_TEXT = {
    "model": "causal-lm-small",
    "dataset": "synthetic-tokens",
    "num_classes": 32_000,
    "sequence_length": 512,
    "batch_size": 8,
    "steps": 60,
    "recipe": "fused+compile",
}
_IN_FP8 = {**_SMALL_TEXT, "precision": "fp8", "step__fp8_small_layers": "true"}
_LARGE_TEXT = {**_SMALL_TEXT, "model": "causal-lm-1b", "sequence_length": 1_024, "batch_size": 4}
LARGE: Mapping[str, Mapping[str, Any]] = {
    f"causal LM of 1B, {name}": {**_LARGE_TEXT, "precision": name} for name in ("bf16", "fp8", "bf16-pure")
}
"""Alone on the GPU, so that their speeds can be compared."""
FORMATS: Mapping[str, Mapping[str, Any]] = {
    **{
        f"FP8 {scaling}{' fast' if recipe == 'fast' else ''}": {
            **_IN_FP8,
            "step__fp8_recipe": scaling,
            "recipe": recipe,
        }
        for scaling in ("tensorwise", "rowwise", "rowwise_with_gw_hp")
        for recipe in ("fused+compile", "fast")
    },
    "pure BF16 fast": {**_SMALL_TEXT, "precision": "bf16-pure", "recipe": "fast"},
    "pure BF16, stochastic rounding": {
        **_SMALL_TEXT,
        "precision": "bf16-pure",
        "optimizer__stochastic_rounding": "true",
    },
    **{
        f"BF16, {optimizer}": {**_SMALL_TEXT, "precision": "bf16", "optimizer__name": optimizer}
        for optimizer in ("adamw-8bit", "adamw-4bit", "adamw-fp8")
    },
}
"""Several at a time: their losses and memory mean something, and their speeds nothing."""
IN_SMALL = {
    "small-cnn FP32": (_FASHION, {"precision": "fp32", "steps": 12, "measure__warmup_steps": 2}),
}


def check(work: Work) -> None:
    """Train every kind of run, three at a time; resume a stopped run; run an exported script."""
    rows = _all_trained(work, RUNS, at_once=3)
    failed = [
        name for name, run in rows.items() if (run.get("status") == "finished") is (name == MEANT_TO_FAIL)
    ]
    others = [what for what in (_script(work, rows), _resumed(work)) if what is not None]
    work.report("kinds", len(failed) + len(others), "; ".join([*failed, *others]))


def formats(work: Work) -> None:
    """Train in the precisions and with the optimizers of torchao, and in pure BF16."""
    groups = work.small(((LARGE, 1), (FORMATS, 5)), (({**LARGE, **FORMATS}, 1),))
    found: dict[str, dict[str, Any]] = {}
    for runs, at_once in groups:
        found |= _all_trained(work, {name: (None, run) for name, run in runs.items()}, at_once)
    failed = [name for name, run in found.items() if run.get("status") != "finished"]
    work.report("formats", len(failed), "; ".join(failed))


def _all_trained(
    work: Work, runs: Mapping[str, tuple[str | None, Mapping[str, Any]]], at_once: int
) -> dict[str, dict[str, Any]]:
    """Train the runs and print a line for each. A rehearsal reads their options and trains a small one."""
    options = {name: _options(*run) for name, run in runs.items()}
    if work.is_rehearsal:
        for words in options.values():
            _validate(words)
        options = {name: _options(*run) for name, run in IN_SMALL.items()}
    with ThreadPoolExecutor(work.small(at_once, 1)) as pool:
        rows = dict(zip(options, pool.map(lambda name: _trained(work, options[name]), options), strict=True))
    columns = "".join(f"{name:>8}" for name in ("speed", "peak", "whole", "compile", "capture", "others"))
    print(f"{'':<40}{'ended':<10}{'loss':>7}{columns}  recipe")
    for name, run in rows.items():
        _show(name, run)
    return rows


def engine(work: Work) -> None:
    """Run `engine show` and `doctor`; report unseen GPUs and problems."""
    shown = work.ammeter("engine", "show", seconds=60)
    told = work.ammeter("doctor", seconds=120)
    if not shown.told or not told.told:
        raise StepError(f"no answer: {shown.stderr} {told.stderr}")
    import torch

    seen = min(torch.cuda.device_count(), len(shown.told["hardware"]["gpus"]))
    for build in shown.told["builds"]:
        print(f"{build['backend']}: {'fits' if build['fits'] else 'does not fit'}: {build['why']}")
    checks = told.told["checks"]
    for each in checks:
        if each["status"] != "ok":
            print(f"{each['status']}: {each['name']}: {each['detail']} {each['remedy']}")
    work.report("engine", work.small(1, 0) - min(seen, 1), f"torch {shown.told['torch']}")
    problems = [each["name"] for each in checks if each["status"] == "problem"]
    work.report("doctor", len(problems), ", ".join(problems))


def _where(work: Work) -> list[str]:
    """Return options that make a rehearsal train in the command's process, which has imported torch."""
    return work.small([], ["--target", Target.THREAD.value])


def _options(preset: str | None, values: Mapping[str, Any]) -> list[str]:
    known = dict(values)
    recipe = known.pop("recipe", None)
    named = settings(**known, **({} if recipe is None else {"step__recipe": recipe}))
    return [*(() if preset is None else ("--preset", preset)), *named]


def _validate(words: Sequence[str]) -> None:
    """Read a run's options as the command line does, without training."""
    parameters: dict[str, Any] = {"set_": [word for word in words if "=" in word]}
    if "--preset" in words:
        parameters["preset"] = words[words.index("--preset") + 1]
    experiment_from(parse(parameters).settings(True))


def _trained(work: Work, options: Sequence[str]) -> dict[str, Any]:
    """Return the run as the command line prints it, with `remark` where there is something to say."""
    if not work.has_time(30, " ".join(options)):
        return {"status": "left out"}
    try:
        answer = work.ammeter("run", *options, *_where(work))
    except StepError as error:
        return {"status": "too slow", "remark": str(error)}
    problem = answer.told.get("error", {})
    run = answer.told.get("run", answer.told)
    left_out = (run.get("summary") or {}).get("left_out", {})
    remarks = [str(problem.get("message", ""))] + [f"without {part}: {why}" for part, why in left_out.items()]
    if not run:
        run, remarks = {"status": f"exit {answer.status}"}, [answer.stderr]
    return {**run, "remark": "; ".join(filter(None, remarks))}


def _show(name: str, run: Mapping[str, Any]) -> None:
    summary = run.get("summary") or {}
    keys = (
        "samples_per_second",
        "peak_allocated_mib",
        "whole_run_peak_mib",
        "compile_seconds",
        "capture_seconds",
        "other_programs_mib",
    )
    figures = "".join(f"{_number(summary.get(key)):>8}" for key in keys)
    loss = _number(summary.get("final_train_loss"), 2)
    print(f"{name:<40}{run.get('status', '-'):<10}{loss:>7}{figures}  {summary.get('recipe') or '-'}")
    if run.get("remark"):
        print(f"    {run['remark'][:300]}")


def _number(value: object, digits: int = 0) -> str:
    return f"{value:,.{digits}f}" if isinstance(value, int | float) else "-"


def _script(work: Work, rows: Mapping[str, Mapping[str, Any]]) -> str | None:
    """Export a run as a script and run it; return what failed."""
    name = work.small("small-cnn FP16 fast", "small-cnn FP32")
    run_id = rows[name].get("id")
    if run_id is None:
        return "there was no run to export as a script"
    script = work.folder / "run.py"
    written = work.ammeter("export", run_id, "--to", str(script))
    if written.status:
        return f"the script was not written: {written.stderr}"
    if work.is_rehearsal:  # tests of the exports run scripts
        compile(script.read_text(encoding="utf-8"), script, "exec")
        return None
    done = work.run(sys.executable, script, seconds=90)
    last = (done.stdout.strip().splitlines() or ["nothing"])[-1]
    print(f"script of {name}: exit status {done.returncode}: {last[:100]} {done.stderr.strip()[-300:]}")
    return f"the script failed: {done.stderr.strip()[-200:]}" if done.returncode else None


def _resumed(work: Work) -> str | None:
    """Stop a run and resume it; return what failed."""
    recipe, precision = work.small("fused+capture", "plain"), work.small("fp16", "fp32")
    words = settings(precision=precision, steps=work.small(15_000, 300), batch_size=work.small(64, 4))
    words += settings(step__recipe=recipe, checkpoint__last="true", validation__every=0)
    command = [*AMMETER, "run", "--preset", _FASHION, *words, "--name", _STOPPED, *_where(work), "--json"]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        _await_steps(process)
        process.send_signal(signal.SIGINT)
        stopped = json_in(process.communicate(timeout=60)[0])
    finally:
        process.kill()
    if stopped.get("status") != "stopped":
        return f"a run could not be stopped: {stopped.get('status')}"
    again = work.ammeter("resume", stopped["id"], *_where(work), seconds=120)
    steps = [(run.get("summary") or {}).get("steps") for run in (stopped, again.told)]
    print(f"a run that was stopped after {steps[0]} steps was {again.told.get('status')} after {steps[1]}")
    return None if again.told.get("status") == "finished" else f"not resumed: {again.stderr}"


def _await_steps(process: subprocess.Popen[str]) -> None:
    """Wait until the run that the process trains has made steps, or has ended."""
    with Store() as store:
        until = time.monotonic() + _START_SECONDS
        while process.poll() is None and time.monotonic() < until:
            if any(
                run.name == _STOPPED and len(store.samples(run.id).get("step", ())) for run in store.runs()
            ):
                return
            time.sleep(0.1)
