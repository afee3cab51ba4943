"""What energy costs and emits, by a price and a factor that the user gives; without them nothing is said."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from engine.compare.figures import CO2_NAME, PRICE_NAME, Figure, energy_of
from engine.experiment.problem import Problem, ProblemError, request_problem
from engine.experiment.text import shortened
from engine.store.record import RunRecord

_JOULES_PER_KWH = 3.6e6
_SAMPLES = 1e6
_MOST = 1e6
_PRICE = re.compile(r"\s*([^\d\s.,-]{0,8})\s*(\d+(?:[.,]\d+)?)\s*([^\d\s.,-]{0,8})\s*")
_GRAMS = re.compile(r"\s*(\d+(?:[.,]\d+)?)\s*g?\s*")


@dataclass(frozen=True)
class Tariff:
    """The price of a kWh in a currency, and the grams of CO2 that it stands for; None where not given."""

    price_per_kwh: float | None = None
    currency: str = ""
    co2_grams_per_kwh: float | None = None

    def figures(self) -> tuple[Figure, ...]:
        """The lines of a comparison: for a million samples, with the energy of the idle device."""
        asked = (
            (PRICE_NAME, "Electricity", self.currency, self.price_per_kwh),
            (CO2_NAME, "CO₂", "g", self.co2_grams_per_kwh),
        )
        return tuple(
            Figure(name, title, f"{unit}/million samples", None, True, _times(per_kwh))
            for name, title, unit, per_kwh in asked
            if per_kwh is not None
        )


def _times(per_kwh: float) -> Callable[[RunRecord], float | None]:
    def value(run: RunRecord) -> float | None:
        energy = energy_of(run)
        if energy is None:
            return None
        return energy.joules / energy.samples * _SAMPLES / _JOULES_PER_KWH * per_kwh

    return value


def tariff_from(price: str, co2: str) -> Tariff:
    """The tariff of texts such as "0.30 EUR" and "380"; "" for none.

    Raises ProblemError for what is no price or no factor.
    """
    cost, grams = _PRICE.fullmatch(price), _GRAMS.fullmatch(co2)
    per_kwh = None if cost is None else _number(cost[2])
    if price.strip() and (cost is None or per_kwh is None or (cost[1] and cost[3])):
        remedy = "Write a number and a currency, such as 0.30 EUR."
        raise ProblemError(_wrong("price_per_kwh", price, "price", remedy))
    factor = None if grams is None else _number(grams[1])
    if co2.strip() and factor is None:
        raise ProblemError(_wrong("co2_per_kwh", co2, "number of grams", "Write a number, such as 380."))
    return Tariff(per_kwh, "" if cost is None else cost[1] or cost[3], factor)


def _number(text: str) -> float | None:
    value = float(text.replace(",", "."))
    return value if value <= _MOST else None


def _wrong(key: str, text: str, noun: str, remedy: str) -> Problem:
    return request_problem(f"{key} is {shortened(text)}, which is no {noun}.", remedy, key=key, value=text)
