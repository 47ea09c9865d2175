"""Additions to Schemathesis: a check, a limit for reading endless streams, and one for the length of a query."""
from urllib.parse import urlencode

import schemathesis
from schemathesis.transport import requests

# The service waits two seconds for its database before it refuses.
DEADLINE_SECONDS = 1.9
# A stream sends all existing events at once; without this each is read for as long as any other answer may take.
SILENCE_SECONDS = 1
# The HTTP parser refuses a request head of over 16 KiB with an empty 431, before any operation sees it.
LONGEST_QUERY = 12 << 10


@schemathesis.hook
def filter_query(context, query):
    return len(urlencode(query or {}, doseq=True, errors="replace")) <= LONGEST_QUERY


@schemathesis.check
def refused_only_after_the_deadline(ctx, response, case):
    """503 is only expected for features that are not set up, and for requests that waited for a stalled disk."""
    if response.status_code == 503 and not response.json()["code"].endswith("_not_configured"):
        assert response.elapsed >= DEADLINE_SECONDS, f"503 after {response.elapsed:.3f} s"


def until_it_is_silent(response, chunks=requests._iter_event_stream):
    response.raw.connection.sock.settimeout(SILENCE_SECONDS)
    yield from chunks(response)


requests._iter_event_stream = until_it_is_silent
