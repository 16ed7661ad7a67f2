"""Define the compared software that does not run on torch: ONNX Runtime and OpenVINO."""

import contextlib
import logging
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmark.embedding_peers import Batches, Pooled, Setup, Vectors
from embedder import cpu
from embedder.model.spec import read_spec

CALIBRATION_TEXTS = 128  # NNCF's documentation recommends a few hundred at most


class OnnxRuntime:
    """ONNX Runtime with its transformer optimiser, all graph optimisations, and spinning threads on all cores.

    int8 is dynamic quantisation per channel, which ONNX Runtime's documentation advises for transformers.
    """

    name = "ONNX Runtime"

    def __init__(self, setup: Setup, precision: str) -> None:
        self.precision = precision
        self._setup = setup

    def load(self) -> None:
        """Export and optimise the model. For int8, quantise it too."""
        import onnxruntime

        path = _export_onnx(self._setup)
        if self.precision == "int8":
            path = _quantise_onnx(path)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = self._setup.cores
        options.inter_op_num_threads = 1
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
        options.add_session_config_entry("session.intra_op.allow_spinning", "1")
        self._session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        self._batches = Batches(self._setup.folder)

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Embed texts, one batch after another."""
        vectors = np.empty((len(texts), self._batches.dimension), dtype=np.float32)
        for positions, ids, mask in self._batches(texts):
            vectors[positions] = self._session.run(None, {"input_ids": ids, "attention_mask": mask})[0]
        return vectors


class OpenVino:
    """OpenVINO with the hint LATENCY for one text, and the hint THROUGHPUT and an asynchronous queue for several.

    int8 is NNCF's post-training quantisation of weights and activations with its transformer preset. The other
    operations of int8 models run in bf16 if the processor supports it, which is OpenVINO's default.
    """

    name = "OpenVINO"

    def __init__(self, setup: Setup, precision: str) -> None:
        self.precision = precision
        self._setup = setup

    def load(self) -> None:
        """Convert the model, quantise it for int8, and compile it with the hints LATENCY and THROUGHPUT."""
        import openvino
        import openvino.properties as properties
        import openvino.properties.hint as hint

        ids, mask = _example()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = openvino.convert_model(
                Pooled(self._setup.folder, "sdpa"), example_input={"input_ids": ids, "attention_mask": mask}
            )
        self._batches = Batches(self._setup.folder)
        if self.precision == "int8":
            model = self._quantise(model)
        bf16 = self.precision != "fp32" and cpu.detect().has_bf16
        if self.precision == "bf16" and not bf16:
            raise RuntimeError("this processor has no bf16")
        core = openvino.Core()

        def compiled(mode: Any) -> Any:
            options = {
                hint.performance_mode: mode,
                hint.inference_precision: openvino.Type.bf16 if bf16 else openvino.Type.f32,
                properties.inference_num_threads: self._setup.cores,
            }
            return core.compile_model(model, "CPU", options)

        self._request = compiled(hint.PerformanceMode.LATENCY).create_infer_request()
        self._queue = openvino.AsyncInferQueue(compiled(hint.PerformanceMode.THROUGHPUT))

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Embed a single text directly, and several texts through an asynchronous queue."""
        vectors = np.empty((len(texts), self._batches.dimension), dtype=np.float32)
        if len(texts) == 1:
            for _, ids, mask in self._batches(texts):
                inputs = {"input_ids": ids, "attention_mask": mask}
                vectors[:] = self._request.infer(inputs, share_inputs=True, share_outputs=True)[0]
            return vectors

        def keep(request: Any, positions: list[int]) -> None:
            vectors[positions] = request.get_output_tensor(0).data

        self._queue.set_callback(keep)
        for positions, ids, mask in self._batches(texts):
            self._queue.start_async({"input_ids": ids, "attention_mask": mask}, positions)
        self._queue.wait_all()
        return vectors

    def _quantise(self, model: Any) -> Any:
        import nncf

        nncf.set_log_level(logging.ERROR)
        samples = [
            {"input_ids": ids, "attention_mask": mask}
            for text in self._setup.samples[:CALIBRATION_TEXTS]
            for _, ids, mask in self._batches([text])
        ]
        with contextlib.redirect_stdout(sys.stderr):
            return nncf.quantize(
                model, nncf.Dataset(samples), model_type=nncf.ModelType.TRANSFORMER, subset_size=len(samples)
            )


def _export_onnx(setup: Setup) -> Path:
    """Export the model to ONNX, and fuse operators with the transformer optimiser. An existing file is reused."""
    from onnxruntime.transformers.optimizer import optimize_model

    plain, fused = setup.work / "plain.onnx", setup.work / "fused.onnx"
    if fused.exists():
        return fused
    names, config = ["input_ids", "attention_mask"], read_spec(setup.folder).config
    heads, size = config["num_attention_heads"], config["hidden_size"]
    with warnings.catch_warnings(), contextlib.redirect_stdout(sys.stderr):
        warnings.simplefilter("ignore")
        # The optimiser recognises attention only in "eager" models that the older exporter (dynamo=False) has written.
        torch.onnx.export(
            Pooled(setup.folder, "eager"),
            _example(),
            str(plain),
            dynamo=False,
            opset_version=17,
            input_names=names,
            output_names=["vectors"],
            dynamic_axes={name: {0: "batch", 1: "sequence"} for name in names},
        )
        optimised = optimize_model(
            str(plain), model_type="bert", num_heads=heads, hidden_size=size, opt_level=1, use_gpu=False
        )
        optimised.save_model_to_file(str(fused))
    return fused


def _quantise_onnx(path: Path) -> Path:
    """Apply dynamic quantisation per channel to a model, and return the path of the new model."""
    import onnx
    from onnxruntime.quantization import QuantType, quantize_dynamic

    target = path.with_name("quantised.onnx")
    # Shape inference does not support the fused operators, so declare that they return fp32.
    extra = {"DefaultTensorType": onnx.TensorProto.FLOAT}
    quantize_dynamic(str(path), str(target), weight_type=QuantType.QInt8, per_channel=True, extra_options=extra)
    return target


def _example() -> tuple[torch.Tensor, torch.Tensor]:
    """Return example ids and mask for tracing, int64 (2, 8)."""
    ids = torch.arange(1000, 1016).view(2, 8)
    return ids, torch.ones_like(ids)
