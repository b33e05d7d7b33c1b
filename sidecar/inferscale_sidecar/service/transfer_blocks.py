"""Lines of pinned blocks in an export: from blocks to lines and back, checked like new ones."""

from inferscale.protocol import transfer as wire
from inferscale.protocol.memory import Scope as WireScope
from inferscale_sidecar.core import Block, Scope
from inferscale_sidecar.errors import InvalidInput
from inferscale_sidecar.service.message import check_metadata, need_scope
from inferscale_sidecar.store.block_port import BlockEvent
from inferscale_sidecar.store.transfer_port import MovedBlock


def block_line(moved: MovedBlock) -> wire.BlockLine:
    """A block as a line."""
    block = moved.block
    versions = [
        wire.BlockVersionLine.model_construct(
            **{k: v for k, v in vars(event).items() if k != "block_id"}
        )
        for event in moved.versions
    ]
    scopes = [WireScope.model_construct(**scope.ids) for scope in block.scopes]
    same = {k: v for k, v in vars(block).items() if k not in ("tenant_id", "scopes")}
    return wire.BlockLine.model_construct(**same, scopes=scopes, versions=versions)


def to_block(line: wire.BlockLine) -> MovedBlock:
    """Raises InvalidInput for a block that the service would not store."""
    scopes = tuple(Scope.of(each) for each in line.scopes)
    for scope in scopes:
        need_scope(scope)
    if len(set(scopes)) != len(scopes):
        raise InvalidInput("scopes holds the same one twice", param="scopes")
    if len(line.value) > line.limit:
        raise InvalidInput(
            f"value has {len(line.value)} characters, its limit is {line.limit}", param="value"
        )
    events = [(past.version, past.event) for past in line.versions]
    if len(set(events)) != len(events) or max(events)[0] > line.version:
        raise InvalidInput("versions are not those of one block", param="versions")
    same = line.model_dump(exclude={"type", "scopes", "versions", "metadata"})
    block = Block(tenant_id="", scopes=scopes, metadata=check_metadata(line.metadata), **same)
    versions = [BlockEvent(block_id=line.id, **past.model_dump()) for past in line.versions]
    return MovedBlock(block, tuple(versions))
