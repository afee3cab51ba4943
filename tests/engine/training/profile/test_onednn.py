"""oneDNN's verbose lines tell which implementation computed what, and on which units."""

from __future__ import annotations

import os

import pytest
import torch

from engine.protocol.profile import StepPart
from engine.training.profile.kernels import (
    formats_on_units,
    primitive_rows,
    primitives_in,
    units_of,
    verbose_primitives,
)

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


def test_calls_of_a_slower_step_are_scaled_down_to_the_one_that_was_timed():
    rows = primitive_rows(primitives_in(LINES, ["bf16"]), step_ms=1.3)
    assert sum(row.ms for row in rows) == pytest.approx(1.3) and rows[0].ms == pytest.approx(0.8)


def test_a_processor_without_units_emulates_them():
    (row, *_) = primitive_rows(primitives_in(LINES, []), step_ms=4.0)
    assert row.part is StepPart.MATRIX and row.format == "bf16"
    assert not formats_on_units(primitives_in(LINES, []))


def test_units_have_the_best_name_that_the_processor_allows():
    both = {"amx_bf16": True, "avx512_bf16": True, "avx512_fp16": True, "amx_fp16": False}
    assert units_of(both) == {"bf16": "AMX", "fp16": "AVX-512 FP16"}
    assert units_of({"avx2": True}) == {}


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
