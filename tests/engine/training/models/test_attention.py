"""An attention kernel is used in the whole run, or Check and the run say why it cannot be."""

from __future__ import annotations

import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention

from engine.protocol.advice import FindingKind
from engine.training.checks.check import check
from engine.training.models.attention import AttentionCall, attention_kernel, kernel_of
from tests.engine.training.conftest import refusal, trained
from tests.engine.training.measuring.test_formats import ATTENTION, FILE, FORWARD

ENCODER = FILE.replace(
    FORWARD, "        return self.last(self.encoder(self.first(x)[:, None])[:, 0])"
).replace(
    "__init__()\n",
    "__init__()\n        self.encoder = nn.TransformerEncoderLayer(16, 2, 32, {}, batch_first=True)\n",
    1,
)


def attention(
    queries: int = 4, keys: int = 4, head: int = 8, value: int = 8, **settings: object
) -> AttentionCall:
    sizes = ((queries, head), (keys, head), (keys, value))
    return AttentionCall(*(torch.empty(2, 2, *size) for size in sizes), **settings)


MASK = torch.ones(4, 4, dtype=torch.bool)


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        (attention(), None),
        (attention(is_causal=True), None),
        (attention(attn_mask=MASK), None),
        (attention(attn_mask=MASK[:3]), "the mask has an unsupported shape"),
        (attention(dropout_p=0.1), "Both fused kernels do not support non-zero dropout"),
        (attention(value=4), "Flash attention requires q,k,v to have the same last dimension"),
    ],
)
def test_pytorch_says_why_flash_is_impossible_on_a_cpu(call, reason) -> None:
    found = call.impossible(torch.device("cpu"), is_narrow=False)
    assert (
        found.keys() <= {"flash"}
        and found.get("flash", "").startswith(reason or "")
        and bool(found) == bool(reason)
    )


@pytest.mark.parametrize(
    ("call", "is_narrow", "impossible"),
    [
        (attention(), True, set()),
        (attention(), False, {"flash", "cudnn"}),
        (attention(attn_mask=MASK), True, {"flash"}),
        (attention(queries=3, is_causal=True), True, {"flash"}),
        (attention(head=12, value=12), False, {"flash", "cudnn"}),
        (attention(head=12, value=12), True, {"efficient", "cudnn"}),
        (attention(head=264, value=264), True, {"flash", "cudnn"}),
    ],
)
def test_what_a_gpu_cannot_compute_is_known_without_it(monkeypatch, call, is_narrow, impossible) -> None:
    assert set(call.impossible(torch.device("cuda", 0), is_narrow=is_narrow)) == impossible
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (7, 5))
    old = call.impossible(torch.device("cuda", 0), is_narrow=is_narrow)
    assert old["flash"] == old["cudnn"] == "the GPU is older than Ampere"


AMPERE, ADA, HOPPER, BLACKWELL, RUBIN, CONSUMER = (8, 0), (8, 9), (9, 0), (10, 3), (10, 7), (12, 0)


@pytest.mark.parametrize(
    ("heads", "dropout", "cudnn", "impossible"),
    [
        (128, 0.0, 91000, {}),
        (136, 0.0, 92600, {"cudnn": {AMPERE, ADA, HOPPER, BLACKWELL, RUBIN, CONSUMER}}),
        (256, 0.0, 92600, {"cudnn": {AMPERE, ADA, CONSUMER}}),
        (256, 0.0, 92500, {"cudnn": {AMPERE, ADA, CONSUMER, RUBIN}}),
        (256, 0.0, 92200, {"cudnn": {AMPERE, ADA, CONSUMER, RUBIN, HOPPER, BLACKWELL}}),
        (256, 0.5, 92600, {"cudnn": {AMPERE, ADA, CONSUMER}, "flash": {ADA, CONSUMER}}),
        (
            224,
            0.0,
            92600,
            {"cudnn": {AMPERE, ADA, HOPPER, BLACKWELL, RUBIN, CONSUMER}, "flash": {ADA, CONSUMER}},
        ),
        (
            200,
            0.5,
            92600,
            {"cudnn": {AMPERE, ADA, HOPPER, BLACKWELL, RUBIN, CONSUMER}, "flash": {ADA, CONSUMER}},
        ),
        ((192, 128), 0.0, 91100, {"cudnn": {AMPERE, ADA, CONSUMER}}),
        ((192, 128), 0.0, 91002, {"cudnn": {AMPERE, ADA, CONSUMER, HOPPER, BLACKWELL, RUBIN}}),
    ],
)
def test_wide_heads_are_possible_on_some_gpus_only(monkeypatch, heads, dropout, cudnn, impossible) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.backends.cudnn, "version", lambda: cudnn)
    head, value = heads if isinstance(heads, tuple) else (heads, heads)
    call = attention(head=head, value=value, dropout_p=dropout)
    found: dict[str, set[tuple[int, int]]] = {}
    for capability in (AMPERE, ADA, HOPPER, BLACKWELL, RUBIN, CONSUMER):
        monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _, known=capability: known)
        refused = call.impossible(torch.device("cuda", 0), is_narrow=True)
        for kernel in refused.keys() & ({"cudnn"} if head != value else {"cudnn", "flash"}):
            assert refused[kernel].startswith(f"this GPU cannot train a head size of {max(head, value)}")
            # up to 224, flash attention cannot without dropout either
            assert refused[kernel].endswith(" with dropout") == (kernel == "flash" and head == 256)
            found.setdefault(kernel, set()).add(capability)
    assert found == impossible


@pytest.mark.parametrize(
    ("operator", "kernel"),
    [
        ("_scaled_dot_product_flash_attention", "flash"),
        ("_scaled_dot_product_flash_attention_for_cpu", "flash"),
        ("_scaled_dot_product_efficient_attention", "efficient"),
        ("_scaled_dot_product_cudnn_attention", "cudnn"),
        ("_safe_softmax", "math"),
        ("_scaled_dot_product_flash_attention_for_cpu_backward", None),
        ("_softmax", None),
    ],
)
def test_a_kernel_is_known_by_its_operator(operator, kernel) -> None:
    assert kernel_of(operator) == kernel
    assert hasattr(torch.ops.aten, operator)


@pytest.mark.filterwarnings("ignore:.*(Triggered internally)")
@pytest.mark.parametrize(
    ("text", "wanted", "severity"),
    [
        (FILE.replace(FORWARD, ATTENTION.format("")), "flash", None),
        (FILE.replace(FORWARD, ATTENTION.format(", dropout_p=0.1")), "auto", "note"),
        (FILE.replace(FORWARD, ATTENTION.format(", dropout_p=0.1")), "flash", "warning"),
        (FILE.replace(FORWARD, ATTENTION.format(", dropout_p=0.1")), "math", None),
        # its attention is called within a function of PyTorch's
        (ENCODER.format(0.1), "flash", "warning"),
        (ENCODER.format(0.0), "flash", None),
    ],
)
def test_check_finds_what_a_run_cannot_do(own, text, wanted, severity) -> None:
    experiment = own.asked(text, step={"attention": wanted}, steps=2)
    found = [one for one in check(experiment).findings if one.kind is FindingKind.ATTENTION]
    assert [one.severity for one in found] == ([severity] if severity else [])
    if severity == "warning":
        assert found[0].message.startswith(
            "This attention cannot use flash (Both fused kernels do not support"
        )
        problem = refusal(trained, experiment)
        assert problem.key == "step.attention" and "is 'flash', which cannot compute" in problem.message
    else:
        assert trained(experiment).summary.attention[0].kernel in (wanted, "math")
    assert torch.backends.cuda.math_sdp_enabled() and torch.backends.cuda.flash_sdp_enabled()


@pytest.mark.parametrize("kernel", ["efficient", "cudnn"])
def test_a_kernel_that_a_cpu_lacks_is_refused_before_the_run(own, kernel) -> None:
    problem = refusal(trained, own.asked(FILE, step={"attention": kernel}))
    assert (problem.key, problem.allowed) == ("step.attention", "auto, flash, math")


def test_both_kernels_of_a_cpu_compute_the_same() -> None:
    torch.manual_seed(0)
    parts = [torch.randn(2, 2, 16, 8, requires_grad=True) for _ in range(3)]
    results = []
    for kernel in ("flash", "math"):
        with attention_kernel(kernel):
            output = scaled_dot_product_attention(*parts, is_causal=True)
            results.append((output, *torch.autograd.grad(output.square().sum(), parts)))
    for one, other in zip(*results, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-5)
