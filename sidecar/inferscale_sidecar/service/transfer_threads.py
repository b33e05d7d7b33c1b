"""Lines of threads and their messages in an export: to lines and back, checked like new ones."""

from inferscale.protocol import transfer as wire
from inferscale_sidecar.core import Scope, Thread, ThreadMessage
from inferscale_sidecar.service.message import check_metadata
from inferscale_sidecar.service.transfer_lines import check_label
from inferscale_sidecar.store.transfer_port import MovedMessage


def thread_line(thread: Thread) -> wire.ThreadLine:
    """A thread as a line."""
    same = {k: v for k, v in vars(thread).items() if k not in ("tenant_id", "scope")}
    return wire.ThreadLine.model_construct(**thread.scope.thread_ids, **same)


def message_line(moved: MovedMessage) -> wire.MessageLine:
    """A message as a line."""
    thread_id = moved.thread.run_id
    return wire.MessageLine.model_construct(
        **moved.thread.thread_ids, thread_id=thread_id, **vars(moved.message)
    )


def to_thread(line: wire.ThreadLine) -> Thread:
    """Raises InvalidInput for a thread that the service would not store."""
    scope = Scope(line.user_id, line.agent_id, line.id, line.app_id)
    metadata = check_metadata(line.metadata)
    return Thread(line.id, "", scope, line.created_at, line.updated_at, metadata)


def to_message(line: wire.MessageLine) -> MovedMessage:
    """Raises InvalidInput for a message that the service would not store."""
    check_label(line.role, "role")
    check_label(line.name, "name")
    same = line.model_dump(include={"id", "role", "content", "created_at", "name", "said_at"})
    message = ThreadMessage(**same, metadata=check_metadata(line.metadata))
    return MovedMessage(Scope(line.user_id, line.agent_id, line.thread_id, line.app_id), message)
