"""Runs onnxruntime on the same weights and texts, for `bench_embed`.

Usage: bench_embed_ort.py FOLDER. Reads a line {"chunks": [...], "query": "..."}, answers {"version": ..., "load_ms": ...}; then answers
each line "chunks THREADS" or "query THREADS" with the milliseconds that took.
Needs onnx, onnxruntime, numpy and tokenizers. The graph is built from the safetensors with onnxruntime's own fused operators
(attention, skip + layer norm, bias + GELU), the fastest form it has for this model in 32-bit floats. Texts are sorted by length; several batch
sizes are tried first, and the best one counts.
"""

import json
import sys
import time

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from tokenizers import Tokenizer

LAYERS, HIDDEN, HEADS = 6, 384, 12


def tensors(path):
    with open(path, "rb") as file:
        length = int.from_bytes(file.read(8), "little")
        table = json.loads(file.read(length))
        data = file.read()
    table.pop("__metadata__", None)
    kinds = {"F32": np.float32, "I64": np.int64}
    return {
        name: np.frombuffer(data[slice(*entry["data_offsets"])], kinds[entry["dtype"]]).reshape(entry["shape"])
        for name, entry in table.items()
    }


def graph(weights):
    """ids [batch, tokens] and mask [batch, tokens] to the hidden state [batch, tokens, HIDDEN]."""
    nodes, constants = [], []

    def constant(name, value):
        constants.append(numpy_helper.from_array(np.ascontiguousarray(value), name))
        return name

    def node(kind, inputs, output, domain="com.microsoft", **attributes):
        nodes.append(helper.make_node(kind, inputs, [output], domain=domain, **attributes))
        return output

    def norm(inputs, output, name):
        scale = constant(output + ".scale", weights[name + ".weight"])
        shift = constant(output + ".shift", weights[name + ".bias"])
        return node("SkipLayerNormalization", [*inputs, scale, shift], output, epsilon=1e-12)

    words = constant("words", weights["embeddings.word_embeddings.weight"])
    positions = weights["embeddings.position_embeddings.weight"] + weights["embeddings.token_type_embeddings.weight"][0]
    state = node("Gather", [words, "ids"], "word", domain="")
    placed = node("Gather", [constant("positions", positions), "places"], "place", domain="")
    state = norm([state, placed], "embedded", "embeddings.LayerNorm")

    for index in range(LAYERS):
        layer = f"encoder.layer.{index}."
        three = [layer + "attention.self." + name for name in ("query", "key", "value")]
        weight = constant(f"qkv{index}", np.concatenate([weights[name + ".weight"].T for name in three], axis=1))
        bias = constant(f"qkv_bias{index}", np.concatenate([weights[name + ".bias"] for name in three]))
        heads = node("Attention", [state, weight, bias, "mask"], f"heads{index}", num_heads=HEADS)

        def dense(value, output, name):
            weight = constant(output + ".weight", weights[name + ".weight"].T)
            return node("MatMul", [value, weight], output, domain="")

        def shift(output, name):
            return constant(output, weights[name + ".bias"])

        given = dense(heads, f"attention{index}", layer + "attention.output.dense")
        name = layer + "attention.output.LayerNorm"
        scale, move = constant(f"a{index}", weights[name + ".weight"]), constant(f"b{index}", weights[name + ".bias"])
        added = shift(f"c{index}", layer + "attention.output.dense")
        state = node("SkipLayerNormalization", [given, state, scale, move, added], f"attended{index}", epsilon=1e-12)

        inner = dense(state, f"inner{index}", layer + "intermediate.dense")
        inner = node("BiasGelu", [inner, shift(f"d{index}", layer + "intermediate.dense")], f"gelu{index}")
        given = dense(inner, f"output{index}", layer + "output.dense")
        name = layer + "output.LayerNorm"
        scale, move = constant(f"e{index}", weights[name + ".weight"]), constant(f"f{index}", weights[name + ".bias"])
        added = shift(f"g{index}", layer + "output.dense")
        final = "state" if index == LAYERS - 1 else f"layer{index}"
        state = node("SkipLayerNormalization", [given, state, scale, move, added], final, epsilon=1e-12)

    inputs = [
        helper.make_tensor_value_info("ids", TensorProto.INT64, ["batch", "tokens"]),
        helper.make_tensor_value_info("places", TensorProto.INT64, ["batch", "tokens"]),
        helper.make_tensor_value_info("mask", TensorProto.INT32, ["batch", "tokens"]),
    ]
    output = helper.make_tensor_value_info("state", TensorProto.FLOAT, ["batch", "tokens", HIDDEN])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    body = helper.make_graph(nodes, "minilm", inputs, [output], constants)
    return helper.make_model(body, opset_imports=opsets, ir_version=8).SerializeToString()


class Model:
    def __init__(self, folder, threads):
        self.tokenizer = Tokenizer.from_file(folder + "/tokenizer.json")
        self.tokenizer.enable_truncation(256)
        self.tokenizer.no_padding()
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        model = graph(tensors(folder + "/model.safetensors"))
        begin = time.perf_counter()
        self.session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        self.load = time.perf_counter() - begin
        self.batch = None

    def embed(self, texts, batch):
        tokens = [encoding.ids for encoding in self.tokenizer.encode_batch(texts)]
        order = sorted(range(len(texts)), key=lambda text: -len(tokens[text]))
        vectors = np.zeros((len(texts), HIDDEN), np.float32)
        for start in range(0, len(order), batch):
            group = order[start : start + batch]
            longest = max(len(tokens[text]) for text in group)
            ids = np.zeros((len(group), longest), np.int64)
            mask = np.zeros((len(group), longest), np.int32)
            for row, text in enumerate(group):
                ids[row, : len(tokens[text])] = tokens[text]
                mask[row, : len(tokens[text])] = 1
            places = np.broadcast_to(np.arange(longest), ids.shape)
            state = self.session.run(None, {"ids": ids, "places": np.ascontiguousarray(places), "mask": mask})[0]
            mean = (state * mask[:, :, None]).sum(axis=1)
            vectors[group] = mean / np.linalg.norm(mean, axis=1, keepdims=True)
        return vectors


def timed(work):
    begin = time.perf_counter()
    work()
    return 1e3 * (time.perf_counter() - begin)


def main():
    task = json.loads(sys.stdin.readline())
    chunks, query = task["chunks"], [task["query"]]
    models = {threads: Model(sys.argv[1], threads) for threads in (1, 2)}
    print(json.dumps({"version": onnxruntime.__version__, "load_ms": 1e3 * models[2].load}), flush=True)
    for line in sys.stdin:
        what, threads = line.split()
        model = models[int(threads)]
        if what == "query":
            took = timed(lambda: model.embed(query, 1))
        else:
            if model.batch is None:
                some = chunks[: len(chunks) // 2]
                model.batch = min((1, 2, 4, 8, 32), key=lambda batch: timed(lambda: model.embed(some, batch)))
            took = timed(lambda: model.embed(chunks, model.batch))
        print(took, flush=True)


if __name__ == "__main__":
    main()
