"""Writes tiny models with random weights, which test protocols and not sense: tiny_models.py FOLDER"""

import pathlib
import sys

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    BertModel,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedTokenizerFast,
)

FOLDER = pathlib.Path(sys.argv[1])
TEMPLATE = """{%- if tools %}<|im_start|>system
Tools: {{ tools | tojson }}
Call one with <tool_call>{"name": "...", "arguments": {...}}</tool_call><|im_end|>
{% endif %}{%- for message in messages %}<|im_start|>{{ message.role }}
{{ message.content or '' }}{% for call in message.tool_calls or [] %}<tool_call>{{ call.function | tojson }}</tool_call>{% endfor %}<|im_end|>
{% endfor %}{%- if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""


def tokenizer(specials, **named):
    """Byte pairs of this very file."""
    own = Tokenizer(models.BPE())
    own.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    own.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=700, special_tokens=specials, initial_alphabet=alphabet)
    own.train_from_iterator([pathlib.Path(__file__).read_text()], trainer)
    return PreTrainedTokenizerFast(tokenizer_object=own, **named)


def write_chat(folder):
    specials = ["<|im_start|>", "<|im_end|>", "<tool_call>", "</tool_call>"]
    words = tokenizer(specials, eos_token="<|im_end|>", pad_token="<|im_end|>")
    words.chat_template = TEMPLATE
    words.save_pretrained(folder)
    shape = dict(hidden_size=128, intermediate_size=256, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2)
    config = LlamaConfig(
        vocab_size=len(words),
        head_dim=32,
        max_position_embeddings=2048,
        eos_token_id=words.eos_token_id,
        bos_token_id=None,
        pad_token_id=None,
        **shape,
    )
    LlamaForCausalLM(config).save_pretrained(folder)


def write_bert(folder, kind, **more):
    named = dict(pad_token="[PAD]", unk_token="[UNK]", cls_token="[CLS]", sep_token="[SEP]")
    words = tokenizer(list(named.values()), **named)
    words.model_max_length = 512
    words.save_pretrained(folder)
    shape = dict(hidden_size=64, num_hidden_layers=2, num_attention_heads=2, intermediate_size=128)
    kind(BertConfig(vocab_size=len(words), max_position_embeddings=512, **shape, **more)).save_pretrained(folder)


torch.manual_seed(0)
write_chat(FOLDER / "tiny-chat")
write_bert(FOLDER / "tiny-embedding", BertModel)
write_bert(FOLDER / "tiny-rerank", BertForSequenceClassification, num_labels=1)
