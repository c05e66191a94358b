"""Gives generated requests a model that is served, and lists the valid requests that the service may refuse with a 400."""

import re

import schemathesis

# Random names of models get no further than a 404. scripts/fuzz.ts serves these.
SERVED = [
    ("/v1/embeddings", "baobab/embed-multilingual"),
    ("/v1/rerank", "baobab/rerank-multilingual"),
    ("/v2/rerank", "baobab/rerank-multilingual"),
    ("/v1/audio/", "openai/whisper-tiny"),
    ("/v1/chat/", "qwen/qwen2.5-7b-instruct"),
    ("/v1/completions", "qwen/qwen2.5-7b-instruct"),
    ("/v1/messages", "qwen/qwen2.5-7b-instruct"),
    ("/v1/tokenize", "qwen/qwen2.5-7b-instruct"),
    ("/v1/detokenize", "qwen/qwen2.5-7b-instruct"),
    ("/tokenize", "qwen/qwen2.5-7b-instruct"),
    ("/detokenize", "qwen/qwen2.5-7b-instruct"),
    ("/v1/responses", "qwen/qwen2.5-7b-instruct"),
]

# Rules that a JSON schema cannot express.
KNOWN = [
    # What is stored: an account, key, model or file that is missing, taken, deleted, revoked or of another purpose.
    r"^There is no (account|key|model|file|batch|response|conversation) '",
    r"^An account with the name '",
    r"': there is no model '",
    r"^This account was deleted\.$",
    r"^A revoked key cannot be (changed|rotated)\.$",
    r"^A key cannot \w+ its own account\.",
    r"^The file '[^']*' has the purpose '",
    r"^The response '[^']*' does not run in the background and cannot be cancelled\.$",
    r"^Only upstreams serve ",
    r"^Cannot add it: ",
    # All headers together.
    r"^The head of the request is larger than ",
    # A field that needs another one.
    r"^'top' needs 'group_by'",
    r"^'store_prompts' and 'zero_retention' exclude each other",
    r"^'truncate_prompt_tokens' asks to cut inputs, and 'truncate' not to\.",
    # What an answer has to be, by several names; a schema as a text; the last message of a list; the order of two numbers.
    r"cannot be combined with '[^']*': send one of the two\.$",
    r"is a text that is no JSON object\.",
    r"^'continue_final_message' ",
    r"^'min_tokens' is \d+, more than the longest answer",
    # The tokens that a model adds, and its vocabulary.
    r"^'truncate_prompt_tokens' must be at least \d+ for this model",
    r"is not in the vocabulary of this model",
    # The vocabulary of the model.
    r"which is not a token of this model",
    # An opaque text of an earlier answer.
    r"^'after' must be the next_cursor of an earlier page\.$",
    r"^Send 'after_id' or 'before_id', not both\.$",
    r"^'requests\[\d+\]\.custom_id' is the same as that of 'requests\[\d+\]'\.$",
    r"^The batch '[^']*' has ended and cannot be canceled\.$",
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
    r"^The file (is not|contains no) audio",
    r"^The file is damaged or not audio",
    r"^The file's audio is encoded as '",
    # Names of time zones, and calendars: the 30th of February has the format of a date.
    r"time zone",
    r"must be an ISO 8601 date or timestamp that exists",
]


# They are sent with 422, but with 400 to keys and accounts with the dialect of OpenAI.
UNPROCESSABLE = {
    "context_length_exceeded",
    "too_many_inputs",
    "unsupported_parameter",
    "wrong_modality",
    "idempotency_key_reused",
    "validation_failed",
}

# It generates values of every length that is allowed, and keeps them: longer ones take all memory. `request-turns.test.ts` sends them.
LONGEST = {"maxLength": 20_000, "maxItems": 200, "maxProperties": 200}


@schemathesis.hook
def before_load_schema(ctx, raw_schema):
    """Forgets bounds of lists and texts that are too long to try, and halves of pairs in patterns, for which it would drop the pattern."""
    parts = [raw_schema]
    while parts:
        part = parts.pop()
        if isinstance(part, dict):
            for bound, longest in LONGEST.items():
                if isinstance(part.get(bound), int) and part[bound] > longest:
                    del part[bound]
            if isinstance(part.get("pattern"), str):
                part["pattern"] = part["pattern"].replace(r"\ud800-\udfff", "")
            parts.extend(part.values())
        elif isinstance(part, list):
            parts.extend(part)


@schemathesis.check
def known_refusal(ctx, response, case):
    """A valid request gets a 400 only for a rule of the list above."""
    if case.meta is None or not case.meta.generation.mode.is_positive or response.status_code != 400:
        return
    # An answer to HEAD has no body.
    if not response.content:
        return
    error = response.json().get("error", {})
    message = error.get("message", "")
    if error.get("code") in UNPROCESSABLE:
        return
    if not any(re.search(rule, message) for rule in KNOWN):
        raise AssertionError(f"the document allows a request that the service refuses: {message}")


@schemathesis.hook
def before_call(ctx, case, **kwargs):
    """Names a served model in most valid requests. Every fourth keeps its own, so that unknown models are tried too."""
    if case.meta is None or not case.meta.generation.mode.is_positive or not isinstance(case.body, dict):
        return
    model = case.body.get("model")
    served = next((slug for path, slug in SERVED if case.operation.path.startswith(path)), None)
    # A slug is one of the catalog, which would answer at length.
    if isinstance(model, str) and served is not None and ("/" in model or len(model) % 4 != 3):
        case.body["model"] = served
