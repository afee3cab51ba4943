"""Traces read: what belongs to which operation, module, direction and step."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile, record_function

from engine.experiment.problem import ProblemError
from engine.protocol.profile import StepPart
from engine.training.profile import recording
from engine.training.profile.chrome import demangled, read_trace
from engine.training.profile.kernels import KernelClass, classify_kernel
from engine.training.profile.trace import DeviceWork, Trace
from tests.engine.training.profile.recorded import AUTOGRAD, MAIN, names_in

TRACES = Path(__file__).with_name("traces")


def test_a_kernel_belongs_to_the_innermost_operation_that_launched_it_and_to_the_innermost_module(
    recorded, tmp_path
):
    recorded.step(0, 100)
    recorded.mark(recording.MODULE, 5, 90)
    recorded.mark(recording.MODULE + "fc", 10, 50)
    recorded.operation("aten::linear", 11, 40, inputs=[([8, 4], "c10::Half"), ([2, 4], "c10::Half")])
    recorded.operation("aten::addmm", 15, 35)
    recorded.kernel("gemm", 60, 95, launched=20)
    recorded.kernel("relu", 95, 99, launched=70)
    gemm, relu = recorded.read(tmp_path).work
    assert gemm.operation is not None and gemm.operation.name == "aten::addmm"
    assert gemm.operation.parent is not None and gemm.operation.parent.self_us == 9
    assert gemm.operation.parent.signature is not None
    assert gemm.operation.parent.signature.shapes == ((8, 4), (2, 4))
    assert gemm.operation.parent.signature.types == ("c10::Half", "c10::Half")
    assert (gemm.place.module, gemm.place.direction, gemm.place.step) == ("fc", "forward", 0)
    assert (relu.operation, relu.place.module) == (None, "")


def test_a_damaged_trace_is_said_to_be(tmp_path):
    path = tmp_path / "trace.json"
    for text in (
        "",
        '{"traceEvents": [{"ph": "X", "cat": "kernel", "name": "ge',
        '[{"ph": "X", "cat": "kernel"}]',
    ):
        path.write_text(text)
        with pytest.raises(ProblemError, match="damaged"):
            read_trace(path)
    path.write_text('[{"ph": "X", "cat": "kernel", "name": "a\tb", "ts": 1, "dur": 2}]')
    assert [work.name for work in read_trace(path).work] == ["a\tb"]


def test_backward_belongs_to_the_module_of_the_last_operation_with_the_nodes_number(recorded, tmp_path):
    recorded.step(0, 1000)
    recorded.mark(recording.MODULE + "norm", 10, 20)
    recorded.operation("aten::add_", 11, 12, sequence=5, forward=0)  # makes no node
    recorded.mark(recording.MODULE + "fc", 20, 40)
    recorded.operation("aten::linear", 21, 39, sequence=5, forward=0)
    recorded.operation("aten::addmm", 22, 38, sequence=5, forward=0)
    node = "autograd::engine::evaluate_function: "
    recorded.operation(node + "AddmmBackward0", 100, 200, thread=AUTOGRAD, sequence=5, forward=1)
    recorded.operation("aten::mm", 110, 150, thread=AUTOGRAD)
    recorded.kernel("dgrad", 300, 400, launched=120, thread=AUTOGRAD)
    recorded.operation(node + "torch::autograd::AccumulateGrad", 210, 230, thread=AUTOGRAD)
    recorded.kernel("accumulate", 400, 410, launched=215, thread=AUTOGRAD)
    recorded.operation(node + "Unknown", 240, 250, thread=AUTOGRAD, sequence=77, forward=1)
    recorded.kernel("unknown", 410, 420, launched=245, thread=AUTOGRAD)
    trace = recorded.read(tmp_path)
    places = [(work.name, work.place.module, work.place.direction) for work in trace.work]
    assert places == [
        ("dgrad", "fc", "backward"),
        ("accumulate", "fc", "backward"),
        ("unknown", None, "backward"),
    ]
    assert trace.threads == (MAIN, AUTOGRAD)


def test_what_a_checkpoint_computes_again_is_forward_in_its_own_module(recorded, tmp_path):
    recorded.step(0, 1000)
    node = "autograd::engine::evaluate_function: AddmmBackward0"
    recorded.operation(node, 100, 200, sequence=5, forward=1)
    recorded.mark(recording.MODULE + "block.fc", 110, 130)
    recorded.operation("aten::addmm", 112, 128, sequence=9, forward=0)
    (_, again) = recorded.read(tmp_path).operations
    assert (again.place.module, again.place.direction) == ("block.fc", "forward")


def test_kernels_of_a_graph_have_no_operation_but_the_step_of_their_launch(recorded, tmp_path):
    recorded.step(0, 50)
    recorded.step(50, 100)
    recorded.operation("captured", 60, 80)
    recorded.runtime("cudaGraphLaunch", 65, 70, correlation=3)
    recorded.kernel("gemm", 120, 130, correlation=3)
    recorded.kernel("relu", 125, 140, correlation=3, stream=20)
    work = recorded.read(tmp_path).work
    assert [(each.operation, each.is_in_graph, each.place.step) for each in work] == [(None, True, 1)] * 2


def test_copies_and_waits_say_who_asked_and_stretches_what_they_are_in(recorded, tmp_path):
    recorded.step(0, 100)
    recorded.mark(recording.DATA, 0, 20)
    recorded.mark(recording.OPTIMIZER, 60, 90)
    recorded.mark(recording.VALIDATION, 100, 120)
    recorded.operation("aten::copy_", 5, 10)
    recorded.copy("Memcpy HtoD (Pageable -> Device)", 8, 9, launched=6, count=4096)
    recorded.operation("aten::_local_scalar_dense", 30, 50)
    recorded.copy("Memcpy DtoH (Device -> Pinned)", 33, 34, launched=31, count=4)
    recorded.runtime("cudaStreamSynchronize", 32, 48)
    recorded.operation("aten::_foreach_add_", 61, 70)
    recorded.kernel("multi_tensor_apply_kernel", 65, 66, launched=63)
    recorded.kernel("validated", 115, 116, launched=110)
    trace = recorded.read(tmp_path)
    to_device, to_host, update, validated = trace.work
    assert (to_device.copy_kind, to_device.is_pageable, to_device.bytes) == ("HtoD", True, 4096)
    assert (to_host.copy_kind, to_host.is_pageable) == ("DtoH", False)
    assert to_device.place.in_data and update.place.in_optimizer and not to_host.place.in_optimizer
    assert (validated.place.step, validated.place.validation) == (None, 0)
    (wait,) = trace.waits
    assert wait.operation is not None and wait.operation.name == "aten::_local_scalar_dense"
    assert wait.us == 16


def test_a_recording_of_a_gpu_attributes_every_kernel_to_an_operation():
    trace = read_trace(TRACES / "alexnet.json.gz")
    assert len(trace.work) == 98 and all(work.operation is not None for work in trace.work)
    assert {wait.name for wait in trace.waits} == {"cudaStreamSynchronize", "cudaDeviceSynchronize"}
    copies = [work for work in trace.work if work.kind == "copy"]
    assert len(copies) == 16 and all(work.is_pageable for work in copies)


def test_backward_on_a_gpu_belongs_to_modules_too():
    trace = read_trace(TRACES / "resnet_backward.json.gz")
    assert _launched_by(trace, "fc", "backward") == {"aten::mm", "aten::sum", "aten::mul"}
    assert _launched_by(trace, "fc", "forward") == {"aten::addmm"}
    assert "aten::convolution_backward" in _launched_by(trace, "layer4.2.conv3", "backward")
    assert _launched_by(trace, "layer4.2.conv3", "forward") == {"aten::cudnn_convolution"}


def _launched_by(trace: Trace, module: str, direction: str) -> set[str]:
    def belongs(work: DeviceWork) -> bool:
        return (work.place.module, work.place.direction) == (module, direction)

    return {work.operation.name for work in trace.work if work.operation and belongs(work)}


@pytest.mark.parametrize("name", ["trace.json", "trace.json.gz"])
def test_a_real_recording_on_the_cpu_gives_each_operation_its_module(tmp_path, name):
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    for part, module in model.named_children():
        mark = record_function(recording.MODULE + part)
        module.register_forward_pre_hook(lambda *_, mark=mark: mark.__enter__() and None)
        module.register_forward_hook(lambda *_, mark=mark: mark.__exit__(None, None, None))
    with (
        profile(activities=[ProfilerActivity.CPU], record_shapes=True, acc_events=True) as recorded,
        record_function(recording.STEP),
    ):
        model(torch.ones(3, 4)).sum().backward()
    recorded.export_chrome_trace(str(tmp_path / name))
    trace = read_trace(tmp_path / name)
    assert not trace.is_of_device and len(trace.threads) == 1
    found = {
        (operation.name, operation.place.module, operation.place.direction)
        for operation in trace.operations
        if operation.place.step == 0
    }
    assert found >= {
        ("aten::addmm", "0", "forward"),
        ("aten::addmm", "2", "forward"),
        ("aten::clamp_min", "1", "forward"),
        ("aten::mm", "2", "backward"),
        ("aten::threshold_backward", "1", "backward"),
        ("aten::mm", "0", "backward"),
        ("aten::sum", None, "forward"),
    }


@pytest.mark.parametrize("row", names_in("mangled_names.csv"), ids=lambda row: row["beginning"][:40])
def test_a_mangled_kernel_is_known_for_what_it_is(row):
    assert demangled(row["name"]).startswith(row["beginning"])
    assert classify_kernel(demangled(row["name"])) == KernelClass(
        StepPart(row["part"]), row["format"] or None
    )


@pytest.mark.parametrize(
    "name", ["ampere_sgemm_128x64_nn", "void at::native::f<int>(int)", "Memcpy HtoD", "", "_Z", "_ZN", "_ZEE"]
)
def test_another_name_stays_as_it_is(name):
    assert demangled(name) == name


def test_a_trace_with_mangled_names_has_them_readable(recorded, tmp_path):
    recorded.step(0, 100)
    recorded.operation("aten::add", 5, 35)
    mangled, *_ = names_in("mangled_names.csv")
    recorded.kernel(mangled["name"], 60, 95, launched=20)
    assert [work.name for work in recorded.read(tmp_path).work] == [mangled["beginning"]]
