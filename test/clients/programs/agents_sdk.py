"""The Agents SDK with its default API: a tool loop, a continued response, a stream and a session."""

import asyncio
import os

from agents import (
    Agent,
    OpenAIConversationsSession,
    OpenAIResponsesModel,
    Runner,
    function_tool,
    set_tracing_disabled,
)
from openai import AsyncOpenAI

set_tracing_disabled(True)
commands = []


@function_tool
def Bash(command: str, description: str) -> str:
    """Run a command"""
    commands.append(command)
    return "done"


async def main() -> None:
    client = AsyncOpenAI()
    # A plain name with a slash is taken for a provider of the SDK: give the model itself, or use an alias.
    model = OpenAIResponsesModel(model=os.environ["MODEL"], openai_client=client)
    agent = Agent(name="Editor", model=model, instructions="Edit files.", tools=[Bash])
    first = await Runner.run(agent, "Change hello.txt")
    assert "edited" in first.final_output and len(commands) == 1
    assert (await Runner.run(agent, "Thanks!", previous_response_id=first.last_response_id)).final_output
    streamed = Runner.run_streamed(agent, "Change hello.txt")
    events = [event async for event in streamed.stream_events()]
    assert len(events) > 10 and "edited" in streamed.final_output
    session = OpenAIConversationsSession(openai_client=client)
    await Runner.run(agent, "Change hello.txt", session=session)
    await Runner.run(agent, "Thanks!", session=session)
    items = await session.get_items()
    assert len(items) >= 5, items
    print(f"a tool loop, a continued response, a stream of {len(events)} events and a session of {len(items)} items")


asyncio.run(main())
