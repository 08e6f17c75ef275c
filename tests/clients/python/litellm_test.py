"""The callback of LiteLLM reserves before each call and settles what it has used.

Method: the real LiteLLM, its SDK and the hooks of its proxy, with answers of its own
(`mock_response`) or of a provider in this file; no network. The real server's usage is compared
with what LiteLLM reports. LiteLLM's events come after the answer: a test waits for them.
"""

import asyncio
import contextlib
import json
import threading
import time

import fastapi
import litellm
import pytest
from fake_server import unused_address
from litellm.caching.caching import DualCache
from litellm.proxy._types import UserAPIKeyAuth
from litellm.proxy.utils import ProxyLogging
from real_server import client as client
from real_server import free_port
from real_server import server as server
from server_process import TIMEOUT_S, ServerProcess, eventually

import sluicegate
from sluicegate.litellm import (Reserved, SluicegateCallback, Used, input_tokens_of,
                                output_tokens_of, used_by)

MESSAGES = [{"role": "user", "content": "hello there, how are you?"}]
HOUR_S = 3_600
LIMITS = [sluicegate.Limit("requests", "requests", 100, HOUR_S),
          sluicegate.Limit("tokens", "tokens", 1_000, HOUR_S),
          sluicegate.Limit("at once", "concurrency", 5)]


class Provider(litellm.CustomLLM):
    """A provider of this test; `during` is called while a call runs."""

    def __init__(self):
        super().__init__()
        self.during = lambda: None
        self.failures = 0  # of the next calls

    def _answer(self):
        self.during()
        if self.failures:
            self.failures -= 1
            raise litellm.InternalServerError("out of order", "mine", "mine/model")
        usage = litellm.Usage(prompt_tokens=20, completion_tokens=7, total_tokens=27,
                              prompt_tokens_details={"cached_tokens": 12})
        return litellm.ModelResponse(model="mine/model", usage=usage, choices=[
            {"message": {"role": "assistant", "content": "fine"}, "finish_reason": "stop"}])

    def completion(self, *_, **__):
        return self._answer()

    async def acompletion(self, *_, **__):
        return self._answer()

    async def astreaming(self, *_, **__):
        for _ in range(3):
            yield {"text": "word after word ", "is_finished": False, "finish_reason": "",
                   "index": 0, "tool_use": None, "usage": None}
        raise litellm.InternalServerError("broke", "mine", "mine/model")


@pytest.fixture
def provider():
    provider = Provider()
    litellm.custom_provider_map = [{"provider": "mine", "custom_handler": provider}]
    yield provider
    litellm.custom_provider_map = []


@pytest.fixture
def quotas(client):
    """The models of the tests have quotas without usage."""
    for model in ("gpt-4o", "mine/model", "text-embedding-3-small"):
        client.remove_quota(model)
        client.put_quota(model, LIMITS)
    return client


@pytest.fixture
def callback(server, quotas):
    return installed(f"127.0.0.1:{server.native_port}")


@pytest.fixture(autouse=True)
def uninstalled():
    litellm.suppress_debug_info = True
    yield
    litellm.callbacks = []
    litellm.cache = None


def installed(address, **options):
    """LiteLLM keeps the first callback of a class, also after its list was replaced."""
    for kind in ("success", "failure", "input", "_async_success", "_async_failure"):
        getattr(litellm, f"{kind}_callback").clear()
    callback = SluicegateCallback(address, **options)
    litellm.callbacks = [callback]
    return callback


def used(client, subject):
    """Requests, tokens and slots that are charged, and the tokens that are reserved."""
    requests, tokens, slots = client.usage(subject).limits
    return requests.used, tokens.used, slots.used, tokens.reserved


async def until(condition, what):
    """eventually(), while the loop runs LiteLLM's events."""
    deadline = time.monotonic() + TIMEOUT_S
    while not (result := condition()):
        assert time.monotonic() < deadline, f"not within {TIMEOUT_S} s: {what}"
        await asyncio.sleep(0.01)
    return result


def run(callback, main):
    async def whole():
        try:
            return await main()
        finally:
            await callback.close()
    return asyncio.run(whole())


async def settled(client, subject, expected):
    await until(lambda: used(client, subject) == (*expected, 0, 0),
                f"{expected} of {subject}: {used(client, subject)}")


# ---- the SDK -------------------------------------------------------------------------------------

def test_a_call_is_reserved_and_settled(callback, quotas, provider):
    seen = []

    async def main():
        provider.during = lambda: seen.append(used(quotas, "mine/model"))
        answer = await litellm.acompletion(model="mine/model", messages=MESSAGES, max_tokens=50)
        await settled(quotas, "mine/model", (1, 27 - 12))
        return answer.usage.total_tokens
    assert run(callback, main) == 27
    reserved = 50 + input_tokens_of(sluicegate.litellm.Call(
        "", "", None, None, None, {"messages": MESSAGES}))
    assert seen == [(1, reserved, 1, reserved)]


def test_a_mocked_call_and_an_embedding_are_settled(callback, quotas):
    async def main():
        answer = await litellm.acompletion(model="gpt-4o", messages=MESSAGES, mock_response="hi")
        await settled(quotas, "gpt-4o", (1, answer.usage.total_tokens))
        await litellm.aembedding(model="text-embedding-3-small", input=["a", "b"],
                                 mock_response=[0.1])
        await settled(quotas, "text-embedding-3-small", (1, 10))  # as LiteLLM mocks it
        assert len(callback._reserved) == 0
    run(callback, main)


def test_the_cost_is_settled_in_millionths(callback, quotas):
    quotas.put_quota("gpt-4o", [sluicegate.Limit("bill", "cost", 10**9, HOUR_S)])

    async def main():
        answer = await litellm.acompletion(model="gpt-4o", messages=MESSAGES, mock_response="hi")
        await callback.close(timeout=TIMEOUT_S)
        return litellm.completion_cost(answer)
    cost = asyncio.run(main())
    assert quotas.usage("gpt-4o").limits[0].used == round(cost * 1_000_000) > 0


def test_a_callback_serves_one_loop_after_the_other(callback, quotas):
    async def main():
        await litellm.acompletion(model="gpt-4o", messages=MESSAGES, mock_response="hi")
        await until(lambda: len(callback._reserved) == 0, "it is settled")
    asyncio.run(main())
    asyncio.run(main())
    eventually(lambda: used(quotas, "gpt-4o")[::2] == (2, 0), "both are settled")
    assert len(callback._async_clients) == 1


def test_close_waits_until_ended_calls_are_settled(callback, quotas, provider):
    async def main():
        await litellm.acompletion(model="mine/model", messages=MESSAGES)
        await callback.close(timeout=TIMEOUT_S)
    asyncio.run(main())
    assert used(quotas, "mine/model") == (1, 27 - 12, 0, 0)


def test_a_stream_is_settled_when_it_ends(callback, quotas):
    async def main():
        stream = await litellm.acompletion(model="gpt-4o", messages=MESSAGES, stream=True,
                                           mock_response="hi you all", max_tokens=100,
                                           stream_options={"include_usage": True})
        chunks = [chunk async for chunk in stream]
        usage = next(chunk.usage for chunk in chunks if getattr(chunk, "usage", None))
        await settled(quotas, "gpt-4o", (1, usage.total_tokens))
    run(callback, main)


def test_a_broken_stream_is_charged_what_it_had_answered(callback, quotas, provider):
    async def main():
        stream = await litellm.acompletion(model="mine/model", messages=MESSAGES, stream=True,
                                           max_tokens=500)
        with pytest.raises(litellm.exceptions.MidStreamFallbackError):
            async for _ in stream:
                pass
        await until(lambda: used(quotas, "mine/model")[2:] == (0, 0), "it is settled")
        requests, tokens, _, _ = used(quotas, "mine/model")
        assert requests == 1 and 0 < tokens < 100
    run(callback, main)


def test_a_failed_call_is_refunded_but_for_its_request(callback, quotas, provider):
    provider.failures = 1

    async def main():
        with pytest.raises(litellm.InternalServerError):
            await litellm.acompletion(model="mine/model", messages=MESSAGES, max_tokens=500)
        await settled(quotas, "mine/model", (1, 0))
    run(callback, main)


def test_each_attempt_of_a_router_has_a_reservation(callback, quotas, provider):
    provider.failures = 2
    requests = []
    provider.during = lambda: requests.append(used(quotas, "mine/model")[0])
    router = litellm.Router(num_retries=2, retry_after=0, disable_cooldowns=True, model_list=[
        {"model_name": "any", "litellm_params": {"model": "mine/model"}}])

    async def main():
        await router.acompletion(model="any", messages=MESSAGES, max_tokens=100)
        await settled(quotas, "mine/model", (3, 27 - 12))
        assert len(callback._reserved) == 0
    run(callback, main)
    assert requests == [1, 2, 3]


def test_a_denied_call_does_not_reach_the_model(callback, quotas, provider):
    calls = []
    provider.during = lambda: calls.append(1)
    quotas.record("mine/model", input_tokens=990)

    async def main():
        with pytest.raises(litellm.RateLimitError) as denied:
            await litellm.acompletion(model="mine/model", messages=MESSAGES, max_tokens=50)
        assert denied.value.status_code == 429 and "tokens" in str(denied.value)
        assert int(denied.value.response.headers["retry-after"]) > 0
        with pytest.raises(litellm.RateLimitError) as never:
            await litellm.acompletion(model="mine/model", messages=MESSAGES, max_tokens=5_000)
        assert never.value.response.headers["x-should-retry"] == "false"
    run(callback, main)
    assert calls == [] and used(quotas, "mine/model") == (1, 990, 0, 0)


def test_an_answer_of_litellms_cache_costs_nothing(callback, quotas, provider):
    litellm.cache = litellm.Cache(type="local")

    async def main():
        for _ in range(2):
            await litellm.acompletion(model="mine/model", messages=MESSAGES, caching=True)
            await settled(quotas, "mine/model", (1, 27 - 12))
    run(callback, main)


def test_subjects_are_the_model_and_the_user_or_the_callers_own(server, quotas):
    address = f"127.0.0.1:{server.native_port}"
    for subject in ("user:ann", "everything"):
        quotas.remove_quota(subject)
        quotas.put_quota(subject, LIMITS)

    async def called():
        answer = await litellm.acompletion(model="gpt-4o", messages=MESSAGES, user="ann",
                                           mock_response="hi")
        return answer.usage.total_tokens

    async def main():
        tokens = await called()
        await settled(quotas, "gpt-4o", (1, tokens))
        await settled(quotas, "user:ann", (1, tokens))
    run(installed(address), main)

    async def of_another_callback():
        tokens = await called()
        await settled(quotas, "everything", (1, tokens))
    run(installed(address, subjects=lambda call: ["everything", call.user]), of_another_callback)
    assert used(quotas, "gpt-4o")[0] == 1


def test_a_call_waits_in_the_servers_queue(server, quotas):
    callback = installed(f"127.0.0.1:{server.native_port}", wait_limit=TIMEOUT_S)
    held = quotas.reserve("gpt-4o", input_tokens=1_000)

    async def main():
        call = asyncio.create_task(litellm.acompletion(
            model="gpt-4o", messages=MESSAGES, mock_response="hi", max_tokens=100))
        await until(lambda: quotas.usage("gpt-4o").waiting == 1, "it waits")
        held.cancel()
        answer = await call
        await settled(quotas, "gpt-4o", (1, answer.usage.total_tokens))
    run(callback, main)


def test_a_model_by_place_is_a_mistake(callback):
    async def main():
        with pytest.raises(sluicegate.InvalidArgument, match="model"):
            await litellm.acompletion("gpt-4o", MESSAGES, mock_response="hi")
    run(callback, main)


# ---- blocking calls ------------------------------------------------------------------------------

def test_a_blocking_call_reserves_by_the_callback(callback, quotas, provider):
    seen = []
    provider.during = lambda: seen.append(used(quotas, "mine/model")[2])
    callback.completion(model="mine/model", messages=MESSAGES, max_tokens=50)
    eventually(lambda: used(quotas, "mine/model") == (1, 27 - 12, 0, 0), "it is settled")
    assert seen == [1]
    provider.failures = 1
    with pytest.raises(litellm.InternalServerError):
        callback.completion(model="mine/model", messages=MESSAGES, max_tokens=50)
    eventually(lambda: used(quotas, "mine/model") == (2, 27 - 12, 0, 0), "it is refunded")
    with pytest.raises(litellm.RateLimitError):
        callback.completion(model="mine/model", messages=MESSAGES, max_tokens=5_000)
    callback._client.close()


def test_a_blocking_call_of_litellm_itself_is_not_counted(callback, quotas, provider):
    litellm.completion(model="mine/model", messages=MESSAGES)
    callback.completion(model="mine/model", messages=MESSAGES)
    eventually(lambda: used(quotas, "mine/model") == (1, 27 - 12, 0, 0), "it is settled")
    callback._client.close()


# ---- the proxy -----------------------------------------------------------------------------------

KEY = UserAPIKeyAuth(user_id="ann", team_id="blue")
KEY.api_key = "hashed"  # not given above, where LiteLLM would hash it with a package for JWT


def proxy_hooks():
    return ProxyLogging(user_api_key_cache=DualCache())


def request(**more):
    return {"model": "gpt-4o", "messages": MESSAGES, "max_tokens": 100, "user": "mallory",
            "litellm_call_id": "one", **more}


async def passed_through(data):
    return await proxy_hooks().pre_call_hook(user_api_key_dict=KEY, data=data,
                                             call_type="completion")


def test_the_proxy_reserves_once_for_key_team_and_user(callback, quotas):
    subjects = ["gpt-4o", "user:ann", "team:blue"]
    for subject in subjects[1:]:
        quotas.remove_quota(subject)
        quotas.put_quota(subject, LIMITS)

    async def main():
        data = await passed_through(request())
        assert [used(quotas, subject)[2] for subject in subjects] == [1, 1, 1]
        answer = await litellm.acompletion(**data, mock_response="hi")
        for subject in subjects:
            await settled(quotas, subject, (1, answer.usage.total_tokens))
        assert quotas.usage("user:mallory").source == "none"
    run(callback, main)


def test_the_proxy_answers_429(callback, quotas):
    quotas.record("gpt-4o", input_tokens=990)

    async def main():
        with pytest.raises(fastapi.HTTPException) as denied:
            await passed_through(request())
        assert denied.value.status_code == 429 and int(denied.value.headers["retry-after"]) > 0
        assert denied.value.detail == {"error": "tokens_exceeded: token limit reached"}
    run(callback, main)


def test_calls_with_the_same_id_are_reserved_each(callback, quotas):
    """The clients of a proxy may choose their calls' ids."""
    async def main():
        one, other = await passed_through(request()), await passed_through(request())
        assert used(quotas, "gpt-4o")[2] == 2
        answers = [await litellm.acompletion(**data, mock_response="hi") for data in (one, other)]
        await settled(quotas, "gpt-4o", (2, sum(answer.usage.total_tokens for answer in answers)))
    run(callback, main)


def test_a_call_that_another_hook_refuses_is_refunded(callback, quotas):
    async def main():
        data = await passed_through(request())
        await callback.async_post_call_failure_hook(data, ValueError("refused"), KEY)
        await settled(quotas, "gpt-4o", (0, 0))
    run(callback, main)


MISTAKES = [("max_tokens", {"max_tokens": -1}), ("max_tokens", {"max_tokens": "many"}),
            ("max_tokens", {"max_tokens": 10**30}), ("max_tokens", {"max_tokens": float("inf")}),
            ("max_completion_tokens", {"max_completion_tokens": [1]}),
            ("n", {"n": "two"}), ("n", {"n": -1}), ("max_tokens times n", {"n": 10**9,
                                                                       "max_tokens": 10**18}),
            ("model", {"model": "m" * 3_000}), ("model", {"model": ["gpt-4o"]})]


@pytest.mark.parametrize("named, arguments", MISTAKES)
def test_a_mistake_of_the_proxys_client_is_400(callback, quotas, named, arguments):
    async def main():
        with pytest.raises(fastapi.HTTPException) as mistake:
            await passed_through(request(**arguments))
        assert mistake.value.status_code == 400
        assert mistake.value.detail["error"].startswith(f"{named} ")
    run(callback, main)
    assert used(quotas, "gpt-4o") == (0, 0, 0, 0)


@pytest.mark.parametrize("named, arguments", MISTAKES[:5])
def test_a_mistake_in_the_sdk_is_an_invalid_argument(callback, quotas, named, arguments):
    async def main():
        with pytest.raises(sluicegate.InvalidArgument, match=f"^{named} "):
            await litellm.acompletion(model="gpt-4o", messages=MESSAGES, mock_response="hi",
                                      **arguments)
    run(callback, main)


# ---- without a server ----------------------------------------------------------------------------

@pytest.mark.parametrize("on_failure, error", [
    ("error", sluicegate.Unreachable), ("closed", litellm.RateLimitError), ("open", None)])
def test_without_a_server_the_failure_policy_decides(on_failure, error):
    callback = installed(unused_address(), on_failure=on_failure, settle_timeout=0.1)

    async def main():
        if error is None:
            answer = await litellm.acompletion(model="gpt-4o", messages=MESSAGES,
                                               mock_response="hi")
            return answer.choices[0].message.content
        with pytest.raises(error):
            await litellm.acompletion(model="gpt-4o", messages=MESSAGES, mock_response="hi")
        return "hi"
    assert run(callback, main) == "hi"


@pytest.fixture(params=["memory", "state"])
def start(request, tmp_path):
    """Starts the server on one port, with and without a state file."""
    port, running = free_port(), []
    config = tmp_path / "quotas.json"
    config.write_text(json.dumps({"quotas": {"subjects": [
        {"subject": "mine/model", "limits": [
            {"name": "requests", "metric": "requests", "amount": 100, "period_ms": HOUR_S * 1_000},
            {"name": "tokens", "metric": "tokens", "amount": 10**9, "period_ms": HOUR_S * 1_000},
            {"name": "at once", "metric": "concurrency", "amount": 5}]}]}}))
    flags = ["--config-file", str(config)]
    if request.param == "state":
        flags += ["--state", str(tmp_path / "state"), "--state-sync-millis", "20"]

    def start():
        running[:] = [ServerProcess("epoll", 1, *flags, native_port=port)]
        return running[0]
    start.address = f"127.0.0.1:{port}"
    yield start
    for process in running:
        process.kill()


PATIENT = {"backoff": (0.01, 0.05), "connect_timeout": TIMEOUT_S}


async def charged(start, expected):
    with sluicegate.Client(start.address, **PATIENT) as client:
        await settled(client, "mine/model", expected)
        await asyncio.sleep(0.1)  # for a repeat that would be charged again
        assert used(client, "mine/model") == (*expected, 0, 0)


@pytest.mark.parametrize("on_failure", ["error", "open", "closed"])
@pytest.mark.parametrize("failures, expected", [(0, (1, 27 - 12)), (1, (1, 0))])
def test_a_settle_outlives_a_server_that_is_killed(start, provider, on_failure, failures,
                                                   expected):
    server = start()
    callback = installed(start.address, on_failure=on_failure, **PATIENT)
    provider.failures, provider.during = failures, server.kill

    async def main():
        with contextlib.suppress(litellm.InternalServerError):
            await litellm.acompletion(model="mine/model", messages=MESSAGES, max_tokens=50)
        await until(lambda: callback._client.settles.kept == 1, "the settle is kept")
        start()
        await until(lambda: callback._client.settles.kept == 0, "the settle is taken")
        await charged(start, expected)
    run(callback, main)
    assert callback._client.settles.lost == 0


def test_a_settle_outlives_its_event_loop(start, provider):
    server = start()
    callback = installed(start.address, **PATIENT)
    provider.during = server.kill

    async def call():
        await litellm.acompletion(model="mine/model", messages=MESSAGES, max_tokens=50)
        await until(lambda: callback._client.settles.kept == 1, "the settle is kept")
    asyncio.run(call())
    start()
    run(callback, lambda: charged(start, (1, 27 - 12)))


def test_a_call_that_the_policy_admitted_is_charged_when_a_server_comes(start, provider):
    callback = installed(start.address, on_failure="open", backoff=(0.01, 0.05))

    async def main():
        await litellm.acompletion(model="mine/model", messages=MESSAGES, max_tokens=50)
        await until(lambda: callback._client.settles.kept == 1, "the usage is kept")
        start()
        await charged(start, (1, 27 - 12))
    run(callback, main)


def test_a_refund_of_a_call_that_the_server_has_forgotten_charges_nothing(start, provider):
    server = start()
    callback = installed(start.address, **PATIENT)

    async def main():
        data = {"model": "mine/model", "messages": MESSAGES, "litellm_call_id": "one"}
        await callback.async_pre_call_hook(KEY, None, data, "completion")
        server.kill()
        start()
        await callback.async_post_call_failure_hook(data, ValueError("refused"), KEY)
        await until(lambda: callback._client.settles.kept == 0, "the refund is taken")
        await charged(start, (0, 0))
    run(callback, main)
    assert callback._client.settles.lost == 0


# ---- close ---------------------------------------------------------------------------------------

def test_close_leaves_the_loop_to_others_and_logs_what_is_lost(provider, caplog):
    callback = installed(unused_address(), on_failure="open", settle_timeout=1.0)

    async def main():
        await litellm.acompletion(model="mine/model", messages=MESSAGES)
        await until(lambda: callback._client.settles.kept == 1, "the usage is kept")
        closing = asyncio.create_task(callback.close())
        turns = 0
        while not closing.done():
            await asyncio.sleep(0.01)
            turns += 1
        return turns
    assert asyncio.run(main()) >= 5  # about 100; one or two where close() blocks the loop
    assert "settles lost: 1" in caplog.text
    assert asyncio.run(without_calls(callback)) is None


async def without_calls(callback):
    with pytest.raises(sluicegate.Closed):
        await litellm.acompletion(model="mine/model", messages=MESSAGES)
    assert callback._async_clients == {}


def test_close_closes_the_connections_of_all_loops_and_makes_none(callback, quotas):
    called, closed = threading.Event(), threading.Event()

    async def call():
        await litellm.acompletion(model="gpt-4o", messages=MESSAGES, mock_response="hi")
        await until(lambda: len(callback._reserved) == 0, "it is settled")
        called.set()
        await asyncio.to_thread(closed.wait)
    thread = threading.Thread(target=lambda: asyncio.run(call()))
    thread.start()
    try:
        assert called.wait(TIMEOUT_S)
        client, = callback._async_clients.values()
        made = []
        callback._make_async = lambda: made.append(1)
        asyncio.run(callback.close(timeout=TIMEOUT_S))
        assert client._dispatcher.is_closed and made == []
    finally:
        closed.set()
        thread.join()


# ---- parts ---------------------------------------------------------------------------------------

def test_the_table_forgets_what_has_ended_and_the_oldest():
    clock = [0.0]
    reserved = Reserved(3, 10.0, lambda: clock[0])
    for number in range(1, 5):
        reserved.add(f"call {number}", number, is_claimed=True)
    assert len(reserved) == 3 and reserved.take("call 1") is None
    assert reserved.take("call 2").reservation == 2
    clock[0] = 10.0
    reserved.add("call 5", 5, is_claimed=True)
    assert len(reserved) == 1 and reserved.take("call 5").reservation == 5


def test_an_entry_is_kept_for_two_lifetimes(server, quotas):
    clock = [0.0]
    callback = installed(f"127.0.0.1:{server.native_port}", lifetime=100,
                         monotonic=lambda: clock[0])

    async def entries_at(now):
        clock[0] = now
        await callback.async_pre_call_hook(KEY, None, request(), "completion")
        return len(callback._reserved)

    async def main():
        try:
            return [await entries_at(now) for now in (0.0, 199.0, 200.0, 398.0, 399.0)]
        finally:
            await callback.close(timeout=0)
    assert asyncio.run(main()) == [1, 2, 2, 3, 3]


def test_an_entry_is_claimed_once_also_by_threads():
    reserved = Reserved(100, 10.0, time.monotonic)
    for number in range(10):
        reserved.add("same", number, is_claimed=False)
    claimed = []
    threads = [threading.Thread(target=lambda: claimed.append(reserved.claim("same")))
               for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(claimed) == 10 and reserved.take_unclaimed("same") is None


@pytest.mark.parametrize("arguments, expected", [
    ({}, None), ({"max_tokens": 5}, 5), ({"max_completion_tokens": 6, "max_tokens": 5, "n": 3}, 18),
    ({"max_output_tokens": 7, "n": None}, 7),
    ({"max_tokens": "8"}, 8), ({"max_tokens": 9.0}, 9), ({"max_tokens": 0}, None)])
def test_the_most_output_is_that_of_all_answers(arguments, expected):
    assert output_tokens_of(sluicegate.litellm.Call(
        "", "", None, None, None, arguments)) == expected


def test_usage_has_the_names_of_completions_or_of_responses():
    assert used_by({"input_tokens": 5, "output_tokens": 2,
                    "input_tokens_details": {"cached_tokens": 3}}, 0.25) == Used(5, 2, 3, 250_000)
    assert used_by(litellm.Usage(prompt_tokens=9, completion_tokens=1), None) == Used(9, 1, 0, 0)
    assert used_by(None, None) == Used(None, None, 0, 0)


def test_images_are_no_text():
    call = sluicegate.litellm.Call("", "", None, None, None, {"messages": [{"content": [
        {"type": "text", "text": "12345678"}, {"type": "image_url", "image_url": {
            "url": "data:image/png;base64," + "A" * 10_000}}]}]})
    assert input_tokens_of(call) < 10
