"""Zep's `user` over our scopes: a user exists by having memories or threads.

A user's name and e-mail address are a fact about them, and kept as one; the caller's metadata goes
with it. Owns the wording of that fact.
"""

import uuid
from collections.abc import Mapping
from typing import Any

from inferscale import InvalidArgumentError, MemoryRecord, NotFoundError
from inferscale.compat._flow import Flow, call
from inferscale.compat._refuse import refuse, refuse_given
from inferscale.compat.zep import _shape
from inferscale.compat.zep._scope import NO_ONTOLOGY, graph_uuid_of, one_id
from inferscale.compat.zep.types import SuccessResponse, Thread, User

_REFUSED = {
    "time_zone": "times are UTC; convert them where they are shown",
    "disable_default_ontology": NO_ONTOLOGY,
    "content_policy": "there are no content policies",
}
_FIELDS = ("first_name", "last_name", "email")


class UserCalls:
    """Methods of `client.user`, written once for both clients."""

    def add(
        self,
        /,
        *,
        user_id: str | None = None,
        email: str | None = None,
        first_name: str | None = None,
        last_name: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        time_zone: str | None = None,
        disable_default_ontology: bool | None = None,
        content_policy: Any = None,
        idempotency_key: str | None = None,
    ) -> Flow[User]:
        """Make a user known. May be repeated. v4's `create` makes up an id if none is given."""
        given = {"time_zone": time_zone, "content_policy": content_policy}
        given["disable_default_ontology"] = disable_default_ontology
        refuse_given("user.add", _REFUSED, given)
        user_id = str(uuid.uuid4()) if user_id is None else user_id
        named = {"email": email, "first_name": first_name, "last_name": last_name}
        return (yield from _write(user_id, named, metadata))

    def get(self, /, user_id: str | None = None, *, user_uuid: str | None = None) -> Flow[User]:
        """A user. Raises NotFoundError if there is nothing about them."""
        user_id = one_id(user_id=user_id, user_uuid=user_uuid)
        profile = yield from _profile(user_id)
        if profile is None:
            some = yield from call("get_all", user_id=user_id, limit=1)
            threads = yield from call("threads.list", user_id=user_id, limit=1)
            if not some.total and not threads.total:
                raise NotFoundError(f"there is no user {user_id!r}: nothing is stored about them.")
        return _user(user_id, profile)

    def update(
        self,
        /,
        user_id: str | None = None,
        *,
        user_uuid: str | None = None,
        email: str | None = None,
        first_name: str | None = None,
        last_name: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        time_zone: str | None = None,
        disable_default_ontology: bool | None = None,
        idempotency_key: str | None = None,
    ) -> Flow[User]:
        """Change what is given; the rest stays."""
        given = {"time_zone": time_zone, "disable_default_ontology": disable_default_ontology}
        refuse_given("user.update", _REFUSED, given)
        user_id = one_id(user_id=user_id, user_uuid=user_uuid)
        named = {"email": email, "first_name": first_name, "last_name": last_name}
        return (yield from _write(user_id, named, metadata))

    def delete(
        self,
        /,
        user_id: str | None = None,
        *,
        user_uuid: str | None = None,
        idempotency_key: str | None = None,
    ) -> Flow[SuccessResponse]:
        """Forget everything of a user, threads included. It is done when this returns."""
        user_id = one_id(user_id=user_id, user_uuid=user_uuid)
        yield from call("delete_all", user_id=user_id)
        return SuccessResponse(message="User deleted")

    def get_threads(self, /, user_id: str) -> Flow[list[Thread]]:
        """Threads of a user, oldest first."""
        found = yield from call("threads.list", user_id=user_id)
        return [_shape.thread(each) for each in found.results]

    def warm(self, /, user_id: str) -> Flow[SuccessResponse]:
        """Nothing to do: recall is as fast the first time."""
        yield from ()
        return SuccessResponse()

    def lookup(
        self,
        /,
        *,
        user_id: str | None = None,
        graph_id: str | None = None,
        thread_id: str | None = None,
    ) -> Flow[User]:
        """v4: the user with this id; ids and UUIDs are the same here."""
        if user_id is None:
            raise InvalidArgumentError("user.lookup needs user_id.")
        return (yield from UserCalls.get(self, user_id))


def _profile(user_id: str) -> Flow[MemoryRecord | None]:
    """The fact that holds a user's name. Found by its mark, whatever it says."""
    mark = {_shape.KIND: "user"}
    found = yield from call("search", "user", user_id=user_id, filters=mark, limit=1)
    return found.results[0] if found.results else None


def _write(
    user_id: str, named: Mapping[str, str | None], metadata: Mapping[str, Any] | None
) -> Flow[User]:
    profile = yield from _profile(user_id)
    fields = {n: named.get(n) or old for n, old in _shape.held(profile, _FIELDS).items()}
    text = _sentence(**fields)
    if text is None:
        if metadata:
            refuse("user metadata without a name or an email", "it is kept with those; give one")
        return _user(user_id, profile)
    own = (
        dict(metadata) if metadata is not None else _shape.user_metadata(profile) if profile else {}
    )
    held = _shape.metadata_of(own, kind="user", **fields)
    if profile is None:
        yield from call("add", text, user_id=user_id, metadata=held, infer=False)
    else:
        same = text == profile.memory
        yield from call("update", profile.id, text=None if same else text, metadata=held)
    return _user(user_id, (yield from _profile(user_id)))


def _sentence(first_name: str | None, last_name: str | None, email: str | None) -> str | None:
    name = " ".join(filter(None, (first_name, last_name)))
    parts = [f"The user's name is {name}."] if name else []
    parts += [f"The user's email address is {email}."] if email else []
    return " ".join(parts) or None


def _user(user_id: str, profile: MemoryRecord | None) -> User:
    return User(
        user_id=user_id,
        uuid_=user_id,
        graph_uuid=graph_uuid_of(user_id),
        metadata=_shape.user_metadata(profile) if profile else None,
        created_at=profile["created_at"] if profile else None,
        updated_at=profile["updated_at"] if profile else None,
        **_shape.held(profile, _FIELDS),
    )
