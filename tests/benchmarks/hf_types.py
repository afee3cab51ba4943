"""Which of transformers' types train here: shrunk by overrides, five steps in FP32 and in BF16 AMP.

    uv run python tests/benchmarks/hf_types.py [--steps 5] [--type llama] [--device cpu]

Every type with a head for causal language modelling or classification. One that does not work is listed with
what Ammeter says about it.
"""

from __future__ import annotations

import argparse
import gc
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from timm_models import trained_loss

from engine.experiment.experiment import experiment_from
from engine.training.failures import problem_of
from engine.training.models.build import build_model
from engine.training.models.libraries import CAUSAL, IMAGE, heads_by_type, imported, quiet
from engine.training.models.transformers import all_keys
from engine.training.models.weightless import Weightless

_WIDTHS = {
    "hidden_size": 64,
    "embed_dim": 64,
    "d_model": 64,
    "embedding_size": 64,
    "intermediate_size": 128,
    "moe_intermediate_size": 64,
    "shared_expert_intermediate_size": 64,
    "ffn_dim": 128,
    "encoder_ffn_dim": 128,
    "decoder_ffn_dim": 128,
    "d_ff": 128,
    "num_attention_heads": 4,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "num_key_value_heads": 4,
    "head_dim": 16,
}
_DEPTHS = {
    "num_hidden_layers": 2,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "num_layers": 2,
    "num_decoder_layers": 2,
    "n_layer": 2,
}
_EXPERTS = {"num_experts": 4, "num_local_experts": 4, "n_routed_experts": 4, "num_experts_per_tok": 2}
_WAYS: tuple[Mapping[str, int], ...] = (
    {**_WIDTHS, **_DEPTHS, **_EXPERTS},
    {**_WIDTHS, **_DEPTHS},
    {**_DEPTHS, **_EXPERTS},
    _DEPTHS,
    {},
)
"""From the smallest to the type's own sizes, since not all sizes of an architecture go together."""
_MOST_PARAMETERS = 300_000_000
_SIZES, _BATCH_SIZE, _TOKENS, _VOCABULARY = (32, 224, 512), 2, 32, 256


def shrunk(name: str, way: Mapping[str, int]) -> tuple[str, ...]:
    """The overrides of that way that the type's configuration has, in itself or in its parts."""
    with quiet():
        keys = sorted(all_keys(imported("transformers").CONFIG_MAPPING[name]()))
    return tuple(f"{key}={way[last]}" for key in keys if (last := key.rpartition(".")[2]) in way)


def settings_of(name: str, head: str) -> Iterator[dict[str, Any]]:
    """Settings for the type, the smallest first."""
    common = {"model": f"hf:{name}", "batch_size": _BATCH_SIZE, "optimizer": {"name": "sgd"}}
    sizes = _SIZES if head == IMAGE else (None,)
    for way in _WAYS:
        for size in sizes:
            data = {
                "dataset": "synthetic-tokens" if head == CAUSAL else "synthetic" if size else "own",
                "image_size": size,
                "num_classes": _VOCABULARY if head == CAUSAL else 10,
                "sequence_length": _TOKENS,
            }
            yield {**common, **data, "overrides": shrunk(name, way)}


def parameters_of(settings: Mapping[str, Any]) -> int:
    """The parameters of the model as it is built; it may be too large to be built."""
    model = build_model(
        settings["model"],
        image_size=settings["image_size"] or 0,
        channels=3,
        num_classes=settings["num_classes"],
        sequence_length=settings["sequence_length"],
        overrides=settings["overrides"],
        seed=0,
    )
    return sum(parameter.numel() for parameter in model.parameters())


def result(name: str, head: str, steps: int, device: str) -> tuple[str, bool]:
    """What became of a type, and whether it trained in both precisions; the first trouble if it did not."""
    troubles = []
    try:
        for settings in settings_of(name, head):
            try:
                with Weightless():
                    parameters = parameters_of(settings)
                if parameters > _MOST_PARAMETERS:
                    troubles.append(f"its smallest form has {parameters / 1e6:,.0f} M parameters")
                    continue
                losses = [
                    trained_loss(
                        experiment_from(
                            {
                                **settings,
                                "precision": precision,
                                "steps": steps,
                                "samples": steps * _BATCH_SIZE,
                                "device": device,
                                "measure": {"warmup_steps": 1, "block_steps": 1},
                            }
                        )
                    )
                    for precision in ("fp32", "bf16")
                ]
                return f"{parameters / 1e6:6.1f} M  fp32 {losses[0]:.3f}  bf16 {losses[1]:.3f}", True
            except Exception as error:  # noqa: BLE001 - another way may go well
                troubles.append(problem_of(error).message)
    except Exception as error:  # noqa: BLE001 - that is what is asked here
        troubles.append(problem_of(error).message)
    return troubles[0], False


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--type", action="append", help="this type in place of all; repeatable")
    chosen = parser.parse_args()
    heads = heads_by_type()
    worked: Counter[str] = Counter()
    names = chosen.type or sorted(heads)
    for number, name in enumerate(names, 1):
        began = time.perf_counter()
        said, works = result(name, heads[name], chosen.steps, chosen.device)
        worked[heads[name]] += works
        gc.collect()
        print(
            f"{number:3} {name:28} {heads[name]:24} {'works' if works else 'fails'} {said} "
            f"({time.perf_counter() - began:.0f} s)",
            flush=True,
        )
    for head, count in Counter(heads[name] for name in names).items():
        print(f"{head}: {worked[head]} of {count} work")


if __name__ == "__main__":
    main()
