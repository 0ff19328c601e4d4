"""Checks recorded messages against the schema of their protocol: `check_messages.py mcp LOG` or `check_messages.py acp LOG SCHEMA`."""

import json
import sys


def messages(path):
    """Each message with the side that sent it."""
    for record in map(json.loads, open(path, encoding="utf-8")):
        message = json.loads(record["line"])
        assert message["jsonrpc"] == "2.0", message
        yield record["from"], message


def check_mcp(path):
    from mcp_types import methods

    version, asked, checked = "2025-11-25", {}, 0
    for side, message in messages(path):
        if "method" in message:
            params = message.get("params")
            meta = (params or {}).get("_meta") or {}
            version = meta.get("io.modelcontextprotocol/protocolVersion", version)
            if "id" in message:
                asked[(side, json.dumps(message["id"]))] = (message["method"], version)
            if side == "server" and "id" not in message:
                methods.parse_server_notification(message["method"], version, params)
                checked += 1
            continue
        if "error" in message:
            assert isinstance(message["error"]["code"], int) and message["error"]["message"], message
            continue
        other = "client" if side == "server" else "server"
        method, at = asked.pop((other, json.dumps(message["id"])))
        if side == "server":
            if method == "initialize":
                version = at = message["result"]["protocolVersion"]
            methods.validate_server_result(method, at, message["result"])
            checked += 1
    return checked


def check_acp(path, schema):
    import jsonschema

    whole = json.load(open(schema, encoding="utf-8"))
    kinds = {}
    for name, definition in whole["$defs"].items():
        if "x-method" in definition:
            kind = "response" if name.endswith("Response") else "request"
            kinds[(definition["x-method"], kind)] = name

    def check(method, kind, value):
        name = kinds[(method, kind)]
        validator = jsonschema.Draft202012Validator({"$ref": f"#/$defs/{name}", "$defs": whole["$defs"]})
        errors = [f"{name}: {list(error.absolute_path)}: {error.message}" for error in validator.iter_errors(value)]
        assert not errors, f"{errors}\n{json.dumps(value)}"

    asked, checked = {}, 0
    for side, message in messages(path):
        if "method" in message:
            if "id" in message:
                asked[(side, json.dumps(message["id"]))] = message["method"]
            if side == "server":
                check(message["method"], "request", message["params"])
                checked += 1
            continue
        other = "client" if side == "server" else "server"
        method = asked.pop((other, json.dumps(message["id"])))
        if "error" in message:
            assert isinstance(message["error"]["code"], int) and message["error"]["message"], message
        elif side == "server":
            check(method, "response", message["result"])
            checked += 1
    return checked


protocol, log = sys.argv[1:3]
checked = check_mcp(log) if protocol == "mcp" else check_acp(log, sys.argv[3])
assert checked > 0, "nothing was recorded"
print(f"{checked} messages of the server are as the schema says")
