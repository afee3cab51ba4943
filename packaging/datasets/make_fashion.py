"""Make the built-in images, resources/fashion, from the four IDX files of Fashion-MNIST.

Usage: python packaging/datasets/make_fashion.py FOLDER, where FOLDER holds the files as their authors
publish them.
"""

from __future__ import annotations

import argparse
import gzip
import shutil
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

TRAIN_SAMPLES, TEST_SAMPLES = 6_000, 1_000
TARGET = Path(__file__).resolve().parents[2] / "resources" / "fashion"


def read_idx(path: Path, samples: int) -> NDArray[np.uint8]:
    """Return the first `samples` entries of a gzipped IDX file of bytes, in its own shape."""
    data = gzip.decompress(path.read_bytes())
    dimensions = data[3]
    shape = np.frombuffer(data, dtype=">u4", count=dimensions, offset=4)
    values = np.frombuffer(data, dtype=np.uint8, offset=4 + 4 * dimensions)
    return values.reshape(shape)[:samples]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="the folder with the IDX files and LICENSE.txt")
    folder = parser.parse_args().folder
    TARGET.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(
        TARGET / "fashion.npz",
        train_pictures=read_idx(folder / "train-images-idx3-ubyte.gz", TRAIN_SAMPLES),
        train_labels=read_idx(folder / "train-labels-idx1-ubyte.gz", TRAIN_SAMPLES),
        test_pictures=read_idx(folder / "t10k-images-idx3-ubyte.gz", TEST_SAMPLES),
        test_labels=read_idx(folder / "t10k-labels-idx1-ubyte.gz", TEST_SAMPLES),
    )
    shutil.copyfile(folder / "LICENSE.txt", TARGET / "LICENSE")
    print(f"{TARGET / 'fashion.npz'}: {(TARGET / 'fashion.npz').stat().st_size / 2**20:.1f} MiB")


if __name__ == "__main__":
    main()
