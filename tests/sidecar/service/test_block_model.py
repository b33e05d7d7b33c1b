"""Random operations on the blocks of two tenants, against a model of plain dicts."""

import random
from dataclasses import dataclass, field
from typing import Any

import pytest

from inferscale_sidecar.core import Scope
from inferscale_sidecar.errors import Conflict
from inferscale_sidecar.store.block_port import BlockDraft

STEPS = 150
LABELS = ("human", "notes", "persona")
SCOPES = (
    *(Scope("alice"), Scope("bob"), Scope(agent_id="a"), Scope("alice", "a")),
    *(Scope("bob", run_id="r"), Scope(run_id="r")),
    *(Scope("alice", app_id="p"), Scope(app_id="p")),
)
ASKED = (
    *(*SCOPES, Scope("alice", "a", "r"), Scope("bob", "a", "r"), Scope("carol")),
    *(Scope("alice", "a", "r", "p"), Scope("bob", app_id="p")),
)


@dataclass
class Known:
    """What the model knows of one block."""

    label: str
    value: str
    scopes: set[Scope] = field(default_factory=set)


Model = dict[str, Known]


def shown(model: Model, scope: Scope) -> dict[str, str]:
    parts = set(scope.parts)
    return {name: each.value for name, each in model.items() if each.scopes & parts}


def taken(model: Model, label: str, scopes: set[Scope], but: str = "") -> bool:
    return any(
        each.label == label and each.scopes & scopes and name != but for name, each in model.items()
    )


async def _step(world: Any, tenant: Any, model: Model, rng: random.Random, step: int) -> None:
    scope, label = rng.choice(SCOPES), rng.choice(LABELS)
    name = rng.choice(sorted(model)) if model else None
    what = rng.choice(("create", "edit", "relabel", "attach", "detach", "delete", "forget"))
    blocks = world.blocks
    if what == "create" or name is None:
        attempt = blocks.create(tenant, scope, BlockDraft(label, str(step), 99))
        if taken(model, label, {scope}):
            with pytest.raises(Conflict):
                await attempt
        else:
            model[(await attempt).id] = Known(label, str(step), {scope})
    elif what == "edit":
        model[name].value = (await blocks.append(tenant, name, str(step))).value
        assert model[name].value.endswith(str(step))
    elif what in ("relabel", "attach"):
        known = model[name]
        wanted = Known(label if what == "relabel" else known.label, known.value, {*known.scopes})
        if what == "attach":
            wanted.scopes.add(scope)
            attempt = blocks.attach(tenant, name, scope)
        else:
            attempt = blocks.update(tenant, name, {"label": label})
        if taken(model, wanted.label, wanted.scopes, but=name):
            with pytest.raises(Conflict):
                await attempt
        else:
            await attempt
            model[name] = wanted
    elif what == "detach":
        await blocks.detach(tenant, name, scope)
        model[name].scopes.discard(scope)
    elif what == "delete":
        await blocks.delete(tenant, name)
        del model[name]
    elif rng.random() < 0.2:
        await _forget(world, tenant, model, scope)


async def _forget(world: Any, tenant: Any, model: Model, scope: Scope) -> None:
    """Deleting a scope takes what carries all of its ids, and what is attached nowhere else."""
    removed = await world.memory.delete_all(tenant, scope)
    gone = 0
    for name, known in list(model.items()):
        here = {each for each in known.scopes if scope in each.parts}
        known.scopes -= here
        if here and not known.scopes:
            del model[name]
            gone += 1
    assert removed.blocks == gone


@pytest.mark.parametrize("seed", [1, 2])
async def test_blocks_are_shown_as_the_model_says(world: Any, seed: int) -> None:
    rng = random.Random(seed)
    models: list[tuple[Any, Model]] = [(world.tenant, {}), (world.other, {})]
    for step in range(STEPS):
        tenant, model = rng.choice(models)
        await _step(world, tenant, model, rng, step)
        for tenant, model in models:
            scope = rng.choice(ASKED)
            found = await world.blocks.shown(tenant, scope)
            assert {block.id: block.value for block in found} == shown(model, scope)
    for tenant, model in models:
        page = await world.blocks.list(tenant, Scope(), limit=1000)
        assert {b.id: (b.label, set(b.scopes)) for b in page.blocks} == {
            name: (known.label, known.scopes) for name, known in model.items()
        }
