"""Which valid requests the service may refuse with a 400, each for a rule that a JSON schema cannot express."""

import re

import schemathesis

KNOWN = [
    # What is stored: an account, key, model or file that is missing, taken, deleted, revoked or of another purpose.
    r"^There is no (account|key|model|file|batch) '",
    r"^There is an account with the name '",
    r"^This account was deleted\.$",
    r"^A revoked key cannot be (changed|rotated)\.$",
    r"^A key cannot \w+ its own account\.",
    r"purpose",
    r"^Only upstreams serve ",
    r"^Cannot add it: ",
    # An opaque text of an earlier answer.
    r"^'after' must be the next_cursor of an earlier page\.$",
    # Items of other servers are skipped, so that one schema is for items of any type.
    r"'input\[\d+\]",
    # The clock and the order of two times.
    r"must be in the future",
    r"later than '?start",
    # A name of one field in the list of another.
    r"^'tool_choice(\.name)?' (names|is) '",
    # One value twice in a list of objects.
    r"is there twice",
    # Rules between the fields of a form. Said for JSON; schemathesis fails on a form that says them beside a binary field.
    r"^The parameter 'file' is required\.$",
    r"^'timestamp_granularities' needs 'response_format'",
    # Bytes of a file: audio that cannot be decoded.
    r"audio",
    # Names of time zones, and calendars: the 30th of February has the format of a date.
    r"time zone",
    r"ISO 8601",
    r"date",
]


@schemathesis.check
def known_refusal(ctx, response, case):
    """A valid request gets a 400 only for a rule of the list above."""
    if case.meta is None or not case.meta.generation.mode.is_positive or response.status_code != 400:
        return
    error = response.json().get("error", {})
    message = error.get("message", "")
    if not any(re.search(rule, message) for rule in KNOWN):
        raise AssertionError(f"the document allows a request that the service refuses: {message}")
