"""A small MCP server over standard input and output that misbehaves on request.

    python3 server.py REVISION [HABIT...]

REVISION is 2025-11-25 or 2026-07-28. A habit is one way of misbehaving; see `habit(` below. STARTS, where it is set, names a file that
gets one line for each start. LIST, where it is set, names a JSON file that has the tools in place of the usual ones; it is read at each
listing, and a call of `relist` says that it changed. With the habit `watches` every change of the file is told by itself.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time

REVISION, HABITS = sys.argv[1], sys.argv[2:]
SCHEMA = {"type": "object", "properties": {"value": {"type": "integer"}}}
TOOLS = ["crash", "echo", "env", "giant", "grandchild", "hang", "learn", "pid", "probe", "progress"]
subscription = None


def habit(name):
    return name in HABITS


def send(message):
    if habit("garbage"):
        sys.stdout.write("this is no JSON\n\x00\xff{\n[1, 2\n\n")
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def notify(method, params):
    send({"method": method, "params": params})


def text(value):
    return {"content": [{"type": "text", "text": value}]}


def tool(name):
    if name == "probe":
        return {"name": name, "inputSchema": {"type": "object"}}
    return {"name": name, "description": f"Does {name}.", "inputSchema": SCHEMA}


def list_tools(params):
    if habit("endless"):
        page = int(params.get("cursor", 0))
        return {"tools": [tool(f"t{page}")], "nextCursor": str(page + 1)}
    if habit("hostile"):
        return {"tools": [tool("ok"), tool("ok"), tool("bad\x1b[2J"), {**tool("big"), "inputSchema": {"title": "x" * 100_000}}]}
    if "LIST" in os.environ:
        with open(os.environ["LIST"]) as tools:
            return {"tools": json.load(tools)}
    half = len(TOOLS) // 2
    if "cursor" in params:
        return {"tools": [tool(name) for name in TOOLS[half:]]}
    return {"tools": [tool(name) for name in TOOLS[:half]], "nextCursor": "second half"}


def tell_changed():
    params = {"_meta": {"io.modelcontextprotocol/subscriptionId": subscription}} if subscription is not None else {}
    notify("notifications/tools/list_changed", params)


def watch():
    before = None
    while True:
        with open(os.environ["LIST"]) as tools:
            now = tools.read()
        if before not in (None, now):
            tell_changed()
        before = now
        time.sleep(0.02)


def probe(kind, what):
    """What can be reached from here: "yes", or why not."""
    try:
        if kind.startswith("read"):
            with open(what, "rb") as file:
                file.read()
        elif kind.startswith("write"):
            with open(what, "w") as file:
                file.write("written")
        elif kind.startswith("connect"):
            socket.create_connection(("127.0.0.1", what), timeout=5).close()
        elif kind.startswith("variable"):
            return "yes" if what in os.environ else "not set"
        elif kind.startswith("process"):
            os.kill(what, 0)
        return "yes"
    except OSError as error:
        return type(error).__name__


def call(request_id, name, arguments, meta):
    if name == "crash":
        sys.stderr.write("about to crash\n")
        sys.stderr.flush()
        os._exit(3)
    if name == "hang":
        time.sleep(600)
    if name == "progress":
        for step in range(8):
            time.sleep(0.25)
            notify("notifications/progress", {"progressToken": meta["progressToken"], "progress": step})
    if name == "learn":
        TOOLS.append("learnt")
        tell_changed()
    if name == "relist":
        tell_changed()
    if name == "probe":
        return text(json.dumps({key: probe(key, value) for key, value in arguments.items()}))
    if name == "giant":
        return text("x" * arguments["value"])
    if name == "env":
        return text("\n".join(sorted(os.environ)))
    if name == "pid":
        return text(str(os.getpid()))
    if name == "grandchild":
        return text(str(subprocess.Popen(["sleep", "600"]).pid))
    if name == "echo":
        return text(json.dumps(arguments))
    return text("done")


def answer(method, request_id, params):
    global subscription
    modern = REVISION == "2026-07-28"
    capabilities = {"tools": {"listChanged": True}}
    if method == "server/discover" and habit("dies-when-discovered"):
        os._exit(1)
    if method == "server/discover" and modern:
        return {"resultType": "complete", "supportedVersions": [REVISION], "capabilities": capabilities, "ttlMs": 0, "cacheScope": "private"}
    if method == "initialize" and not modern:
        return {"protocolVersion": REVISION, "capabilities": capabilities, "serverInfo": {"name": "scripted", "version": "1"}}
    if method == "subscriptions/listen" and modern:
        subscription = request_id
        meta = {"io.modelcontextprotocol/subscriptionId": request_id}
        notify("notifications/subscriptions/acknowledged", {"_meta": meta, "notifications": params["notifications"]})
        return None
    if method == "tools/list":
        return {"resultType": "complete", "ttlMs": 0, "cacheScope": "private", **list_tools(params)} if modern else list_tools(params)
    if method == "tools/call":
        result = call(request_id, params["name"], params.get("arguments", {}), params.get("_meta", {}))
        return {"resultType": "complete", **result} if modern else result
    raise NotImplementedError(method)


def main():
    if "STARTS" in os.environ:
        with open(os.environ["STARTS"], "a") as starts:
            starts.write(f"{os.getpid()}\n")
    if habit("dies-at-start"):
        sys.exit("no configuration, key " + os.environ.get("KEY", "") + "\x1b[2J")
    if habit("watches"):
        threading.Thread(target=watch, daemon=True).start()
    if habit("stubborn"):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    for line in sys.stdin:
        message = json.loads(line)
        if habit("silent") or "id" not in message or "method" not in message:
            continue
        try:
            result = answer(message["method"], message["id"], message.get("params") or {})
            if result is not None:
                send({"id": message["id"], "result": result})
        except NotImplementedError as unknown:
            send({"id": message["id"], "error": {"code": -32601, "message": f"Method not found: {unknown}"}})
    if habit("stubborn"):
        time.sleep(600)


main()
