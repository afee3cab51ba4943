"""Kernels are known by mangled names too, as the traces of Windows have them."""

from __future__ import annotations

import pytest

from engine.protocol.profile import StepPart
from engine.training.profile.chrome import readable
from engine.training.profile.kernels import KernelClass, kernel_class
from tests.engine.training.profile.recorded import Recorded

UNITS, PLAIN, MEMORY = StepPart.MATRIX_UNITS, StepPart.MATRIX, StepPart.MEMORY
# as PyTorch's libraries and CUDA's have them, the beginning of each readable name, and what it is
KERNELS: tuple[tuple[str, str, KernelClass], ...] = (
    (
        "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_15CUDAFunctor_addIfEESt5arrayIPcLm3EEEEviT0_T1_",
        "at::native::vectorized_elementwise_kernel<4, CUDAFunctor_add<float>, array<3>>(int)",
        KernelClass(MEMORY),
    ),
    (
        "_ZN2at6native18elementwise_kernelILi128ELi2EZNS0_22gpu_kernel_impl_nocastIZZZNS0_23direct_copy_kernel_cudaERNS_"
        "18TensorIteratorBaseEENKUlvE1_clEvENKUlvE11_clEvEUlN3c107complexINS7_4HalfEEEE_EEvS4_RKT_EUliE_EEviT1_",
        "at::native::elementwise_kernel<128, 2, ",
        KernelClass(MEMORY),
    ),
    (
        "_ZN43_GLOBAL__N__b6de9c8c_10_SoftMax_cu_9f978f6320softmax_warp_forwardIfffLi5ELb0ELb0EEEvPT0_PKT_iii",
        "(anonymous namespace)::softmax_warp_forward<float, float, float, 5, 0, 0>(int, int, int)",
        KernelClass(MEMORY),
    ),
    (
        "_ZN2at6native51_GLOBAL__N__e3071600_18_DepthwiseConv2d_cu_9959487031conv_depthwise2d_forward_kernelILi1EN3c104"
        "HalfEiEEvN5torch10headeronly6detail27GenericPackedTensorAccessorINS7_14TensorAccessorINS3_8ArrayRefIlEEKT0_",
        "at::native::(anonymous namespace)::conv_depthwise2d_forward_kernel<1, c10::Half, int>(",
        KernelClass(PLAIN, "fp16"),
    ),
    (
        "_ZN2at6native46_GLOBAL__N__3be26839_13_AmpKernels_cu_3810c27325multi_tensor_apply_kernelINS1_"
        "18TensorListMetadataILi1EEENS1_14UnaryOpFunctorIdLi1ELi1ELi0EEEEEvT_T0_DpT1_",
        "at::native::(anonymous namespace)::multi_tensor_apply_kernel<TensorListMetadata<1>, Unary",
        KernelClass(StepPart.OPTIMIZER),
    ),
    (
        "_Z17gemv2T_kernel_valIii13__nv_bfloat16S0_S0_fLi128ELi16ELi2ELi2ELb0ELb0E18cublasGemvParamsExIi"
        "23cublasGemvTensorBatchedIKS0_ES4_S2_IS0_EfEEvT11_T4_S8_",
        "gemv2T_kernel_val<int, int, __nv_bfloat16, float, 128, 16, 2, 2, 0, 0, cublasGemvParamsEx<int, ",
        KernelClass(PLAIN, "bf16"),
    ),
    (
        "_ZN5cudnn3cnn17wgrad_alg0_engineIfLi512ELi6ELi5ELi3ELi3ELi3ELb0ELi512EEEviiiPKT_iPS2_S4_18kernel_grad_params",
        "cudnn::cnn::wgrad_alg0_engine<float, 512, 6, 5, 3, 3, 3, 0, 512>(int, int, int, int, ",
        KernelClass(PLAIN, "fp32"),
    ),
    (
        "_ZN5cudnn25bn_fw_tr_1C11_kernel_NCHWI13__nv_bfloat16fiLi128ELb0ELi2ELb1EEEv17cudnnTensorStructPKT_S2_",
        "cudnn::bn_fw_tr_1C11_kernel_NCHW<__nv_bfloat16, float, int, 128, 0, 2, 1>(cudnnTensorStruct)",
        KernelClass(MEMORY),
    ),
    (
        "_ZN7cutlass7Kernel2I43cutlass_80_simt_sgemm_256x128_8x4_nn_align1EEvNT_6ParamsE",
        "cutlass::Kernel2<cutlass_80_simt_sgemm_256x128_8x4_nn_align1>(Params)",
        KernelClass(PLAIN, "fp32"),
    ),
    (
        "_ZN13pytorch_flashL16flash_fwd_kernelI23Flash_fwd_kernel_traitsILi128ELi128ELi32ELi4ELb0ELb0EN7cutlass6half_tE"
        "19Flash_kernel_traitsILi128ELi128ELi32ELi4ES3_EELb1ELb1ELb0ELb0ELb0ELb0ELb0ELb0EEEvNS_16Flash_fwd_paramsE",
        "pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<128, 128, 32, 4, 0, 0, cutlass::half_t, ",
        KernelClass(UNITS, "fp16"),
    ),
    (
        "_ZN8cublasLt19splitKreduce_kernelILi32ELi16EiffffLb1ELb1ELb0EEEvNS_18cublasSplitKParamsIT4_EEPKT2_PKT3_",
        "cublasLt::splitKreduce_kernel<32, 16, int, float, float, float, float, 1, 1, 0>(",
        KernelClass(MEMORY),
    ),
)


@pytest.mark.parametrize(("name", "beginning", "expected"), KERNELS)
def test_a_mangled_kernel_is_known_for_what_it_is(name, beginning, expected):
    assert readable(name).startswith(beginning)
    assert kernel_class(readable(name)) == expected


@pytest.mark.parametrize(
    "name", ["ampere_sgemm_128x64_nn", "void at::native::f<int>(int)", "Memcpy HtoD", "", "_Z", "_ZN", "_ZEE"]
)
def test_another_name_stays_as_it_is(name):
    assert readable(name) == name


def test_a_trace_with_mangled_names_has_them_readable(tmp_path):
    recorded = Recorded()
    recorded.step(0, 100)
    recorded.operation("aten::add", 5, 35)
    recorded.kernel(KERNELS[0][0], 60, 95, launched=20)
    assert [work.name for work in recorded.read(tmp_path).work] == [KERNELS[0][1]]
