"""What the native engine is tried on, the same for instruction sets that are here and for those that are emulated."""

import json
import shutil
import struct
import subprocess
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file

from embedder.engines import library
from embedder.engines import native as kernel
from embedder.engines.build_worker import write_weights
from embedder.model.encoder import load_module
from embedder.model.modules import POOLINGS
from embedder.model.spec import read_spec

KINDS = ["bert", "roberta", "xlm-roberta", "camembert", "mpnet", "distilbert", "modernbert"]
# Sizes that kernels may stumble on: steps of 64 numbers that do not come out, one wide head, a narrow model.
ODD_SIZES = {
    "steps": {"hidden_size": 96, "num_attention_heads": 3, "intermediate_size": 160},
    "wide head": {"hidden_size": 128, "num_attention_heads": 1, "intermediate_size": 64, "num_hidden_layers": 1},
    "narrow": {"hidden_size": 32, "num_attention_heads": 1, "intermediate_size": 32},
}
# A ModernBERT with one wide head, SiLU, an odd width between the products.
ODD_MODERN = {"num_attention_heads": 1, "intermediate_size": 96, "hidden_activation": "silu", "initializer_range": 0.2}
# What may follow the encoder: poolings, Dense modules, and whether vectors are normalised.
MODULES = {
    "poolings": (POOLINGS, (), False),
    "dense": (("cls", "mean"), ((128, 96, "Tanh"), (96, 160, "Identity")), True),
    "few dense": (("mean",), ((64, 32, "Tanh"),), False),
}
# Lowest cosine with the module in fp32. bf16 that is multiplied as such rounds the activations too, twice the error of
# kernels that widen it; and torch draws other random weights on other processors: the worst text seen is 0.9992.
PRECISIONS = {"fp32": 0.999999, "bf16": 0.999, "int8": 0.985}
LONGEST = 64
DRIVER = Path(__file__).parents[1] / "native"
OLDEST = {"x86_64": "-march=x86-64", "aarch64": "-march=armv8-a"}


def with_modules(model, name, folder):
    """Copy a model of 64 with other modules behind its encoder, with random weights."""
    poolings, layers, normalised = MODULES[name]
    copy = Path(shutil.copytree(model, folder / name.replace(" ", "-")))
    (copy / "1_Pooling" / "config.json").write_text(json.dumps({"pooling_mode": poolings}))
    places = [("", "Transformer"), ("1_Pooling", "Pooling")]
    torch.manual_seed(5)
    for i, (inputs, outputs, activation) in enumerate(layers, 2):
        places.append((f"{i}_Dense", "Dense"))
        config = {"in_features": inputs, "out_features": outputs}
        config["activation_function"] = f"torch.nn.modules.activation.{activation}"
        (copy / f"{i}_Dense").mkdir()
        (copy / f"{i}_Dense" / "config.json").write_text(json.dumps(config))
        tensors = {"linear.weight": 0.2 * torch.randn(outputs, inputs), "linear.bias": torch.randn(outputs)}
        save_file(tensors, copy / f"{i}_Dense" / "model.safetensors")
    if normalised:
        places.append(("Normalize", "Normalize"))
    rows = [{"path": path, "type": f"sentence_transformers.models.{kind}"} for path, kind in places]
    (copy / "modules.json").write_text(json.dumps(rows))
    return copy


def make_rows(lengths, seed=3):
    generator = np.random.default_rng(seed)
    return [[int(i) for i in generator.integers(5, 64, length)] for length in lengths]


def reference(model, rows):
    module = load_module(read_spec(model))
    with torch.inference_mode():
        return np.concatenate([module(torch.tensor([row]), torch.ones(1, len(row)).long()).numpy() for row in rows])


def cosines(a, b):
    return (a * b).sum(1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1)


def runs(isa, precision):
    return not (isa == "neon" and precision == "int8")


def compile_driver(target, machine, isas, compiler="g++", flags=()):
    """Compile tests/embedder/native/driver.cpp with the kernels of some instruction sets, given with their flags."""
    sources = library.SOURCES
    common = ["-std=c++17", "-O2", "-pthread", "-fno-math-errno", f"-I{sources}", f"-I{DRIVER}", *flags]
    # The engine's table names every instruction set; those that are not compiled here are the first one again.
    first, *_ = isas
    objects = []
    lines = []
    for isa, its_flags in isas.items():
        objects.append(target.with_name(f"{target.name}-{isa}.o"))
        lines.append([*its_flags.split(), "-c", str(sources / f"isa_{isa}.cpp"), "-o", str(objects[-1])])
    absent = [f"-Dkernels_{isa}=kernels_{first}" for isa in library.ISAS[machine] if isa not in isas]
    files = [str(sources / "engine.cpp"), str(sources / "team.cpp"), str(DRIVER / "driver.cpp")]
    lines.append([OLDEST[machine], '-DPL_SOURCES=""', *absent, *files, *map(str, objects), "-o", str(target)])
    for line in lines:
        subprocess.run([compiler, *common, *line], check=True, capture_output=True, text=True)
    return target


def drive(command, isa, model, precision, rows, folder, *, machine=None, threads=2, repeats=1):
    """Run the driver, and return its process; what it prints is float32 (repeats, texts, outputs)."""
    machine = machine or library.architecture()
    spec = read_spec(model)
    shape = spec.shape
    packed = folder / f"{model.name}-{precision}-{machine}"
    if not packed.exists():
        packed.mkdir(parents=True)
        write_weights(spec, precision, machine, packed)
    places = json.loads((packed / kernel.LAYOUT).read_text())
    offsets = np.cumsum([0, *map(len, rows)])
    job = packed / "job"
    steps = kernel.c_steps(spec)
    job.write_bytes(
        bytes(kernel.c_shape(shape, spec, precision))
        + struct.pack("i", len(steps))
        + bytes(steps)
        + struct.pack("iii", threads, repeats, len(places))
        + np.array(places, np.int64).tobytes()
        + struct.pack("i", len(rows))
        + offsets.astype(np.int32).tobytes()
        + np.array([token for row in rows for token in row], np.int32).tobytes()
    )
    return subprocess.run([*command, isa, str(job), str(packed / kernel.WEIGHTS)], capture_output=True)


def vectors_of(done, rows, hidden, repeats=1):
    assert done.returncode == 0, done.stderr.decode()[-2000:]
    return np.frombuffer(done.stdout, np.float32).reshape(repeats, len(rows), hidden)


def find(*names):
    return next((found for found in map(shutil.which, names) if found), None)
