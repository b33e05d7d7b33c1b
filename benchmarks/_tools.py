"""The tools of a made-up agent, some 2,000 tokens of them, and chat templates that print them.

Both templates are SmolLM2's own with a tool list in the system message, as others have it: `behind`
the system text, as Qwen's do, or `before` it.
"""

from __future__ import annotations

from typing import Any, Literal

Template = Literal["behind", "before"]

_LIST = (
    "# Tools\nYou may call one or more functions. Their signatures, as JSON:\n"
    "{% for tool in tools %}{{ tool | tojson }}\n{% endfor %}"
    'Return a call as {"name": ..., "arguments": ...} between <tool_call> tags.'
)
_SYSTEM = {
    "behind": "{{ message.content }}{% if tools %}{{ '\n\n' }}" + _LIST + "{% endif %}",
    "before": "{% if tools %}" + _LIST + "{{ '\n\n' }}{% endif %}{{ message.content }}",
}
_TEMPLATE = (
    "{%% for message in messages %%}{{ '<|im_start|>' + message.role + '\n' }}"
    "{%% if loop.first and message.role == 'system' %%}%s{%% else %%}{{ message.content }}"
    "{%% endif %%}{{ '<|im_end|>\n' }}{%% endfor %%}"
    "{%% if add_generation_prompt %%}{{ '<|im_start|>assistant\n' }}{%% endif %%}"
)
TEMPLATES: dict[Template, str] = {
    "behind": _TEMPLATE % _SYSTEM["behind"],
    "before": _TEMPLATE % _SYSTEM["before"],
}
_THINGS = (
    *("calendar entry", "e-mail", "invoice", "train ticket", "recipe", "contact", "reminder"),
    "parcel",
)
_VERBS = ("find", "create")
_FIELDS = ("title", "date", "place")


def tools() -> list[dict[str, Any]]:
    """Function tools in OpenAI's form; the same every time."""
    return [_tool(verb, thing) for thing in _THINGS for verb in _VERBS]


def _tool(verb: str, thing: str) -> dict[str, Any]:
    properties = {
        name: {"type": "string", "description": f"The {name} of the {thing}, as text."}
        for name in _FIELDS
    }
    return {
        "type": "function",
        "function": {
            "name": f"{verb}_{thing.replace(' ', '_').replace('-', '')}",
            "description": f"Use this to {verb} one {thing} of the user.",
            "parameters": {"type": "object", "properties": properties, "required": ["title"]},
        },
    }
