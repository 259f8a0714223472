"""Sessions that type without a pause, for tests of what a change under traffic costs."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field

import grpc

from tests.component.envoy.harness import Answer, EnvoyStack

TYPISTS = 8


@dataclass
class Traffic:
    """Answers of sessions that type all the time, in order."""

    answers: list[Answer] = field(default_factory=list)

    @property
    def errors(self) -> list[Answer]:
        return [answer for answer in self.answers if answer.code is not grpc.StatusCode.OK]


@contextlib.asynccontextmanager
async def typing(stack: EnvoyStack, sessions: Sequence[str]) -> AsyncIterator[Traffic]:
    """Streams without a pause, from some sessions each, until the block ends."""
    traffic = Traffic()

    async def type_on(own: Sequence[str]) -> None:
        while True:
            for session in own:
                traffic.answers.append(await stack.infer(session))

    async with asyncio.TaskGroup() as typists:
        tasks = [typists.create_task(type_on(sessions[i::TYPISTS])) for i in range(TYPISTS)]
        yield traffic
        for task in tasks:
            task.cancel()
