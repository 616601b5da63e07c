"""Every method of the server API that the official Python client (cent) has and this server serves.

Run by tests/gateway/cent.rs: URL and API key in the environment, with ann and bo connected; ann's second connection is
CLIENT_TO_KEEP. Prints the name of each method that passed.
"""

import asyncio
import os
import time

from cent import (
    AsyncClient,
    BatchRequest,
    BlockUserRequest,
    BroadcastRequest,
    CentApiResponseError,
    CentTransportError,
    CentUnauthorizedError,
    ChannelsRequest,
    Client,
    Disconnect,
    DisconnectRequest,
    HistoryRemoveRequest,
    HistoryRequest,
    InfoRequest,
    InvalidateUserTokensRequest,
    PresenceRequest,
    PresenceStatsRequest,
    PublishRequest,
    RefreshRequest,
    RevokeTokenRequest,
    StreamPosition,
    SubscribeRequest,
    UnblockUserRequest,
    UnsubscribeRequest,
)

URL = os.environ["FEEDLINE_API"]
KEY = os.environ["FEEDLINE_KEY"]
CLIENT_TO_KEEP = os.environ["CLIENT_TO_KEEP"]


def refused(code, call):
    try:
        call()
    except CentApiResponseError as error:
        assert error.code == code, f"{error} instead of {code}"
        return
    raise AssertionError(f"not refused with {code}")


def until(condition):
    """Requests to connections are done when the nodes have them, clients follow."""
    ends = time.monotonic() + 5
    while not condition():
        assert time.monotonic() < ends, "it does not happen"
        time.sleep(0.02)


def publications(client):
    first = client.publish(PublishRequest(channel="chat:1", data={"n": 1}, tags={"k": "v"}))
    assert first.offset == 1 and first.epoch
    again = PublishRequest(channel="chat:1", data={"n": 2}, idempotency_key="k")
    second = client.publish(again)
    assert client.publish(again) == second and second.offset == 2
    skipped = client.publish(PublishRequest(channel="chat:1", data={"n": 3}, skip_history=True))
    assert skipped.offset == 0 and skipped.epoch == ""
    client.publish(PublishRequest(channel="chat:1", data={}, b64data="eyJuIjo0fQ=="))
    refused(102, lambda: client.publish(PublishRequest(channel="none:1", data=1)))
    refused(107, lambda: client.publish(PublishRequest(channel="", data=1)))
    print("publish")

    answer = client.broadcast(BroadcastRequest(channels=["chat:2", "none:1", "plain:1"], data={"n": 5}))
    [to_chat, to_none, to_plain] = answer.responses
    assert to_chat.result.offset == 1 and to_chat.error is None
    assert to_none.error.code == 102 and to_none.result is None
    assert to_plain.result.offset == 0
    print("broadcast")


def history(client):
    read = client.history(HistoryRequest(channel="chat:1", limit=-1))
    assert [it.data["n"] for it in read.publications] == [1, 2, 4] and read.offset == 3
    assert read.publications[0].tags == {"k": "v"} and read.publications[0].info is None
    assert client.history(HistoryRequest(channel="chat:1")).publications == []
    since = StreamPosition(offset=1, epoch=read.epoch)
    later = client.history(HistoryRequest(channel="chat:1", limit=1, since=since))
    assert [it.offset for it in later.publications] == [2]
    back = client.history(HistoryRequest(channel="chat:1", limit=2, reverse=True))
    assert [it.offset for it in back.publications] == [3, 2]
    wrong = StreamPosition(offset=1, epoch="other")
    refused(112, lambda: client.history(HistoryRequest(channel="chat:1", limit=1, since=wrong)))
    refused(108, lambda: client.history(HistoryRequest(channel="plain:1")))
    print("history")
    client.history_remove(HistoryRemoveRequest(channel="chat:2"))
    removed = client.history(HistoryRequest(channel="chat:2", limit=-1))
    assert removed.publications == [] and removed.offset == 1
    refused(108, lambda: client.history_remove(HistoryRemoveRequest(channel="plain:1")))
    print("history_remove")


def subscriptions(client):
    def subscribers():
        return client.presence(PresenceRequest(channel="chat:3")).presence

    client.subscribe(SubscribeRequest(user="ann", channel="chat:3", info={"role": "host"}, data={"hello": 1}))
    until(lambda: len(subscribers()) == 2)
    assert all(it.user == "ann" and it.chan_info == {"role": "host"} for it in subscribers().values())
    refused(102, lambda: client.subscribe(SubscribeRequest(user="ann", channel="none:1")))
    refused(103, lambda: client.subscribe(SubscribeRequest(user="ann", channel="timeline:bo")))
    print("subscribe")
    stats = client.presence_stats(PresenceStatsRequest(channel="chat:3"))
    assert (stats.num_clients, stats.num_users) == (2, 1)
    refused(108, lambda: client.presence(PresenceRequest(channel="plain:1")))
    print("presence")
    print("presence_stats")
    client.unsubscribe(UnsubscribeRequest(user="ann", channel="chat:3", client=CLIENT_TO_KEEP))
    until(lambda: len(subscribers()) == 1)
    assert CLIENT_TO_KEEP not in subscribers()
    print("unsubscribe")


def nodes(client):
    channels = client.channels(ChannelsRequest(pattern="chat:*")).channels
    assert channels["chat:3"].num_clients == 1 and all(name.startswith("chat:") for name in channels)
    assert "timeline:ann" in client.channels(ChannelsRequest()).channels
    print("channels")
    [node] = client.info(InfoRequest()).nodes
    assert node.uid and node.name and node.version.startswith("feedline ")
    assert (node.num_clients, node.num_users) == (3, 2)
    assert node.num_channels >= 5 and node.num_subs >= 7
    print("info")


def batches(client):
    for parallel in (False, True):
        requests = [
            PublishRequest(channel="chat:4", data=1),
            ChannelsRequest(pattern="chat:3"),
            HistoryRequest(channel="chat:1", limit=1),
        ]
        published, listed, read = client.batch(BatchRequest(requests=requests, parallel=parallel)).replies
        assert published.offset >= 1
        assert list(listed.channels) == ["chat:3"]
        assert [it.data["n"] for it in read.publications] == [1]
    print("batch")


def connections(client):
    client.refresh(RefreshRequest(user="ann", client=CLIENT_TO_KEEP, expire_at=int(time.time()) + 3600))
    print("refresh")
    close = Disconnect(code=4001, reason="enough")
    client.disconnect(DisconnectRequest(user="ann", whitelist=[CLIENT_TO_KEEP], disconnect=close))
    until(lambda: client.info(InfoRequest()).nodes[0].num_clients == 2)
    print("disconnect")


def tokens(client):
    client.revoke_token(RevokeTokenRequest(uid="some-token"))
    print("revoke_token")
    client.block_user(BlockUserRequest(user="cy"))
    print("block_user")
    client.unblock_user(UnblockUserRequest(user="cy"))
    print("unblock_user")
    client.invalidate_user_tokens(InvalidateUserTokensRequest(user="cy", issued_before=int(time.time())))
    print("invalidate_user_tokens")


async def asynchronous():
    async with AsyncClient(URL, KEY) as client:
        published = await client.publish(PublishRequest(channel="chat:5", data={"n": 1}))
        assert published.offset == 1
        read = await client.history(HistoryRequest(channel="chat:5", limit=10))
        assert [it.data for it in read.publications] == [{"n": 1}]
    print("asynchronous")


def errors():
    try:
        Client(URL, "wrong").info(InfoRequest())
        raise AssertionError("a wrong key is accepted")
    except CentUnauthorizedError:
        pass
    client = Client(URL, KEY)
    client._session._session.headers["X-Centrifugo-Error-Mode"] = "transport"
    try:
        client.publish(PublishRequest(channel="none:1", data=1))
        raise AssertionError("it is not refused")
    except CentTransportError as error:
        assert error.status_code == 404
    print("errors")


with Client(URL, KEY) as api:
    publications(api)
    history(api)
    subscriptions(api)
    nodes(api)
    batches(api)
    connections(api)
    tokens(api)
asyncio.run(asynchronous())
errors()
