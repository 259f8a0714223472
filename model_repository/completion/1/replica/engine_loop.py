"""The loop that owns the engine: accept, drop what is late or cancelled, step, deliver.

Rules: one thread touches the engine and the sequences; it blocks when there is nothing to do; a
caller's cancel is looked for after everything else and before each step, so that at most the step
in flight when it arrives is computed; every sequence gets exactly one last response.

`is_cancelled()` of the Triton backend is a round trip to the server process. Asking from helper
threads while a step runs would hide its cost, but an answer given during one step says nothing
about the time up to the next, which would then be computed in vain; and the round trips do not
overlap each other (docs/triton-contract.md has the figures). So the loop asks in line.
"""

import logging
import threading
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial

from replica.engine_host import EngineHost
from replica.errors import (
    EngineFailedError,
    ReplicaError,
    ReplicaFullError,
    ReplicaUnavailableError,
)
from replica.load_report import LoadReport, Totals
from replica.request import GenerationRequest
from replica.sequence import LiveSequence, Responder
from replica.stop_rule import FinishReason, StopMatcher
from replica.trace import Trace

log = logging.getLogger(__name__)

# A waiting sequence costs no steps, so its cancel may be noticed a few turns later; it is asked
# once more before it is given to the engine.
WAITING_CHECKS_PER_TURN = 4
REBUILD_PAUSE_S = 1.0


@dataclass(frozen=True, slots=True)
class LoopLimits:
    """Most sequences in the engine, and most that wait for a place there."""

    live_sequences_max: int
    waiting_sequences_max: int


class EngineLoop:
    """Runs requests through the host's engine.

    Args:
        host: holds the engine; loaded before `start`.
        limits: how much may be held.
        clock_us: a monotonic clock in microseconds.
        trace: where ended sequences are noted.
    """

    def __init__(
        self, host: EngineHost, limits: LoopLimits, clock_us: Callable[[], int], trace: Trace
    ) -> None:
        self._host = host
        self._limits = limits
        self._clock_us = clock_us
        self._trace = trace
        self._changed = threading.Condition()
        self._is_stopping = False
        self._inbox: deque[LiveSequence] = deque()
        self._waiting: deque[LiveSequence] = deque()
        self._next_waiting_check = 0
        self._live: dict[int, LiveSequence] = {}
        self._accepted = 0
        self._totals = Totals()
        self._thread = threading.Thread(target=self._run, name="engine-loop", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Cancel everything held, end the thread and close the engine."""
        with self._changed:
            self._is_stopping = True
            self._changed.notify()
        self._thread.join()

    def submit(self, request: GenerationRequest, responder: Responder) -> None:
        """Accept a request, from any thread.

        Raises:
            ReplicaFullError: as many sequences wait as may.
            ReplicaUnavailableError: the engine is being rebuilt, or the replica stops.
        """
        with self._changed:
            refusal = self._refusal()
            if refusal is not None:
                self._totals.refused += 1
                raise refusal()
            self._accepted += 1
            sequence = LiveSequence(
                sequence_id=self._accepted,
                request=request,
                responder=responder,
                accepted_us=self._clock_us(),
                matcher=StopMatcher(request.stop),
            )
            self._inbox.append(sequence)
            self._changed.notify()

    def report(self) -> LoadReport:
        """The load now, from any thread; its fields may be one step apart from each other."""
        cache = self._host.cache_report()
        return LoadReport(
            live_sequences=len(self._live),
            waiting_sequences=self._waiting_count(),
            step_us=self._host.times.step_us(),
            prefill_tokens_per_s=self._host.times.prefill_tokens_per_s(),
            warm_sessions=cache.warm_sessions,
            cache_blocks_total=cache.blocks_total,
            cache_blocks_used=cache.blocks_used,
            cache_evictions_total=cache.evictions_total,
            prompt_tokens_computed_total=self._totals.prompt_tokens_computed,
            prompt_tokens_cached_total=self._totals.prompt_tokens_cached,
            tokens_decoded_total=self._totals.tokens_decoded,
            tokens_decoded_after_cancel_total=self._totals.tokens_decoded_after_cancel,
            cancelled_total=self._totals.cancelled,
            finished_total=self._totals.finished,
            refused_total=self._totals.refused,
            engine_failures_total=self._host.failures,
        )

    def turn(self) -> None:
        """One round; each verb is a stage of a sequence's way."""
        try:
            self._accept()
            self._drop_late()
            self._drop_cancelled()
            self._fill()
            self._step_and_deliver()
        except EngineFailedError as failure:
            self._fail(list(self._live.values()), failure)
            self._rebuild()

    def _run(self) -> None:
        while self._wait_for_work():
            self.turn()
        self._accept()
        for sequence in [*self._waiting, *self._live.values()]:
            self._finish(sequence, FinishReason.CANCELLED)
        self._host.close()
        self._trace.close()

    def _wait_for_work(self) -> bool:
        """Block until there is something to do; False when the loop is to end."""
        with self._changed:
            while not (self._is_stopping or self._inbox or self._waiting or self._live):
                self._changed.wait()
            return not self._is_stopping

    def _refusal(self) -> Callable[[], ReplicaError] | None:
        """What to raise instead of accepting, or None.

        It is made where it is raised: an error kept in a variable of a frame that its traceback
        holds is a cycle, which would keep the request's shared memory until a garbage collection.
        """
        if self._is_stopping:
            return partial(ReplicaUnavailableError, "the replica is stopping; send to another one")
        if not self._host.is_loaded:
            return partial(ReplicaUnavailableError, "no engine now; send to another replica")
        waiting, limit = self._waiting_count(), self._limits.waiting_sequences_max
        if waiting >= limit:
            return partial(
                ReplicaFullError,
                f"{limit} sequences may wait, {waiting} do; send to another replica, or later",
            )
        return None

    def _waiting_count(self) -> int:
        return len(self._inbox) + len(self._waiting)

    def _accept(self) -> None:
        with self._changed:
            self._waiting.extend(self._inbox)
            self._inbox.clear()

    def _drop_late(self) -> None:
        now_us = self._clock_us()
        for sequence in [s for s in self._waiting if s.is_late(now_us)]:
            self._waiting.remove(sequence)
            self._finish(sequence, FinishReason.DEADLINE)
        for sequence in [s for s in self._live.values() if s.is_late(now_us)]:
            self._host.release(sequence.sequence_id)
            self._finish(sequence, FinishReason.DEADLINE)

    def _drop_cancelled(self) -> None:
        for sequence in self._next_waiting():
            if self._is_cancelled(sequence):
                self._waiting.remove(sequence)
                self._finish(sequence, FinishReason.CANCELLED)
        for sequence in list(self._live.values()):
            if self._is_cancelled(sequence):
                self._host.release(sequence.sequence_id)
                self._finish(sequence, FinishReason.CANCELLED)

    def _next_waiting(self) -> list[LiveSequence]:
        """The waiting sequences whose turn it is to be asked."""
        count = min(WAITING_CHECKS_PER_TURN, len(self._waiting))
        start = self._next_waiting_check
        self._next_waiting_check += count
        return [self._waiting[(start + i) % len(self._waiting)] for i in range(count)]

    def _fill(self) -> None:
        """Give the engine what it has room for, in the order of acceptance."""
        while self._waiting and len(self._live) < self._limits.live_sequences_max:
            sequence = self._waiting[0]
            if not self._host.has_room_for(sequence.spec()):
                return
            self._waiting.popleft()
            if self._is_cancelled(sequence):
                self._finish(sequence, FinishReason.CANCELLED)
                continue
            self._live[sequence.sequence_id] = sequence
            self._host.add(sequence.spec())

    def _step_and_deliver(self) -> None:
        if not self._live:
            return
        started_us, outputs = self._host.step()
        now_us = self._clock_us()
        for output in outputs:
            sequence = self._live[output.sequence_id]
            is_first = sequence.scheduled_us is None
            reason = sequence.take(output, started_us, now_us)
            self._totals.count_step(output, is_first=is_first)
            if reason is None:
                self._send_group(sequence)
                continue
            if not output.finished:
                self._host.release(sequence.sequence_id)
            self._finish(sequence, reason)

    def _send_group(self, sequence: LiveSequence) -> None:
        group = sequence.due_group()
        if group:
            self._respond(partial(sequence.responder.send, group, None))

    def _is_cancelled(self, sequence: LiveSequence) -> bool:
        if sequence.responder.is_cancelled():
            sequence.tokens_after_cancel = sequence.tokens_since_check
            return True
        sequence.tokens_since_check = 0
        return False

    def _finish(self, sequence: LiveSequence, reason: FinishReason) -> None:
        self._live.pop(sequence.sequence_id, None)
        summary = sequence.summary(reason, self._clock_us())
        self._totals.count_end(reason, sequence.tokens_after_cancel)
        self._respond(partial(sequence.responder.send, sequence.take_unsent(), summary))
        self._trace.record(sequence, summary)

    def _fail(self, sequences: Iterable[LiveSequence], error: ReplicaError) -> None:
        for sequence in sequences:
            self._live.pop(sequence.sequence_id, None)
            self._respond(partial(sequence.responder.fail, error))

    def _respond(self, send: Callable[[], None]) -> None:
        """A response that cannot be sent is the caller's loss alone."""
        try:
            send()
        except Exception as error:  # noqa: BLE001 - whatever the transport raises, the loop goes on
            log.error("a response was not sent: %s", type(error).__name__)  # noqa: TRY400 - a traceback's message may hold request data

    def _rebuild(self) -> None:
        """Build an engine until one stands; meanwhile nothing may wait for it."""
        while not self._is_stopping:
            try:
                self._host.load()
            except EngineFailedError:
                error = ReplicaUnavailableError(
                    "the engine cannot be rebuilt; send to another replica"
                )
                self._accept()
                self._fail(self._waiting, error)
                self._waiting.clear()
                self._pause(REBUILD_PAUSE_S)
            else:
                return

    def _pause(self, seconds: float) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._is_stopping, timeout=seconds)
