"""The request's way: one coroutine, one line per stage.

Decisions are pure and live in their own modules; this one only carries them out. The permit and the
record are `with` blocks, so nothing leaks when a stage raises or the client goes away, and nothing
is awaited between deciding to admit and holding the permit.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from orchestrator import policy, routing
from orchestrator.admission import Permits, Refuse
from orchestrator.affinity.epochs import Epochs
from orchestrator.clock import Clock
from orchestrator.deadline import DeadlineLimits
from orchestrator.generation.healing import generate_healed
from orchestrator.generation.inference import InferenceClient, InferenceRequest, StopRule
from orchestrator.generation.stopping import BlockRule
from orchestrator.outcome import Outcome
from orchestrator.pools import Pools
from orchestrator.postprocess import Chain, Context
from orchestrator.prompt.engine import PromptEngine
from orchestrator.prompt.parts import FimPrompt, PromptParts
from orchestrator.record.recorder import Answer, Recorder, Recording
from orchestrator.request import CompletionRequest, Mode
from orchestrator.session import SessionHasher


class Pipeline:
    """Everything that serves requests, handed in ready-made."""

    def __init__(
        self,
        *,
        clock: Clock,
        policy_of: Callable[[str], policy.PolicyDocument],
        pools: Pools,
        development_tenant: str,
        deadlines: DeadlineLimits,
        permits: Permits,
        hasher: SessionHasher,
        epochs: Epochs,
        client: InferenceClient,
        chain: Chain,
        recorder: Recorder,
    ) -> None:
        self._clock = clock
        self._policy_of = policy_of
        self._pools = pools
        self._development_tenant = development_tenant
        self._deadlines = deadlines
        self._permits = permits
        self._hasher = hasher
        self._epochs = epochs
        self._client = client
        self._chain = chain
        self._recorder = recorder

    async def complete(self, request: CompletionRequest) -> Answer:
        """Serves one request. Raises nothing but CancelledError; every other end is an answer."""
        with self._recorder.open(request) as recording:
            allowed = policy.decide(request, self._policy_of(request.principal.tenant))
            recording.decided(allowed)
            if isinstance(allowed, policy.Deny):
                return recording.ended(allowed.outcome, allowed.reason)
            route = self._route(request, allowed)
            recording.routed(route)
            if isinstance(route, routing.NoRoute):
                return recording.ended(Outcome.REFUSED, route.reason)
            now_ms = self._clock.now_ms()
            with self._permits.enter(route.pool.name, route.deadline, now_ms) as admission:
                recording.lap("admission")
                if isinstance(admission, Refuse):
                    return recording.ended(Outcome.REFUSED, admission.reason)
                engine = self._pools.engine(route.pool.name)
                salt = self._salt(request, allowed, recording)
                parts = PromptParts.of(request)
                prompt = engine.compose(parts, salt)
                compared = engine.compare(recording.session_key, request.region_id, prompt)
                recording.composed(prompt, engine.recipe.name, compared)
                recording.lap("prompt")
                generated = await generate_healed(
                    self._client,
                    engine,
                    prompt,
                    unhealed=partial(engine.compose, parts, salt, heal=False),
                    sequence=partial(self._sequence, route, engine, salt, recording),
                    block=partial(_block_rule, request, route, recording),
                )
                recording.generated(generated)
                recording.lap("generation")
            context = Context(request.document, route.mode, recording.language)
            verdict = self._chain.run(generated.text, context)
            recording.lap("postprocess")
            return recording.judged(verdict, route.deadline)
        return recording.answer()

    def _route(self, request: CompletionRequest, allowed: policy.Allow) -> routing.RoutingDecision:
        return routing.decide(
            request, allowed.mode, self._pools.ready, self._development_tenant, self._deadlines
        )

    def _salt(
        self, request: CompletionRequest, allowed: policy.Allow, recording: Recording
    ) -> bytes:
        partition = self._hasher.cache_partition(
            request.principal, allowed.policy.cache_scope, recording.session_key
        )
        epoch = self._epochs.use(partition, self._clock.now_ms(), self._clock.epoch_ms())
        return self._hasher.cache_salt(partition, epoch)

    def _sequence(
        self,
        route: routing.Route,
        engine: PromptEngine,
        salt: bytes,
        recording: Recording,
        prompt: FimPrompt,
    ) -> InferenceRequest:
        is_line = route.mode is Mode.LINE
        return InferenceRequest(
            pool=route.pool.name,
            session_key=recording.session_key,
            token_ids=prompt.token_ids,
            cache_salt=salt,
            max_tokens=min(route.max_tokens, engine.room_for_answer(prompt)),
            stop_rule=StopRule.NEWLINE if is_line else StopRule.NONE,
            streaming=not is_line,
            remaining_ms=int(route.deadline.remaining_ms(self._clock.now_ms())),
        )


def _block_rule(
    request: CompletionRequest, route: routing.Route, recording: Recording
) -> BlockRule | None:
    if route.mode is Mode.LINE:
        return None
    line_before = request.document.prefix.rpartition("\n")[2]
    return BlockRule(line_before, recording.language)
