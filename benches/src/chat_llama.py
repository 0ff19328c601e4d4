"""llama.cpp beside `bench_chat`: reads a prompt and writes greedily, as asked line by line, and tells how long each took."""

import json
import sys

import xllamacpp

settings = xllamacpp.CommonParams()
settings.model.path = sys.argv[1]
settings.n_ctx = 8192
settings.n_parallel = 1
settings.cpuparams.n_threads = settings.cpuparams_batch.n_threads = int(sys.argv[2])
server = xllamacpp.Server(settings)
for line in sys.stdin:
    task = json.loads(line)
    # The first token comes with reading the prompt, so one more is written.
    answer = server.handle_completions(
        {
            "prompt": task["prompt"],
            "n_predict": task["write"] + 1,
            "temperature": 0,
            "cache_prompt": False,
            "ignore_eos": True,
        }
    )
    timings = answer["timings"]
    assert timings["prompt_n"] == len(task["prompt"]), timings
    write = timings["predicted_ms"] / (timings["predicted_n"] - 1) * task["write"]
    print(json.dumps({"read": timings["prompt_ms"] / 1000, "write": write / 1000}), flush=True)
