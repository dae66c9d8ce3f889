"""Families: real-style names of the libraries that training programs run, each with its family."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hroof.kernels import Family, family, op_family
from hroof.kernels.op_rules import OP_RULES
from hroof.kernels.rules import RULES, Rule
from hroof.kernels.tensorflow_rules import TENSORFLOW_RULES

F = Family
KERNELS = {
    F.GEMM: [
        "volta_sgemm_128x64_nt",
        "volta_h884gemm_64x64_ldg8_nn",
        "turing_fp16_s1688gemm_fp16_128x128_ldg8_f2f_tn",
        "ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_64x3_nn",
        "sm90_xmma_gemm_f32f32_tf32f32_f32_tn_n_tilesize64x64x32_execute_kernel__5x_cublas",
        "nvjet_hsh_256x128_64x4_2x1_v_bz_coopA_NNT",
        "void cutlass::Kernel2<cutlass_80_tensorop_f16_s16816gemm_f16_64x64_32x6_nt_align8>(X)",
        "void cutlass::device_kernel<cutlass::gemm::kernel::GemmUniversal<cute::tuple<int>>>(X)",
        "void cublasLt::splitKreduce_kernel<32, 16, int, float, __half>(X)",
        "void gemv2T_kernel_val<int, int, float, float, float, float, 128>(float)",
        "void internal::gemvx::kernel<int, int, float, 7, false>(X)",
        "void dot_kernel<float, 128, 0, cublasDotParams<float>>(X)",
        "Cijk_Ailk_Bljk_HHS_BH_MT128x128x16_SE",
        "triton_tem_fused_mm_3",
        "fused_moe_kernel",
        "matmul_kernel",
        "gemm_fusion_dot_42",
        "_bmm_kernel",
        "void deep_gemm::sm90_fp8_gemm_1d2d_impl<64, 128>(X)",
    ],
    F.CONVOLUTION: [
        "volta_scudnn_128x64_stridedB_splitK_medium_nn_v1",
        "volta_fp16_s884cudnn_fp16_256x64_ldg8_dgrad_f2f_exp_small_nhwc2nchw_tt_v1",
        "turing_h1688cudnn_256x128_ldg8_relu_exp_small_nhwc_tn_v1",
        "cudnn_infer_ampere_scudnn_winograd_128x128_ldg1_ldg4_relu_tile148t_nt_v0",
        "sm80_xmma_wgrad_implicit_gemm_indexed_f16f16_f16f32_f32_nhwckrsc_nhwc_kernel_cudnn",
        "void implicit_convolve_sgemm<float, float, 128, 5, 5>(int, int)",
        "void cudnn::winograd_nonfused::winogradForwardOutput4x4<float, float>(X)",
        "void cudnn::cnn::wgrad_alg0_engine<float, 512, 6, 5, 3, 3, 3, true, 512>(X)",
        "cask_cudnn::computeWgradSplitKOffsetsKernel(X)",
        "void at::native::(anonymous namespace)::conv_depthwise2d_forward_kernel<3, float>(X)",
        "void tensorflow::DepthwiseConv2dGPUKernelNHWC<float, 3, 3, 1, true>(X)",
        "void cutlass_cudnn_infer::Kernel<cutlass_tensorop_f16_s16816dgrad_optimized_f16>(X)",
    ],
    F.ATTENTION: [
        "void flash::flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel<Traits<64>, true>(X)",
        "void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128>, false>(X)",
        "void cutlass::device_kernel<flash::FlashAttnFwdSm90<X>>(X)",
        "fmha_cutlassF_f16_aligned_64x64_rf_sm80(PyTorchMemEffAttention::Params)",
        "void attention_kernel_batched_impl<AttentionKernel<float, Sm80>>(X)",
        "cudnn_generated_fort_native_sdpa_sm90_flash_bprop_wgmma_f16_knob_3",
        "_attn_bwd_dkdv",
        "triton_tem_fused_flex_attention_backward_0",
        "void vllm::paged_attention_v2_kernel<float, 128>(X)",
    ],
    F.RNN: [
        "void LSTM_elementWise_fp<float, float, float, 1>(int)",
        "void cudnn::rnn::elemWiseRNNcell<float, 2, 0, 0>(X)",
        "void at::native::(anonymous namespace)::kernel::gru_cell_forward<float, int, 1>(X)",
        "RNN_blockPersist_fp_LSTM",
    ],
    F.FFT: ["void vector_fft<1024u, 4u>(X)", "void fft2d_r2c_32x32<float>(X)"],
    F.LINEAR_ALGEBRA: ["void getrf_pivot<float>(X)", "void potrf_alg2<double>(X)"],
    F.NORMALISATION: [
        "void cudnn::bn_fw_inf_1C11_kernel_NCHW<float, float, true, 1>(X)",
        "void cudnn::bn_bw_1C11_kernel_new<float, float, float2, 512, true, 1>(X)",
        "void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<float, float>(X)",
        "void at::native::RowwiseMomentsCUDAKernel<float>(long, float)",
        "void at::native::(anonymous namespace)::GammaBetaBackwardCUDAKernel<float, float>(X)",
        "void at::native::batch_norm_collect_statistics_channels_last_kernel<float>(X)",
        "triton_red_fused_native_batch_norm_backward_4",
        "void transformer_engine::rmsnorm_fwd_kernel<X>(X)",
        "void cuComputeGradInput<float>(X)",
        "void tensorrt_llm::rms_norm_kernel<half>(X)",
    ],
    F.SOFTMAX: [
        "void (anonymous namespace)::softmax_warp_backward<float, float, float, 9, true>(X)",
        "void at::native::cunn_SoftMaxForward<8, float, float, float>(X)",
        "void scaled_upper_triang_masked_softmax_warp_forward<half, half, float, 11>(X)",
        "triton_per_fused__log_softmax_2",
        "void cudnn::softmax_fw_kernel<2, float, float>(X)",
    ],
    F.LOSS: [
        "void at::native::nll_loss_backward_reduce_cuda_kernel_2d<float, long>(X)",
        "void cunn_ClassNLLCriterion_updateOutput_kernel<float, float>(X)",
        "liger_cross_entropy_kernel",
    ],
    F.POOLING: [
        "void at::native::(anonymous namespace)::max_pool_backward_nhwc<float, int>(X)",
        "void cudnn::pooling_fw_4d_kernel<float, float, maxpooling_func<float>>(X)",
        "void at::native::(anonymous namespace)::adaptive_average_pool<float>(X)",
    ],
    F.RESAMPLING: [
        "void at::native::(anonymous namespace)::upsample_nearest2d_out_frame<float>(X)",
        "_ZN10tensorflow17_GLOBAL__N__a_b_c26LegacyResizeBilinearKernelIfEEvi",
    ],
    F.GATHER: [
        "void at::native::(anonymous namespace)::indexSelectSmallIndex<float, long>(X)",
        "void at::native::(anonymous namespace)::embedding_backward_feature_kernel<float>(X)",
        "void at::native::vectorized_gather_kernel<16, long>(X)",
        "void at::native::_scatter_gather_elementwise_kernel<128, 8, X>(X)",
        "void at::native::index_elementwise_kernel<128, 4, at::native::gpu_index_kernel<at::native"
        "::index_kernel_impl<at::native::OpaqueType<4>>(at::Iter&)::{lambda(char*)#1}>>(X)",
        "triton_poi_fused_embedding_0",
        "void at::native::compute_grad_weight<float, int>(X)",
    ],
    F.REDUCTION: [
        "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::MeanOps<float>>>(X)",
        "void at::native::reduce_kernel<128, 4, at::native::ReduceOp<float, at::native::func_wrapper_t<float, "
        "at::native::sum_functor<float, float, float>::operator()(at::Iter&)::{lambda(float, float)#1}>>>(X)",
        "void cub::DeviceReduceKernel<cub::DeviceReducePolicy<float>::Policy600, float*>(X)",
        "void tensorflow::functor::ColumnReduceKernel<float*, float*, cub::Sum>(X)",
        "void Eigen::internal::FullReductionKernel<256, 128, X>(X)",
        "triton_red_fused_mean_mul_pow_1",
        "triton_per_fused_sum_12",
        "void multi_tensor_apply_kernel<TensorListMetadata<1>, L2NormFunctor<float>, float*>(X)",
        "void at::native::multi_tensor_apply_kernel<TensorListMetadata<1>, at::native::LpNormFunctor<float>>(X)",
        "input_reduce_fusion_3",
    ],
    F.SORT: [
        "void at_cuda_detail::cub::DeviceRadixSortOnesweepKernel<X>(X)",
        "void at::native::sbtopk::gatherTopK<float, unsigned int, 2, false>(X)"[:0]
        or "topk_stage_1",
        "void at::native::tensor_kernel_scan_innermost_dim<float>(X)",
        "void at_cuda_detail::cub::DeviceSelectSweepKernel<X>(X)",
    ],
    F.ELEMENTWISE: [
        "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, X>(int)",
        "void at::native::vectorized_elementwise_kernel<4, at::native::softplus_kernel(X&)::{lambda()#1}, X>(X)",
        "void at::native::unrolled_elementwise_kernel<at::native::BinaryFunctor<float, MulFunctor<float>>>(X)",
        "void multi_tensor_apply_kernel<TensorListMetadata<2>, ScaleFunctor<float, float>, float>(X)",
        "void at::native::elementwise_kernel<128, 2, at::native::gpu_kernel_impl<at::native::masked_fill_kernel"
        "(X&)::{lambda()#1}>(X&)::{lambda(int)#1}>(int)",
        "void Eigen::internal::EigenMetaKernel<Eigen::TensorEvaluator<Eigen::TensorAssignOp<Eigen::TensorMap<X>, "
        "Eigen::TensorCwiseBinaryOp<std::not_equal_to<float>, A, B> const> const, D>, int>(X)",
        "triton_poi_fused_convolution_relu_3",
        "triton_poi_fused_add_native_layer_norm_7",
        "loop_multiply_fusion",
        "void add_bias_kernel<half>(X)",
        "void vllm::rotary_embedding_kernel<c10::Half, true>(X)",
        "void vllm::act_and_mul_kernel<c10::Half, X>(X)",
        "void op_tensor_kernel_relu<float>(X)",
        "saxpy(int, float)",
    ],
    F.RANDOM: [
        "void at::native::(anonymous namespace)::fused_dropout_kernel_vec<float, float, 1, 4>(X)",
        "void at::native::(anonymous namespace)::distribution_elementwise_grid_stride_kernel<float, 4, X>(X)",
        "void tensorflow::functor::FillPhiloxRandomKernelLaunch<X>(X)",
    ],
    F.OPTIMIZER: [
        "void multi_tensor_apply_kernel<TensorListMetadata<4>, AdamFunctor<float, float, int>, float>(X)",
        "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<"
        "FusedOptimizerTensorListMetadata<3>, FusedAdamMathFunctor<float, 4>>(X)",
        "void multi_tensor_apply_kernel<TensorListMetadata<4>, LAMBStage1Functor<float>, float*>(X)",
        "void tensorflow::functor::ApplyAdamKernel<float>(X)",
        "triton_for_fused__fused_adamw_0",
    ],
    F.LAYOUT: [
        "void cudnn::ops::nchwToNhwcKernel<__half, __half, float, false, true>(X)",
        "void nhwcToFoldedNhwcKernel<__half, __half, float, true>(X)",
        "void tensorflow::functor::SwapDimension1And2InTensor3UsingTiles<unsigned int, 256, 32, 32>(X)",
        "void tensorflow::functor::ShuffleInTensor3Simple<float, 2, 1, 0, false>(X)",
        "void tensorflow::functor::PadInputCustomKernelNHWC<float, 4>(X)",
        "void tensorflow::S2B<float, 2, false>(X)",
        "void at::native::(anonymous namespace)::CatArrayBatchedCopy<float, unsigned int, 4, 64, 64>(X)",
        "void at::native::im2col_kernel<float>(X)",
        "void at::native::col2im_kernel<float, float>(X)",
        "triu_kernel",
        "triton_poi_fused_clone_permute_8",
        "wrapped_transpose",
        "void Eigen::internal::EigenMetaKernel<Eigen::TensorEvaluator<Eigen::TensorAssignOp<Eigen::TensorMap<X>, "
        "Eigen::TensorShufflingOp<A, B> const> const, D>, int>(X)",
    ],
    F.COPY: [
        "Memcpy DtoD (Device -> Device)",
        "Memset (Device)",
        "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>, X>(X)",
        "void at::native::elementwise_kernel<128, 4, at::native::gpu_kernel_impl<at::native::"
        "direct_copy_kernel_cuda(X&)::{lambda()#3}>(X&)::{lambda(int)#1}>(int)",
        "triton_poi_fused__to_copy_4",
        "void Eigen::internal::EigenMetaKernel<Eigen::TensorEvaluator<Eigen::TensorAssignOp<Eigen::TensorMap<X>, "
        "Eigen::TensorConversionOp<Eigen::half, A> const> const, D>, int>(X)",
        "void tensorflow::SetZero<float>(int, float*)",
        "void convertTensor_kernel<float, __half, float, 0>(X)",
        "void vllm::scaled_fp8_quant_kernel_strided<c10::BFloat16, X>(X)",
        "void vllm::reshape_and_cache_flash_kernel<half, half>(X)",
    ],
    F.COMMUNICATION: [
        "ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL(X)",
        "void c10d::symmetric_memory::two_shot_all_reduce_kernel<float>(X)",
    ],
    F.OTHER: [
        "my_kernel",
        "",
        "_Z6kernelv",
        "step_factor(int)",
        "void combineKernel<ep::Softmax>(X)",
    ],
}
CASES = [(name, wanted) for wanted, names in KERNELS.items() for name in names]


@pytest.mark.parametrize(("name", "wanted"), CASES)
def test_the_family_of_a_kernel(name: str, wanted: Family) -> None:
    assert family(name) is wanted


def test_every_family_has_kernels_here() -> None:
    assert set(KERNELS) == set(Family)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.example)
def test_no_rule_is_shadowed_by_an_earlier_one(rule: Rule) -> None:
    taking = [each for each in RULES if each.pattern.search(rule.example)]
    assert taking[0] is rule
    assert family(rule.example) is rule.family


def test_what_a_template_argument_says_does_not_count() -> None:
    assert family("void combineKernel<ep::AllGatherGemmLayout, (bool)1>(ep::Params)") is F.OTHER
    assert family("void count_kernel<SoftmaxPolicy>(int)") is F.OTHER


def test_namespaces_are_asked_last() -> None:
    assert family("void sgemm_lib::transpose_kernel<float>(X)") is F.LAYOUT
    assert family("void softmax_lib::main_kernel<float>(X)") is F.SOFTMAX


OPS = {
    F.GEMM: "aten::addmm aten::mm aten::bmm aten::_scaled_mm aten::linear mm addmm.default aten::linear_backward",
    F.CONVOLUTION: "aten::convolution aten::convolution_backward aten::conv_depthwise3d aten::slow_conv3d_forward",
    F.ATTENTION: "aten::_flash_attention_backward aten::_scaled_dot_product_efficient_attention",
    F.RNN: "aten::_cudnn_rnn aten::_thnn_fused_gru_cell aten::mkldnn_rnn_layer_backward aten::lstm",
    F.FFT: "aten::_fft_r2c aten::fft_rfft",
    F.LINEAR_ALGEBRA: "aten::linalg_cholesky_ex aten::_linalg_solve_ex",
    F.NORMALISATION: "aten::native_layer_norm_backward aten::cudnn_batch_norm aten::_fused_rms_norm",
    F.SOFTMAX: "aten::_softmax aten::_log_softmax_backward_data",
    F.LOSS: "aten::nll_loss_forward aten::mse_loss_backward aten::binary_cross_entropy_with_logits",
    F.POOLING: "aten::max_pool2d_with_indices_backward aten::_adaptive_avg_pool2d",
    F.RESAMPLING: "aten::upsample_bilinear2d aten::grid_sampler_2d_backward",
    F.GATHER: "aten::embedding aten::embedding_dense_backward aten::index_put_ aten::gather aten::scatter_add_",
    F.REDUCTION: "aten::sum aten::mean.dim aten::argmax aten::linalg_vector_norm aten::_foreach_norm",
    F.SORT: "aten::sort aten::topk aten::cumsum aten::_unique2",
    F.ELEMENTWISE: "aten::add_.Tensor aten::_foreach_addcdiv_ aten::gelu_backward aten::threshold_backward mul",
    F.RANDOM: "aten::native_dropout aten::normal_ aten::randn aten::bernoulli_",
    F.OPTIMIZER: "aten::_fused_adamw_ Optimizer.step#AdamW.step",
    F.LAYOUT: "aten::cat aten::im2col aten::constant_pad_nd aten::transpose aten::permute_copy",
    F.COPY: "aten::copy_ aten::_to_copy aten::fill_ aten::zeros_like aten::clone aten::zero_",
    F.COMMUNICATION: "c10d::allreduce_ nccl:all_reduce _c10d_functional::all_gather_into_tensor",
    F.OTHER: "mylib::thing aten::sym_size.int compiled",
}
OP_CASES = [(op, wanted) for wanted, ops in OPS.items() for op in ops.split()]


@pytest.mark.parametrize(("op", "wanted"), OP_CASES)
def test_the_family_of_an_op(op: str, wanted: Family) -> None:
    assert op_family(op) is wanted


def test_every_family_has_ops_here() -> None:
    assert set(OPS) == set(Family)


@pytest.mark.parametrize("rule", OP_RULES, ids=lambda rule: rule.example)
def test_no_rule_of_ops_is_shadowed(rule: Rule) -> None:
    assert op_family(rule.example) is rule.family


TENSORFLOW = {
    F.GEMM: "MatMul _MklMatMul _FusedMatMul _MklNativeFusedMatMul BatchMatMulV2 _MklBatchMatMulV2 Einsum",
    F.CONVOLUTION: "Conv2D _MklNativeFusedConv2D _MklNativeConv2DBackpropInput _FusedConv2D Conv3DBackpropFilterV2 "
    "_MklNativeConv2DBackpropFilterWithBias DepthwiseConv2dNative DepthwiseConv2dNativeBackpropInput",
    F.POOLING: "MaxPool _MklNativeMaxPool _MklNativeMaxPoolGrad AvgPoolGrad MaxPool3D",
    F.NORMALISATION: "FusedBatchNormV3 FusedBatchNormGradV3 _MklFusedBatchNormV3",
    F.LOSS: "SparseSoftmaxCrossEntropyWithLogits SoftmaxCrossEntropyWithLogits L2Loss",
    F.SOFTMAX: "Softmax _MklSoftmax LogSoftmax",
    F.OPTIMIZER: "ResourceApplyAdam ResourceApplyGradientDescent ResourceSparseApplyAdagradV2",
    F.ELEMENTWISE: "Mul Sub AddV2 AddN Pow RealDiv Sqrt Rsqrt RsqrtGrad Square SquaredDifference Relu ReluGrad Neg "
    "BiasAdd DivNoNan AssignAddVariableOp AssignSubVariableOp SelectV2 GreaterEqual LeakyReluGrad Erf",
    F.REDUCTION: "Sum Mean BiasAddGrad ArgMax",
    F.LAYOUT: "Reshape Transpose Squeeze Tile ConcatV2 StridedSlice Pack PadV2 ExpandDims SplitV",
    F.COPY: "ReadVariableOp AssignVariableOp Cast Identity IdentityN Fill ZerosLike",
    F.GATHER: "GatherV2 ResourceGather OneHot UnsortedSegmentSum ScatterNd",
    F.RANDOM: "StatelessRandomUniformV2 RandomStandardNormal TruncatedNormal StatelessTruncatedNormalV2",
    F.OTHER: "_Arg _Retval IteratorGetNext OptionalGetValue fusion.3 MatMulling Mulish",
}


@pytest.mark.parametrize(
    ("op", "wanted"), [(op, wanted) for wanted, ops in TENSORFLOW.items() for op in ops.split()]
)
def test_the_family_of_an_op_of_tensorflow(op: str, wanted: Family) -> None:
    assert op_family(op) is wanted


@pytest.mark.parametrize("rule", TENSORFLOW_RULES, ids=lambda rule: rule.example)
def test_no_rule_of_tensorflow_is_shadowed(rule: Rule) -> None:
    assert op_family(rule.example) is rule.family


@given(st.text(max_size=40))
def test_any_name_has_a_family(name: str) -> None:
    assert family(name) in Family
    assert op_family(name) in Family
