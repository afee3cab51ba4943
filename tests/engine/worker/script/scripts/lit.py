"""Train with Lightning's Trainer in BF16."""

from __future__ import annotations

import lightning
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset


class Module(lightning.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.network = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))

    def training_step(self, batch: list[Tensor]) -> Tensor:
        return self.network(batch[0]).square().mean()

    def validation_step(self, batch: list[Tensor]) -> None:
        self.network(batch[0])

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.parameters(), lr=0.01)


def loader(samples: int) -> DataLoader[tuple[Tensor, ...]]:
    return DataLoader(TensorDataset(torch.randn(30, 4)), batch_size=samples)


trainer = lightning.Trainer(
    max_epochs=2,
    precision="bf16-mixed",
    accelerator="cpu",
    logger=False,
    enable_checkpointing=False,
    enable_progress_bar=False,
    enable_model_summary=False,
)
trainer.fit(Module(), loader(5), loader(15))
