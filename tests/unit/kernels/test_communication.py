"""The pattern of kernels that communicate: found in Python, and read the same by ECMAScript's std::regex."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from hroof.kernels import COMMUNICATION, WITHOUT_COMMUNICATION, Family, base_name, family

WAITING = [
    "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
    "ncclKernel_Broadcast_RING_LL_Sum_int8_t(ncclDevComm*, unsigned long, ncclWork*)",
    "ncclSymkDevKernel_AllGather_LL(ncclSymDevArgs)",
    "mscclKernel_Sum_half_LL_0",
    "mscclpp::allreduce7(int)",
    "void nvshmemi_transfer_rma<(threadgroup_t)0>(nvshmemi_transfer_state)",
    "void c10d::symmetric_memory::barrier_kernel(unsigned int**)",
    "void c10d::symmetric_memory::(anonymous namespace)::one_shot_all_reduce_kernel<float, 4>(float**)",
    "void two_shot_all_reduce_kernel<c10::BFloat16, 16, 8>(int)",
    "void multimem_one_shot_all_reduce_kernel<float, 4, 8>(int)",
    "void multimem_all_gather_kernel<4, 8>(int)",
    "void vllm::cross_device_reduce_1stage<half, 4>(vllm::RankData*)",
    "void tensorrt_llm::kernels::oneShotAllReduceKernel<half, 8>(X)",
    "void allreduce_fusion_kernel_oneshot_lamport<(AllReduceFusionPattern)1, half, 8>(X)",
    "userbuffers_fp16_sum_inplace_gpu_rr_rs(int)",
    "void deep_ep::internode_ll::dispatch<true, 3>(void*)",
]
COMPUTING = [
    "ampere_sgemm_128x64_nn",
    "void at::native::reduce_kernel<512, 1>(at::native::ReduceOp<float>)",
    "my_allreduce_free_gemm",
    "void dispatchKernel<ep::Mode>(ep::Params)",
    "void at::native::multi_tensor_apply_kernel<at::native::TensorListMetadata<1>>(X)",
    "void one_shot_gemm<float>(int)",
    "wait_for_nothing",
    "",
]


@pytest.mark.parametrize("name", WAITING)
def test_a_kernel_that_waits_for_others(name: str) -> None:
    assert re.search(WITHOUT_COMMUNICATION, name) is None
    assert re.search(COMMUNICATION, name) is not None
    assert family(name) is Family.COMMUNICATION


@pytest.mark.parametrize("name", COMPUTING)
def test_a_kernel_that_computes(name: str) -> None:
    assert re.search(COMMUNICATION, name) is None
    assert re.search(WITHOUT_COMMUNICATION, name) is not None


BY_NAMESPACE = ("deep_ep::", "symmetric_memory::barrier", "mscclpp::")


@pytest.mark.parametrize("name", [n for n in WAITING if not any(s in n for s in BY_NAMESPACE)])
def test_it_is_known_without_its_namespace(name: str) -> None:
    """The bare function name is what ncu compares unless it is told otherwise."""
    assert re.search(WITHOUT_COMMUNICATION, base_name(name)) is None


def kept_by_std_regex(folder: Path, names: list[str]) -> list[str]:
    """The names in which the C++ library, as ncu uses it, finds the pattern."""
    source = folder / "kept.cpp"
    source.write_text(
        "#include <iostream>\n#include <regex>\n#include <string>\n"
        "int main(int, char **argv) {\n"
        "  std::regex pattern(argv[1]);\n"
        "  for (std::string name; std::getline(std::cin, name);)\n"
        "    if (std::regex_search(name, pattern)) std::cout << name << '\\n';\n"
        "}\n",
        encoding="utf-8",
    )
    compiler = shutil.which("g++")
    if compiler is None:
        pytest.skip("there is no g++ on this machine")
    subprocess.run([compiler, "-o", folder / "kept", source], check=True, timeout=300)
    ran = subprocess.run(
        [folder / "kept", WITHOUT_COMMUNICATION],
        input="\n".join(names),
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    return ran.stdout.splitlines()


def test_std_regex_reads_it_alike(tmp_path: Path) -> None:
    computing = [name for name in COMPUTING if name]
    # CUTLASS writes names of this length; std::regex must not exhaust its stack on one.
    long = f"void cutlass::Kernel2<{'cute::tuple<int, ' * 400}int>(int)"
    assert kept_by_std_regex(tmp_path, [*WAITING, *computing, long]) == [*computing, long]


def test_the_shared_case_of_a_hanging_collective() -> None:
    folder = os.environ.get("HROOF_CASES")
    if not folder:
        pytest.skip("HROOF_CASES is not set")
    text = (Path(folder) / "84-nccl-kernel-hang" / "input_names.json").read_text(encoding="utf-8")
    names = json.loads(text)
    assert [n for n in names["communication"] if re.search(WITHOUT_COMMUNICATION, n)] == []
    assert [n for n in names["compute"] if not re.search(WITHOUT_COMMUNICATION, n)] == []
