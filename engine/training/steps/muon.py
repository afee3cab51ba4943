"""Muon, and AdamW for the weights that Muon cannot update. Exported scripts contain this class."""

import torch
from torch import nn


class MuonAndAdamW(torch.optim.Optimizer):
    """Muon for the 2D weights of hidden layers, AdamW for embeddings, biases and the output layer."""

    def __init__(self, model, **settings):
        named = [(name, it) for name, it in model.named_parameters(remove_duplicate=False) if it.ndim == 2]
        tables = [part for part in model.modules() if isinstance(part, nn.Embedding | nn.EmbeddingBag)]
        others = {id(part.weight) for part in tables}
        # the last one is of the output layer, and Swin has tables of biases
        others |= {id(it) for name, it in named if "embed" in name or "bias" in name or it is named[-1][1]}
        hidden, rest = [], []
        for it in model.parameters():
            (hidden if it.ndim == 2 and it.requires_grad and id(it) not in others else rest).append(it)
        if not hidden:
            raise ValueError("no 2D weights in hidden layers")
        # the updates have the size of AdamW's, so that one learning rate fits both
        muon = torch.optim.Muon(hidden, adjust_lr_fn="match_rms_adamw", **settings)
        self.members = muon, torch.optim.AdamW(rest, **settings)
        super().__init__([group for member in self.members for group in member.param_groups], {})

    def step(self, closure=None):
        """Let both update their weights, with the learning rates and the state of this optimizer."""
        loss = None if closure is None else closure()
        for member, group in zip(self.members, self.param_groups, strict=True):
            member.param_groups, member.state = [group], self.state
            member.step()
        return loss
