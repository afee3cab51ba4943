"""Observe how a process trains with PyTorch, and write it as lines of JSON.

Python imports this file when it starts with its folder on `PYTHONPATH`. It imports nothing more until the process
imports torch, and writes nothing until an optimizer steps: then to `$AMMETER_OBSERVER_FOLDER/<pid>.jsonl`.
It runs in the user's Python, from 3.9, with PyTorch from 2.1, and without Ammeter's packages. It never raises
into the script, never waits for a GPU and draws no random numbers.
"""

import os
import sys

_FOLDER = os.environ.get("AMMETER_OBSERVER_FOLDER", "")
_WATCHED_STEPS = 3
_SECONDS_BETWEEN_WRITES = 0.2
_SECONDS_FOR_LAST_STEP = 2.0


class _TorchFinder:
    """Finds torch as the other finders do, and starts the observer once it is imported."""

    def find_spec(self, name, path=None, target=None):
        spec = _find(name, path) if name == "torch" else None
        if spec is None or spec.loader is None:
            return None
        execute = spec.loader.exec_module

        def execute_and_observe(module):
            execute(module)
            if self in sys.meta_path:
                sys.meta_path.remove(self)
                _observe(module)

        spec.loader.exec_module = execute_and_observe
        return spec


def _find(name, path):
    others = (finder for finder in sys.meta_path if not isinstance(finder, _TorchFinder))
    return next(filter(None, (finder.find_spec(name, path) for finder in others)), None)


def _observe(torch):
    try:
        Observer(torch).install()
    except Exception as error:  # noqa: BLE001 - the script must not notice
        sys.stderr.write(f"Ammeter cannot observe this process: {error}\n")


class _Hook:
    """A module's hook. In a copy of the module it stays the same one, and in a saved module it does nothing."""

    def __init__(self, function):
        self.function = function

    def __call__(self, *arguments):
        self.function(*arguments)

    def __deepcopy__(self, memo):
        return self

    def __reduce__(self):
        from contextlib import nullcontext

        # accepts any arguments, returns None, and can be loaded where this file is not
        return getattr, (nullcontext(), "__exit__")


def _guarded(method):
    """Call a method unless torch compiles or captures. Its first error ends the observation."""

    def call(self, *arguments):
        if not self.is_on or self.is_compiling():
            return
        try:
            if not (self.torch.cuda.is_initialized() and self.torch.cuda.is_current_stream_capturing()):
                method(self, *arguments)
        except Exception as error:  # noqa: BLE001 - the script must not notice
            self.give_up(error)

    return call


class Observer:
    """Follows the optimizer that steps first: its steps, losses, learning rate and loss scale."""

    def __init__(self, torch):
        import time

        self.torch, self.time = torch, time
        self.is_compiling = getattr(torch.compiler, "is_compiling", None) or torch._utils.is_compiling
        self.resident_at_start = _resident_mib()[0]
        self.handles = []
        self.start_over()

    def start_over(self):
        """Forget all steps, as in a forked process, which has a file of its own once it steps."""
        self.remove_hooks()
        # destroying a CUDA event in a forked process could fail
        self.inherited = dict(vars(self))
        self.is_on, self.has_stepped, self.is_in_step, self.is_alternating = True, False, False, False
        self.file = self.device = self.mark = self.scale = self.module = None
        self.optimizer = lambda: None
        self.step, self.seconds, self.samples, self.scaled_losses, self.graphs, self.due = 0, 0.0, 0, 0, 0, 0.0
        self.rows, self.losses, self.layers, self.autocast = [], [], {}, {}

    def install(self):
        """Register and wrap what shows steps, losses, loss scales and autocast."""
        import atexit

        from torch.optim.optimizer import register_optimizer_step_post_hook

        torch = self.torch
        register_optimizer_step_post_hook(lambda optimizer, args, kwargs: self.on_step(optimizer))
        # Tensor.backward calls it too
        _wrap(torch.autograd, "backward", before=self.on_backward)
        scaler = getattr(torch.amp, "GradScaler", None) or torch.cuda.amp.GradScaler
        _wrap(scaler, "scale", before=self.on_scale)
        _wrap(scaler, "step", after=self.on_scaler_step)
        _wrap(scaler, "update", after=self.on_update)
        # unlike a module's hook, torch.compile calls it when it traces
        _wrap(torch.autocast, "__enter__", after=self.on_autocast)
        atexit.register(self.finish)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self.start_over)

    @_guarded
    def on_backward(self, roots, *_):
        loss = roots if isinstance(roots, self.torch.Tensor) else next(iter(roots), None)
        if loss is None or loss.numel() != 1:
            return
        self.start_clock(loss.device)
        # a scaled loss was seen before it was scaled
        if self.scaled_losses:
            self.scaled_losses -= 1
        else:
            self.losses.append(self.read_later(loss))

    @_guarded
    def on_scale(self, scaler, outputs, *_):
        self.is_in_step = False
        if scaler.is_enabled() and isinstance(outputs, self.torch.Tensor) and outputs.numel() == 1:
            self.losses.append(self.read_later(outputs))
            self.scaled_losses += 1

    @_guarded
    def on_scaler_step(self, scaler, optimizer, *_):
        if not scaler.is_enabled():
            return
        if self.scale is None:
            self.scale = self.read_later(scaler._scale)
        if self.optimizer() is None:
            self.optimizer = _weak(optimizer)
        # the scaler skipped the step, so that the optimizer was not called
        if self.optimizer() is optimizer and not self.is_in_step:
            self.end_step(is_skipped=True)

    @_guarded
    def on_update(self, scaler, *_):
        if scaler.is_enabled() and self.rows:
            self.rows[-1]["scale"] = self.read_later(scaler._scale)

    @_guarded
    def on_step(self, optimizer):
        if not self.has_stepped or self.optimizer() is None:
            self.optimizer, self.has_stepped = _weak(optimizer), True
        if optimizer is self.optimizer():
            self.is_in_step = True
            self.end_step()
        elif self.losses:
            # it has losses of its own, as the second optimizer of a GAN
            self.is_alternating, self.losses, self.samples = True, [], 0

    def end_step(self, is_skipped=False):
        optimizer = self.optimizer()
        self.step += 1
        self.start_clock(next(each for group in optimizer.param_groups for each in group["params"]).device)
        dynamo = sys.modules.get("torch._dynamo.utils")
        graphs = dynamo.counters["stats"]["unique_graphs"] if dynamo else 0
        rate = optimizer.param_groups[0].get("lr", float("nan"))
        row = {"step": self.step, "mark": self.mark_now(), "loss": self.losses, "samples": self.samples}
        row["rate"] = self.read_later(rate) if isinstance(rate, self.torch.Tensor) else rate
        row["is_skipped"], row["is_compiled"] = is_skipped, graphs > self.graphs
        self.rows.append(row)
        self.losses, self.samples, self.scaled_losses, self.graphs = [], 0, 0, graphs
        if self.step == 1:
            self.add_hooks()
        elif self.step == _WATCHED_STEPS:
            self.remove_hooks()
        if self.time.perf_counter() >= self.due:
            self.write_rows()
            self.due = self.time.perf_counter() + _SECONDS_BETWEEN_WRITES

    def add_hooks(self):
        """Add hooks to all modules, to find the one that gets the batches and the dtypes of the layers.

        torch's global hooks would do, but torch.compile compiles again when they are removed.
        """
        import gc

        nn = self.torch.nn
        modules = [each for each in gc.get_objects() if issubclass(type(each), nn.Module) and vars(each)]
        # a hook in a compiled module is not called, and could make it compile again
        roots = [each for each in modules if getattr(each, "_compiled_call_impl", None) is not None]
        roots += [each._orig_mod for each in modules if "_orig_mod" in vars(each).get("_modules", ())]
        compiled = {id(each) for root in roots for each in root.modules()}
        trained = {id(each) for group in self.optimizer().param_groups for each in group["params"]}
        for each in modules:
            if id(each) in compiled or "_forward_pre_hooks" not in vars(each):
                continue
            if any(id(parameter) in trained for parameter in each.parameters()):
                self.handles.append(each.register_forward_pre_hook(_Hook(self.on_first_call)))
            weight = None if each._modules else each._parameters.get("weight")
            is_other = weight is None or isinstance(each, (nn.Embedding, nn.EmbeddingBag, nn.LayerNorm))
            if isinstance(each, nn.RNNBase) or not (is_other or weight.dim() < 2):
                self.handles.append(each.register_forward_hook(_Hook(self.on_layer)))

    def remove_hooks(self):
        while self.handles:
            self.handles.pop().remove()

    @_guarded
    def on_first_call(self, module, *_):
        if self.module is None and module.training and self.torch.is_grad_enabled():
            self.module = _weak(module)
            # it is also called at the end of this call
            module.register_forward_hook(_Hook(self.on_forward), with_kwargs=True)

    @_guarded
    def on_forward(self, module, args, kwargs, *_):
        is_training = module.training and self.torch.is_grad_enabled() and self.module() is module
        # the calls for a second optimizer are not of more samples
        if is_training and not (self.is_alternating and self.samples):
            self.samples += self.batch_size((args, kwargs))

    @_guarded
    def on_layer(self, module, args, output, *_):
        output = output[0] if isinstance(output, tuple) else output
        if self.torch.is_grad_enabled() and isinstance(output, self.torch.Tensor):
            self.layers[_name(output.dtype)] = self.layers.get(_name(output.dtype), 0) + 1

    @_guarded
    def on_autocast(self, context, *_):
        if self.step < _WATCHED_STEPS and context._enabled and self.torch.is_grad_enabled():
            self.autocast[context.device] = _name(context.fast_dtype)

    def batch_size(self, value, depth=0):
        """Return the first dimension of the first tensor in a value that has one, else 0."""
        if isinstance(value, self.torch.Tensor):
            return value.shape[0] if value.dim() else 0
        if hasattr(value, "keys") and hasattr(value, "values"):
            value = tuple(value.values())
        elif hasattr(value, "__dataclass_fields__"):
            value = tuple(vars(value).values())
        if depth > 4 or not isinstance(value, (list, tuple)):
            return 0
        return next(filter(None, (self.batch_size(each, depth + 1) for each in value)), 0)

    def start_clock(self, device):
        if self.device is None:
            self.device = device
            self.mark = self.mark_now()

    def mark_now(self):
        """Return a point of the device's time: an event of CUDA, or the host's seconds."""
        if self.device.type != "cuda":
            return self.time.perf_counter()
        event = self.torch.cuda.Event(enable_timing=True)
        event.record(self.torch.cuda.current_stream(self.device))
        return event

    def read_later(self, tensor):
        """Return a number, or a tensor that has it once the device has come to it."""
        tensor = (tensor.to_local() if hasattr(tensor, "to_local") else tensor).detach()
        if tensor.device.type == "cpu":
            return float(tensor)
        return tensor.to("cpu", non_blocking=True) if tensor.device.type == "cuda" else tensor.clone()

    def write_rows(self, is_last=False):
        """Write the steps that the device has finished, but the last, whose loss scale is yet to come."""
        if self.file is None:
            if self.step < _WATCHED_STEPS and not is_last:
                return
            self.write(self.begin_line())
        count = len(self.rows) if is_last else 0
        while count + 1 < len(self.rows) and _is_passed(self.rows[count + 1]["mark"]):
            count += 1
        if count:
            rows, self.rows = self.rows[:count], self.rows[count:]
            self.write(self.steps_line(rows))

    def steps_line(self, rows):
        line = {"kind": "steps", "step": [row["step"] for row in rows], "seconds": [], "loss": [], "scale": []}
        for row in rows:
            mark, before, self.mark = row["mark"], self.mark, row["mark"]
            self.seconds += mark - before if isinstance(mark, float) else before.elapsed_time(mark) / 1e3
            line["seconds"].append(round(self.seconds, 7))
            losses = [float(loss) for loss in row["loss"]]
            line["loss"].append(_number(sum(losses) / len(losses) if losses else float("nan")))
            if self.scale is not None:
                scale = float(row.get("scale", self.scale))
                row["is_skipped"] |= scale < float(self.scale)
                self.scale = scale
            line["scale"].append(self.scale)
        line["scale"] = None if self.scale is None else line["scale"]
        line["samples"] = None if self.module is None else [row["samples"] for row in rows]
        line["learning_rate"] = [_number(row["rate"]) for row in rows]
        line["skipped"] = [row["step"] for row in rows if row["is_skipped"]]
        line["compiled"] = [row["step"] for row in rows if row["is_compiled"]]
        pool, resident = [None] * 4, [None] * 2
        if self.device.type == "cuda":
            stats = self.torch.cuda.memory_stats(self.device)
            keys = (f"{pool}_bytes.all.{when}" for when in ("current", "peak") for pool in ("allocated", "reserved"))
            pool = [stats.get(key, 0) / 2**20 for key in keys]
        else:
            resident = [each and max(0.0, each - self.resident_at_start) for each in _resident_mib()]
        names = "allocated reserved peak_allocated peak_reserved resident peak_resident".split()
        return {**line, **{f"{name}_mib": value for name, value in zip(names, pool + resident)}}

    def begin_line(self):
        """Return what the first steps showed of the process and its training."""
        torch, device, rows, environment = self.torch, self.device, self.rows, os.environ
        # the hooks that count samples are there from the second step on
        rows[0]["samples"] = rows[min(1, len(rows) - 1)]["samples"]
        optimizer, module = self.optimizer(), self.module and self.module()
        trained = [each for group in optimizer.param_groups for each in group["params"]] if optimizer else []
        parameters = {}
        for each in trained if module is None else module.parameters():
            parameters[_name(each.dtype)] = parameters.get(_name(each.dtype), 0) + each.numel()
        is_cuda, ranks = device.type == "cuda", torch.distributed
        is_group = ranks.is_available() and ranks.is_initialized()
        return {
            "kind": "begin",
            "pid": os.getpid(),
            "rank": ranks.get_rank() if is_group else int(environment.get("RANK", 0)),
            "world_size": ranks.get_world_size() if is_group else int(environment.get("WORLD_SIZE", 1)),
            "python": ".".join(map(str, sys.version_info[:3])),
            "torch": str(torch.__version__),
            "cuda": torch.version.cuda,
            "device": str(device),
            "device_name": torch.cuda.get_device_name(device) if is_cuda else "",
            "device_memory_mib": torch.cuda.get_device_properties(device).total_memory / 2**20 if is_cuda else 0.0,
            "optimizer": type(optimizer).__name__ if optimizer else "",
            "batch_size": rows[-1]["samples"] or None,
            "parameters": parameters,
            "autocast": self.autocast.get(device.type),
            "layers": {name: count / sum(self.layers.values()) for name, count in self.layers.items()},
            "has_scaler": self.scale is not None,
            "tf32_matmuls": _is_tf32(torch.backends.cuda.matmul) if is_cuda else None,
            "tf32_convolutions": _is_tf32(torch.backends.cudnn, "conv") if is_cuda else None,
            "is_compiled": self.graphs > 0,
        }

    def write(self, line):
        """Append a line by one write. The file is opened by the first."""
        import json

        if self.file is None:
            path = os.path.join(_FOLDER, f"{os.getpid()}.jsonl")
            self.file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            processes = sys.modules.get("multiprocessing.util")
            if processes is not None:
                # a forked process of multiprocessing ends without atexit
                processes.Finalize(None, self.finish, exitpriority=0)
        data = json.dumps(line).encode() + b"\n"
        while data:
            data = data[os.write(self.file, data) :]

    @_guarded
    def finish(self):
        """Write all that is left, at the end of the process."""
        if self.rows or self.file is not None:
            last, until = self.mark_now(), self.time.perf_counter() + _SECONDS_FOR_LAST_STEP
            while not _is_passed(last) and self.time.perf_counter() < until:
                self.time.sleep(0.001)
            self.write_rows(is_last=_is_passed(last))
            self.write({"kind": "end", "steps": self.step, "is_compiled": self.graphs > 0})
        self.is_on = False

    def give_up(self, error):
        """End the observation because of an error of its own."""
        from contextlib import suppress

        self.is_on = False
        with suppress(Exception):
            self.remove_hooks()
            message = " ".join(f"{type(error).__name__}: {error}".split())[:500]
            self.write({"kind": "problem", "message": message})


def _ignore(*_):
    """Do nothing."""


def _wrap(owner, name, before=_ignore, after=_ignore):
    """Call `before` and `after` around a function, with its arguments by position."""
    from functools import wraps

    function = getattr(owner, name)

    @wraps(function)
    def wrapped(*args, **kwargs):
        before(*args, *kwargs.values())
        result = function(*args, **kwargs)
        after(*args, *kwargs.values())
        return result

    setattr(owner, name, wrapped)


def _weak(value):
    import weakref

    return weakref.ref(value)


def _is_passed(mark):
    return isinstance(mark, float) or mark.query()


def _name(dtype):
    return str(dtype).rpartition(".")[2]


def _number(value):
    """Return a float as JSON can hold it."""
    value = float(value)
    if value - value == 0:
        return value
    return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"


def _is_tf32(backend, kind=""):
    """Return whether float32 is computed in TF32, or None where that cannot be read."""
    # since PyTorch 2.9
    precision = getattr(getattr(backend, kind, None) if kind else backend, "fp32_precision", None)
    return precision == "tf32" if precision is not None else getattr(backend, "allow_tf32", None)


def _resident_mib():
    """Return the process's resident memory in MiB, now and at most. None where the system is not Linux."""
    try:
        with open("/proc/self/status") as status:
            fields = dict(line.split(":", 1) for line in status if line.startswith(("VmRSS", "VmHWM")))
        return [int(fields[name].split()[0]) / 1024 for name in ("VmRSS", "VmHWM")]
    except (OSError, KeyError):
        return [None, None]


def _run_other_sitecustomize():
    """Run the module that Python would have imported in place of this one."""
    own = os.path.dirname(os.path.abspath(__file__))
    spec = _find("sitecustomize", [path for path in sys.path if os.path.abspath(path) != own])
    if spec is not None and spec.loader is not None:
        module = type(sys)(spec.name)
        module.__spec__, module.__file__, module.__loader__ = spec, spec.origin, spec.loader
        sys.modules["ammeter_observer"], sys.modules[spec.name] = sys.modules[spec.name], module
        spec.loader.exec_module(module)


if os.path.isdir(_FOLDER):
    sys.meta_path.insert(0, _TorchFinder())
# Python reports its errors as it would without this file
_run_other_sitecustomize()
