"""The official Python SDK (centrifuge-python) against the server, in both encodings.

Run by tests/gateway/python_sdk.rs: the port of the server, the signing secret of tokens and the API key are in the
environment. Prints a line for each test that passed.
"""

import asyncio
import base64
import hashlib
import hmac
import json
import os
import time
import urllib.request
from importlib.metadata import version

from centrifuge import (
    Client,
    ClientEventHandler,
    ClientState,
    ReplyError,
    StreamPosition,
    SubscriptionEventHandler,
    SubscriptionState,
)

PORT = int(os.environ["FEEDLINE_PORT"])
SECRET = os.environ["FEEDLINE_SECRET"].encode()
KEY = os.environ["FEEDLINE_KEY"]
PATIENCE = 15
# Version 0.5.0 refreshes a subscription without naming its channel: a bad request (3501), as in Centrifugo.
REFRESHES_SUBSCRIPTIONS = version("centrifuge-python") != "0.5.0"


def token(user, **claims):
    def part(data):
        return base64.urlsafe_b64encode(data).rstrip(b"=")

    claims = {"sub": user, "exp": int(time.time()) + 600, **claims}
    signed = b".".join(part(json.dumps(it).encode()) for it in ({"alg": "HS256", "typ": "JWT"}, claims))
    return b".".join((signed, part(hmac.new(SECRET, signed, hashlib.sha256).digest()))).decode()


def backend(method, **body):
    request = urllib.request.Request(
        f"http://127.0.0.1:{PORT}/api/{method}", json.dumps(body).encode(), {"X-API-Key": KEY}
    )
    with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
        reply = json.load(answer)
    assert "error" not in reply, reply
    return reply["result"]


async def until(condition, what):
    ends = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < ends, f"it does not happen: {what}"
        await asyncio.sleep(0.01)


async def refused(code, call):
    try:
        await call
    except ReplyError as error:
        assert error.code == code, f"{error} instead of {code}"
        return
    raise AssertionError(f"not refused with {code}")


class Network:
    """A proxy before the server, which a test can cut."""

    def __init__(self):
        self.is_cut = False
        self.writers = set()

    async def __aenter__(self):
        self.server = await asyncio.start_server(self.serve, "127.0.0.1", 0)
        self.port = self.server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_):
        self.server.close()
        self.cut()

    async def serve(self, reader, writer):
        if self.is_cut:
            writer.transport.abort()
            return
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", PORT)
        self.writers |= {writer, far_writer}
        await asyncio.gather(self.pump(reader, far_writer), self.pump(far_reader, writer))

    async def pump(self, reader, writer):
        try:
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()
        except OSError:
            pass
        writer.close()
        self.writers.discard(writer)

    def cut(self):
        self.is_cut = True
        for writer in list(self.writers):
            writer.transport.abort()


class Events(ClientEventHandler):
    """The events of a client: its states, and those of subscriptions of the server."""

    def __init__(self):
        self.seen = []
        self.connected = []

    async def on_connected(self, ctx):
        self.seen.append("connected")
        self.connected.append(ctx.client)

    async def on_disconnected(self, ctx):
        self.seen.append(("disconnected", ctx.code))

    async def on_subscribed(self, ctx):
        self.seen.append(("subscribed", ctx.channel))

    async def on_publication(self, ctx):
        self.seen.append(("publication", ctx.channel))


class SubEvents(SubscriptionEventHandler):
    """The events of a subscription."""

    def __init__(self):
        self.data, self.offsets, self.joined, self.left, self.states = [], [], [], [], []

    async def on_subscribed(self, ctx):
        self.states.append(("subscribed", ctx.was_recovering, ctx.recovered))

    async def on_unsubscribed(self, ctx):
        self.states.append(("unsubscribed", ctx.code))

    async def on_publication(self, ctx):
        self.data.append(ctx.pub.data)
        self.offsets.append(ctx.pub.offset)

    async def on_join(self, ctx):
        self.joined.append(ctx.info.user)

    async def on_leave(self, ctx):
        self.left.append(ctx.info.user)


class Sdk:
    """The SDK in one encoding."""

    def __init__(self, protobuf):
        self.protobuf = protobuf
        self.encoding = "protobuf" if protobuf else "json"
        self.clients = []

    def encode(self, data):
        return json.dumps(data).encode() if self.protobuf else data

    def decode(self, data):
        return json.loads(data) if self.protobuf else data

    def channel(self, name):
        """A channel of one test in this encoding."""
        return f"chat:{name}-{self.encoding}"

    def client(self, connect_token="", port=PORT, **options):
        events = Events()
        address = f"ws://127.0.0.1:{port}/connection/websocket"
        client = Client(
            address, events, token=connect_token, use_protobuf=self.protobuf, max_reconnect_delay=0.2, **options
        )
        self.clients.append(client)
        return client, events

    async def connected(self, user, **options):
        client, events = self.client(token(user), **options)
        await client.connect()
        await client.ready(PATIENCE)
        return client, events

    async def subscribed(self, client, channel, **options):
        events = SubEvents()
        sub = client.new_subscription(channel, events, **options)
        await sub.subscribe()
        await sub.ready(PATIENCE)
        return sub, events

    async def close(self):
        for client in self.clients:
            await client.disconnect()


async def connects(sdk):
    client, events = await sdk.connected("ann")
    assert client.state == ClientState.CONNECTED
    await until(lambda: ("subscribed", "timeline:ann") in events.seen, events.seen)
    await client.disconnect()
    await until(lambda: ("disconnected", 0) in events.seen, events.seen)


async def subscribes_and_receives_live(sdk):
    channel = sdk.channel("live")
    client, _ = await sdk.connected("ann")
    sub, events = await sdk.subscribed(client, channel)
    for n in range(20):
        backend("publish", channel=channel, data={"n": n, "text": "line\nbreak"})
    await until(lambda: len(events.data) == 20, events.data)
    assert [sdk.decode(data) for data in events.data] == [{"n": n, "text": "line\nbreak"} for n in range(20)]
    await sub.publish(sdk.encode({"n": 20}))
    await until(lambda: len(events.data) == 21, events.data)
    await sub.unsubscribe()
    assert sub.state == SubscriptionState.UNSUBSCRIBED
    await sub.subscribe()
    await sub.ready(PATIENCE)


async def loses_nothing(sdk):
    channel = sdk.channel("lost")
    async with Network() as network:
        client, _ = await sdk.connected("ann", port=network.port)
        _, events = await sdk.subscribed(client, channel)
        backend("publish", channel=channel, data=0)
        await until(lambda: len(events.data) == 1, events.data)
        network.cut()
        for n in range(1, 9):
            backend("publish", channel=channel, data=n)
        network.is_cut = False
        await until(lambda: len(events.data) == 9, events.data)
        assert [sdk.decode(data) for data in events.data] == list(range(9))
        assert events.offsets == list(range(events.offsets[0], events.offsets[0] + 9))
        assert events.states[-1] == ("subscribed", True, True), events.states


async def lists_presence(sdk):
    channel = sdk.channel("present")
    client, events = await sdk.connected("ann")
    sub, _ = await sdk.subscribed(client, channel)
    other, _ = await sdk.connected("bo")
    await sdk.subscribed(other, channel)
    presence = await sub.presence()
    assert sorted(info.user for info in presence.clients.values()) == ["ann", "bo"], presence
    assert events.connected[0] in presence.clients
    stats = await sub.presence_stats()
    assert (stats.num_clients, stats.num_users) == (2, 2)


async def hears_joins_and_leaves(sdk):
    channel = sdk.channel("doors")
    client, _ = await sdk.connected("ann")
    _, events = await sdk.subscribed(client, channel)
    other, _ = await sdk.connected("bo")
    sub, _ = await sdk.subscribed(other, channel)
    await until(lambda: "bo" in events.joined, events.joined)
    await sub.unsubscribe()
    await until(lambda: "bo" in events.left, events.left)


async def reads_history(sdk):
    channel = sdk.channel("history")
    client, _ = await sdk.connected("ann")
    sub, _ = await sdk.subscribed(client, channel)
    for n in range(5):
        backend("publish", channel=channel, data=n)
    everything = await sub.history(limit=-1)
    assert [sdk.decode(it.data) for it in everything.publications] == list(range(5))
    since = StreamPosition(2, everything.epoch)
    page = await sub.history(limit=2, since=since)
    assert [sdk.decode(it.data) for it in page.publications] == [2, 3]
    newest = await sub.history(limit=2, reverse=True)
    assert [sdk.decode(it.data) for it in newest.publications] == [4, 3]


async def calls_operations(sdk):
    client, _ = await sdk.connected("ann")
    post = await client.rpc("posts.create", sdk.encode({"text": "from Python"}))
    post = sdk.decode(post.data)
    assert post["author"] == "ann", post
    read = await client.rpc("posts.get", sdk.encode({"id": post["id"]}))
    assert sdk.decode(read.data)["text"] == "from Python"
    await refused(108, client.rpc("no.such", sdk.encode({})))
    await refused(404, client.rpc("posts.get", sdk.encode({"id": 1})))


async def refreshes_tokens(sdk):
    asked = []

    async def connect_token():
        asked.append("connect")
        return token("ann", exp=int(time.time()) + (2 if len(asked) == 1 else 600))

    async def sub_token(channel):
        asked.append(channel)
        ends = 2 if asked.count(channel) == 1 else 600
        return token("ann", channel=channel, exp=int(time.time()) + ends)

    def is_steady():
        return events.seen.count("connected") == 1 and not any("disconnected" in event for event in events.seen)

    client, events = sdk.client(get_token=connect_token)
    await client.connect()
    await client.ready(PATIENCE)
    await until(lambda: asked.count("connect") == 2, asked)
    if REFRESHES_SUBSCRIPTIONS:
        _, of_channel = await sdk.subscribed(client, "$shut:1", get_token=sub_token)
        await until(lambda: asked.count("$shut:1") == 2, asked)
    await asyncio.sleep(1.5)
    assert is_steady(), events.seen
    assert not REFRESHES_SUBSCRIPTIONS or len(of_channel.states) == 1, of_channel.states


async def is_refused(sdk):
    client, events = sdk.client("nonsense")
    await client.connect()
    await until(lambda: ("disconnected", 3500) in events.seen, events.seen)
    client, _ = await sdk.connected("ann")
    for channel, code in (("shut:1", 103), ("none:1", 102), ("timeline:bo", 103)):
        of_channel = SubEvents()
        sub = client.new_subscription(channel, of_channel)
        await sub.subscribe()
        await until(lambda: ("unsubscribed", code) in of_channel.states, f"{channel}: {of_channel.states}")
    await refused(103, client.publish("plain:1", sdk.encode(1)))
    backend("disconnect", user="ann", disconnect={"code": 4501, "reason": "enough"})
    await until(lambda: client.state == ClientState.DISCONNECTED, client.state)


async def main():
    for protobuf in (False, True):
        for test in (
            connects,
            subscribes_and_receives_live,
            loses_nothing,
            lists_presence,
            hears_joins_and_leaves,
            reads_history,
            calls_operations,
            refreshes_tokens,
            is_refused,
        ):
            sdk = Sdk(protobuf)
            await asyncio.wait_for(test(sdk), 30)
            await sdk.close()
            print(f"{test.__name__} {sdk.encoding}")


asyncio.run(main())
