"""Train a language model with the Trainer of transformers in BF16."""

from __future__ import annotations

import sys

import torch
from torch.utils.data import Dataset
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments


class Tokens(Dataset[dict[str, torch.Tensor]]):
    def __len__(self) -> int:
        return 24

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        tokens = torch.arange(index, index + 8) % 32
        return {"input_ids": tokens, "labels": tokens}


sizes = {"vocab_size": 32, "n_positions": 8, "n_embd": 16, "n_layer": 1, "n_head": 2}
config = GPT2Config(**sizes, bos_token_id=0, eos_token_id=0)
arguments = TrainingArguments(
    sys.argv[1],
    per_device_train_batch_size=3,
    gradient_accumulation_steps=2,
    max_steps=4,
    bf16=True,
    use_cpu=True,
    report_to=[],
    save_strategy="no",
    disable_tqdm=True,
)
Trainer(GPT2LMHeadModel(config), arguments, train_dataset=Tokens()).train()
