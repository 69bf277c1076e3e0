"""Which faults a soak makes, and when. All of it follows from the seed, so that a failure can be replayed."""

import dataclasses
import json
import random

# What is done from outside. `pause` and `flap` are shorter than what is tolerated.
KINDS = (
    "worker_kill", "worker_segv", "worker_abort", "worker_stop", "node_workers_kill",
    "agent_kill", "leader_kill", "agent_stop", "leader_stop", "agent_pause", "power_cut",
    "link_flap", "link_cut", "control_cut", "data_cut", "one_way_cut", "strangers",
    "preempt", "preempt_twice", "preempt_and_kill",
)
# How long it lasts, seconds, where that is to be chosen.
LASTS = {"agent_pause": (0.3, 2.0), "link_flap": (0.3, 2.0), "link_cut": (8.0, 12.0), "control_cut": (1.0, 6.0),
         "data_cut": (6.0, 8.0), "one_way_cut": (1.0, 10.0), "strangers": (1.0, 3.0)}

# What workers do to themselves: in the first step or the first save of an incarnation, so that a recovery
# fails as well now and then.
HOOK_KINDS = ("throw", "segv", "abort", "exit, code: 7", "kill")
HOOK_POINTS = ("start", "forward", "backward", "reduce", "optimizer", "save")
COMMIT_POINTS = ("commit", "commit_manifest", "commit_rename", "commit_renamed", "commit_done")  # of the first rank


@dataclasses.dataclass(frozen=True)
class Fault:
    number: int
    at: float  # seconds after the first step
    kind: str
    node: int
    rank: int
    seconds: float
    coin: bool  # for what can end in two ways

    def line(self, **more):
        return json.dumps({**dataclasses.asdict(self), "at": round(self.at, 2), "seconds": round(self.seconds, 2), **more})


def schedule(seed, mean_s, nodes, ranks):
    """Faults without end, exponential waits between them; every kind comes before one comes again."""
    rng = random.Random(seed)
    at, deck, number = 0.0, [], 0
    while True:
        at += rng.expovariate(1 / mean_s)
        deck = deck or rng.sample(KINDS, len(KINDS))
        kind = deck.pop()
        yield Fault(number, at, kind, rng.randrange(nodes), rng.randrange(ranks),
                    rng.uniform(*LASTS.get(kind, (0, 0))), rng.random() < 0.5)
        number += 1


def replayed(lines):
    """The faults of a schedule that was printed; lines of other content are skipped."""
    names = [field.name for field in dataclasses.fields(Fault)]
    rows = [json.loads(line) for line in lines if line.startswith('{"number"')]
    return iter([Fault(**{name: row[name] for name in names}) for row in rows])


def hooks(seed, ranks, incarnations, share):
    """Items of the spec's `faults`: one hook in that share of the incarnations. Returns {incarnation: item}."""
    rng = random.Random(seed + 1)
    found = {}
    for incarnation in range(1, incarnations):
        commits = rng.random() < 0.3
        kind, rank = rng.choice(HOOK_KINDS), 0 if commits else rng.randrange(ranks)
        point = rng.choice(COMMIT_POINTS if commits else HOOK_POINTS)
        if rng.random() < share:
            found[incarnation] = f"{{kind: {kind}, rank: {rank}, point: {point}, incarnation: {incarnation}}}"
    return found
