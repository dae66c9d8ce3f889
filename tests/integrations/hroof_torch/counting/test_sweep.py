"""Every op that training of common nets runs has a rule: a sweep over modules, losses, optimizers and functions."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from hroof_torch.counting import CountingMode, count_step

torch.manual_seed(0)

WITHOUT_RULE = {
    "aten::_ctc_loss",
    "aten::_ctc_loss_backward",
    "aten::_linalg_eigh",
    "aten::_linalg_svd",
}
"""Ops of this sweep that have no FLOP rule: their work depends on data or on an iteration."""


def image(channels: int = 4, size: int = 8) -> Tensor:
    return torch.randn(2, channels, size, size, requires_grad=True)


def signal(channels: int = 4, length: int = 12) -> Tensor:
    return torch.randn(2, channels, length, requires_grad=True)


def volume(channels: int = 4) -> Tensor:
    return torch.randn(2, channels, 6, 6, 6, requires_grad=True)


def rows(width: int = 8) -> Tensor:
    return torch.randn(6, width, requires_grad=True)


Made = tuple[nn.Module, tuple[Any, ...]]


def activation(kind: Any) -> Made:
    return kind(), (rows(),)


ACTIVATIONS = [
    *(
        nn.ReLU,
        nn.ReLU6,
        nn.LeakyReLU,
        nn.PReLU,
        nn.RReLU,
        nn.ELU,
        nn.CELU,
        nn.SELU,
        nn.GELU,
        nn.SiLU,
    ),
    *(nn.Mish, nn.Sigmoid, nn.Tanh, nn.Softplus, nn.Softsign, nn.Softshrink, nn.Hardshrink),
    *(nn.Hardtanh, nn.Hardsigmoid, nn.Hardswish, nn.LogSigmoid, nn.Tanhshrink, nn.GLU),
]

MODULES: dict[str, Callable[[], Made]] = {
    **{kind.__name__: functools.partial(activation, kind) for kind in ACTIVATIONS},
    "ReLU in place": lambda: (nn.Sequential(nn.Linear(8, 8), nn.ReLU(inplace=True)), (rows(),)),
    "GELU tanh": lambda: (nn.GELU("tanh"), (rows(),)),
    "Threshold": lambda: (nn.Threshold(0.1, 0.0), (rows(),)),
    "Softmax": lambda: (nn.Softmax(-1), (rows(),)),
    "Softmin": lambda: (nn.Softmin(-1), (rows(),)),
    "LogSoftmax": lambda: (nn.LogSoftmax(-1), (rows(),)),
    "Softmax2d": lambda: (nn.Softmax2d(), (image(),)),
    "Linear": lambda: (nn.Linear(8, 3), (rows(),)),
    "Bilinear": lambda: (nn.Bilinear(8, 5, 3), (rows(), rows(5))),
    "Conv1d": lambda: (nn.Conv1d(4, 6, 3), (signal(),)),
    "Conv2d": lambda: (nn.Conv2d(4, 6, 3, padding="same"), (image(),)),
    "Conv2d reflect": lambda: (nn.Conv2d(4, 6, 3, padding=1, padding_mode="reflect"), (image(),)),
    "Conv2d circular": lambda: (nn.Conv2d(4, 6, 3, padding=1, padding_mode="circular"), (image(),)),
    "Conv2d dilated": lambda: (nn.Conv2d(4, 6, 3, dilation=2), (image(),)),
    "Conv2d depthwise": lambda: (nn.Conv2d(4, 4, 3, groups=4), (image(),)),
    "Conv3d": lambda: (nn.Conv3d(4, 6, 3), (volume(),)),
    "ConvTranspose1d": lambda: (nn.ConvTranspose1d(4, 6, 3, stride=2), (signal(),)),
    "ConvTranspose2d": lambda: (nn.ConvTranspose2d(4, 6, 3, stride=2), (image(),)),
    "ConvTranspose3d": lambda: (nn.ConvTranspose3d(4, 6, 3), (volume(),)),
    "Unfold": lambda: (nn.Unfold(3), (image(),)),
    "Fold": lambda: (nn.Fold((6, 6), 3), (torch.randn(2, 36, 16, requires_grad=True),)),
    "BatchNorm1d": lambda: (nn.BatchNorm1d(8), (rows(),)),
    "BatchNorm2d": lambda: (nn.BatchNorm2d(4), (image(),)),
    "BatchNorm2d eval": lambda: (nn.BatchNorm2d(4).eval(), (image(),)),
    "BatchNorm3d": lambda: (nn.BatchNorm3d(4), (volume(),)),
    "InstanceNorm2d": lambda: (nn.InstanceNorm2d(4, affine=True), (image(),)),
    "GroupNorm": lambda: (nn.GroupNorm(2, 4), (image(),)),
    "LayerNorm": lambda: (nn.LayerNorm(8), (rows(),)),
    "RMSNorm": lambda: (nn.RMSNorm(8), (rows(),)),
    "LocalResponseNorm": lambda: (nn.LocalResponseNorm(2), (image(),)),
    "weight norm": lambda: (nn.utils.parametrizations.weight_norm(nn.Linear(8, 3)), (rows(),)),
    "spectral norm": lambda: (nn.utils.parametrizations.spectral_norm(nn.Linear(8, 3)), (rows(),)),
    "MaxPool1d": lambda: (nn.MaxPool1d(2), (signal(),)),
    "MaxPool2d": lambda: (nn.MaxPool2d(2), (image(),)),
    "MaxPool3d": lambda: (nn.MaxPool3d(2), (volume(),)),
    "AvgPool1d": lambda: (nn.AvgPool1d(2), (signal(),)),
    "AvgPool2d": lambda: (nn.AvgPool2d(2), (image(),)),
    "AvgPool3d": lambda: (nn.AvgPool3d(2), (volume(),)),
    "LPPool2d": lambda: (nn.LPPool2d(2, 2), (image(),)),
    "FractionalMaxPool2d": lambda: (nn.FractionalMaxPool2d(2, output_size=3), (image(),)),
    "AdaptiveAvgPool1d": lambda: (nn.AdaptiveAvgPool1d(3), (signal(),)),
    "AdaptiveAvgPool2d": lambda: (nn.AdaptiveAvgPool2d(3), (image(),)),
    "AdaptiveAvgPool3d": lambda: (nn.AdaptiveAvgPool3d(3), (volume(),)),
    "AdaptiveMaxPool1d": lambda: (nn.AdaptiveMaxPool1d(3), (signal(),)),
    "AdaptiveMaxPool2d": lambda: (nn.AdaptiveMaxPool2d(3), (image(),)),
    "AdaptiveMaxPool3d": lambda: (nn.AdaptiveMaxPool3d(3), (volume(),)),
    "Dropout": lambda: (nn.Dropout(0.5), (rows(),)),
    "Dropout2d": lambda: (nn.Dropout2d(0.5), (image(),)),
    "AlphaDropout": lambda: (nn.AlphaDropout(0.5), (rows(),)),
    "FeatureAlphaDropout": lambda: (nn.FeatureAlphaDropout(0.5), (image(),)),
    "ReflectionPad1d": lambda: (nn.ReflectionPad1d(1), (signal(),)),
    "ReflectionPad2d": lambda: (nn.ReflectionPad2d(1), (image(),)),
    "ReflectionPad3d": lambda: (nn.ReflectionPad3d(1), (volume(),)),
    "ReplicationPad1d": lambda: (nn.ReplicationPad1d(1), (signal(),)),
    "ReplicationPad2d": lambda: (nn.ReplicationPad2d(1), (image(),)),
    "ReplicationPad3d": lambda: (nn.ReplicationPad3d(1), (volume(),)),
    "ZeroPad2d": lambda: (nn.ZeroPad2d(1), (image(),)),
    "ConstantPad1d": lambda: (nn.ConstantPad1d(1, 2.0), (signal(),)),
    "Upsample nearest": lambda: (nn.Upsample(scale_factor=2), (image(),)),
    "Upsample nearest 1d": lambda: (nn.Upsample(scale_factor=2), (signal(),)),
    "Upsample nearest 3d": lambda: (nn.Upsample(scale_factor=2), (volume(),)),
    "Upsample nearest-exact": lambda: (
        nn.Upsample(scale_factor=2, mode="nearest-exact"),
        (image(),),
    ),
    "Upsample linear": lambda: (nn.Upsample(scale_factor=2, mode="linear"), (signal(),)),
    "Upsample bilinear": lambda: (nn.Upsample(scale_factor=2, mode="bilinear"), (image(),)),
    "Upsample bicubic": lambda: (nn.Upsample(scale_factor=2, mode="bicubic"), (image(),)),
    "Upsample trilinear": lambda: (nn.Upsample(scale_factor=2, mode="trilinear"), (volume(),)),
    "PixelShuffle": lambda: (nn.PixelShuffle(2), (image(),)),
    "PixelUnshuffle": lambda: (nn.PixelUnshuffle(2), (image(),)),
    "ChannelShuffle": lambda: (nn.ChannelShuffle(2), (image(),)),
    "LSTM": lambda: (
        nn.LSTM(4, 5, 2, bidirectional=True),
        (torch.randn(3, 2, 4, requires_grad=True),),
    ),
    "LSTM projected": lambda: (nn.LSTM(4, 5, proj_size=3), (torch.randn(3, 2, 4),)),
    "GRU": lambda: (nn.GRU(4, 5, 2, dropout=0.1), (torch.randn(3, 2, 4, requires_grad=True),)),
    "RNN": lambda: (nn.RNN(4, 5, nonlinearity="relu"), (torch.randn(3, 2, 4),)),
    "LSTMCell": lambda: (nn.LSTMCell(8, 5), (rows(),)),
    "GRUCell": lambda: (nn.GRUCell(8, 5), (rows(),)),
    "RNNCell": lambda: (nn.RNNCell(8, 5), (rows(),)),
    "Embedding": lambda: (nn.Embedding(10, 4, padding_idx=0), (torch.randint(0, 10, (3, 2)),)),
    "Embedding max norm": lambda: (
        nn.Sequential(nn.Embedding(10, 4, max_norm=1.0), nn.Linear(4, 2)),
        (torch.randint(0, 10, (3, 2)),),
    ),
    "EmbeddingBag": lambda: (nn.EmbeddingBag(10, 4), (torch.randint(0, 10, (3, 2)),)),
    "EmbeddingBag max": lambda: (
        nn.EmbeddingBag(10, 4, mode="max"),
        (torch.randint(0, 10, (3, 2)),),
    ),
    "MultiheadAttention": lambda: (nn.MultiheadAttention(8, 2), (torch.randn(3, 2, 8),) * 3),
    "TransformerEncoderLayer": lambda: (
        nn.TransformerEncoderLayer(8, 2, 16, batch_first=True),
        (torch.randn(2, 3, 8),),
    ),
    "TransformerEncoderLayer eval": lambda: (
        nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval(),
        (torch.randn(2, 3, 8),),
    ),
    "TransformerDecoderLayer": lambda: (
        nn.TransformerDecoderLayer(8, 2, 16, activation="gelu"),
        (torch.randn(3, 2, 8), torch.randn(4, 2, 8)),
    ),
    "CosineSimilarity": lambda: (nn.CosineSimilarity(), (rows(), rows())),
    "PairwiseDistance": lambda: (nn.PairwiseDistance(), (rows(), rows())),
    "AdaptiveLogSoftmax": lambda: (
        nn.AdaptiveLogSoftmaxWithLoss(8, 12, [4, 8]),
        (rows(), torch.randint(0, 12, (6,))),
    ),
}


def classes() -> Tensor:
    return torch.randint(0, 8, (6,))


LOSSES: dict[str, Callable[[], Tensor]] = {
    "cross entropy": lambda: F.cross_entropy(rows(), classes()),
    "cross entropy smoothed": lambda: F.cross_entropy(rows(), classes(), label_smoothing=0.1),
    "cross entropy of probabilities": lambda: F.cross_entropy(rows(), rows().detach().softmax(-1)),
    "cross entropy of pixels": lambda: F.cross_entropy(image(), torch.randint(0, 4, (2, 8, 8))),
    "cross entropy weighted": lambda: F.cross_entropy(rows(), classes(), weight=torch.rand(8)),
    "nll": lambda: F.nll_loss(F.log_softmax(rows(), -1), classes()),
    "mse": lambda: F.mse_loss(rows(), rows()),
    "l1": lambda: F.l1_loss(rows(), rows()),
    "smooth l1": lambda: F.smooth_l1_loss(rows(), rows().detach()),
    "huber": lambda: F.huber_loss(rows(), rows().detach()),
    "bce": lambda: F.binary_cross_entropy(rows().sigmoid(), torch.rand(6, 8)),
    "bce logits": lambda: F.binary_cross_entropy_with_logits(rows(), torch.rand(6, 8)),
    "bce logits weighted": lambda: F.binary_cross_entropy_with_logits(
        rows(), torch.rand(6, 8), pos_weight=torch.rand(8)
    ),
    "kl": lambda: F.kl_div(rows().log_softmax(-1), torch.rand(6, 8), reduction="batchmean"),
    "kl of logs": lambda: F.kl_div(rows().log_softmax(-1), torch.rand(6, 8).log(), log_target=True),
    "poisson": lambda: F.poisson_nll_loss(rows(), torch.rand(6, 8)),
    "gaussian": lambda: F.gaussian_nll_loss(rows(), rows().detach(), torch.rand(6, 8)),
    "hinge embedding": lambda: F.hinge_embedding_loss(rows(), torch.rand(6, 8).sign()),
    "margin ranking": lambda: F.margin_ranking_loss(rows(), rows(), torch.ones(6, 8)),
    "triplet": lambda: F.triplet_margin_loss(rows(), rows(), rows()),
    "cosine embedding": lambda: F.cosine_embedding_loss(rows(), rows(), torch.ones(6)),
    "multi margin": lambda: F.multi_margin_loss(rows(), classes()),
    "multilabel soft margin": lambda: F.multilabel_soft_margin_loss(
        rows(), torch.rand(6, 8).round()
    ),
    "soft margin": lambda: F.soft_margin_loss(rows(), torch.ones(6, 8)),
    "multilabel margin": lambda: F.multilabel_margin_loss(rows(), torch.zeros(6, 8).long()),
    "ctc": lambda: F.ctc_loss(
        torch.randn(9, 2, 5, requires_grad=True).log_softmax(-1),
        torch.randint(1, 5, (2, 3)),
        torch.tensor([9, 9]),
        torch.tensor([3, 3]),
    ),
}


def box_iou(first: Tensor, second: Tensor) -> Tensor:
    """Intersection over union of boxes, as detection nets compute it."""
    low = torch.max(first[:, None, :2], second[:, :2])
    high = torch.min(first[:, None, 2:], second[:, 2:])
    overlap = (high - low).clamp(min=0).prod(2)
    area = (first[:, 2] - first[:, 0]) * (first[:, 3] - first[:, 1])
    return overlap / (area[:, None] + 1.0 - overlap)


def rotary(x: Tensor) -> Tensor:
    """Rotary position embedding, with complex numbers."""
    angles = torch.outer(torch.arange(x.shape[0]), 1.0 / 10 ** torch.arange(0, 1, 0.25))
    turned = torch.view_as_complex(x.reshape(*x.shape[:-1], -1, 2)) * torch.polar(
        torch.ones_like(angles), angles
    )
    return torch.view_as_real(turned).flatten(-2)


def warped(x: Tensor) -> Tensor:
    theta = torch.eye(2, 3).repeat(2, 1, 1).requires_grad_()
    return F.grid_sample(
        x, F.affine_grid(theta, list(x.shape), align_corners=False), align_corners=False
    )


def experts(x: Tensor) -> Tensor:
    """A mixture of experts with dispatch by index."""
    gates = torch.softmax(x @ torch.randn(8, 4), -1)
    weights, chosen = gates.topk(2, -1)
    result = torch.zeros_like(x)
    for expert in range(4):
        row, slot = torch.where(chosen == expert)
        result = result.index_add(0, row, x[row] * weights[row, slot, None])
    return result


FUNCTIONS: dict[str, Callable[[], Tensor]] = {
    "einsum": lambda: torch.einsum("bhd,bkd->bhk", signal(), signal()),
    "attention": lambda: F.scaled_dot_product_attention(image(), image(), image(), is_causal=True),
    "masked attention": lambda: F.scaled_dot_product_attention(
        image(), image(), image(), attn_mask=torch.ones(8, 8).tril().bool()
    ),
    "attention dropout": lambda: F.scaled_dot_product_attention(
        image(), image(), image(), dropout_p=0.1
    ),
    "attention by hand": lambda: (
        (rows() @ rows().T).masked_fill(torch.ones(6, 6).triu(1).bool(), -1e9).softmax(-1) @ rows()
    ),
    "rotary": lambda: rotary(rows()),
    "box iou": lambda: box_iou(rows(4), rows(4)),
    "warp": lambda: warped(image()),
    "experts": lambda: experts(rows()),
    "statistics": lambda: sum(
        f(rows()) for f in (torch.sum, torch.mean, torch.var, torch.std, torch.norm, torch.prod)
    ),
    "extremes": lambda: rows().max() + rows().min(dim=1)[0].sum() + rows().amax(0).sum(),
    "logsumexp": lambda: rows().logsumexp(-1),
    "scan": lambda: rows().cumsum(0) + rows().cumprod(1) + rows().logcumsumexp(0),
    "order": lambda: rows().sort(dim=-1)[0] + rows().topk(8)[0] + rows().flip(0).roll(1, 0),
    "median": lambda: rows().median(dim=-1)[0],
    "special": lambda: (
        rows().exp()
        + rows().abs().log()
        + rows().erf()
        + rows().sin()
        + rows().cos()
        + rows().expm1()
    ),
    "powers": lambda: rows() ** 2 + rows().abs().sqrt() + rows().abs().rsqrt() + 2.0 ** rows(),
    "clamps": lambda: rows().clamp(-1, 1) + torch.maximum(rows(), rows()) + rows().clamp_min(0.1),
    "steps": lambda: (
        rows().round() + rows().floor() + rows().sign() + rows().trunc() + rows().frac()
    ),
    "blends": lambda: torch.lerp(rows(), rows(), 0.3) + torch.addcmul(rows(), rows(), rows()),
    "choices": lambda: torch.where(rows() > 0, rows(), 0.0) + rows().masked_fill(rows() > 1, 0.0),
    "indices": lambda: rows()[:, [0, 2]] + rows()[torch.arange(6) % 2 == 0].sum() + rows()[0, 0],
    "gathers": lambda: (
        rows().gather(1, torch.zeros(6, 2).long()).sum()
        + rows().index_select(0, torch.tensor([0, 1])).sum()
        + rows().take(torch.tensor([0, 5])).sum()
    ),
    "scatters": lambda: (
        torch.zeros(6, 8).scatter(1, torch.zeros(6, 2).long(), rows(2))
        + torch.zeros(6, 8).scatter_add(1, torch.zeros(6, 2).long(), rows(2))
        + torch.zeros(6, 8).index_copy(0, torch.tensor([1]), rows()[:1])
    ),
    "joins": lambda: torch.cat([rows(), torch.stack([rows()[0], rows()[1]])]).repeat(2, 1),
    "layout": lambda: rows().t().contiguous().view(-1).unfold(0, 3, 2).repeat_interleave(2, 0),
    "triangles": lambda: rows().tril() + rows().triu() + torch.diag_embed(rows()).diagonal(0, 1, 2),
    "meshes": lambda: torch.stack(torch.meshgrid(rows()[0], rows()[1], indexing="ij")),
    "distances": lambda: torch.cdist(rows(), rows(), compute_mode="donot_use_mm_for_euclid_dist"),
    "distances by product": lambda: torch.cdist(rows(), rows()),
    "kernels": lambda: torch.linalg.vector_norm(rows(), dim=-1) + torch.linalg.norm(rows(), dim=-1),
    "inverse": lambda: torch.linalg.inv(rows(6) + 9 * torch.eye(6)),
    "cholesky": lambda: torch.linalg.cholesky(rows(6) @ torch.eye(6).mul(0) + torch.eye(6)),
    "solve": lambda: torch.linalg.solve(rows(6) + 9 * torch.eye(6), torch.eye(6)),
    "determinant": lambda: torch.linalg.slogdet(rows(6) + 9 * torch.eye(6))[1],
    "qr": lambda: torch.linalg.qr(torch.randn(6, 6))[0].requires_grad_() * 1.0,
    "eigenvalues": lambda: torch.linalg.eigvalsh(torch.eye(6).requires_grad_() * 2),
    "singular values": lambda: torch.linalg.svdvals(rows()).detach().requires_grad_() * 1.0,
    "vectors": lambda: (
        rows()[0] @ rows()[1]
        + (rows() @ rows()[0]).sum()
        + torch.addmv(torch.zeros(6), rows(), rows()[0])
    ),
    "batched": lambda: torch.baddbmm(torch.zeros(2, 4, 4), signal(), signal().mT),
    "outer": lambda: (
        torch.outer(rows()[0], rows()[1]) + torch.addr(torch.zeros(8, 8), rows()[0], rows()[1])
    ),
    "fourier": lambda: (
        torch.fft.irfft(torch.fft.rfft(rows()) * 2).real + torch.fft.fft2(rows()).abs()
    ),
    "complex": lambda: (torch.complex(rows(), rows()) * torch.complex(rows(), rows())).abs(),
    "noise": lambda: (
        rows() + torch.randn(6, 8) + torch.rand(6, 8) + torch.bernoulli(torch.rand(6, 8))
    ),
    "gumbel": lambda: F.gumbel_softmax(rows(), hard=True),
    "normalise": lambda: F.normalize(rows()),
    "one hot": lambda: F.one_hot(classes(), 8).float() * rows(),
    "interpolate": lambda: F.interpolate(image(), size=(5, 7), mode="bilinear", antialias=True),
    "packed": lambda: nn.utils.rnn.pad_packed_sequence(
        nn.utils.rnn.pack_padded_sequence(torch.randn(5, 2, 4, requires_grad=True), [5, 3])
    )[0],
    "max unpool": lambda: F.max_unpool2d(*F.max_pool2d(image(), 2, return_indices=True), 2),
    "in place": lambda: (
        rows().mul(1).add_(1).mul_(2).sub_(1).div_(2).neg_() + rows().mul(1).relu_()
    ),
    "comparisons": lambda: rows() * ((rows() > 0) & (rows() < 1) | ~(rows() == 0)).float(),
    "integers": lambda: rows() * (torch.arange(8) // 2 % 3).float(),
    "search": lambda: (
        rows() + torch.bucketize(rows(), torch.arange(4.0)) + torch.bincount(classes()).sum()
    ),
    "nan": lambda: torch.nan_to_num(rows()) + rows().isnan().any() + rows().nansum(),
}

CHOICES: list[tuple[Any, dict[str, Any]]] = [
    *itertools.product(
        [torch.optim.Adam, torch.optim.AdamW, torch.optim.SGD, torch.optim.Adagrad],
        [{"foreach": False}, {"foreach": True}, {"fused": True}],
    ),
    *itertools.product(
        [
            torch.optim.RMSprop,
            torch.optim.Adadelta,
            torch.optim.Adamax,
            torch.optim.NAdam,
            torch.optim.RAdam,
            torch.optim.ASGD,
            torch.optim.Rprop,
        ],
        [{"foreach": False}, {"foreach": True}],
    ),
    (torch.optim.Adam, {"amsgrad": True, "weight_decay": 0.1}),
    (torch.optim.SGD, {"momentum": 0.9, "nesterov": True, "weight_decay": 0.1}),
    (torch.optim.Adafactor, {}),
    (torch.optim.LBFGS, {}),
]

OPTIMIZERS: dict[str, Callable[[list[nn.Parameter]], torch.optim.Optimizer]] = {
    f"{kind.__name__} {options}": functools.partial(kind, lr=0.01, **options)
    for kind, options in CHOICES
}


class Lion(torch.optim.Optimizer):
    """The sign of a moving average, as in the paper's pseudo-code."""

    def __init__(self, parameters: list[nn.Parameter]) -> None:
        super().__init__(parameters, {"lr": 1e-3})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:
        for parameter in self.param_groups[0]["params"]:
            average = self.state[parameter].setdefault("m", torch.zeros_like(parameter))
            update = average.mul(0.9).add(parameter.grad, alpha=0.1).sign_()
            parameter.add_(update, alpha=-1e-3)
            average.lerp_(parameter.grad, 0.01)


OPTIMIZERS["Lion"] = Lion


def unruled(step: Callable[[], object]) -> tuple[set[str], tuple[str, ...]]:
    """Ops of a step without a FLOP rule, and faults."""
    ops: list[Any] = []
    with CountingMode(ops.append, lambda *call: None) as mode:
        step()
    return {op.name for op in ops if op.work.nominal is None}, mode.faults


def backward(value: Any) -> None:
    """Run backward from the first tensor of a value that has a gradient function."""
    values = value if isinstance(value, tuple | list) else (value,)
    for item in values:
        if isinstance(item, Tensor) and item.requires_grad:
            (item.abs() if item.is_complex() else item).sum().backward()
            return


SEEN_WITHOUT_RULE: set[str] = set()


def check(step: Callable[[], object]) -> None:
    names, faults = unruled(step)
    SEEN_WITHOUT_RULE.update(names)
    assert names <= WITHOUT_RULE
    assert not faults


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", MODULES)
def test_module(name: str) -> None:
    module, inputs = MODULES[name]()
    check(lambda: backward(module(*inputs)))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", MODULES)
def test_module_in_inference_mode(name: str) -> None:
    module, inputs = MODULES[name]()
    module.eval()

    def step() -> None:
        with torch.inference_mode():
            module(*inputs)

    check(step)


def run(step: Callable[[], Any]) -> None:
    backward(step())


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", LOSSES)
def test_loss(name: str) -> None:
    check(lambda: backward(LOSSES[name]()))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", FUNCTIONS)
def test_function(name: str) -> None:
    check(lambda: backward(FUNCTIONS[name]()))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizer(name: str) -> None:
    model = nn.Sequential(nn.Linear(8, 5), nn.Linear(5, 3))
    optimizer = OPTIMIZERS[name](list(model.parameters()))

    def loss() -> Tensor:
        optimizer.zero_grad(set_to_none=False)
        value = model(torch.randn(4, 8)).square().mean()
        value.backward()
        return value

    def step() -> None:
        for _ in range(2):
            if isinstance(optimizer, torch.optim.LBFGS):
                optimizer.step(loss)
            else:
                loss()
                optimizer.step()

    check(step)


@pytest.mark.filterwarnings("ignore")
def test_the_list_of_ops_without_rule_is_no_longer_than_it_must_be() -> None:
    for step in (LOSSES["ctc"], FUNCTIONS["eigenvalues"], FUNCTIONS["singular values"]):
        SEEN_WITHOUT_RULE.update(unruled(functools.partial(run, step))[0])
    assert SEEN_WITHOUT_RULE == WITHOUT_RULE


@pytest.mark.parametrize("foreach", [False, True])
def test_gradient_clipping(foreach: bool) -> None:
    model = nn.Linear(8, 5)
    model(torch.randn(4, 8)).sum().backward()
    check(lambda: nn.utils.clip_grad_norm_(model.parameters(), 1.0, foreach=foreach))
    check(lambda: nn.utils.clip_grad_value_(model.parameters(), 1.0, foreach=foreach))


def test_mixed_precision() -> None:
    model, x = (
        nn.Sequential(nn.Conv2d(4, 6, 3), nn.ReLU(), nn.Flatten(), nn.Linear(216, 3)),
        image(),
    )
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    scaler = torch.amp.GradScaler("cpu")

    def step() -> None:
        with torch.autocast("cpu", torch.bfloat16):
            loss = model(x).float().square().mean()
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        scaler.step(optimizer)
        scaler.update()

    check(step)
    names = {op.name for op in count_step(step)}
    assert "aten::_amp_foreach_non_finite_check_and_unscale_" in names
    assert "aten::_amp_update_scale_" in names


def test_adversarial_step() -> None:
    generator = nn.Sequential(
        nn.ConvTranspose2d(4, 8, 4),
        nn.BatchNorm2d(8),
        nn.ReLU(True),
        nn.ConvTranspose2d(8, 1, 4),
        nn.Tanh(),
    )
    judge = nn.Sequential(
        nn.Conv2d(1, 8, 3), nn.LeakyReLU(0.2, True), nn.Flatten(), nn.Linear(200, 1)
    )

    def step() -> None:
        made = generator(torch.randn(2, 4, 1, 1))
        value = judge(made)
        slope = torch.autograd.grad(value.sum(), made, create_graph=True)[0]
        penalty = (slope.flatten(1).norm(2, dim=1) - 1).square().mean()
        (F.binary_cross_entropy_with_logits(value, torch.ones_like(value)) + penalty).backward()

    check(step)
