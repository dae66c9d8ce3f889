"""Names of kernels: base, display and operation, of complete, odd and cut-off names."""

from __future__ import annotations

import csv
import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hroof.kernels import base_name, display_name, operation_name
from hroof.kernels.names import KernelName, parse

BASES = {
    # plain symbols
    "volta_sgemm_64x64_nn": "volta_sgemm_64x64_nn",
    "triton_poi_fused_add_0": "triton_poi_fused_add_0",
    "_attn_fwd": "_attn_fwd",
    "scale.kd": "scale.kd",
    # arguments, return types, namespaces, templates
    "saxpy(int, float, const float *)": "saxpy",
    "void saxpy(int)": "saxpy",
    "unsigned int count(int)": "count",
    "std::enable_if<!T7, void>::type kernel<int, 4>(T1)": "kernel",
    "void a::b::scale<float, 4>(float*)": "scale",
    "void scale<float, std::array<char *, (unsigned long)3>>(int)": "scale",
    "void scale<(int)4, (bool)1>(T1)": "scale",
    "void scale<Dimension<(4)-(2)> >(int)": "scale",
    "void scale<(a>b), c>(int)": "scale",
    "void scale<int> (int)": "scale",
    'void demo::tag<(char)"A", demo::op::{lambda(float, float)#2}>(const char *, "x,y")': "tag",
    # nameless namespaces, as each tool writes them
    "void (anonymous namespace)::scale(int)": "scale",
    "void a::(anonymous namespace)::scale<int>(int)": "scale",
    "void <unnamed>::scale<int>(int)": "scale",
    "a::<unnamed>::scale(int)": "scale",
    "unnamed>::scale(const float *)": "scale",
    # lambdas and call operators go by what is around them
    "void run(int)::{lambda(int)#1}::operator()(int) const": "run",
    "run(at::Iterator&)::[lambda(int) (instance 1)]": "run",
    "a::Functor<float>::operator()(float) const": "Functor",
    "a::Functor<float>::operator ()(float) const": "Functor",
    # operators
    "void ns::operator<< <int>(std::ostream&)": "operator<<",
    "bool ns::operator<(A const&, A const&)": "operator<",
    "ns::operator->(A*)": "operator->",
    "ns::operator[](int)": "operator[]",
    "ns::A::operator bool() const": "operator bool",
    "operatorless::scale(int)": "scale",
    "operator_kernel<float>(int)": "operator_kernel",
    # a range in front of the name
    "train/step/scale(int)": "scale",
    # cut off
    "void a::scale<float, b::Deep<c::D": "scale",
    "void a::scale(float, b": "scale",
    "void a::b::": "b",
    "scale<float>>>(int)": "scale",
    # activities of a profiler
    "Memcpy HtoD (Pageable -> Device)": "Memcpy HtoD",
    "Memset (Device)": "Memset",
    # mangled
    "_Z5scalePfi": "scale",
    "_Z5scaleIfLi4EEvPT_": "scale",
    "_ZN2at6native5scaleIfEEvi": "scale",
    "_ZN2at10_GLOBAL__N5scaleEi": "scale",
    "_ZNK2at7functorclEv": "functor",
    "_ZL5scalePf": "scale",
    "_Zebra": "_Zebra",
    # nothing to read
    "": "",
    "   ": "",
    "(int)": "(int)",
    "{lambda()#1}": "{lambda()#1}",
    "<<<>>>": "<<<>>>",
}


@pytest.mark.parametrize("name", BASES)
def test_the_base_name(name: str) -> None:
    assert base_name(name) == BASES[name]


DISPLAYS = {
    "void cutlass::Kernel<cutlass_75_wmma_gemm_nn>(cutlass_75_wmma_gemm_nn::Params)": "cutlass_75_wmma_gemm_nn",
    "void cutlass__5x_cudnn::Kernel<cutlass_tensorop_f16_fprop>(int)": "cutlass_tensorop_f16_fprop",
    "void cutlass::device_kernel<cutlass::gemm::kernel::GemmUniversal<int, X>>(T1)": "GemmUniversal",
    "void cutlass::device_kernel<flash::enable_sm90_or_later<flash::FlashFwd<int>>>(T1)": "FlashFwd",
    "_ZN7cutlass7Kernel2I11gemm_80_f16EEvNT_6ParamsE": "gemm_80_f16",
    "_ZN7cutlass7Kernel2IN1a4gemmEEEvT_": "gemm",
    "enable_if<!T7, void>::type kernel<int, __nv_bfloat16, 0, GemvParams<int>>(T13)": "GemvParams",
    # a wrapper that names nothing: its namespace helps
    "void internal::gemvx::kernel<int, float, 5, (bool)1>(T1)": "gemvx::kernel",
    "Kernel": "Kernel",
    "void cutlass::Kernel2<": "cutlass::Kernel2",
    # no wrapper: template arguments stay out
    "void combineKernel<ep::DispatchLayout, (bool)1>(ep::Params)": "combineKernel",
    "void at::native::vectorized_elementwise_kernel<4, a::FillFunctor<int>>(int)": "vectorized_elementwise_kernel",
    "ampere_sgemm_128x64_nn": "ampere_sgemm_128x64_nn",
}


@pytest.mark.parametrize("name", DISPLAYS)
def test_the_display_name(name: str) -> None:
    assert display_name(name) == DISPLAYS[name]


def eigen(left: str, right: str) -> str:
    """An Eigen kernel that assigns one expression to another."""
    inner = f"Eigen::TensorEvaluator<Eigen::TensorAssignOp<{left}, {right} const> const, Eigen::GpuDevice>"
    return f"void Eigen::internal::EigenMetaKernel<{inner}, int>({inner}, int)"


PLAIN = "Eigen::TensorMap<Eigen::Tensor<float, 1, 1, int>, 16, Eigen::MakePointer>"
CONST = PLAIN.replace("float", "float const") + " const"
OPERATIONS = {
    "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>, Array<char*, 1>>(int)": (
        "FillFunctor"
    ),
    "void at::native::vectorized_elementwise_kernel<(int)4, void at::native::silu(at::Iter &)::[lambda() (instance 1)]"
    "::operator ()() const::[lambda(float) (instance 1)], std::array<char *, 2>>(int, T2)": "silu",
    "void at::native::elementwise_kernel<128, 2, at::native::gpu_kernel_impl<at::native::direct_copy(at::Iter&)"
    "::{lambda()#3}::operator()() const::{lambda(float)#1}>(at::Iter&, int const&)::{lambda(int)#1}>(int, X)": (
        "direct_copy"
    ),
    "void at::native::unrolled_elementwise_kernel<at::native::AUnaryFunctor<float, float, at::native::MulFunctor<float>"
    " >, int>(int)": "MulFunctor",
    "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::func_wrapper_t<float, "
    "at::native::sum_functor<float, float>::operator()(at::Iter&)::{lambda(float, float)#1}>, unsigned int, 4>>(X)": (
        "sum_functor"
    ),
    "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<c10::Half, at::native::MeanOps<c10::Half>>>(X)": (
        "MeanOps"
    ),
    "void multi_tensor_apply_kernel<TensorListMetadata<4>, AdamFunctor<float>, float>(X)": "AdamFunctor",
    eigen(PLAIN, f"Eigen::TensorConversionOp<Eigen::half, {CONST}>"): "TensorConversionOp",
    eigen(
        PLAIN,
        f"Eigen::TensorCwiseBinaryOp<Eigen::internal::scalar_sum_op<float, float>, {CONST}, {CONST}>",
    ): ("scalar_sum_op"),
    eigen(
        PLAIN,
        "Eigen::TensorCwiseUnaryOp<Eigen::internal::scalar_right<float, float, Eigen::internal::scalar_product_op"
        f"<float, float>>, {CONST}>",
    ): "scalar_product_op",
    eigen(
        f"Eigen::TensorSlicingOp<Eigen::array<int, 2ul> const, {PLAIN}>", CONST
    ): "TensorSlicingOp",
    # between plain tensors: a copy
    eigen(PLAIN, CONST): "TensorAssignOp",
    # generic, but it does not say
    "elementwise_kernel": "",
    "void at::native::vectorized_elementwise_kernel<4, float, 3>(int)": "",
    # not generic
    "ampere_sgemm_128x64_nn": "",
    "void combineKernel<ep::DispatchLayout>(int)": "",
}


@pytest.mark.parametrize("name", OPERATIONS, ids=range(len(OPERATIONS)))
def test_the_operation_of_a_generic_loop(name: str) -> None:
    assert operation_name(name) == OPERATIONS[name]


def test_a_name_taken_apart() -> None:
    found = parse(
        "void a::B<int, c::D<4, 5>>::run<float, c::E<1, 2>, {lambda(int, int)#1}>(int) const"
    )
    assert found == KernelName("run", ("float", "c::E<1, 2>", "{lambda(int, int)#1}"), ("a", "B"))
    assert found.qualified == "a::B::run"


@given(st.text(alphabet="ab1_ <>(){}[]:,*&#~=-/\"'", max_size=60))
def test_any_text_gives_names(name: str) -> None:
    for found in (base_name(name), display_name(name), operation_name(name)):
        assert isinstance(found, str)
    assert base_name(name) or not name.strip()


@given(st.text(alphabet="ab_", min_size=1, max_size=8), st.integers(0, 200))
def test_a_name_cut_off_after_its_base_keeps_it(base: str, cut: int) -> None:
    start = f"void ns::deep::{base}<"
    name = f"{start}float, ns::Functor<(int)4, ns::op::{{lambda(float)#1}}>>(ns::Params, int)"
    assert base_name(name[: len(start) + cut]) == base


@given(st.lists(st.text(alphabet="abc_", min_size=1, max_size=9), min_size=1, max_size=4))
def test_mangled_and_demangled_agree(parts: list[str]) -> None:
    mangled = "".join(f"{len(part)}{part}" for part in parts)
    assert (
        parse(f"_ZN{mangled}IfEEvPT_").qualified
        == parse(f"void {'::'.join(parts)}<float>(float*)").qualified
    )


def test_a_very_long_name() -> None:
    """CUTLASS writes names of thousands of characters, deeper than Python's stack."""
    deep = "cute::tuple<" * 3000 + "int" + ">" * 3000
    name = f"void cutlass::device_kernel<cutlass::gemm::GemmUniversal<{deep}, {deep}>>(T1)"
    assert display_name(name) == "GemmUniversal"


def test_the_shared_case_of_demangled_names() -> None:
    folder = os.environ.get("HROOF_CASES")
    if not folder:
        pytest.skip("HROOF_CASES is not set")
    case = Path(folder) / "47-csv-demangled-names"
    expected = json.loads((case / "expected.json").read_text(encoding="utf-8"))["expect"]
    with (case / "input.csv").open(encoding="utf-8", newline="") as file:
        names = list(dict.fromkeys(row["Kernel Name"] for row in csv.DictReader(file)))
    assert names == expected["full_names"]
    for name, allowed in zip(names, expected["display_any_of"], strict=True):
        assert display_name(name) in allowed
