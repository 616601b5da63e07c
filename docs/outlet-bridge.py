"""A bridge of your own: FEEDLINE_URL=http://… FEEDLINE_API_KEY=… python3 outlet-bridge.py CONSUMER"""
import http.client, json, os, sys, time, urllib.parse, urllib.request

URL, KEY, CONSUMER = os.environ["FEEDLINE_URL"], os.environ["FEEDLINE_API_KEY"], sys.argv[1]


def poll(cursor):
    query = {"consumer": CONSUMER, "wait": 30} | ({"cursor": cursor} if cursor else {})
    url = f"{URL}/api/events?{urllib.parse.urlencode(query)}"
    request = urllib.request.Request(url, headers={"X-API-Key": KEY})
    with urllib.request.urlopen(request, timeout=60) as response:
        return json.load(response)


def handle(event):
    # Your code. After a crash it sees an event again, with the same id.
    print(event["id"], event["type"], event.get("user"), flush=True)


cursor, pause = None, 1
while True:
    try:
        reply = poll(cursor)
        for event in reply["events"]:
            handle(event)
        cursor, pause = reply["cursor"], 1  # The next poll acknowledges what was handled.
    except (OSError, ValueError, http.client.HTTPException) as error:
        print(f"again in {pause} s: {error}", file=sys.stderr)
        time.sleep(pause)
        pause = min(2 * pause, 60)
