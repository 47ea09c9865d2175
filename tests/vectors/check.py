"""Checks tests/vectors/webhooks.json with third-party implementations: Python's hmac, and the standardwebhooks
package. They must accept or refuse each vector as it says.

    python3 tests/vectors/check.py            # hmac alone
    python3 tests/vectors/check.py --library  # the package too
"""

import base64
import datetime
import hashlib
import hmac
import json
import pathlib
import re
import sys

FILE = pathlib.Path(__file__).with_name("webhooks.json")
ENOUGH = 40


def service(secret, body):
    return hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()


def standard(secret, message_id, timestamp, body):
    key = base64.b64decode(secret.removeprefix("whsec_"), validate=True)
    signed = f"{message_id}.{timestamp}.".encode() + body
    return "v1," + base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()


def judge(vector):
    """The result for a request, implemented anew from the documentation."""
    headers, body = vector["headers"], vector["body"].encode()
    first = headers.get("x-service-signature")
    triple = [headers.get(name) for name in ("webhook-id", "webhook-timestamp", "webhook-signature")]

    def second():
        if None in triple:
            return "missing"
        message_id, timestamp, signatures = triple
        versions = [one for one in signatures.split(" ") if re.fullmatch(r"v1,[A-Za-z0-9+/=]{44}", one)]
        if not message_id or "." in message_id or not re.fullmatch(r"[0-9]+", timestamp) or not versions:
            return "malformed"
        for secret in vector["secrets"]:
            ours = standard(secret, message_id, timestamp, body)
            if any(hmac.compare_digest(ours, one) for one in versions):
                return "valid"
        return "mismatch"

    if vector["tolerance_seconds"] is not None:
        found = second()
        if found == "valid" and abs(vector["now"] - int(triple[1])) > vector["tolerance_seconds"]:
            return "too_old"
        return found
    if first is None:
        by_first = "missing"
    elif not re.fullmatch(r"[0-9a-f]{64}", first):
        by_first = "malformed"
    elif any(hmac.compare_digest(service(secret, body), first) for secret in vector["secrets"]):
        by_first = "valid"
    else:
        by_first = "mismatch"
    order = ["missing", "malformed", "mismatch", "valid"]
    return max(by_first, second(), key=order.index)


def by_library(vector):
    """Whether the package accepts the request, with its clock at the vector's time."""
    from standardwebhooks import webhooks

    now = datetime.datetime.fromtimestamp(vector["now"], datetime.timezone.utc)

    class Clock(datetime.datetime):
        @classmethod
        def now(cls, tz=None):
            return now

    webhooks.datetime = Clock
    for secret in vector["secrets"]:
        try:
            webhooks.Webhook(secret).verify(vector["body"], vector["headers"])
        except json.JSONDecodeError:
            # The signature was valid; the body of this vector is not JSON.
            return True
        except (webhooks.WebhookVerificationError, ValueError):
            continue
        return True
    return False


def main():
    vectors = json.loads(FILE.read_text())["vectors"]
    assert len(vectors) >= ENOUGH, len(vectors)
    wrong = 0
    for vector in vectors:
        found = judge(vector)
        if found != vector["expect"]:
            wrong += 1
            print(f"{vector['name']}: {found} by hmac, {vector['expect']} by the file")
    checked = 0
    if "--library" in sys.argv[1:]:
        for vector in vectors:
            # The package supports one signature, reads the current time, and accepts ids with dots.
            if vector["tolerance_seconds"] is None or "." in vector["headers"].get("webhook-id", ""):
                continue
            checked += 1
            if by_library(vector) != (vector["expect"] == "valid"):
                wrong += 1
                print(f"{vector['name']}: standardwebhooks says otherwise")
        assert checked >= 25, checked
    print(f"{len(vectors)} vectors, {checked} of them by standardwebhooks too")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
