"""Lines of documents in an export: to lines and back, checked like new ones."""

from inferscale.protocol import transfer as wire
from inferscale_sidecar.errors import InvalidInput, TooLarge
from inferscale_sidecar.service.document_text import check_value, texts_at
from inferscale_sidecar.service.transfer_lines import read_vector, write_vector
from inferscale_sidecar.store.document_port import DocumentDraft
from inferscale_sidecar.store.transfer_port import MovedDocument


def document_line(moved: MovedDocument) -> wire.DocumentLine:
    """A document as a line; its value is in the store, so nothing is checked again."""
    namespace, key = moved.path
    draft = moved.draft
    return wire.DocumentLine.model_construct(
        user_id=moved.user_id,
        namespace=list(namespace),
        key=key,
        value=draft.value,
        index=None if draft.index is None else list(draft.index),
        ttl_s=draft.ttl_s,
        expires_at=draft.expires_at,
        created_at=moved.created_at,
        updated_at=moved.updated_at,
        vectors=[write_vector(each) for each in draft.vectors] or None,
    )


def to_document(line: wire.DocumentLine) -> MovedDocument:
    """Raises InvalidInput for a document that the service would not store."""
    try:
        check_value(line.value)
    except TooLarge as error:
        raise InvalidInput(error.message, param=error.param) from error
    if (line.ttl_s is None) != (line.expires_at is None):
        raise InvalidInput("ttl_s and expires_at go together", param="expires_at")
    texts = texts_at(line.value, line.index or ())
    vectors = [read_vector(each) for each in line.vectors or ()]
    if line.index is not None and vectors and len(vectors) != len(texts):
        raise InvalidInput(
            f"vectors holds {len(vectors)}, but index finds {len(texts)} texts", param="vectors"
        )
    draft = DocumentDraft(line.value, vectors, line.ttl_s, line.expires_at, line.index or None)
    path = (tuple(line.namespace), line.key)
    return MovedDocument(line.user_id, path, draft, line.created_at, line.updated_at)
