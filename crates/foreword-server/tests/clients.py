"""The official clients against a gateway: what they send is what they always send. Called with the gateway's address."""

import sys

import anthropic
import openai

address = sys.argv[1]
tool = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}


def same(found, expected, what):
    if found != expected:
        sys.exit(f"{what}: expected {expected!r}, found {found!r}")


client = openai.OpenAI(base_url=f"{address}/v1", api_key="none", max_retries=0)
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

# A tool that the client runs.
tools = [{"type": "function", "function": {"name": "read", "description": "Reads a file.", "parameters": tool}}]
messages = [{"role": "user", "content": "What does it say?"}]
ends = []
for _ in range(4):
    choice = client.chat.completions.create(model="foreword", messages=messages, tools=tools).choices[0]
    ends.append(choice.finish_reason)
    messages.append(choice.message.model_dump(exclude_none=True))
    if choice.message.tool_calls:
        messages += [{"role": "tool", "tool_call_id": call.id, "content": "So."} for call in choice.message.tool_calls]
    else:
        messages.append({"role": "user", "content": "And now?"})
same(ends, ["stop", "stop", "tool_calls", "stop"], "chat tools")

# Responses: whole, as a stream, continued by name.
first = client.responses.create(model="foreword", input="One", instructions="Be brief.")
same(first.output_text, "First answer.", "responses")
with client.responses.stream(model="foreword", input="Two", previous_response_id=first.id) as stream:
    events = list(stream)
    final = stream.get_final_response()
same(final.output_text, "Second answer.", "responses stream")
same(events[0].type, "response.created", "responses stream begins")

# Messages: whole and as a stream.
claude = anthropic.Anthropic(base_url=address, api_key="none", max_retries=0)
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
