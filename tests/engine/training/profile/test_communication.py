"""What devices exchange in a step: found in recordings, matched between ranks, and advice on it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from engine.experiment.experiment import Experiment, experiment_from
from engine.protocol.advice import AdviceKind
from engine.protocol.profile import Communication, StepPart
from engine.training.profile import communication as module
from engine.training.profile.breakdown import step_bar
from engine.training.profile.communication import advise_on_communication, measure_communication
from engine.training.ranks import Rank
from tests.engine.training.profile.recorded import Recorded
from tests.profiles import exchange, exchanging

CPU = torch.device("cpu")
GEMM = "ampere_sgemm_128x64_nn"


def on_cpu(begin: float = 0) -> Recorded:
    """A step of 10 ms: 6 of a product, from 4 to 8 a message, of which the last 2 are beside nothing."""
    recorded = Recorded()
    recorded.step(begin, begin + 10_000)
    recorded.operation("aten::mm", begin, begin + 6_000)
    recorded.gloo("all_reduce", begin + 4_000, begin + 8_000, size=1_000)
    return recorded


# a node or a call that waits for a message computes nothing
@pytest.mark.parametrize(
    "waits", ["", "autograd::engine::evaluate_function: AddBackward0", "c10d::allreduce_"]
)
def test_on_a_processor_a_message_beside_no_operation_is_communication(tmp_path: Path, waits: str) -> None:
    recorded = on_cpu()
    if waits:
        recorded.operation(waits, 6_000, 9_000)
    trace = recorded.read(tmp_path)
    (sent,) = trace.collectives
    assert (sent.name, sent.bytes, sent.step, sent.us) == ("all_reduce", 4_000, 0, 4_000)
    bar = step_bar(trace, step_ms=10.0, data_wait_ms=0.0).bar
    assert bar.ms(StepPart.COMMUNICATION) == pytest.approx(2.0)
    assert waits or (bar.ms(StepPart.MATRIX), bar.ms(StepPart.HOST)) == pytest.approx((6.0, 2.0))


def test_on_a_card_a_kernel_that_sends_is_communication_beside_no_other(tmp_path: Path) -> None:
    recorded = Recorded()
    recorded.step(0, 1_000)
    recorded.kernel(GEMM, 1_000, 6_000, launched=100)
    # it begins after the host has left the step, which launched it
    recorded.nccl("allreduce", 4_000, 9_000, launched=500, size=1_000)
    trace = recorded.read(tmp_path)
    (sent,) = trace.collectives
    assert (sent.name, sent.bytes, sent.step) == ("allreduce", 2_000, 0)
    bar = step_bar(trace, step_ms=10.0, data_wait_ms=0.0).bar
    assert bar.ms(StepPart.MATRIX) == pytest.approx(5) and bar.ms(StepPart.COMMUNICATION) == pytest.approx(3)


@pytest.mark.parametrize(
    ("name", "size", "given"), [("_allgather_base", 250, 1_000), ("_reduce_scatter_base", 1_000, 250)]
)
def test_what_shards_are_gathered_from_and_scattered_to_counts_whole(
    tmp_path: Path, name: str, size: int, given: int
) -> None:
    recorded = Recorded()
    recorded.step(0, 1_000)
    recorded.nccl(name, 400, 900, launched=100, size=size, given=given)
    (sent,) = recorded.read(tmp_path).collectives
    assert (sent.name, sent.bytes) == (name, 2_000)


def of_two(
    monkeypatch: pytest.MonkeyPatch, folder: Path, other: Sequence[Sequence[float]]
) -> Communication | None:
    """The exchange of this rank and another, which answers in turn with the figures `other`."""
    answers = iter(other)
    monkeypatch.setattr(module, "current_rank", lambda: Rank(0, 2))
    monkeypatch.setattr(module, "measure_bus_bandwidth", lambda device: ())
    monkeypatch.setattr(
        module, "gather_from_ranks", lambda figures, device: [list(figures), list(next(answers))]
    )
    trace = on_cpu().read(folder)
    found = step_bar(trace, step_ms=10.0, data_wait_ms=0.0)
    return measure_communication(trace, found, 10.0, CPU, ["cpu", "cpu"])


PARTS = [0.0] * len(StepPart)


def test_what_a_message_takes_longer_than_elsewhere_is_waiting(monkeypatch, tmp_path: Path) -> None:
    found = of_two(monkeypatch, tmp_path, [[10.0, 0.5, *PARTS], [1], [1_000.0]])
    assert found is not None and found.messages == (4_000,)
    own, other = found.ranks
    assert (own.exposed_ms, own.overlapped_ms) == pytest.approx((2.0, 2.0))
    assert (own.skew_ms, other.skew_ms) == pytest.approx((3.0, 0.0))
    assert found.slowest == 1
    # with other messages there are no waits
    other_messages = of_two(monkeypatch, tmp_path, [[10.0, 0.5, *PARTS], [2]])
    assert other_messages is not None and other_messages.slowest is None
    assert [rank.skew_ms for rank in other_messages.ranks] == [None, None]


def test_a_single_rank_exchanges_nothing(tmp_path: Path) -> None:
    trace = on_cpu().read(tmp_path)
    found = step_bar(trace, step_ms=10.0, data_wait_ms=0.0)
    assert measure_communication(trace, found, 10.0, CPU, ["cpu"]) is None


def advised(found: Communication, **settings: Any) -> dict[AdviceKind, tuple[float, str, dict[str, str]]]:
    experiment: Experiment = experiment_from(
        {"model": "linear", "dataset": "synthetic-regression", "devices": 2, **settings}
    )
    return {
        advice.kind: (saved, advice.evidence, dict(advice.changes))
        for saved, advice in advise_on_communication(exchanging(found), experiment)
    }


def test_small_messages_long_gradients_and_frequent_sending_have_their_remedies() -> None:
    found = advised(exchange(0.0, 0.0))
    assert AdviceKind.STRAGGLER not in found
    saved, evidence, changes = found[AdviceKind.LARGER_BUCKETS]
    # at 4 GB/s in place of 16, the 6 ms beside nothing could be a quarter
    assert saved == pytest.approx(4.5) and changes == {"ranks.bucket_mib": "100"}
    assert evidence == (
        "A step sends 2 messages of 1.0 MiB on average, at 4.00 GB/s. With 64 MiB the devices reach "
        "16.0 GB/s."
    )
    assert found[AdviceKind.SHORTER_GRADIENTS][::2] == (3.0, {"ranks.reduction": "bf16"})
    assert found[AdviceKind.SENT_LESS_OFTEN][::2] == (3.0, {"step.gradient_accumulation": "2"})


def test_the_rank_that_others_wait_for_is_named_with_what_it_does_longer() -> None:
    saved, evidence, changes = advised(exchange(20.0, 0.0))[AdviceKind.STRAGGLER]
    assert saved == pytest.approx(20.0) and not changes
    assert evidence == (
        "The others wait for it for 20.0 ms of a 50.0 ms step. It spends 20.0 ms more waiting for the host."
    )
    # what rank 0 waits is no transfer, which BF16 would shorten
    assert advised(exchange(20.0, 0.0))[AdviceKind.SHORTER_GRADIENTS][0] == pytest.approx(3.0)


@pytest.mark.parametrize(
    ("settings", "messages", "kind"),
    [
        ({"ranks": {"strategy": "fsdp"}}, None, AdviceKind.LARGER_BUCKETS),
        ({"ranks": {"reduction": "bf16"}}, None, AdviceKind.SHORTER_GRADIENTS),
        # at the best bandwidth already
        ({}, (2.0**26, 2.0**26), AdviceKind.LARGER_BUCKETS),
    ],
)
def test_what_is_there_already_or_has_no_buckets_is_not_advised(settings, messages, kind) -> None:
    found = exchange(0.0, 0.0)
    found = found.model_copy(update={"messages": messages}) if messages else found
    assert kind not in advised(found, **settings)


def test_a_bandwidth_between_two_sizes_lies_between_theirs() -> None:
    found = exchange(0.0, 0.0)
    assert found.rate(2.0**20) == 4.0 and found.rate(2.0**23) == pytest.approx(8.0)
    assert found.rate(1.0) == 4.0 and found.rate(2.0**30) == 16.0
    assert found.model_copy(update={"rates": ()}).rate(1.0) is None
