"""llama.cpp beside `bench_chat`: reads a prompt and writes greedily, as asked line by line, and tells how long each took."""

import ctypes
import json
import sys
import time

import llama_cpp as llama

llama.llama_backend_init()
quiet = llama.llama_log_callback(lambda *_: None)
llama.llama_log_set(quiet, ctypes.c_void_p(0))
model = llama.llama_model_load_from_file(sys.argv[1].encode(), llama.llama_model_default_params())
settings = llama.llama_context_default_params()
settings.n_ctx = 8192
settings.n_threads = settings.n_threads_batch = int(sys.argv[2])
context = llama.llama_init_from_model(model, settings)


def evaluate(tokens):
    """Evaluates tokens that follow on those before; the most likely next one."""
    for start in range(0, len(tokens), 512):
        part = tokens[start : start + 512]
        part = (llama.llama_token * len(part))(*part)
        assert llama.llama_decode(context, llama.llama_batch_get_one(part, len(part))) == 0
    return llama.llama_sampler_sample(sampler, context, -1)


sampler = llama.llama_sampler_init_greedy()
for line in sys.stdin:
    task = json.loads(line)
    llama.llama_memory_clear(llama.llama_get_memory(context), True)
    start = time.perf_counter()
    token = evaluate(task["prompt"])
    read = time.perf_counter()
    written = [token]
    for _ in range(task["write"]):
        token = evaluate([token])
        written.append(token)
    done = time.perf_counter()
    print(json.dumps({"read": read - start, "write": done - read, "tokens": written[:-1]}), flush=True)
