"""Runs a program between a client and itself, and writes each line of both directions to a file."""

import json
import subprocess
import sys
import threading

log, command = open(sys.argv[1], "a", encoding="utf-8"), sys.argv[2:]
lock = threading.Lock()
program = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def write(side, line):
    with lock:
        log.write(json.dumps({"from": side, "line": line.decode("utf-8")}) + "\n")
        log.flush()


def to_program():
    for line in sys.stdin.buffer:
        write("client", line)
        try:
            program.stdin.write(line)
            program.stdin.flush()
        except BrokenPipeError:
            break
    program.stdin.close()


threading.Thread(target=to_program, daemon=True).start()
for line in program.stdout:
    write("server", line)
    sys.stdout.buffer.write(line)
    sys.stdout.buffer.flush()
sys.exit(program.wait())
