"""Mistakes in the text of a training loop are found wherever it stands; what is right gives no alarm."""

from __future__ import annotations

import ast
import textwrap

import pytest

from engine.protocol.advice import Finding, FindingKind
from engine.training.checks.static import File, loop_findings

LOOP = """
for epoch in range(3):
    for inputs in loader:
        with torch.autocast("cuda"):
            loss = net(inputs)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        if scaler.get_scale() >= before:
            warmup_scheduler.step()
    scheduler.step()
"""
PLACES = {
    "module": "{loop}",
    "main": "def main():\n{loop}",
    "method": "class Trainer:\n    def fit(self):\n{loop}",
    "guard": "if __name__ == '__main__':\n{loop}",
}


def found_in(text: str, *, is_bf16: bool = False) -> list[tuple[FindingKind, str]]:
    """The kinds of findings with the text of their lines."""
    findings: list[Finding] = loop_findings(File("net.py", text, ast.parse(text)), is_bf16=is_bf16)
    lines = text.splitlines()
    return [(found.kind, lines[(found.line or 0) - 1].strip()) for found in findings]


@pytest.mark.parametrize("place", PLACES.values(), ids=PLACES)
@pytest.mark.parametrize(
    ("before", "after", "part", "kind"),
    [
        ("", "", "", None),
        ("scaler.unscale_(optimizer)", "pass", "clip_grad_norm_", FindingKind.CLIPPING_BEFORE_UNSCALING),
        ("if scaler.get_scale() >= before:", "if True:", "warmup_", FindingKind.SCHEDULER_AFTER_SKIP),
        ("scaler.update()", "pass", "scaler.step", FindingKind.SCALER_RULE),
        ("scaler.scale(loss)", "loss", "backward", FindingKind.SCALER_RULE),
        ("scaler.step(optimizer)", "optimizer.step()", "optimizer.step", FindingKind.SCALER_RULE),
        ("scaler.step(", "scaler.scale(other).backward()\n        scaler.step(", "unscale_",
         FindingKind.SCALER_RULE),
        ("with torch", "scaler = torch.amp.GradScaler()\n        with torch", "GradScaler",
         FindingKind.SCALER_RULE),
    ],
)  # fmt: skip
def test_a_mistake_is_found_in_any_loop_with_a_loss_scaler(place, before, after, part, kind) -> None:
    loop = LOOP.replace(before, after, 1) if before else LOOP
    text = place.format(loop=textwrap.indent(loop, " " * 8 if "loop" in place and "\n" in place else ""))
    found = found_in(text)
    assert [one for one, _ in found] == ([] if kind is None else [kind])
    assert all(part in line for _, line in found)


@pytest.mark.parametrize(
    "text",
    [
        # torchvision's references: one of two branches
        """
        def train_one_epoch(model, optimizer, scaler=None):
            for inputs in loader:
                if scaler is None:
                    model(inputs).backward()
                    clip_grad_norm_(model.parameters(), 1.0)
                    optimizer.step()
                else:
                    scaler.scale(model(inputs)).backward()
                    scaler.unscale_(optimizer)
                    clip_grad_norm_(model.parameters(), 1.0)
                    scaler.step(optimizer)
                    scaler.update()
        """,
        # two conditions that are the same
        """
        def train(net, optimizer, use_amp):
            if use_amp:
                scaler.scale(net()).backward()
            if not use_amp:
                net().backward()
                optimizer.step()
            else:
                scaler.step(optimizer)
                scaler.update()
        """,
        # no loss scaler: nothing to unscale, nothing is skipped
        """
        def train(net, optimizer, scheduler):
            net().backward()
            clip_grad_norm_(net.parameters(), 1.0)
            optimizer.step()
            scheduler.step()
        """,
        # two optimizers: the second backward pass comes after the first's step
        """
        def train(d, g, scaler):
            scaler.scale(d()).backward()
            scaler.unscale_(d_optimizer)
            clip_grad_norm_(d.parameters(), 1.0)
            scaler.step(d_optimizer)
            scaler.scale(g()).backward()
            scaler.step(g_optimizer)
            scaler.update()
        """,
    ],
)
def test_a_loop_that_is_right_gives_no_alarm(text: str) -> None:
    assert found_in(textwrap.dedent(text), is_bf16=True) == []


@pytest.mark.parametrize(
    ("made", "is_told"),
    [
        ("GradScaler()", True),
        ("torch.amp.GradScaler('cuda', enabled=True)", True),
        ("torch.amp.GradScaler('cuda', enabled=(dtype == 'float16'))", False),
        ("torch.amp.GradScaler('cuda', enabled=False)", False),
        ("torch.amp.GradScaler('cuda', 65536.0, 2.0, 0.5, 2000, dtype == torch.float16)", False),
        ("torch.cuda.amp.GradScaler(65536.0, 2.0, 0.5, 2000, use_amp)", False),
        ("torch.amp.GradScaler(**settings)", False),
        ("torch.amp.GradScaler() if dtype == torch.float16 else None", False),
    ],
)
def test_only_a_scaler_that_is_surely_enabled_is_told_in_bf16(made: str, *, is_told: bool) -> None:
    expected = [(FindingKind.SCALER_WITH_BF16, f"scaler = {made}")] if is_told else []
    assert found_in(f"scaler = {made}\n", is_bf16=True) == expected
    assert found_in(f"scaler = {made}\n") == []
