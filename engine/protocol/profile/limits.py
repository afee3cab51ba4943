"""A device's measured limits, and the formulas that compare a time with them."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from engine.experiment.value import Line, Message, Seconds

Rate = Annotated[float, Field(gt=0, le=1e9, allow_inf_nan=False)]


class Peak(Message):
    """The highest throughput of matrix products and convolutions in a format ("fp32", "tf32", "fp16",
    "bf16"), in TFLOP/s."""

    format: Line
    tflops: Rate


class Limits(Message):
    """Measured within `seconds`: matrix throughput by format, and memory bandwidth in GB/s (10^9 bytes).

    `withheld` names the formats whose peak could not be measured reliably: something disturbed it, or a step
    was faster.
    """

    peaks: Annotated[tuple[Peak, ...], Field(max_length=20)]
    gb_per_second: Rate
    seconds: Seconds = 0.0
    withheld: Annotated[tuple[Line, ...], Field(max_length=20)] = ()

    def tflops(self, name: str) -> float | None:
        """The peak in a format; None where it is withheld, or the device has no such products."""
        return next((peak.tflops for peak in self.peaks if peak.format == name), None)

    def ridge(self, name: str) -> float | None:
        """The FLOPs per byte from which the peak, and no longer the bandwidth, is the limit."""
        peak = self.tflops(name)
        return None if peak is None else 1e3 * peak / self.gb_per_second

    def with_peak(self, name: str, tflops: float | None) -> Limits:
        """The limits with this peak of a format, or with that withheld."""
        rates = {peak.format: peak.tflops for peak in self.peaks}
        withheld = dict.fromkeys(self.withheld)
        if tflops is None:
            rates.pop(name, None)
            withheld[name] = None
        else:
            rates[name] = tflops
            withheld.pop(name, None)
        peaks = tuple(Peak(format=known, tflops=rate) for known, rate in rates.items())
        return self.model_copy(update={"peaks": peaks, "withheld": tuple(withheld)})
