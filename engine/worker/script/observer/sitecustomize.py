"""Observe how a process trains with PyTorch, and write it as lines of JSON.

Python imports this file when it starts with its folder on `PYTHONPATH`. It imports nothing more until the
process imports torch, and writes nothing until an optimizer steps: then to
`$AMMETER_OBSERVER_FOLDER/<pid>.jsonl`. It runs in the user's Python, from 3.9, with PyTorch from 2.1, and
without Ammeter's packages. It never raises into the script, never waits for a GPU during training, and draws
no random numbers.
"""

import os
import sys

_FOLDER = os.environ.get("AMMETER_OBSERVER_FOLDER", "")
_WATCHED_STEPS = 3


class _TorchFinder:
    """Finds torch as the other finders do, and starts an observer once it is imported."""

    def find_spec(self, name, path=None, target=None):
        spec = _find(name, path) if name == "torch" else None
        if spec is None or spec.loader is None:
            return None
        execute = spec.loader.exec_module

        def execute_and_observe(module):
            execute(module)
            if self in sys.meta_path:
                sys.meta_path.remove(self)
                try:
                    Observer(module).install()
                except Exception as error:  # noqa: BLE001 - the script goes on
                    _print(error)

        spec.loader.exec_module = execute_and_observe
        return spec


def _find(name, path):
    others = (finder for finder in sys.meta_path if not isinstance(finder, _TorchFinder))
    return next(filter(None, (finder.find_spec(name, path) for finder in others)), None)


def _print(error):
    """Print an error that cannot be written to a file."""
    from contextlib import suppress

    with suppress(Exception):
        sys.stderr.write(f"Ammeter cannot observe this process: {type(error).__name__}: {error}\n")


class _Hook:
    """A function that never raises, and does nothing while torch compiles or captures."""

    def __init__(self, function):
        self.function, self.observer = function, function.__self__

    def __call__(self, *arguments):
        observer = self.observer
        if not observer.is_on or observer.is_compiling():
            return
        try:
            if not (observer.cuda.is_initialized() and observer.cuda.is_current_stream_capturing()):
                self.function(*arguments)
        except Exception as error:  # noqa: BLE001 - the script goes on
            observer.give_up(error)

    def __reduce__(self):
        from contextlib import nullcontext

        # what a copied or saved module has instead: it accepts any arguments, and needs no observer
        return getattr, (nullcontext(), "__exit__")


class Observer:
    """Follows the optimizer that steps first: its steps, losses, learning rate and loss scale."""

    def __init__(self, torch):
        import json
        import time
        import weakref

        self.torch, self.cuda, self.tensor, self.json = torch, torch.cuda, torch.Tensor, json
        self.clock, self.sleep, self.ref = time.perf_counter, time.sleep, weakref.ref
        self.is_compiling = getattr(torch.compiler, "is_compiling", None) or torch._utils.is_compiling
        self.resident_at_start = _resident_mib()[0]
        self.handles, self.kept_handles = [], []
        self.start_over()

    def start_over(self):
        """Forget all steps, as in a forked process, which has a file of its own once it steps."""
        self.handles, self.kept_handles = self.handles + self.kept_handles, []
        self.remove_hooks()
        # destroying a CUDA event in a forked process could fail
        self.inherited = dict(vars(self))
        self.is_on, self.has_stepped, self.is_in_step, self.is_alternating = True, False, False, False
        self.file = self.device = self.is_cuda = self.mark = self.scale = None
        self.optimizer = self.module = lambda: None
        self.step = self.samples = self.graphs = self.seconds = self.due = 0
        self.rows, self.losses, self.unscaled, self.layers, self.autocast = [], [], [], {}, {}

    def install(self):
        """Register and wrap what shows steps, losses, loss scales and autocast."""
        import atexit

        from torch.optim.optimizer import register_optimizer_step_post_hook

        torch = self.torch
        register_optimizer_step_post_hook(_Hook(self.on_step))
        # Tensor.backward calls it too
        _wrap(torch.autograd, "backward", before=_Hook(self.on_backward))
        scaler = getattr(torch.amp, "GradScaler", None) or torch.cuda.amp.GradScaler
        _wrap(scaler, "scale", before=_Hook(self.on_scale))
        _wrap(scaler, "step", after=_Hook(self.on_scaler_step))
        _wrap(scaler, "update", after=_Hook(self.on_update))
        # unlike a module's hook, it is also called where torch.compile traces
        _wrap(torch.autocast, "__enter__", after=_Hook(self.on_autocast))
        atexit.register(_Hook(self.finish))
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self.start_over)

    def on_backward(self, roots, *_):
        loss = roots if isinstance(roots, self.tensor) else next(iter(roots), None)
        # a scaled loss as it was before
        loss = self.unscaled.pop(0) if self.unscaled else loss
        if loss is None or loss.numel() != 1:
            return
        self.start_clock(loss)
        self.losses.append(self.read_later(loss))

    def on_scale(self, scaler, loss, *_):
        self.is_in_step = False
        if scaler.is_enabled() and isinstance(loss, self.tensor) and loss.numel() == 1:
            self.unscaled.append(loss.detach())

    def on_scaler_step(self, scaler, optimizer, *_):
        if not scaler.is_enabled():
            return
        if self.scale is None:
            self.scale = self.read_later(scaler._scale)
        if self.optimizer() is None:
            self.optimizer = self.ref(optimizer)
        # the scaler skipped the step, so that the optimizer was not called
        if self.optimizer() is optimizer and not self.is_in_step:
            self.end_step(is_skipped=True)

    def on_update(self, scaler, *_):
        if scaler.is_enabled() and self.rows:
            self.rows[-1]["scale"] = self.read_later(scaler._scale)

    def on_step(self, optimizer, *_):
        if not self.has_stepped or self.optimizer() is None:
            self.optimizer, self.has_stepped = self.ref(optimizer), True
        if optimizer is self.optimizer():
            self.is_in_step = True
            self.end_step()
        elif self.losses:
            # it has losses of its own, as the second optimizer of a GAN
            self.is_alternating, self.losses, self.samples = True, [], 0

    def end_step(self, is_skipped=False):
        groups = self.optimizer().param_groups
        self.step += 1
        if self.device is None:
            self.start_clock(next(each for group in groups for each in group["params"]))
        dynamo = sys.modules.get("torch._dynamo.utils")
        graphs = dynamo.counters["stats"]["unique_graphs"] if dynamo else 0
        row = {"step": self.step, "mark": self.mark_now(), "loss": self.losses, "samples": self.samples}
        row["learning_rate"] = self.read_later(groups[0].get("lr", float("nan")))
        row["skipped"], row["compiled"] = is_skipped, graphs > self.graphs
        self.rows.append(row)
        self.losses, self.unscaled, self.samples, self.graphs = [], [], 0, graphs
        if self.step == 1:
            self.add_hooks()
        elif self.step == _WATCHED_STEPS:
            self.remove_hooks()
            self.write(self.begin_line())
        if self.file is not None and self.clock() >= self.due:
            self.write_rows()
            self.due = self.clock() + 0.2

    def add_hooks(self):
        """Add hooks to all modules, to find the one that gets the batches and the dtypes of the layers.

        torch's global hooks would do, but torch.compile compiles again when they are removed.
        """
        import gc

        nn, script = self.torch.nn, self.torch.jit.ScriptModule
        modules = [each for each in gc.get_objects() if issubclass(type(each), nn.Module)]
        modules = [each for each in modules if "_modules" in vars(each) and not isinstance(each, script)]
        # a hook in a compiled module is not called, and could make it compile again
        roots = [each for each in modules if getattr(each, "_compiled_call_impl", None) is not None]
        roots += [each._modules["_orig_mod"] for each in modules if "_orig_mod" in each._modules]
        compiled = {id(each) for root in roots for each in root.modules()}
        trained = {id(each) for group in self.optimizer().param_groups for each in group["params"]}
        for module in modules:
            if id(module) in compiled:
                continue
            if any(id(each) in trained for each in module.parameters()):
                self.handles.append(module.register_forward_pre_hook(_Hook(self.on_first_call)))
            weight = None if module._modules else module._parameters.get("weight")
            is_other = weight is None or isinstance(module, (nn.Embedding, nn.EmbeddingBag, nn.LayerNorm))
            if isinstance(module, nn.RNNBase) or not (is_other or weight.dim() < 2):
                self.handles.append(module.register_forward_hook(_Hook(self.on_layer)))

    def remove_hooks(self):
        while self.handles:
            self.handles.pop().remove()

    def on_first_call(self, module, *_):
        if self.module() is None and module.training and self.torch.is_grad_enabled():
            self.module = self.ref(module)
            # it is also called at the end of this call
            self.kept_handles.append(module.register_forward_hook(_Hook(self.on_forward), with_kwargs=True))

    def on_forward(self, module, args, kwargs, *_):
        is_training = module.training and self.torch.is_grad_enabled() and self.module() is module
        # the calls for a second optimizer are not of more samples
        if is_training and not (self.is_alternating and self.samples):
            self.samples += self.batch_size(args) or self.batch_size(kwargs)

    def on_layer(self, module, args, output, *_):
        output = output[0] if isinstance(output, tuple) else output
        if self.torch.is_grad_enabled() and isinstance(output, self.tensor) and output.dim():
            # each weight is used at every place of the output
            held = [each for each in module._parameters.values() if each is not None and each.dim() > 1]
            channels = output.shape[1 if hasattr(module, "kernel_size") and output.dim() > 2 else -1]
            work = output.numel() // (channels or 1) * sum(each.numel() for each in held)
            self.layers[_name(output.dtype)] = self.layers.get(_name(output.dtype), 0) + work

    def on_autocast(self, context, *_):
        if self.step < _WATCHED_STEPS and context._enabled and self.torch.is_grad_enabled():
            self.autocast[context.device] = _name(context.fast_dtype)

    def batch_size(self, value, depth=0):
        """Return the first dimension of the first tensor in a value that has one, else 0."""
        if isinstance(value, self.tensor):
            return value.size(0) if value.dim() else 0
        if not isinstance(value, (list, tuple)):
            value = vars(value) if hasattr(value, "__dataclass_fields__") else value
            value = tuple(value.values()) if hasattr(value, "keys") and hasattr(value, "values") else ()
        for each in value if depth < 5 else ():
            if size := self.batch_size(each, depth + 1):
                return size
        return 0

    def start_clock(self, tensor):
        if self.device is None:
            self.device, self.is_cuda = tensor.device, tensor.is_cuda
            self.mark = self.mark_now()

    def mark_now(self):
        """Return a point of the device's time: an event of CUDA, or the host's seconds."""
        if not self.is_cuda:
            return self.clock()
        event = self.cuda.Event(enable_timing=True)
        event.record(self.cuda.current_stream(self.device))
        return event

    def read_later(self, value):
        """Return a number, or a tensor that has it once the device has come to it."""
        if not isinstance(value, self.tensor):
            return value
        value = value.to_local() if hasattr(value, "to_local") else value
        if value.is_cpu:
            return value.item()
        value = value.detach()
        return value.to("cpu", non_blocking=True) if value.is_cuda else value.clone()

    def write_rows(self, is_last=False):
        """Write the steps that the device has finished, but the last, whose loss scale is yet to come."""
        count = len(self.rows) if is_last else 0
        while count + 1 < len(self.rows) and _is_passed(self.rows[count + 1]["mark"]):
            count += 1
        if count:
            rows, self.rows = self.rows[:count], self.rows[count:]
            self.write({**self.steps_line(rows), **self.memory()})

    def steps_line(self, rows):
        for row in rows:
            before, self.mark = self.mark, row["mark"]
            is_host = isinstance(before, float)
            self.seconds += self.mark - before if is_host else before.elapsed_time(self.mark) / 1e3
            losses = [float(loss) for loss in row["loss"]] or [float("nan")]
            row.update(seconds=round(self.seconds, 7), loss=self.number(sum(losses) / len(losses)))
            row["learning_rate"] = self.number(row["learning_rate"])
            if self.scale is not None:
                row["scale"] = float(row.get("scale", self.scale))
                row["skipped"] |= row["scale"] < float(self.scale)
                self.scale = row["scale"]
        names = ["step", "seconds", "loss", "samples", "learning_rate"] + ["scale"] * (self.scale is not None)
        line = {"kind": "steps", "scale": None, **{name: [row[name] for row in rows] for name in names}}
        for name in ("skipped", "compiled"):
            line[name] = [row["step"] for row in rows if row[name]]
        return line if self.kept_handles else {**line, "samples": None}

    def number(self, value):
        """Return a float as JSON can hold it: "NaN", "Infinity" and "-Infinity" are strings."""
        value = float(value)
        return value if value - value == 0 else self.json.dumps(value)

    def memory(self):
        """Return the MiB in use: those of the allocator with CUDA, those of the process elsewhere."""
        stats = self.cuda.memory_stats(self.device) if self.is_cuda else {}
        start = None if stats else self.resident_at_start
        found = {}
        for pool in ("allocated", "reserved"):
            for name, when in ((f"{pool}_mib", "current"), (f"peak_{pool}_mib", "peak")):
                found[name] = stats[f"{pool}_bytes.all.{when}"] / 2**20 if stats else None
        for name, now in zip(("resident_mib", "peak_resident_mib"), _resident_mib()):
            found[name] = None if start is None else max(0.0, now - start)
        return found

    def begin_line(self):
        """Return what the first steps showed of the process and its training."""
        torch, device, rows, optimizer = self.torch, self.device, self.rows, self.optimizer()
        # the hooks that count samples are there from the second step on
        rows[0]["samples"] = rows[min(1, len(rows) - 1)]["samples"]
        line = {"kind": "begin", "pid": os.getpid(), "python": ".".join(map(str, sys.version_info[:3]))}
        line.update(torch=str(torch.__version__), cuda=torch.version.cuda, device=str(device))
        ranks = torch.distributed
        if ranks.is_available() and ranks.is_initialized():
            line.update(rank=ranks.get_rank(), world_size=ranks.get_world_size())
        else:
            line.update(rank=int(os.environ.get("RANK", 0)), world_size=int(os.environ.get("WORLD_SIZE", 1)))
        if self.is_cuda:
            found = self.cuda.get_device_properties(device)
            line.update(device_name=found.name, device_memory_mib=found.total_memory / 2**20)
            # since PyTorch 2.5
            line.update(device_uuid=str(getattr(found, "uuid", "")).removeprefix("GPU-"))
            line["tf32_matmuls"] = _is_tf32(torch.backends.cuda.matmul)
            line["tf32_convolutions"] = _is_tf32(getattr(torch.backends.cudnn, "conv", torch.backends.cudnn))
        module, counts = self.module(), {}
        trained = [each for group in optimizer.param_groups for each in group["params"]] if optimizer else []
        for each in trained if module is None else module.parameters():
            counts[_name(each.dtype)] = counts.get(_name(each.dtype), 0) + each.numel()
        line.update(optimizer=type(optimizer).__name__ if optimizer else "", parameters=counts)
        all_work = sum(self.layers.values()) or 1
        line.update(layers={name: work / all_work for name, work in self.layers.items()})
        line.update(autocast=self.autocast.get(device.type), has_scaler=self.scale is not None)
        return {**line, "batch_size": rows[-1]["samples"] or None, "is_compiled": self.graphs > 0}

    def write(self, line):
        """Append a line by one write. The file is opened by the first."""
        if self.file is None:
            path = os.path.join(_FOLDER, f"{os.getpid()}.jsonl")
            self.file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            if processes := sys.modules.get("multiprocessing.util"):
                # a forked process of multiprocessing ends without atexit
                processes.Finalize(None, _Hook(self.finish), exitpriority=0)
        os.write(self.file, self.json.dumps(line).encode() + b"\n")

    def finish(self):
        """Write all that is left, at the end of the process."""
        if self.rows or self.file is not None:
            last, until = self.mark_now(), self.clock() + 2.0
            while not _is_passed(last) and self.clock() < until:
                self.sleep(0.001)
            if self.file is None:
                self.write(self.begin_line())
            self.write_rows(is_last=_is_passed(last))
            self.write({"kind": "end", "steps": self.step, "is_compiled": self.graphs > 0})
        self.is_on = False

    def give_up(self, error):
        """End the observation because of an error of its own."""
        self.is_on = False
        try:
            self.remove_hooks()
            message = " ".join(f"{type(error).__name__}: {error}".split())[:500]
            self.write({"kind": "problem", "message": message})
        except Exception:  # noqa: BLE001 - as above
            _print(error)


def _wrap(owner, name, before=lambda *_: None, after=lambda *_: None):
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


def _is_passed(mark):
    return isinstance(mark, float) or mark.query()


def _name(dtype):
    return str(dtype).rpartition(".")[2]


def _is_tf32(backend):
    """Return whether float32 is computed in TF32, by the setting since PyTorch 2.9 or the one before."""
    precision = getattr(backend, "fp32_precision", None)
    return backend.allow_tf32 if precision is None else precision == "tf32"


def _resident_mib():
    """Return the process's resident memory in MiB, now and at most. None where the system is not Linux."""
    try:
        with open("/proc/self/status") as status:
            text = status.read()
        return [int(text.partition(f"{name}:")[2].split()[0]) / 1024 for name in ("VmRSS", "VmHWM")]
    except (OSError, IndexError):
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
