"""The figures of each device of a run: the slowest and the largest peak can be told."""

from __future__ import annotations

from collections.abc import Callable

from engine.compare.details import details_of, device_rows
from engine.experiment.catalog import DataRef
from engine.experiment.experiment import Experiment
from engine.protocol.summary import Compilation, CompileEvent, RankMetrics, Summary
from engine.store.record import RunRecord


def rank(speed: float | None = 100.0, peak: float | None = 50.0, exposed: float | None = None) -> RankMetrics:
    return RankMetrics(
        device="cuda:0", samples_per_second=speed, step_ms=12.5, peak_mib=peak, exposed_ms=exposed
    )


def marks(*ranks: RankMetrics) -> list[list[str]]:
    rows = device_rows(Summary(ranks=ranks), Experiment(dataset=DataRef("fashion")))
    return [[word for word in ("slowest", "largest") if word in row.words] for row in rows]


def test_the_largest_peak_is_marked() -> None:
    assert marks(rank(99, 50), rank(98, 40), rank(100, 60)) == [[], [], ["largest"]]


def test_the_others_wait_for_the_slowest_whose_own_wait_is_the_shortest() -> None:
    assert marks(rank(98, exposed=9.0), rank(99, exposed=1.0)) == [[], ["slowest"]]
    # a wait of less than a tenth of a step comes and goes by chance
    assert marks(rank(98, exposed=2.0), rank(99, exposed=1.0)) == [[], []]


def test_nothing_is_marked_where_all_are_the_same_or_one_is_unknown() -> None:
    assert marks(rank(), rank()) == [[], []]
    assert marks(rank(99, None, exposed=9.0), rank(98, 40)) == [[], []]


def test_what_is_unknown_is_a_dash_in_a_table_and_left_out_of_a_line() -> None:
    (row,) = device_rows(
        Summary(ranks=(rank(1_234.0, None),)), Experiment(dataset=DataRef("synthetic-regression"))
    )
    assert row.name == "Rank 0, cuda:0"
    assert row.cells == ("1,234 samples/s", "12.5 ms", "–", "–", "–")
    assert row.words == "1,234 samples/s · step 12.5 ms"


def test_a_run_on_a_single_device_has_no_rows() -> None:
    assert device_rows(None, Experiment()) == device_rows(Summary(), Experiment()) == ()


def test_recompilations_and_graph_breaks_are_listed_with_their_lines(
    record: Callable[..., RunRecord],
) -> None:
    places = {"recompilation": "net.py:12, forward", "graph break": "net.py:20, forward"}
    events = tuple(CompileEvent(kind=kind, reason="why", place=place) for kind, place in places.items())
    compiled = Compilation(recompilations=2, graph_breaks=1, events=events, is_cached=True)
    run = record(1, Experiment(), warmup_seconds=9.0, compile_seconds=8.0, compilation=compiled)
    rows = dict(pair for _, pairs in details_of(run) for pair in pairs)
    assert rows["Warm-up"] == "9.0 s, including compiling 8.0 s (with a filled compiler cache)"
    assert rows["Recompilations"] == "2\nnet.py:12, forward: why"
    assert rows["Graph breaks"] == "1\nnet.py:20, forward: why"
