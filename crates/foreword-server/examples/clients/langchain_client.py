"""Three turns of an agent of LangChain with a tool."""

from langchain.agents import create_agent
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI


@tool
def lookup(path: str) -> str:
    """Reads a file."""
    with open(path) as file:
        return file.read()


agent = create_agent(ChatOpenAI(model="gpt-4.1"), [lookup], system_prompt="Answer from the note.")
messages = []
for words in ("What does the note say?", "Read it once more, please.", "And what comes after that?"):
    messages = agent.invoke({"messages": messages + [{"role": "user", "content": words}]})["messages"]
    print(messages[-1].content)
