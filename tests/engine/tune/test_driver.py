"""It finds, proves and explains the fastest settings; workers only say what a script has them say."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from engine.experiment.catalog import DeviceEntry
from engine.experiment.experiment import Experiment, Precision, changed, experiment_from
from engine.experiment.problem import Kind, ProblemError
from engine.experiment.settings import COMPILE_MODES
from engine.protocol.events import Failed, Finished, Log
from engine.protocol.tune import CHANGE_KINDS, Tuning, TuningPlan
from engine.store.record import Status
from engine.store.saved.studies import Study
from engine.store.store import Store
from engine.training.doctor import read_catalog
from engine.tune.candidates import Option, Space, baseline_of, space_of
from engine.tune.driver import TuneDriver
from engine.tune.verification import REMAINDER
from engine.worker.launcher import Launcher, Target
from tests.engine.tune.conftest import WORKER

Scripted = Callable[[str], Launcher]
GIVEN = Experiment(dataset="synthetic", samples=640, image_size=8, device="cpu", batch_size=32, steps=40)
QUICK = TuningPlan(kinds=("precision", "recipe"), repeats=2)
PRECISION = TuningPlan(kinds=("precision",), repeats=2)


def ask(
    experiment: Experiment, plan: TuningPlan | None = None, cap_gib: float | None = None
) -> Study[Tuning]:
    answer = Tuning(experiment=experiment, plan=plan or TuningPlan(), memory_cap_gib=cap_gib)
    return Study(answer=answer)


def saved(store: Store) -> Study[Tuning]:
    (entry, *_) = store.studies.newest("tune")
    return store.studies.find(entry.id)


def newest(store: Store) -> Tuning:
    return saved(store).answer


def is_process(known: object) -> bool:
    """Whether a process begins to train."""
    return isinstance(known, Log) and known.message.startswith("Run ")


@pytest.mark.slow
def test_the_fastest_is_found_proven_and_explained(store, catalog, scripted):
    first, *_, last = events = list(TuneDriver(store, scripted(WORKER), catalog).follow(ask(GIVEN, QUICK)))
    assert isinstance(first, Study) and isinstance(last, Finished) and not last.stopped
    tuning = newest(store)
    assert tuning.phase == "over" and saved(store).is_over
    assert tuning.winner_changes == {"precision": "bf16", "step.recipe": "channels_last"}
    assert tuning.winner is not None and tuning.winner.precision is Precision.BF16
    proof = tuning.proof
    assert proof is not None and proof.speedup == pytest.approx(1.95) and proof.is_loss_alike
    runs = [store.run(run_id) for run_id in (*proof.baseline_ids, *proof.winner_ids)]
    assert {run.comparison for run in runs} == {proof.comparison} and len(runs) == 4
    assert [gain.words for gain in tuning.gains] == ["BF16 AMP", "Channels last", REMAINDER]
    product = 1.0
    for gain in tuning.gains:
        product *= gain.speedup
    assert product == pytest.approx(proof.speedup)
    assert tuning.runs == sum(map(is_process, events))
    assert any("FP16 AMP" in sentence for sentence in tuning.not_tried)


NO_CONVOLUTIONS = WORKER.replace(
    "peak_resident_mib",
    "left_out={'channels_last': 'the model has no convolutions', 'host_counters': 'it has no BatchNorm'} "
    "if 'channels_last' in recipe else {}, "
    "peak_resident_mib",
).replace("speed *= 0.9", "speed *= 3.0")


@pytest.mark.slow
def test_what_cannot_apply_is_dropped_before_anything_is_trained(store, catalog, scripted):
    assert "left_out" in NO_CONVOLUTIONS
    list(TuneDriver(store, scripted(NO_CONVOLUTIONS), catalog).follow(ask(GIVEN, QUICK)))
    tuning = newest(store)
    assert not any("channels_last" in trial.changes.get("step.recipe", "") for trial in tuning.trials)
    assert tuning.winner_changes == {"precision": "bf16", "step.recipe": "fused"}
    assert "Channels last: the model has no convolutions." in tuning.not_tried
    # plain and fused, in FP32, FP16 and BF16 of which FP16 is emulated
    assert tuning.candidates == 4


@pytest.mark.slow
@pytest.mark.parametrize("devices", [1, 2])
def test_a_worker_knows_what_cannot_apply(store, devices):
    known = read_catalog()
    unsure = [model.model_copy(update={"is_convolutional": True}) for model in known.models]
    linear = Experiment(
        model="linear",
        dataset="synthetic-regression",
        samples=64,
        batch_size=4,
        steps=40,
        device="cpu",
        devices=devices,
    )
    with Launcher(Target.THREAD) as launcher:
        driver = TuneDriver(store, launcher, known.model_copy(update={"models": tuple(unsure)}))
        study = ask(linear, QUICK)
        events = driver.follow(study)
        next(event for event in events if is_process(event))
        tuning = store.studies.find(study.id).answer
    assert tuning.left_out["channels_last"] == "the model has no convolutions"
    assert tuning.left_out["host_counters"] == "the model has no BatchNorm counters to move"
    assert any(sentence.startswith("BatchNorm counters on the host: the") for sentence in tuning.not_tried)
    assert "fused" not in tuning.left_out and tuning.trials == ()


def test_it_gives_way_and_goes_on_where_it_stood(store, catalog, scripted):
    driver = TuneDriver(store, scripted(WORKER), catalog)
    *_, whole = driver.follow(ask(GIVEN, PRECISION))
    assert isinstance(whole, Finished)
    wanted = newest(store)
    study = ask(GIVEN, PRECISION)
    begun, last = 0, None
    # a process or two each time
    while last is None or last.stopped:
        most = begun + 2
        for event in driver.follow(study, lambda: begun >= most):  # noqa: B023
            begun += is_process(event)
            study = event if isinstance(event, Study) else study
            last = event if isinstance(event, Finished) else last
        assert begun <= most and study.is_over is (last is not None and not last.stopped)
    tuning = store.studies.find(study.id).answer
    assert tuning.phase == "over" and tuning.runs == wanted.runs
    assert [trial.changes for trial in tuning.trials] == [trial.changes for trial in wanted.trials]
    with pytest.raises(ProblemError, match="Tuning 2 is finished"):
        next(iter(driver.follow(study)))


def test_a_stop_in_the_proof_keeps_what_is_known_and_its_run_is_trained_again(store, catalog, scripted):
    driver = TuneDriver(store, scripted(WORKER), catalog)
    for known in driver.follow(ask(GIVEN, PRECISION)):
        if isinstance(known, Study) and known.trains is not None:
            driver.stop()
    study = saved(store)
    assert study.is_over and study.answer.phase == "proof" and study.answer.trials
    *_, last = driver.follow(study)
    assert isinstance(last, Finished) and newest(store).phase == "over"
    assert [run.status for run in store.runs()] == [Status.FINISHED] * 4


def test_a_winner_whose_losses_leave_the_band_is_passed_over(store, catalog, scripted):
    parts = WORKER.replace(
        'say(event="samples"',
        "if asked['precision'] == 'bf16': loss = [value + 5 for value in loss]\nsay(event=\"samples\"",
    )
    list(TuneDriver(store, scripted(parts), catalog).follow(ask(GIVEN, QUICK)))
    tuning = newest(store)
    (broken,) = tuning.proofs
    assert broken.changes["precision"] == "bf16" and broken.is_loss_alike is False
    assert tuning.winner_changes == {"step.recipe": "channels_last"}
    assert tuning.proof is not None and tuning.proof.is_loss_alike


@pytest.mark.parametrize(("cap_gib", "batch"), [(None, 64), (0.2, 32)])
def test_a_batch_grows_as_long_as_it_gains_and_fits_under_the_cap(store, catalog, scripted, cap_gib, batch):
    plan = TuningPlan(kinds=("batch",), changes_batch=True, guard="none", repeats=2)
    list(TuneDriver(store, scripted(WORKER), catalog).follow(ask(GIVEN, plan, cap_gib)))
    tuning = newest(store)
    assert tuning.winner is not None and tuning.winner.batch_size == batch
    assert (cap_gib is not None) == any("more than the cap" in sentence for sentence in tuning.not_tried)


def test_where_plain_fp32_fails_its_problem_is_the_end(store, catalog, scripted):
    fails = "say(event='failed', problem=dict(kind='worker-died', message='It died.', remedy='Try again.'))\n"
    seen = list(TuneDriver(store, scripted(fails), catalog).follow(ask(GIVEN)))
    assert isinstance(seen[-1], Failed) and seen[-1].problem.kind is Kind.WORKER_DIED
    # it may be tried again, from the beginning
    assert saved(store).problem == seen[-1].problem and saved(store).answer.trials == ()


def test_on_several_devices_the_exchange_of_gradients_is_tried_too(store, catalog, scripted, monkeypatch):
    monkeypatch.setattr("os.cpu_count", lambda: 8)
    quick = """if asked["ranks"]["reduction"] == "bf16": speed *= 1.4
assert asked["devices"] == 2
started()"""
    plan = TuningPlan(kinds=("exchange",), repeats=2)
    given = GIVEN.model_copy(update={"devices": 2})
    events = list(
        TuneDriver(store, scripted(WORKER.replace("started()", quick)), catalog).follow(ask(given, plan))
    )
    assert isinstance(events[-1], Finished)
    tuning = newest(store)
    assert tuning.winner_changes == {"ranks.reduction": "bf16"}
    assert tuning.winner is not None and (tuning.winner.devices, tuning.winner.ranks.reduction) == (2, "bf16")
    assert [gain.words for gain in tuning.gains] == ["gradients in BF16"]
    tried = {trial.words for trial in tuning.trials}
    assert {"buckets of 100 MiB", "gradients in BF16 and buckets of 100 MiB", "static graph"} <= tried


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"devices": 1}, []),
        ({"devices": 2, "ranks": {"strategy": "fsdp"}}, ["gradients in BF16"]),
        *(
            ({"devices": 2, **more, "ranks": {"reduction": "fp16", **ranks}}, ["buckets of 100 MiB"])
            for more, ranks in (
                ({}, {"static_graph": True}),
                ({}, {"find_unused_parameters": True}),
                ({"step": {"gradient_accumulation": 4}}, {}),
            )
        ),
    ],
)
def test_what_cannot_be_or_is_set_already_of_an_exchange_is_not_tried(catalog, settings, words):
    given = experiment_from({**GIVEN.model_dump(mode="json"), **settings})
    space = space_of(baseline_of(given), TuningPlan(), catalog, {})
    assert [option.words for option in space.options["exchange"][1:]] == words
    assert space.careful_mib == 8_192 / given.devices


def test_offloading_and_captured_steps_are_not_tried_together():
    fast = {"step": {"recipe": "fast", "activation_checkpointing": "0.5"}}
    baseline = baseline_of(experiment_from({**GIVEN.model_dump(mode="json"), **fast}))
    assert (baseline.step.recipe, baseline.step.activation_checkpointing) == ("plain", "none")
    offload, capture = {"step.offload_activations": True}, {"step.recipe": "fused+capture"}
    options = {kind: (Option("as given", {}),) for kind in CHANGE_KINDS}
    options["recipe"] += (Option("captured", capture),)
    options["checkpointing"] += (Option("offloaded", offload),)
    space = Space(baseline, options)
    assert all(space.is_possible(space.places_for(changes)) for changes in ({}, offload, capture))
    assert not space.is_possible(space.places_for(offload | capture))


def test_the_baseline_in_fp32_has_no_attention_kernel_for_16_bits_which_is_tried_in_16_bits(catalog):
    gpu = catalog.devices[0].model_copy(update={"name": "cuda:0", "kind": "cuda"})
    language = catalog.models[0].model_copy(update={"name": "lm", "task": "language"})
    of_both = catalog.model_copy(update={"devices": (gpu,), "models": (language,)})
    for kernel, own in (("flash", "auto"), ("cudnn", "auto"), ("math", "math")):
        step = {"step": {"attention": kernel}, "precision": "bf16", "device": "cuda:0", "model": "lm"}
        baseline = baseline_of(experiment_from({**GIVEN.model_dump(mode="json"), **step}))
        assert baseline.step.attention == own
        space = space_of(baseline, TuningPlan(), of_both, {})
        fast = {"step.attention": "flash"}
        assert space.is_possible(space.places_for(fast | {"precision": "bf16"}))
        assert not space.is_possible(space.places_for(fast))


@pytest.mark.parametrize("more", [{"gradient_accumulation": 4}, {"offload_activations": True}])
def test_a_compile_mode_that_contradicts_other_settings_does_not_keep_compiling_from_being_tried(more):
    given = {**GIVEN.model_dump(mode="json"), "step": {"compile_mode": "reduce-overhead", **more}}
    baseline = baseline_of(experiment_from(given))
    assert changed(baseline, {"step.recipe": "compile"}).step.compile_mode == "default"


def test_counters_on_the_host_are_tried_alone_and_beside_the_others(catalog):
    def recipes(left_out: dict[str, str]) -> set[str]:
        space = space_of(baseline_of(GIVEN), TuningPlan(), catalog, left_out)
        return {option.words for option in space.options["recipe"][1:]}

    alone, both = "BatchNorm counters on the host", "Channels last + fused optimizer"
    assert {alone, both, f"{both} + {alone}"} <= recipes({})
    assert not any(alone in words for words in recipes({"host_counters": "none"}))


def test_fp8_and_pure_bf16_are_tried_only_where_that_is_allowed(catalog):
    language = catalog.models[0].model_copy(update={"name": "lm", "is_convolutional": False})
    of_both = catalog.model_copy(update={"models": (*catalog.models, language)})

    def space(model: str, *, allowed: bool) -> tuple[list[str], str]:
        given = baseline_of(GIVEN.model_copy(update={"model": model}))
        found = space_of(given, TuningPlan(coarse_formats=allowed), of_both, {})
        return [option.words for option in found.options["precision"][1:]], "\n".join(found.not_tried)

    words, said = space("lm", allowed=False)
    assert words == ["BF16 AMP"]
    assert "FP8: 8-bit numbers" in said and "Allow lower precisions to try it." in said
    words, said = space("lm", allowed=True)
    scaled = ["FP8 tensorwise", "FP8 rowwise", "FP8 rowwise_with_gw_hp"]
    assert words == ["BF16 AMP", *scaled, "Pure BF16"] and "FP8" not in said
    words, said = space("small-cnn", allowed=True)
    assert words == ["BF16 AMP", "Pure BF16"] and "FP8: it does not apply to convolutions." in said


def test_what_needs_compiling_is_only_tried_with_it(catalog):
    language = catalog.models[0].model_copy(update={"name": "lm", "is_convolutional": False})
    of_it = catalog.model_copy(update={"models": (language,)})
    baseline = baseline_of(GIVEN.model_copy(update={"model": "lm"}))

    def needing(plan: TuningPlan) -> list[str]:
        space = space_of(baseline, plan, of_it, {})
        told = [each.lower() for each in space.not_tried if "compiling, which they need" in each]
        options = [each.words for kind in CHANGE_KINDS for each in space.options[kind] if each.needs]
        assert bool(told) is not bool(options) and all(word in each for each in told for word in _NEEDING)
        return options

    assert needing(TuningPlan()) == _NEEDING
    assert needing(TuningPlan(kinds=("precision", "checkpointing", "compile"))) == []


_NEEDING = ["activation budget 0.5", "activation budget 0.25", "compile mode max-autotune-no-cudagraphs"]


def test_compile_modes_that_make_cuda_graphs_are_tried_on_a_gpu_without_accumulation(catalog):
    language = catalog.models[0].model_copy(update={"name": "lm", "is_convolutional": False})
    gpu = catalog.devices[0].model_copy(update={"name": "cuda:0"})

    def modes(device: DeviceEntry, accumulated: int) -> list[str]:
        given = experiment_from(
            {
                **GIVEN.model_dump(mode="json"),
                "device": device.name,
                "model": "lm",
                "step": {"gradient_accumulation": accumulated},
            }
        )
        of_it = catalog.model_copy(update={"devices": (device,), "models": (language,)})
        space = space_of(baseline_of(given), TuningPlan(), of_it, {})
        assert len(space.options["compile"]) + len(
            [sentence for sentence in space.not_tried if "Compile mode" in sentence]
        ) == len(COMPILE_MODES)
        return [option.changes["step.compile_mode"] for option in space.options["compile"][1:]]

    assert modes(catalog.devices[0], 1) == modes(gpu, 2) == ["max-autotune-no-cudagraphs"]
    assert modes(gpu, 1) == [*COMPILE_MODES[1:]]


def test_where_fp8_is_emulated_it_is_never_tried_and_that_is_said_once():
    plan, given = TuningPlan(coarse_formats=True), baseline_of(GIVEN)
    space = space_of(given, plan, read_catalog(), {})
    told = [sentence for sentence in space.not_tried if "FP8" in sentence and "AdamW" not in sentence]
    assert told == ["FP8 was skipped: FP8 is emulated, which shows losses but not throughput."]
    assert not any("fp8" in option.changes.values() for option in space.options["precision"])
