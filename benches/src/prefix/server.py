"""llama.cpp's own server for `bench_prefix`: says where it listens, then serves until its input ends."""

import sys

import xllamacpp

model, context, threads = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
settings = xllamacpp.CommonParams()
settings.model.path = model
settings.n_ctx = context
settings.n_parallel = 1
settings.cpuparams.n_threads = settings.cpuparams_batch.n_threads = threads
settings.port = 0
server = xllamacpp.Server(settings)
print(server.listening_address, flush=True)
sys.stdin.read()
