"""Three turns with Anthropic's own package and a tool, streamed."""

import sys

import anthropic

client = anthropic.Anthropic()
tools = [{"name": "lookup", "description": "Reads a file.", "input_schema": {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}}]
system = "Answer from the note. " + "It is about a garden with beds and trees. " * 400
messages = []
for words in ("What does the note say?", "Read it once more, please.", "And what comes after that?"):
    messages.append({"role": "user", "content": words})
    while True:
        with client.messages.stream(model="claude-sonnet-4-6", max_tokens=500, system=system, tools=tools, messages=messages) as stream:
            reply = stream.get_final_message()
        messages.append({"role": "assistant", "content": [block.model_dump(exclude_none=True, include={"type", "text", "id", "name", "input"}) for block in reply.content]})
        calls = [block for block in reply.content if block.type == "tool_use"]
        if not calls:
            break
        messages.append({"role": "user", "content": [{"type": "tool_result", "tool_use_id": call.id, "content": open(call.input["path"]).read()} for call in calls]})
sys.exit(0)
