"""The official clients through the gateway to a provider: three turns with a tool in each API. Called with the gateway's address and a file
that the tool reads."""

import json
import sys

import anthropic
import openai

address, note = sys.argv[1:]
schema = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
questions = ["What does the note say?", "Read it once more, please.", "And what comes after that?"]


def lookup(arguments):
    with open(arguments["path"]) as file:
        return file.read()


client = openai.OpenAI(base_url=f"{address}/v1", api_key="sk-theirs", max_retries=3)
tools = [{"type": "function", "function": {"name": "lookup", "description": "Reads a file.", "parameters": schema}}]
messages = [{"role": "system", "content": "Answer from the note, in chat."}]
for question in questions:
    messages.append({"role": "user", "content": question})
    while True:
        message = client.chat.completions.create(model="gpt-4.1", messages=messages, tools=tools).choices[0].message
        messages.append(message.model_dump(exclude_none=True))
        if not message.tool_calls:
            break
        for call in message.tool_calls:
            result = lookup(json.loads(call.function.arguments))
            messages.append({"role": "tool", "tool_call_id": call.id, "content": result})

tools = [{"type": "function", "name": "lookup", "description": "Reads a file.", "parameters": schema, "strict": False}]
items = []
for question in questions:
    items.append({"role": "user", "content": question})
    while True:
        response = client.responses.create(model="gpt-5.4", instructions="Answer from the note.", input=items, tools=tools, store=False)
        items += [item.model_dump(exclude_none=True) for item in response.output]
        calls = [item for item in response.output if item.type == "function_call"]
        if not calls:
            break
        for call in calls:
            items.append({"type": "function_call_output", "call_id": call.call_id, "output": lookup(json.loads(call.arguments))})

client = anthropic.Anthropic(base_url=address, api_key="sk-theirs", max_retries=3)
tools = [{"name": "lookup", "description": "Reads a file.", "input_schema": schema}]
system = "Answer from the note. " + "It is about a garden with beds and trees. " * 400
messages = []
for question in questions:
    messages.append({"role": "user", "content": question})
    while True:
        asked = {"model": "claude-sonnet-4-6", "max_tokens": 500, "system": system, "tools": tools, "messages": messages}
        with client.messages.stream(**asked) as stream:
            reply = stream.get_final_message()
        fields = {"type", "text", "id", "name", "input"}
        messages.append({"role": "assistant", "content": [block.model_dump(include=fields, exclude_none=True) for block in reply.content]})
        calls = [block for block in reply.content if block.type == "tool_use"]
        if not calls:
            break
        results = [{"type": "tool_result", "tool_use_id": call.id, "content": lookup(call.input)} for call in calls]
        messages.append({"role": "user", "content": results})
