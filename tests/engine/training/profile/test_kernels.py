"""Kernels, operations and primitives are told by their names."""

from __future__ import annotations

import os

import pytest
import torch

from engine.protocol.profile import StepPart
from engine.training.profile.kernels import (
    KernelClass,
    best_units,
    classify_kernel,
    classify_operation,
    classify_primitive,
    formats_on_units,
    primitive_rows,
    primitives_in,
    verbose_primitives,
)
from tests.engine.training.profile.recorded import names_in

UNITS, PLAIN = StepPart.MATRIX_UNITS, StepPart.MATRIX


KERNELS = names_in("kernel_names.csv")


def test_every_known_kernel_has_its_part_and_format():
    wrong = {
        row["name"]: classify_kernel(row["name"])
        for row in KERNELS
        if classify_kernel(row["name"]) != KernelClass(StepPart(row["part"]), row["format"] or None)
    }
    assert not wrong
    assert len({row["name"] for row in KERNELS}) >= 150
    assert {"V100", "A100", "H100"} <= {row["device"] for row in KERNELS}
    assert all("nccl" in row["name"] for row in KERNELS if row["part"] == StepPart.COMMUNICATION)
    assert classify_kernel("my_own_kernel") == KernelClass(StepPart.OTHER)


def test_tensor_cores_hold_no_fp32():
    formats = {classify_kernel(row["name"]).format for row in KERNELS if row["part"] == StepPart.MATRIX_UNITS}
    assert formats == {"tf32", "fp16", "bf16", "fp8", None}
    assert classify_kernel("ampere_sgemm_128x64_nn") == KernelClass(PLAIN, "fp32")
    assert not classify_kernel("ampere_sgemm_128x64_nn").uses_matrix_units


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
    assert classify_operation(name, types, units=("bf16",)) == expected


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
    assert classify_primitive(kind, implementation, memory) == expected


LINES = """\
onednn_verbose,v1,info,oneDNN v3.13.3 (commit b38f97eb6f2173513112f15a0481750b8a66e901)
onednn_verbose,v1,primitive,info,template:operation,engine,primitive,implementation,prop_kind
what the user's own code prints
onednn_verbose,v1,primitive,exec,cpu,reorder,jit:uni,undef,src:bf16::blocked:ab::f0 \
dst:bf16::blocked:ba::f0,,,8x3,0.25
onednn_verbose,v1,primitive,exec,cpu,matmul,brg_matmul:avx512_core_amx,undef,src:bf16::blocked:ab::f0 \
wei:bf16::blocked:ab::f0 dst:bf16::blocked:ab::f0,attr-scratchpad:user,,64x64:64x64,0.5
onednn_verbose,v1,primitive,exec,cpu,matmul,brg_matmul:avx512_core_amx,undef,src:bf16::blocked:ab::f0 \
wei:bf16::blocked:ab::f0 dst:bf16::blocked:ab::f0,attr-scratchpad:user,,64x64:64x64,1.5
onednn_verbose,v1,primitive,exec,cpu,convolution,jit:avx512_core,backward_data,src:f32:a:blocked:abcd::f0 \
wei:f32:ap:blocked:Acdb16a::f0 bia:undef::undef::: dst:f32:a:blocked:abcd::f0,,alg:convolution_direct,mb4,1
onednn_verbose,v1,primitive,exec,cpu,matmul,gemm:jit:bf16,undef,src:bf16::bl
"""


def test_calls_are_grouped_by_implementation_and_format():
    rows = primitive_rows(primitives_in(LINES, ["bf16"]), step_ms=4.0)
    told = [(row.name, row.part, row.format, row.ms, row.calls) for row in rows]
    assert told == [
        ("matmul brg_matmul:avx512_core_amx", StepPart.MATRIX_UNITS, "bf16", 2.0, 2),
        ("convolution jit:avx512_core", StepPart.MATRIX, "fp32", 1.0, 1),
        ("reorder jit:uni", StepPart.MEMORY, None, 0.25, 1),
    ]
    assert [row.matrix_unit_fraction for row in rows] == [1, 0, 0]
    assert formats_on_units(primitives_in(LINES, ["bf16"])) == {"bf16"}
    # calls of a slower step are scaled down to the one that was timed
    rows = primitive_rows(primitives_in(LINES, ["bf16"]), step_ms=1.3)
    assert sum(row.ms for row in rows) == pytest.approx(1.3) and rows[0].ms == pytest.approx(0.8)
    # a processor without units emulates them
    (row, *_) = primitive_rows(primitives_in(LINES, []), step_ms=4.0)
    assert row.part is StepPart.MATRIX and row.format == "bf16"
    assert not formats_on_units(primitives_in(LINES, []))


def test_units_have_the_best_name_that_the_processor_allows():
    both = {"amx_bf16": True, "avx512_bf16": True, "avx512_fp16": True, "amx_fp16": False}
    assert best_units(both) == {"bf16": "AMX", "fp16": "AVX-512 FP16"}
    assert best_units({"avx2": True}) == {}


@pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="PyTorch has no oneDNN here")
def test_stdout_is_given_back_even_after_an_error(capfd):
    convolution, pictures = torch.nn.Conv2d(3, 8, 3), torch.randn(4, 3, 8, 8)
    primitives = verbose_primitives(lambda: convolution(pictures))
    with pytest.raises(ZeroDivisionError):
        verbose_primitives(lambda: 1 / 0)
    os.write(1, b"shown\n")
    assert capfd.readouterr().out == "shown\n"
    # other processors convolve without oneDNN
    assert all(primitive.ms >= 0 for primitive in primitives)
