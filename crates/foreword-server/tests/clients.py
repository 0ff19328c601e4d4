"""The official clients against a gateway: what they send is what they always send. Called with the gateway's address and a key for it."""

import sys

import anthropic
import openai

address, key = sys.argv[1:]
tool = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}


def same(found, expected, what):
    if found != expected:
        sys.exit(f"{what}: expected {expected!r}, found {found!r}")


client = openai.OpenAI(base_url=f"{address}/v1", api_key=key, max_retries=0)
same(any(model.id == "smollm2-135m-instruct" for model in client.models.list()), True, "models")

# Chat Completions: whole, then as a stream with what was used.
messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "One"}]
raw = client.chat.completions.with_raw_response.create(model="foreword", messages=messages)
session = raw.headers["x-foreword-session"]
reply = raw.parse()
same(reply.choices[0].message.content, "First answer.", "chat")
same(reply.usage.total_tokens > 0, True, "chat usage")
messages += [{"role": "assistant", "content": reply.choices[0].message.content}, {"role": "user", "content": "Two"}]
with client.chat.completions.with_streaming_response.create(
    model="foreword", messages=messages, stream=True, stream_options={"include_usage": True}
) as response:
    same(response.headers["x-foreword-session"], session, "chat session")
    chunks = list(response.parse())
same("".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices), "Second answer.", "chat stream")
same(chunks[-1].usage.completion_tokens > 0, True, "chat stream usage")

# A tool that the client runs, whole and as a stream: its calls come in pieces that belong together by their index.
tools = [{"type": "function", "function": {"name": "read", "description": "Reads a file.", "parameters": tool}}]


def chat(messages, stream):
    asked = {"model": "foreword", "messages": messages, "tools": tools}
    if not stream:
        choice = client.chat.completions.create(**asked).choices[0]
        return choice.finish_reason, choice.message.model_dump(exclude_none=True)
    said, calls, ends = "", {}, []
    for chunk in client.chat.completions.create(stream=True, **asked):
        for choice in chunk.choices:
            said += choice.delta.content or ""
            ends += [choice.finish_reason] if choice.finish_reason else []
            for piece in choice.delta.tool_calls or []:
                call = calls.setdefault(piece.index, {"id": "", "type": "function", "function": {"name": "", "arguments": ""}})
                call["id"] += piece.id or ""
                call["function"]["name"] += piece.function.name or ""
                call["function"]["arguments"] += piece.function.arguments or ""
    same(len(ends), 1, "chat stream ends once")
    message = {"role": "assistant", "content": said}
    return ends[0], message | ({"tool_calls": list(calls.values())} if calls else {})


for stream in (False, True):
    messages = [{"role": "user", "content": f"What does it say? ({stream})"}]
    ends = []
    for _ in range(4):
        end, message = chat(messages, stream)
        ends.append(end)
        messages.append(message)
        if "tool_calls" in message:
            same([call["function"] for call in message["tool_calls"]], [{"name": "read", "arguments": '{"path":"a"}'}], "chat call")
            messages += [{"role": "tool", "tool_call_id": call["id"], "content": "So."} for call in message["tool_calls"]]
        else:
            messages.append({"role": "user", "content": "And now?"})
    same(ends, ["stop", "stop", "tool_calls", "stop"], f"chat tools, stream {stream}")
    same(messages[-2]["content"], "It says so.", f"chat tool result, stream {stream}")

# Responses: whole, as a stream, continued by name.
first = client.responses.create(model="foreword", input="One", instructions="Be brief.")
same(first.output_text, "First answer.", "responses")
with client.responses.stream(model="foreword", input="Two", previous_response_id=first.id) as stream:
    events = list(stream)
    final = stream.get_final_response()
same(final.output_text, "Second answer.", "responses stream")
same(events[0].type, "response.created", "responses stream begins")

# Responses: a tool that the client runs, whole and as a stream.
function = {"type": "function", "name": "read", "description": "Reads a file.", "parameters": tool, "strict": False}


def respond(stream, **asked):
    asked |= {"model": "foreword", "tools": [function]}
    if not stream:
        return client.responses.create(**asked)
    pieces, whole, final = {}, {}, None
    for event in client.responses.create(stream=True, **asked):
        if event.type == "response.function_call_arguments.delta":
            pieces[event.item_id] = pieces.get(event.item_id, "") + event.delta
        elif event.type == "response.function_call_arguments.done":
            whole[event.item_id] = event.arguments
        elif event.type == "response.completed":
            final = event.response
    same(pieces, whole, "responses stream arguments")
    same(list(whole.values()), [item.arguments for item in final.output if item.type == "function_call"], "responses stream call")
    return final


for stream in (False, True):
    asked, kinds = {"input": f"Look. ({stream})"}, []
    for _ in range(4):
        reply = respond(stream, **asked)
        kinds.append([item.type for item in reply.output])
        calls = [item for item in reply.output if item.type == "function_call"]
        same([(call.name, call.arguments) for call in calls], [("read", '{"path":"a"}')][: len(calls)], "responses call")
        results = [{"type": "function_call_output", "call_id": call.call_id, "output": "So."} for call in calls]
        asked = {"input": results or "And now?", "previous_response_id": reply.id}
    same(kinds, [["message"], ["message"], ["message", "function_call"], ["message"]], f"responses tools, stream {stream}")
    same(reply.output_text, "It says so.", f"responses tool result, stream {stream}")

# Messages: whole and as a stream.
claude = anthropic.Anthropic(base_url=address, api_key=key, max_retries=0)
messages = [{"role": "user", "content": "One"}]
reply = claude.messages.create(model="foreword", max_tokens=100, system="Be kind.", messages=messages)
same(reply.content[0].text, "First answer.", "messages")
same(reply.stop_reason, "end_turn", "messages end")
messages += [{"role": "assistant", "content": reply.content}, {"role": "user", "content": "Two"}]
with claude.messages.stream(model="foreword", max_tokens=100, system="Be kind.", messages=messages) as stream:
    same("".join(stream.text_stream), "Second answer.", "messages stream")
    same(stream.get_final_message().usage.output_tokens > 0, True, "messages stream usage")
messages += [{"role": "assistant", "content": "Second answer."}, {"role": "user", "content": "Look."}]
read = {"name": "read", "description": "Reads a file.", "input_schema": tool}
reply = claude.messages.create(model="foreword", max_tokens=100, system="Be kind.", messages=messages, tools=[read])
same(reply.stop_reason, "tool_use", "messages tool use")
call = next(block for block in reply.content if block.type == "tool_use")
same(call.input, {"path": "a"}, "messages tool input")
result = {"type": "tool_result", "tool_use_id": call.id, "content": "So."}
messages += [{"role": "assistant", "content": reply.content}, {"role": "user", "content": [result]}]
reply = claude.messages.create(model="foreword", max_tokens=100, system="Be kind.", messages=messages, tools=[read])
same(reply.content[0].text, "It says so.", "messages tool result")

# Messages: a tool call that comes in pieces.
messages = [{"role": "user", "content": "One, as a stream"}]
for turn, expected in enumerate(["end_turn", "end_turn", "tool_use", "end_turn"]):
    pieces = ""
    with claude.messages.stream(model="foreword", max_tokens=100, messages=messages, tools=[read]) as stream:
        for event in stream:
            if event.type == "content_block_delta" and event.delta.type == "input_json_delta":
                pieces += event.delta.partial_json
        reply = stream.get_final_message()
    same(reply.stop_reason, expected, f"messages stream {turn}")
    calls = [block for block in reply.content if block.type == "tool_use"]
    same([(call.name, call.input) for call in calls], [("read", {"path": "a"})] if expected == "tool_use" else [], "messages stream call")
    same(pieces, '{"path":"a"}' if calls else "", "messages stream input")
    results = [{"type": "tool_result", "tool_use_id": call.id, "content": "So."} for call in calls]
    messages += [{"role": "assistant", "content": reply.content}, {"role": "user", "content": results or "And now?"}]
same(reply.content[0].text, "It says so.", "messages stream tool result")

# What is refused is an error of the client's own kind.
try:
    client.chat.completions.create(model="no-such-model", messages=[{"role": "user", "content": "x"}])
    sys.exit("an unknown model was taken")
except openai.NotFoundError as error:
    same("no-such-model" in str(error), True, "openai error")
try:
    claude.messages.create(model="foreword", max_tokens=9, messages=[])
    sys.exit("nothing was answered")
except anthropic.BadRequestError:
    pass
print("fine")
