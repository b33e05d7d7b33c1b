"""Two tenants with equal texts never meet: handles, reports, salts, keys, prefixes."""

from tests.sidecar.chat.stage import HELLO, Stage

from inferscale.protocol.chat import REPORT_HEADER

CHAT = "/v1/chat/completions"
FACTS = tuple(f"Fact number {n}." for n in range(6))
ACME, GLOBEX = {"x-test-tenant": "acme"}, {"x-test-tenant": "globex"}


def ask(handle: str, **more):
    return {"model": "demo", "messages": HELLO, "memory": {"handle": handle}, **more}


async def test_a_swapped_handle_is_a_404(stage: Stage, http):
    await stage.remember(*FACTS)
    answer = await http.post(CHAT, json=ask("mh_acme"), headers=GLOBEX)
    assert answer.status_code == 404 and not stage.engine.bodies


async def test_a_swapped_report_is_a_404_like_an_unknown_one(stage: Stage, http):
    await stage.remember(*FACTS)
    name = (await http.post(CHAT, json=ask("mh_acme"), headers=ACME)).headers[REPORT_HEADER]
    assert (await http.get(f"/v1/reports/{name}", headers=ACME)).status_code == 200
    foreign = await http.get(f"/v1/reports/{name}", headers=GLOBEX)
    unknown = await http.get("/v1/reports/mr_0", headers=GLOBEX)
    assert foreign.status_code == unknown.status_code == 404
    assert foreign.json()["error"]["code"] == unknown.json()["error"]["code"]


async def test_equal_texts_share_no_key_salt_or_prefix(stage: Stage, http):
    await stage.remember(*FACTS)
    await stage.remember(*FACTS, tenant="globex")
    seen = []
    for headers, handle in ((ACME, "mh_acme"), (GLOBEX, "mh_globex")):
        answer = await http.post(CHAT, json=ask(handle), headers=headers)
        assert answer.json()["memory"]["mode"] == "injected"
        sent = stage.engine.bodies[-1]
        ours = sent["kv_transfer_params"]["inferscale"]
        seen.append({sent["cache_salt"], ours["salt"], *ours["items"]})
    assert not seen[0] & seen[1]
    assert len({salt for salt, _ in stage.engine.prefixes}) == 2


async def test_a_clients_cache_salt_separates_but_never_joins(stage: Stage, http):
    salts = []
    for headers in (ACME, GLOBEX):
        for own in (None, "x", "y"):
            body = {"model": "demo", "messages": HELLO, "cache_salt": own}
            await http.post(CHAT, json=body, headers=headers)
            salts.append(stage.engine.bodies[-1]["cache_salt"])
    assert len(set(salts)) == 6 and not {"x", "y"} & set(salts)
