"""What Schemathesis has no setting for: a check, and how long an endless stream is read."""
import schemathesis
from schemathesis.transport import requests

# The service waits two seconds for its database before it refuses.
DEADLINE_SECONDS = 1.9
# A stream begins with all that is known, at once; without this each is read for as long as any other answer may take.
SILENCE_SECONDS = 1


@schemathesis.check
def refused_only_after_the_deadline(ctx, response, case):
    """503 is for what is not set up, and for what has waited for a disk that stalls; for nothing else that is sent here."""
    if response.status_code == 503 and not response.json()["code"].endswith("_not_configured"):
        assert response.elapsed >= DEADLINE_SECONDS, f"503 after {response.elapsed:.3f} s"


def until_it_is_silent(response, chunks=requests._iter_event_stream):
    response.raw.connection.sock.settimeout(SILENCE_SECONDS)
    yield from chunks(response)


requests._iter_event_stream = until_it_is_silent
