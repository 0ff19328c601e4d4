"""Three turns of an agent of openai-agents with a tool."""

from agents import Agent, Runner, function_tool


@function_tool
def lookup(path: str) -> str:
    """Reads a file."""
    with open(path) as file:
        return file.read()


agent = Agent(name="reader", instructions="Answer from the note.", tools=[lookup], model="gpt-4.1")
history = []
for words in ("What does the note say?", "Read it once more, please.", "And what comes after that?"):
    result = Runner.run_sync(agent, history + [{"role": "user", "content": words}])
    history = result.to_input_list()
    print(result.final_output)
