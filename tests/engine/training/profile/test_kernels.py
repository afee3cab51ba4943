"""Kernels, operations and primitives are told by their names."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from engine.protocol.profile import StepPart
from engine.training.profile.kernels import KernelClass, kernel_class, operation_class, primitive_class

UNITS, PLAIN = StepPart.MATRIX_UNITS, StepPart.MATRIX


def known_kernels() -> list[dict[str, str]]:
    lines = Path(__file__).with_name("kernel_names.csv").read_text().splitlines()
    return list(csv.DictReader(line for line in lines if not line.startswith("#")))


def test_every_known_kernel_has_its_part_and_format():
    kernels = known_kernels()
    wrong = {
        row["name"]: kernel_class(row["name"])
        for row in kernels
        if kernel_class(row["name"]) != KernelClass(StepPart(row["part"]), row["format"] or None)
    }
    assert not wrong
    assert len({row["name"] for row in kernels}) >= 150
    assert {"V100", "A100", "H100"} <= {row["device"] for row in kernels}


def test_only_communication_among_them_is_of_no_other_part():
    others = [row["name"] for row in known_kernels() if row["part"] == StepPart.OTHER]
    assert all("nccl" in name for name in others)


def test_tensor_cores_hold_no_fp32():
    formats = {
        kernel_class(row["name"]).format for row in known_kernels() if row["part"] == StepPart.MATRIX_UNITS
    }
    assert formats == {"tf32", "fp16", "bf16", "fp8", None}
    assert kernel_class("ampere_sgemm_128x64_nn") == KernelClass(PLAIN, "fp32")
    assert not kernel_class("ampere_sgemm_128x64_nn").uses_matrix_units


def test_an_unknown_kernel_is_of_the_other_part():
    assert kernel_class("my_own_kernel") == KernelClass(StepPart.OTHER)


@pytest.mark.parametrize(
    ("name", "types", "expected"),
    [
        ("aten::mkldnn_convolution", ("float", "float"), KernelClass(PLAIN, "fp32")),
        ("aten::addmm", ("c10::BFloat16",), KernelClass(UNITS, "bf16")),
        ("aten::_scaled_dot_product_flash_attention_for_cpu", ("c10::Half",), KernelClass(PLAIN, "fp16")),
        ("aten::convolution_backward", ("", "c10::BFloat16"), KernelClass(UNITS, "bf16")),
        ("mkldnn::_convolution_pointwise", ("float",), KernelClass(PLAIN, "fp32")),
        ("aten::native_batch_norm", ("float",), KernelClass(StepPart.MEMORY)),
        ("aten::_log_softmax", ("float",), KernelClass(StepPart.MEMORY)),
        ("aten::copy_", ("float", "c10::BFloat16"), KernelClass(StepPart.MEMORY)),
        ("aten::add_", ("float",), KernelClass(StepPart.MEMORY)),
        ("aten::_foreach_addcdiv_", (), KernelClass(StepPart.OPTIMIZER)),
        ("Optimizer.step#AdamW.step", (), KernelClass(StepPart.OPTIMIZER)),
        ("aten::view", ("float",), KernelClass(StepPart.HOST)),
        ("aten::empty_strided", (), KernelClass(StepPart.HOST)),
        ("aten::item", (), KernelClass(StepPart.HOST)),
        ("enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", (), KernelClass(StepPart.DATA)),
        ("## Call CompiledFxGraph fbzcxrrmpzw4 ##", (), KernelClass(StepPart.MEMORY)),
        ("Torch-Compiled Region: 0/0", (), KernelClass(StepPart.HOST)),
        ("AddmmBackward0", (), KernelClass(StepPart.OTHER)),
    ],
)
def test_operations_of_a_processor_with_units_for_bf16(name, types, expected):
    assert operation_class(name, types, units=("bf16",)) == expected


@pytest.mark.parametrize(
    ("kind", "implementation", "memory", "expected"),
    [
        ("convolution", "brgconv:avx512_core_amx", "src_bf16::blocked:acdb", KernelClass(UNITS, "bf16")),
        ("matmul", "brg_matmul:avx512_core_amx_fp16", "src:f16::blocked:ab", KernelClass(UNITS, "fp16")),
        ("inner_product", "brgemm:avx512_core_bf16", "src_bf16:a:blocked", KernelClass(UNITS, "bf16")),
        ("convolution", "jit:avx2", "src_f32::blocked:aBcd8b", KernelClass(PLAIN, "fp32")),
        ("matmul", "gemm:jit", "", KernelClass(PLAIN)),
        ("matmul", "brg_matmul:avx2_vnni_2", "src_bf16::blocked:ab", KernelClass(PLAIN, "bf16")),
        ("reorder", "jit:uni", "src_f32::blocked:abcd", KernelClass(StepPart.MEMORY)),
        ("batch_normalization", "bnorm_jit:avx512_core", "data_f32", KernelClass(StepPart.MEMORY)),
    ],
)
def test_primitives_of_onednn(kind, implementation, memory, expected):
    assert primitive_class(kind, implementation, memory) == expected
