"""Three turns of an agent of pydantic-ai with a tool."""

import sys

from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIChatModel

agent = Agent(OpenAIChatModel("gpt-4.1"), system_prompt="Answer from the note.")


@agent.tool_plain
def lookup(path: str) -> str:
    """Reads a file."""
    with open(path) as file:
        return file.read()


history = []
for words in ("What does the note say?", "Read it once more, please.", "And what comes after that?"):
    result = agent.run_sync(words, message_history=history)
    history = result.all_messages()
    print(result.output)
sys.exit(0)
