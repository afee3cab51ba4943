"""Profiles experiments one after another, each in a new worker."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from engine.driver import Driver
from engine.experiment.problem import Problem, ProblemError
from engine.profile.names import side_names
from engine.protocol import jobs
from engine.protocol.events import Event, Failed, Log, Phase
from engine.protocol.profile import Profiled, Profiles
from engine.store.saved.studies import Study
from engine.words.numbers import number

_Steps = Iterator[Study[Profiles] | Event]


class ProfileDriver(Driver[Profiles]):
    """Profiles the experiments or saved runs of a study, each in a new worker. Fails if all of them fail."""

    def prepare(self, study: Study[Profiles]) -> Study[Profiles]:
        sides = study.answer.sides
        prepared = self._prepared(
            side.experiment if side.run_id is None else self._store.run(side.run_id).experiment
            for side in sides
        )
        resolved = tuple(
            side.model_copy(update={"experiment": experiment})
            for side, (experiment, _) in zip(sides, prepared, strict=True)
        )
        return replace(study.knowing(sides=resolved), device_name=prepared[0][1].title)

    def steps(self, study: Study[Profiles], is_to_end: Callable[[], bool]) -> _Steps:
        first: Problem | None = None
        names = side_names(study.answer)
        for place, name in enumerate(names):
            if is_to_end():
                break
            study = replace(study, doing=name if len(names) > 1 else "", place=place)
            yield study
            yield Log(message=f"Profiling {name}.")
            for known in self._side(study, place, name):
                study = known if isinstance(known, Study) else study
                yield known
            side = study.answer.sides[place]
            first = first or side.problem
            if side.problem is not None and len(names) > 1:
                text = f"{name}: {side.problem.message} {side.problem.remedy}"
                yield Log(level="problem", message=text)
            if side.profile is None:
                self._store.studies.traces.delete(study.id, place)
        yield self._end(None if study.answer.is_known else first)

    def _side(self, study: Study[Profiles], place: int, name: str) -> _Steps:
        trace = self._store.studies.traces.path(study.id, place)
        site = self._launcher.site
        for event in self._events(self._job(study.answer, place, site.trace(trace))):
            match event:
                case Phase() | Log():
                    yield event
                case Profiled(profile=profile):
                    try:
                        site.fetch(trace)
                    except ProblemError as error:
                        yield Log(level="problem", message=f"The trace is missing. {error.problem.message}")
                    profile = profile.model_copy(update={"trace": trace.name if trace.is_file() else None})
                    study = replace(study, answer=study.answer.with_side(place, profile=profile))
                    yield study
                    yield Log(message=f"A step of {name} takes {number(profile.step_ms)} ms.")
                    yield from (Log(message=note) for note in profile.notes)
                case Failed(problem=problem) if study.answer.sides[place].profile is None:
                    study = replace(study, answer=study.answer.with_side(place, problem=problem))
                    yield study

    def _job(self, profiles: Profiles, place: int, trace: str) -> jobs.Profile:
        own = profiles.sides[place]
        known = (
            side.profile.limits
            for side in profiles.sides
            if side.profile is not None and side.place == own.place
        )
        return jobs.Profile(experiment=own.experiment, trace=trace, limits=next(known, None))
