"""Claude Code with the server as `foreword setup` configures it, against a provider that asks for one search:
`claude_code.py CLAUDE HOME RECORD LOG`."""

import json
import os
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

claude, home, record, log = sys.argv[1:]
TOOL = "mcp__foreword__search_notes"
seen = []


class Provider(BaseHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def do_GET(self):
        self.send_error(404)

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if not self.path.startswith("/v1/messages") or "count_tokens" in self.path:
            return self.send_error(404)
        tools = [tool["name"] for tool in body.get("tools", [])]
        results = [
            part
            for message in body["messages"]
            if isinstance(message["content"], list)
            for part in message["content"]
            if part.get("type") == "tool_result"
        ]
        if TOOL in tools:
            seen.append((tools, results))
        if TOOL in tools and not results:
            block = {"type": "tool_use", "id": "toolu_1", "name": TOOL, "input": {}}
            part = {"type": "input_json_delta", "partial_json": json.dumps({"query": "why was the loaf flat"})}
            reason = "tool_use"
        else:
            block = {"type": "text", "text": ""}
            part = {"type": "text_delta", "text": "It proved too long."}
            reason = "end_turn"
        usage = {"input_tokens": 10, "output_tokens": 5}
        message = {"id": "msg_1", "type": "message", "role": "assistant", "model": body["model"], "content": [],
                   "stop_reason": None, "stop_sequence": None, "usage": usage}
        events = [
            {"type": "message_start", "message": message},
            {"type": "content_block_start", "index": 0, "content_block": block},
            {"type": "content_block_delta", "index": 0, "delta": part},
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": None}, "usage": usage},
            {"type": "message_stop"},
        ]
        text = "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events).encode()
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("content-length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)


# The messages of the server are recorded on their way.
file = os.path.join(home, ".claude.json")
config = json.load(open(file, encoding="utf-8"))
entry = config["mcpServers"]["foreword"]
entry["args"] = [record, log, entry["command"], *entry["args"], "--offline"]
entry["command"] = sys.executable
json.dump(config, open(file, "w", encoding="utf-8"))

provider = ThreadingHTTPServer(("127.0.0.1", 0), Provider)
threading.Thread(target=provider.serve_forever, daemon=True).start()
environment = {
    **os.environ,
    "HOME": home,
    "ANTHROPIC_BASE_URL": f"http://127.0.0.1:{provider.server_port}",
    "ANTHROPIC_API_KEY": "dummy",
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "DISABLE_AUTOUPDATER": "1",
}
command = ["node", claude, "-p", "Why was the loaf flat?", "--model", "claude-sonnet-4-6", "--allowedTools", TOOL]
ran = subprocess.run(command, env=environment, cwd=home, capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL)
assert ran.returncode == 0, ran.stdout + ran.stderr
assert "It proved too long." in ran.stdout, ran.stdout
assert seen, "the server's tools were not offered"
tools, results = seen[-1]
assert "mcp__foreword__read_note" in tools and "mcp__foreword__write_note" not in tools, tools
assert results and "Kitchen/Bread.md" in json.dumps(results[-1]), results
print("Claude Code searched the notes")
