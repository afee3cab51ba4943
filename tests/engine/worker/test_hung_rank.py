"""Which of several ranks hangs, from the frames that each has dumped and the steps that it has begun."""

from __future__ import annotations

import pytest

from engine.worker.perform import hung_rank

PYTHON = "/usr/lib/python3.12"
TORCH, ENGINE = "/v/lib/python3.12/site-packages/torch", "/opt/ammeter/engine/training"
LOOP = f"{ENGINE}/runs/loop.py"

OWN = ("/home/u/net.py", f"{TORCH}/nn/modules/module.py", LOOP)
DECODING = ("/v/lib/python3.12/site-packages/PIL/Image.py", f"{ENGINE}/data/loader.py", LOOP)
LOADING = (f"{PYTHON}/selectors.py", f"{PYTHON}/queue.py", f"{TORCH}/utils/data/dataloader.py", LOOP)
BACKWARD = (f"{TORCH}/autograd/graph.py", f"{TORCH}/_tensor.py", f"{ENGINE}/steps/plain.py", LOOP)
SCALER = (f"{TORCH}/amp/grad_scaler.py", f"{ENGINE}/steps/plain.py", LOOP)
QUEUE = (f"{TORCH}/nn/modules/conv.py", f"{TORCH}/nn/modules/module.py", LOOP)
FLUSH = (f"{ENGINE}/measuring/telemetry.py", f"{ENGINE}/runs/run.py", LOOP)
HELD = (f"{PYTHON}/threading.py", "/opt/ammeter/engine/protocol/jobs.py", LOOP)
FUNCTIONAL = (f"{TORCH}/functional.py", f"{TORCH}/nn/modules/module.py", LOOP)


def tail(files: tuple[str, ...]) -> str:
    frames = "".join(f'  File "{file}", line 7 in some\n' for file in files)
    beside = f'Thread 0x00007f0000000001 (most recent call first):\n  File "{OWN[0]}", line 1 in run\n'
    return f"{beside}\nCurrent thread 0x00007f0000000000 (most recent call first):\n{frames}"


@pytest.mark.parametrize("own", [OWN, DECODING, LOADING], ids=["own", "decoding", "loading"])
@pytest.mark.parametrize("waits", [BACKWARD, SCALER, QUEUE, FLUSH, HELD])
@pytest.mark.parametrize("begun", [(7, 7), (7, 9), (7, None)])
def test_a_rank_in_the_users_code_is_named_however_the_others_wait(
    own: tuple[str, ...], waits: tuple[str, ...], begun: tuple[int, int | None]
) -> None:
    assert hung_rank([tail(own), tail(waits)], begun, is_synchronous=False) == 0
    assert hung_rank([tail(waits), tail(own)], begun[::-1], is_synchronous=False) == 1


@pytest.mark.parametrize(
    ("frames", "begun", "named"),
    [
        # its device stands still, and the other waits for it in the same frames, or in the user's own code
        ((BACKWARD, SCALER), (7, 7), None),
        ((BACKWARD, QUEUE), (7, 8), 0),
        ((BACKWARD, OWN), (7, 8), 0),
        ((OWN, OWN), (8, 7), 1),
        ((OWN, OWN), (7, 7), None),
        ((QUEUE, FUNCTIONAL), (7, 7), None),
        ((QUEUE, FUNCTIONAL), (7, None), None),
        ((BACKWARD, SCALER, QUEUE), (9, 8, 9), 1),
    ],
)
def test_a_rank_whose_device_stands_still_is_named_by_the_steps_that_it_has_begun(
    frames: tuple[tuple[str, ...], ...], begun: tuple[int | None, ...], named: int | None
) -> None:
    assert hung_rank(list(map(tail, frames)), begun, is_synchronous=False) == named


def test_with_gloo_all_but_the_one_that_hangs_stand_where_they_wait() -> None:
    tails = [tail(FUNCTIONAL), tail(BACKWARD)]
    assert hung_rank(tails, (7, 7), is_synchronous=True) == 0
    assert hung_rank(tails, (7, 7), is_synchronous=False) is None
    assert hung_rank(["", ""], (None, None), is_synchronous=True) is None
