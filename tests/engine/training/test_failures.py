"""Exceptions in plain words, and the machine's catalog and doctor."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from engine.experiment.checks import Catalog
from engine.experiment.problem import Kind, ProblemError, request_problem
from engine.training.doctor import examine_torch, read_catalog
from engine.training.failures import (
    check_normalized,
    memory_cap_problem,
    not_a_number,
    problem_of,
    summary_so_far,
)

from .conftest import refusal


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB."),
        RuntimeError("[enforce fail at alloc_cpu.cpp:124] DefaultCPUAllocator: can't allocate memory"),
        RuntimeError("could not create a primitive"),
        RuntimeError("std::bad_alloc"),
        RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
        RuntimeError("cuDNN error: CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED"),
        torch.AcceleratorError("CUDA error: out of memory"),
        RuntimeError("nvrtc: error: CUDA_ERROR_OUT_OF_MEMORY"),
        RuntimeError("level_zero backend failed with error: UR_RESULT_ERROR_OUT_OF_DEVICE_MEMORY"),
        MemoryError(),
    ],
)
def test_every_form_of_out_of_memory_is_known(error: Exception) -> None:
    problem = problem_of(error)
    assert problem.kind is Kind.OUT_OF_MEMORY and "batch size" in problem.remedy


@pytest.mark.parametrize(
    "words",
    [
        "NCCL error, unhandled cuda error\nncclUnhandledCudaError: Call to CUDA function failed.\n"
        "Last error:\nFailed to CUDA calloc async 608 bytes",
        "Failed to CUDA host alloc 33554432 bytes",
        "CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate(handle)`",
        "cuDNN error: CUDNN_STATUS_NOT_INITIALIZED",
        "cusolver error: CUSOLVER_STATUS_NOT_INITIALIZED, when calling `cusolverDnCreate(handle)`",
    ],
)
@pytest.mark.parametrize(("free_mib", "kind"), [(100, Kind.OUT_OF_MEMORY), (40_000, Kind.INTERNAL)])
def test_what_may_be_said_for_want_of_memory_is_so_on_a_full_device_only(
    monkeypatch: pytest.MonkeyPatch, words: str, free_mib: int, kind: Kind
) -> None:
    monkeypatch.setattr("engine.training.models.libraries._free_bytes", lambda: free_mib * 2**20)
    assert problem_of(torch.distributed.DistBackendError(words)).kind is kind


def test_a_problem_stays_itself() -> None:
    problem = request_problem("No.", "Ask otherwise.")
    assert problem_of(ProblemError(problem)) is problem
    assert summary_so_far(ProblemError(problem)) is None


def test_one_sample_in_batch_normalisation_names_the_setting() -> None:
    with pytest.raises(ValueError, match="more than 1 value") as raised:
        nn.BatchNorm1d(4)(torch.zeros(1, 4))
    assert problem_of(raised.value).key == "batch_size"


def test_one_value_of_several_samples_is_the_models_matter() -> None:
    error = ValueError(
        "Expected more than 1 value per channel when training, got input size torch.Size([1, 4])"
    )
    check_normalized(error, 1)
    check_normalized(ValueError("Something else."), 8)
    problem = refusal(check_normalized, error, 8)
    assert problem.key == "model" and "batch size" not in problem.remedy
    assert "shape (1, 4)" in problem.message and "8 samples" in problem.message


@pytest.mark.parametrize(("step", "rate"), [(1, False), (2, True)])
def test_a_loss_that_is_nan_before_any_update_is_no_matter_of_the_learning_rate(step, rate):
    assert ("learning rate" in not_a_number(step).remedy) is rate


@pytest.mark.parametrize(
    ("cap_gib", "words"),
    [
        (None, "The device ran out of memory."),
        (0.1, "memory cap of 102 MiB."),
        (24.0, "memory cap of 24.0 GiB."),
    ],
)
def test_what_ran_out_under_a_memory_cap_names_the_cap(cap_gib: float | None, words: str) -> None:
    problem = memory_cap_problem(problem_of(torch.OutOfMemoryError("CUDA out of memory.")), cap_gib)
    assert problem.kind is Kind.OUT_OF_MEMORY and problem.message.endswith(words)
    other = problem_of(RuntimeError("mat1 and mat2"))
    assert memory_cap_problem(other, cap_gib) == other


def test_anything_else_is_internal_and_never_begins_with_a_class_name() -> None:
    problem = problem_of(RuntimeError("mat1 and mat2 shapes cannot be multiplied\nmore"))
    assert problem.kind is Kind.INTERNAL
    assert problem.message.endswith("mat1 and mat2 shapes cannot be multiplied.")
    assert problem_of(KeyError()).message.endswith("KeyError.")


def test_the_cpu_is_the_last_device_and_names_are_unique() -> None:
    catalog = read_catalog()
    assert Catalog.model_validate_json(catalog.model_dump_json()) == catalog
    assert catalog.devices[-1].name == "cpu" and catalog.devices[-1].title
    for entries in (catalog.devices, catalog.models, catalog.datasets):
        names = [entry.name for entry in entries]
        assert len(names) == len(set(names))


def test_the_doctor_runs_a_real_step() -> None:
    checks = {check.name: check for check in examine_torch()}
    assert {"Device", "Tensor Cores", "BF16"} < set(checks)
    (step,) = [check for name, check in checks.items() if name.startswith("A step under")]
    assert step.status == "ok"
    assert all(check.status != "problem" for check in checks.values())
