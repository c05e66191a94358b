"""Writes tiny models with random weights: they test protocols, not sense."""
import json, pathlib, sys
import torch
from tokenizers import Tokenizer, models, pre_tokenizers, decoders, trainers
from transformers import BertConfig, BertForSequenceClassification, BertModel, LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

out = pathlib.Path(sys.argv[1])
torch.manual_seed(0)
TEMPLATE = """{%- if tools %}<|im_start|>system
Tools: {{ tools | tojson }}
Call one with <tool_call>{"name": "...", "arguments": {...}}</tool_call><|im_end|>
{% endif %}{%- for message in messages %}<|im_start|>{{ message.role }}
{{ message.content or '' }}{% for call in message.tool_calls or [] %}<tool_call>{{ call.function | tojson }}</tool_call>{% endfor %}<|im_end|>
{% endfor %}{%- if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""

def tokenizer(specials, **named):
    own = Tokenizer(models.BPE())
    own.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    own.decoder = decoders.ByteLevel()
    text = [pathlib.Path(__file__).read_text()] * 2
    trainer = trainers.BpeTrainer(vocab_size=700, special_tokens=specials, initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    own.train_from_iterator(text, trainer)
    return PreTrainedTokenizerFast(tokenizer_object=own, **named)

chat = out / "tiny-chat"
words = tokenizer(["<|im_start|>", "<|im_end|>", "<image>", "<tool_call>", "</tool_call>"], eos_token="<|im_end|>", pad_token="<|im_end|>")
words.chat_template = TEMPLATE
words.save_pretrained(chat)
LlamaForCausalLM(LlamaConfig(vocab_size=len(words), hidden_size=128, intermediate_size=256, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, head_dim=32, max_position_embeddings=2048, eos_token_id=words.eos_token_id, bos_token_id=None, pad_token_id=None)).save_pretrained(chat)

def bert(folder, kind, **more):
    words = tokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]"], pad_token="[PAD]", unk_token="[UNK]", cls_token="[CLS]", sep_token="[SEP]")
    words.model_max_length = 512
    words.save_pretrained(out / folder)
    kind(BertConfig(vocab_size=len(words), hidden_size=64, num_hidden_layers=2, num_attention_heads=2, intermediate_size=128, max_position_embeddings=512, **more)).save_pretrained(out / folder)

bert("tiny-embedding", BertModel)
bert("tiny-rerank", BertForSequenceClassification, num_labels=1)
print("ok")
