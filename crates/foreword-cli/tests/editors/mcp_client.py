"""The official Python client of MCP: `mcp_client.py stdio VAULT COMMAND…` or `mcp_client.py http VAULT URL KEY`."""

import asyncio
import json
import os
import sys
import time

import jsonschema
from mcp import Client, MCPError, StdioServerParameters

READERS = ["search_notes", "read_note", "recall", "list_notes", "context_for"]
transport, vault, *rest = sys.argv[1:]


def server():
    if transport == "stdio":
        return StdioServerParameters(command=rest[0], args=rest[1:], env=dict(os.environ))
    from httpx2 import AsyncClient
    from mcp.client.streamable_http import streamable_http_client

    client = AsyncClient(headers={"Authorization": f"Bearer {rest[1]}"}, timeout=30)
    return streamable_http_client(rest[0], http_client=client)


async def call(client, name, **arguments):
    """Calls a tool and checks its answer against its own schema."""
    result = await client.call_tool(name, arguments)
    text = result.content[0].text
    assert not result.is_error, text
    schema = next(tool.output_schema for tool in (await client.list_tools()).tools if tool.name == name)
    jsonschema.validate(result.structured_content, schema)
    assert len(text) <= 64_000
    return text, result.structured_content


async def refused(client, name, **arguments):
    try:
        result = await client.call_tool(name, arguments)
    except MCPError as error:
        return error.message
    assert result.is_error, result
    return result.content[0].text


async def session(mode):
    begun = time.monotonic()
    async with Client(server(), mode=mode) as client:
        print(f"{transport} {mode}: {client.session.protocol_version}, open after {time.monotonic() - begun:.3f} s")
        tools = (await client.list_tools()).tools
        writes = "write_note" in [tool.name for tool in tools]
        assert [tool.name for tool in tools] == READERS + ["write_note"] * writes
        assert all(tool.annotations.read_only_hint == (tool.name != "write_note") for tool in tools)
        again = (await client.list_tools()).tools
        assert [tool.model_dump_json() for tool in tools] == [tool.model_dump_json() for tool in again]

        text, found = await call(client, "search_notes", query="why was the loaf flat", limit=3)
        paths = [hit["path"] for hit in found["results"]]
        assert "Kitchen/Bread.md" in paths and len(paths) <= 3, paths
        assert all(hit["reason"] and 0 <= hit["score"] <= 1 for hit in found["results"])
        bread = next(hit for hit in found["results"] if hit["path"] == "Kitchen/Bread.md")
        assert bread["line"] >= 1 and "loaf" in bread["text"]

        text, note = await call(client, "read_note", path="Kitchen/Bread.md", lines=3)
        assert note["first_line"] == 1 and note["last_line"] == 3 and note["next_line"] == 4, note
        assert note["hash"] and note["links"] and note["backlinks"], note
        text, rest_of_it = await call(client, "read_note", path="Bread", from_line=note["next_line"])
        assert rest_of_it["path"] == "Kitchen/Bread.md" and rest_of_it["first_line"] == 4
        text, section = await call(client, "read_note", path="Bread", heading="When it fails")
        assert section["path"] == "Kitchen/Bread.md" and "flat" in section["text"], section
        assert "Give a from_line" in await refused(client, "read_note", path="Bread", from_line=100_000)

        text, page = await call(client, "list_notes", folder="Kitchen", limit=2)
        names = [note["path"] for note in page["notes"]]
        while page["next_cursor"]:
            text, page = await call(client, "list_notes", folder="Kitchen", limit=2, cursor=page["next_cursor"])
            names += [note["path"] for note in page["notes"]]
        assert names == sorted(set(names)) and len(names) == page["total"] and all(n.startswith("Kitchen/") for n in names)
        text, tagged = await call(client, "list_notes", tag="#kitchen")
        assert tagged["notes"] and all(any(t.startswith("kitchen") for t in n["tags"]) for n in tagged["notes"])
        text, new = await call(client, "list_notes", changed_since="36500d")
        assert new["total"] == (await call(client, "list_notes"))[1]["total"]

        for limit in (50, 400, 2000):
            text, context = await call(client, "context_for", question="Why was the loaf flat? [[Bread]]", max_tokens=limit)
            assert context["tokens"] <= limit, context
        assert context["sources"][0] == {"path": "Kitchen/Bread.md", "heading": "", "number": None}

        text, past = await call(client, "recall", query="flat loaf")
        assert past["messages"], "the session before is not found"
        text, whole = await call(client, "recall", id=past["messages"][0]["id"])
        assert "loaf" in whole["messages"][0]["text"]

        # Nothing outside of the vault.
        secret = os.path.join(os.path.dirname(vault), "secret.md")
        for path in ("../secret.md", secret, f"file://{secret}", "Kitchen/../../secret.md", "note:../secret.md"):
            assert "hunter2" not in await refused(client, "read_note", path=path)
            assert "hunter2" not in await refused(client, "read_note", path=path, raw=True)
            try:
                read = await client.read_resource(f"note:///{path}")
                raise AssertionError(read)
            except MCPError:
                pass
        for wrong in ({}, {"path": 7}, {"path": "Bread", "other": 1}):
            await refused(client, "read_note", **wrong)
        await refused(client, "no_such_tool")

        resources = (await client.list_resources()).resources
        uris = [resource.uri for resource in resources]
        assert "note:///Kitchen/Bread.md" in [str(uri) for uri in uris]
        read = await client.read_resource("note:///Kitchen/Bread.md")
        assert read.contents[0].text == open(os.path.join(vault, "Kitchen/Bread.md"), encoding="utf-8").read()
        templates = [template.uri_template for template in (await client.list_resource_templates()).resource_templates]
        assert templates == ["note:///{+path}", "tag:///{+tag}"]
        from mcp_types import ResourceTemplateReference

        async def complete(uri, name, value):
            reference = ResourceTemplateReference(type="ref/resource", uri=uri)
            return (await client.complete(reference, {"name": name, "value": value})).completion.values

        assert "Kitchen/Bread.md" in await complete(templates[0], "path", "brea")
        assert "kitchen" in await complete(templates[1], "tag", "kit")
        prompts = (await client.list_prompts()).prompts
        assert any(prompt.name.startswith("template/") for prompt in prompts), prompts
        prompt = await client.get_prompt(prompts[-1].name)
        assert prompt.messages[0].content.text

        if writes:
            await writing(client)


async def writing(client):
    path = f"Inbox/written {transport}.md"
    target = os.path.join(vault, path)
    if os.path.exists(target):
        os.remove(target)
    text, made = await call(client, "write_note", path=path, content="one\n")
    assert made["created"] and open(target).read() == "one\n"
    assert "already" in await refused(client, "write_note", path=path, content="two\n")
    text, read = await call(client, "read_note", path=path, raw=True)
    assert read["hash"] == made["hash"]
    text, changed = await call(client, "write_note", path=path, hash=read["hash"], find="one", replace="two")
    assert "-one" in changed["diff"] and "+two" in changed["diff"] and open(target).read() == "two\n"
    # Compare-and-swap: what was read is no longer there.
    assert "changed since" in await refused(client, "write_note", path=path, hash=read["hash"], content="three\n")
    with open(target, "w") as file:
        file.write("by hand\n")
    assert "changed since" in await refused(client, "write_note", path=path, hash=changed["hash"], append="four\n")
    assert open(target).read() == "by hand\n"
    for outside in ("../out.md", "/tmp/out.md", "AGENTS.md", "Foreword/Agents/x/rules/y.md", ".obsidian/x.md"):
        await refused(client, "write_note", path=outside, content="x")
    assert "hash" in await refused(client, "write_note", path=path, append="x")


for mode in ["legacy", "2026-07-28"]:
    asyncio.run(session(mode))
